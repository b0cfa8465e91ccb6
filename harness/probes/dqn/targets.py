"""Probes of DQN's targets: whose value counts, where episodes end, and how the target moves."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from harness.probes.contract import Step
from harness.probes.dqn import losses, trainings
from harness.probes.dqn.trainings import ALGORITHM, DOUBLE
from harness.probes.lab import Lab, Run
from harness.probes.networks import RELU, output
from harness.probes.probe import Measurement, Probe, Unmeasured, relation
from harness.probes.readings import batch, critic_updates, polyak
from harness.probes.results import Array
from harness.probes.shared import critics
from harness.probes.shared.critics import Targets, Terms, with_ends

PAPER, CHOSEN = "the largest value of the target network", "double"
APART = 1e-3
"""Targets that differ by less are the same."""


def steady_updates(run: Run) -> list[Step]:
    """The first updates between which and the ones before the target did not move.

    Some implementations copy it within an update, once that has read it: which of the two was
    read is not known there.

    Raises:
        Unmeasured: There are none.
    """
    found = [step for step in critic_updates(run) if not _copied_since(run, step)]
    if not found:
        raise Unmeasured("its target moves with every update")
    return found


def _copied_since(run: Run, step: Step) -> bool:
    number = next(i for i, s in enumerate(run.record.steps) if s is step)
    earlier = run.record.steps[number - 1].after if number else run.weights
    name = "critic1_target.out.weight"
    return not np.array_equal(earlier[name], step.before[name])


def next_values(run: Run, step: Step) -> Mapping[str, Array]:
    """Values of what comes next, by how they are chosen, each float[rows]."""
    seen = batch(run, step).next_observations
    online, target = (
        output(step.before, name, seen, RELU) for name in ("critic1", "critic1_target")
    )
    rows = np.arange(len(seen))
    return {
        PAPER: target.max(axis=1),
        CHOSEN: target[rows, online.argmax(axis=1)],
        "the online network's largest value": online.max(axis=1),
        "the online network's value of the target's choice": online[rows, target.argmax(axis=1)],
        "the mean of the target's values": target.mean(axis=1),
        "the smallest value of the target network": target.min(axis=1),
    }


def targets(run: Run, step: Step) -> Targets:
    """The paper's targets of an update, and others by what they are."""
    values = dict(next_values(run, step))
    return with_ends(run, step, values.pop(PAPER), values)


def terms(run: Run, step: Step) -> Terms:
    """What the paper's targets are summed from, with their weights."""
    value, gamma = next_values(run, step)[PAPER], run.hyperparameters.gamma
    return {"reward": (batch(run, step).rewards, 1.0), "next value": (value, gamma)}


def _double(lab: Lab) -> Measurement:
    return _chosen(lab, trainings.double(lab), CHOSEN)


def _by_default(lab: Lab) -> Measurement:
    run = trainings.by_default(lab)
    known = [next_values(run, step) for step in steady_updates(run)]
    if max(np.abs(values[PAPER] - values[CHOSEN]).max() for values in known) < APART:
        raise Unmeasured("both ways to choose give the same targets")
    return _chosen(lab, run, PAPER)


def _chosen(lab: Lab, run: Run, due: str) -> Measurement:
    # Targets of the first updates, where episodes go on, against one way to choose their values.
    read: list[Array] = []
    known: dict[str, list[Array]] = {}
    for step in steady_updates(run):
        found, data = losses.READER.target(lab, run, step), batch(run, step)
        rows = (data.ends == 0) & ~np.isnan(found)
        read.append(found[rows])
        for name, value in next_values(run, step).items():
            target = data.rewards + run.hyperparameters.gamma * value
            known.setdefault(f"target: {name}", []).append(target[rows])
    joined = {name: np.concatenate(arrays) for name, arrays in known.items()}
    expected = joined.pop(f"target: {due}")
    return Measurement(np.concatenate(read), expected, alternatives=joined)


def _part(lab: Lab) -> Measurement:
    run = trainings.rewarded(lab)
    if run.hyperparameters.tau != trainings.PART:
        raise Unmeasured(f"its target is copied: tau={trainings.PART} is refused")
    shares = polyak(run, "critic1")
    return Measurement(shares, np.full_like(shares, trainings.PART))


QUESTIONS = critics.Questions(
    "dqn",
    trainings.update,
    trainings.loud,
    trainings.learning_copies,
    trainings.full,
    targets,
    terms,
    ALGORITHM,
    half=False,
    reader=losses.READER,
    steps=steady_updates,
)
PROBES: Sequence[Probe] = (
    *QUESTIONS.targets(),
    QUESTIONS.weights(),
    Probe(
        "dqn.double_target",
        "Whose value counts, told that the online network chooses?",
        f"{DOUBLE}: the target network's, of the action that the online network prefers",
        "value target in the middle of episodes, in units of return, in the first updates",
        _double,
        relation("target"),
        tolerance=1e-3,
    ),
    Probe(
        "dqn.target_by_default",
        "Whose value counts, by default?",
        f"{ALGORITHM}: the largest of the target network",
        "value target in the middle of episodes, in units of return, in the first updates",
        _by_default,
        relation("target"),
        tolerance=1e-3,
    ),
    dataclasses.replace(QUESTIONS, run=trainings.moving).moves(),
    Probe(
        "dqn.partial_target_update",
        f"How far does the target network move to the online one, told to go {trainings.PART} "
        "of the way?",
        f"{ALGORITHM} copies it; a share tau as in Lillicrap et al. 2016 (arXiv:1509.02971)",
        "share of the way, in the first moves",
        _part,
        relation("step of the target"),
    ),
)
