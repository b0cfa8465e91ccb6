"""Probes of DQN's targets: whose value counts, where episodes end, and how the target moves."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import CRITIC_LOSS, OptimizerStepRecord
from parallax.harness.probes.dqn import experiments, losses
from parallax.harness.probes.dqn.experiments import DOUBLE_Q_PAPER, DQN_ALGORITHM
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.families import critics
from parallax.harness.probes.families.critics import (
    TargetAlternatives,
    TargetTerms,
    compute_masked_targets,
)
from parallax.harness.probes.measurements import find_minibatch, list_critic_updates
from parallax.harness.probes.probe import (
    SETTINGS,
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    make_relation_description,
)
from parallax.harness.probes.reference_networks import RELU, compute_output

TARGET_NETWORK_MAXIMUM, DOUBLE_Q = "the largest value of the target network", "double"
MIN_TARGET_DIFFERENCE = 1e-3
"""Targets that differ by less are the same."""


def list_updates_without_target_move(run: ProbeRun) -> list[OptimizerStepRecord]:
    """Return the first updates before which the target network did not move.

    Some implementations copy it within an update, once that has read it: which of the two was
    read is not known there.

    Raises:
        UnmeasuredError: There are none.
    """
    found = [step for step in list_critic_updates(run) if not _is_target_copied_before(run, step)]
    if not found:
        raise UnmeasuredError("its target moves with every update")
    return found


def _is_target_copied_before(run: ProbeRun, step: OptimizerStepRecord) -> bool:
    number = next(i for i, s in enumerate(run.record.steps) if s is step)
    earlier = run.record.steps[number - 1].after if number else run.weights
    name = "critic1_target.out.weight"
    return not np.array_equal(earlier[name], step.before[name])


def compute_next_values(run: ProbeRun, step: OptimizerStepRecord) -> Mapping[str, Array]:
    """Return next values by the rule that chooses them, each float[rows]."""
    seen = find_minibatch(run, step).next_observations
    online, target = (
        compute_output(step.before, name, seen, RELU) for name in ("critic1", "critic1_target")
    )
    rows = np.arange(len(seen))
    return {
        TARGET_NETWORK_MAXIMUM: target.max(axis=1),
        DOUBLE_Q: target[rows, online.argmax(axis=1)],
        "the online network's largest value": online.max(axis=1),
        "the online network's value of the target's choice": online[rows, target.argmax(axis=1)],
        "the mean of the target's values": target.mean(axis=1),
        "the smallest value of the target network": target.min(axis=1),
    }


def compute_targets(run: ProbeRun, step: OptimizerStepRecord) -> TargetAlternatives:
    """Return the paper's targets of an update, and others by their description."""
    values = dict(compute_next_values(run, step))
    return compute_masked_targets(run, step, values.pop(TARGET_NETWORK_MAXIMUM), values)


def list_target_terms(run: ProbeRun, step: OptimizerStepRecord) -> TargetTerms:
    """Return the terms of the paper's targets, with their weights."""
    value, gamma = compute_next_values(run, step)[TARGET_NETWORK_MAXIMUM], run.hyperparameters.gamma
    return {"reward": (find_minibatch(run, step).rewards, 1.0), "next value": (value, gamma)}


def _measure_double_q(cache: ExperimentCache) -> ProbeMeasurement:
    return _compare_next_values(cache, experiments.run_double_q(cache), DOUBLE_Q)


def _measure_default_targets(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_default_target(cache)
    known = [compute_next_values(run, step) for step in list_updates_without_target_move(run)]
    if (
        max(np.abs(values[TARGET_NETWORK_MAXIMUM] - values[DOUBLE_Q]).max() for values in known)
        < MIN_TARGET_DIFFERENCE
    ):
        raise UnmeasuredError("both ways to choose give the same targets")
    return _compare_next_values(cache, run, TARGET_NETWORK_MAXIMUM)


def _compare_next_values(cache: ExperimentCache, run: ProbeRun, due: str) -> ProbeMeasurement:
    # Targets of the first updates, where episodes go on, against one way to choose their values.
    read: list[Array] = []
    known: dict[str, list[Array]] = {}
    for step in list_updates_without_target_move(run):
        found, data = losses.READER.target(cache, run, step), find_minibatch(run, step)
        rows = (data.ends == 0) & ~np.isnan(found)
        read.append(found[rows])
        for name, value in compute_next_values(run, step).items():
            target = data.rewards + run.hyperparameters.gamma * value
            known.setdefault(f"target: {name}", []).append(target[rows])
    joined = {name: np.concatenate(arrays) for name, arrays in known.items()}
    expected = joined.pop(f"target: {due}")
    return ProbeMeasurement(np.concatenate(read), expected, alternatives=joined)


def _measure_soft_update(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_unclipped_rewards(cache)
    if run.hyperparameters.tau != experiments.SOFT_UPDATE_TAU:
        raise UnmeasuredError(f"its target is copied: tau={experiments.SOFT_UPDATE_TAU} is refused")
    return critics.measure_target_moves(run)


CRITIC_PROBES = critics.CriticProbes(
    "dqn",
    experiments.run_update,
    experiments.run_steep_values,
    experiments.run_parallel_update,
    experiments.run_full_buffer,
    compute_targets,
    list_target_terms,
    DQN_ALGORITHM,
    halves_loss=False,
    reader=losses.READER,
    steps=list_updates_without_target_move,
)
PROBES: Sequence[Probe] = (
    *CRITIC_PROBES.build_target_probes(),
    CRITIC_PROBES.build_weight_probe(),
    Probe(
        "dqn.double_target",
        "Which next value is used in double Q-learning?",
        f"{DOUBLE_Q_PAPER}: the target network's, of the action that the online network prefers",
        "value target in the middle of episodes, in units of return, in the first updates",
        _measure_double_q,
        make_relation_description("target"),
        tolerance=1e-3,
        events=(CRITIC_LOSS,),
    ),
    Probe(
        "dqn.target_by_default",
        "Which next value is used by default?",
        f"{DQN_ALGORITHM}: the largest of the target network",
        "value target in the middle of episodes, in units of return, in the first updates",
        _measure_default_targets,
        make_relation_description("target"),
        tolerance=1e-3,
        part=SETTINGS,
    ),
    dataclasses.replace(CRITIC_PROBES, run_update=experiments.run_moving_target).build_move_probe(),
    critics.make_target_move_probe(
        "dqn.partial_target_update",
        "How far does each array of the target network move to the online one, at "
        f"tau={experiments.SOFT_UPDATE_TAU}?",
        f"{DQN_ALGORITHM} copies it; a share tau as in Lillicrap et al. 2016 (arXiv:1509.02971)",
        _measure_soft_update,
        critics.list_target_arrays("dqn"),
    ),
)
