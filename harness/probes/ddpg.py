"""Probes of DDPG, and their trainings: those of TD3 where they apply, and its own."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.probing.protocol import ACTION, POLICY_LOSS, OptimizerStepRecord
from parallax.harness.contract.probing.scripted_env import TERMINATED
from parallax.harness.probes import experiment_setups
from parallax.harness.probes.experiment_setups import BATCH_ROWS, HALF_RANGE, WIDE_HIGH, WIDE_LOW
from parallax.harness.probes.experiments import ExperimentCache, ProbeExperiment, ProbeRun
from parallax.harness.probes.families import critics, randomness
from parallax.harness.probes.families.critics import (
    TargetAlternatives,
    TargetTerms,
    compute_masked_targets,
)
from parallax.harness.probes.families.optimisation import measure_adam_shares
from parallax.harness.probes.measurements import MAX_UPDATES, find_minibatch
from parallax.harness.probes.probe import (
    SETTINGS,
    Probe,
    ProbeMeasurement,
    make_entry_description,
    make_relation_description,
)
from parallax.harness.probes.td3 import experiments, updates

DDPG_PAPER = "Lillicrap et al. 2016 (arXiv:1509.02971)"
DDPG_ALGORITHM = f"{DDPG_PAPER}, algorithm 1"
THETA, SIGMA = 0.15, 0.2
"""Parameters of the paper's Ornstein-Uhlenbeck exploration noise."""
OU_NOISE: dict[str, Any] = {
    "exploration_noise_kind": "ornstein-uhlenbeck",
    "exploration_noise": SIGMA,
}
WEIGHT_DECAY = 0.1
"""A weight decay that is large enough to be measured in one step."""

RUNS = experiments.RUNS["ddpg"]
run_huge_rewards = functools.partial(experiments.run_huge_rewards, algorithm="ddpg")
run_out_of_bounds = functools.partial(experiments.run_out_of_bounds, algorithm="ddpg")
run_narrow_bounds = functools.partial(experiments.run_narrow_bounds, algorithm="ddpg")


def run_bandit(cache: ExperimentCache) -> ProbeRun:
    """Run some updates with a discount of 0: the critic's target is the reward."""
    return cache.run(_change_update_experiment(cache, "bandit", gamma=0.0))


def run_weight_decay(cache: ExperimentCache) -> ProbeRun:
    """Run some updates with a large weight decay of policy and critic."""
    both = dict.fromkeys(("policy_weight_decay", "critic_weight_decay"), WEIGHT_DECAY)
    return cache.run(_change_update_experiment(cache, "decaying", **both))


def run_default_noise(cache: ExperimentCache) -> ProbeRun:
    """Run a policy that outputs the middle of the range, with the framework's default noise."""
    return cache.run(_build_noise_experiment(cache, "own noise", {}))


def run_ou_noise(cache: ExperimentCache) -> ProbeRun:
    """Run the same with an Ornstein-Uhlenbeck process with the paper's sigma."""
    return cache.run(_build_noise_experiment(cache, "process", OU_NOISE))


def _change_update_experiment(
    cache: ExperimentCache, name: str, **changes: float
) -> ProbeExperiment:
    experiment = RUNS.run_update(cache).experiment
    changed = {**experiment.changes, **changes}
    return dataclasses.replace(experiment, name=f"ddpg {name}", changes=changed)


def _build_noise_experiment(
    cache: ExperimentCache, name: str, changes: dict[str, Any]
) -> ProbeExperiment:
    weights = experiment_setups.make_weights(cache, "ddpg")
    experiment_setups.set_pass_through_weights(weights, "policy", "out", shift=8.0)
    world = experiment_setups.make_continuous_data(cache, BATCH_ROWS, WIDE_LOW, WIDE_HIGH)
    world.observations[:, 0] = world.resets[:, 0] = 0.0
    world.ends[:] = np.where(np.arange(BATCH_ROWS) == BATCH_ROWS // 2, TERMINATED, 0)
    settings = (
        experiment_setups.choose_rare_update_settings(cache, "ddpg", BATCH_ROWS)
        | experiments.FROZEN_SETTINGS
        | {"batch_size": 2}
        | changes
    )
    return experiment_setups.build_off_policy_experiment(
        f"ddpg {name}", "ddpg", world, weights, warm_up=0, **settings
    )


def compute_targets(run: ProbeRun, step: OptimizerStepRecord) -> TargetAlternatives:
    """Return the paper's targets of an update, and others by their description."""
    paper, *_ = updates.compute_next_values(run, step, 0.0)
    return compute_masked_targets(run, step, paper, {})


def list_target_terms(run: ProbeRun, step: OptimizerStepRecord) -> TargetTerms:
    """Return the terms of the paper's targets, with their weights."""
    value, *_ = updates.compute_next_values(run, step, 0.0)
    gamma = run.hyperparameters.gamma
    return {"reward": (find_minibatch(run, step).rewards, 1.0), "next value": (value, gamma)}


def _measure_weight_decay(cache: ExperimentCache) -> ProbeMeasurement:
    run = run_weight_decay(cache)
    shares = [measure_adam_shares(run, name, WEIGHT_DECAY) for name in ("policy", "critic1")]
    return ProbeMeasurement(np.array(shares), np.ones_like(shares))


CRITIC_PROBES = critics.CriticProbes(
    RUNS,
    run_huge_rewards,
    compute_targets,
    list_target_terms,
    DDPG_ALGORITHM,
    halves_loss=False,
    reader=critics.make_single_critic_reader(run_bandit),
    run_for_slopes=run_bandit,
)
UPDATE_PROBES: Sequence[Probe] = (
    *CRITIC_PROBES.build_probes(),
    Probe(
        "ddpg.policy_terms",
        "What does the policy maximize?",
        f"{DDPG_ALGORITHM}: the critic",
        f"weight of the critic, in the first {MAX_UPDATES} steps",
        lambda cache: updates.measure_policy_objective(cache, "ddpg"),
        make_relation_description("weight of the critic"),
        tolerance=5e-4,
        events=(POLICY_LOSS,),
    ),
    critics.make_policy_clipping_probe(
        "ddpg", lambda cache: updates.measure_policy_clipping(cache, "ddpg"), DDPG_ALGORITHM
    ),
    critics.make_critics_seen_probe(
        "ddpg", lambda cache: updates.measure_critics_seen(cache, "ddpg"), DDPG_ALGORITHM
    ),
    Probe(
        "ddpg.weight_decay",
        f"What does a weight decay of {WEIGHT_DECAY} of policy and critic do to a step?",
        f"{DDPG_PAPER}, section 7: L2 weight decay, a part of the gradient",
        f"share of Adam's step with that gradient, in the first {MAX_UPDATES} steps: "
        "policy, critic",
        _measure_weight_decay,
        lambda comparison, measurement: "steps go elsewhere than Adam's with an L2 penalty",
        tolerance=1e-3,
    ),
)

NOISE_NAMES = ("share of the previous noise that remains", "deviation of the added noise")
EPISODE_END_NAME = "share that remains after the end of an episode"
FIRST_NOISE_ROW = 2
"""Earlier steps are left out, because some implementations start with a different step."""


def compute_action_noise(run: ProbeRun) -> Array:
    """Return the noise of actions around the middle of the range, as a share of half of it."""
    middle = (np.array(WIDE_LOW) + np.array(WIDE_HIGH)) / 2
    return np.asarray((run.get_actions() - middle) / HALF_RANGE)


def _fit_noise_process(run: ProbeRun, rows: Array) -> Array:
    # Fit noise = a * previous noise + b * drawn number to some steps, and return a and b.
    noise, drawn = compute_action_noise(run), run.experiment.scripted_data.acting_noise
    basis = np.stack([noise[rows - 1].ravel(), drawn[rows].ravel()], axis=1)
    return np.asarray(np.linalg.lstsq(basis, noise[rows].ravel(), rcond=None)[0])


def _list_rows_inside_episodes(run: ProbeRun) -> Array:
    ends = np.flatnonzero(run.experiment.scripted_data.ends) + 1
    return np.setdiff1d(np.arange(FIRST_NOISE_ROW, len(run.transitions)), ends)


def _measure_default_noise(cache: ExperimentCache) -> ProbeMeasurement:
    run, value = run_default_noise(cache), np.zeros(2)
    if compute_action_noise(run).any():
        value = _fit_noise_process(run, _list_rows_inside_episodes(run)).round(6)
    return ProbeMeasurement(value, np.array([1 - THETA, SIGMA]))


def _measure_ou_process(cache: ExperimentCache) -> ProbeMeasurement:
    run = run_ou_noise(cache)
    remaining, added = _fit_noise_process(run, _list_rows_inside_episodes(run))
    noise = compute_action_noise(run)
    row = int(np.flatnonzero(run.experiment.scripted_data.ends)[0]) + 1
    rest = noise[row] - added * run.experiment.scripted_data.acting_noise[row]
    over = float(rest @ noise[row - 1] / (noise[row - 1] @ noise[row - 1]))
    words = f"noise drifts away from its mean: it grows by a factor of {remaining:.4g} per step"
    words = words if remaining > 1 else ""
    parallel = _measure_parallel_process(cache)
    if parallel < remaining / 2:
        words = f"parallel environments forget their noise: {parallel:.2g} remains per step, with "
        words += f"one environment {remaining:.4g}"
        remaining = round(parallel, 1)  # of random numbers
    value = np.array([remaining, added, over]).round(6)
    return ProbeMeasurement(value, np.array([1 - THETA, SIGMA, 0.0]), meaning=words)


def _measure_parallel_process(cache: ExperimentCache) -> float:
    # Share of noise that remains if each update cycle is one step of all parallel environments.
    changes = OU_NOISE | {"train_freq": randomness.N_ENVS, "gradient_steps": 1}
    settings = experiments.DRAWING_SETTINGS["ddpg"]
    try:
        run = randomness.run_own_randomness(
            cache, "ddpg", lambda _: settings, randomness.EXPLORING_STEPS, **changes
        )
    except SpecError:
        return np.inf
    noise = randomness.list_exploring_actions(run)
    return randomness.compute_remaining_share(noise - noise.mean(axis=0))


NOISE_PROBES: Sequence[Probe] = (
    Probe(
        "ddpg.exploration_kind",
        "Which noise is added to actions, by default?",
        f"{DDPG_PAPER}, section 7: an Ornstein-Uhlenbeck process with theta {THETA} and "
        f"sigma {SIGMA}",
        "per step, by least squares, as shares of half the action range: " + ", ".join(NOISE_NAMES),
        _measure_default_noise,
        make_entry_description(NOISE_NAMES),
        tolerance=1e-3,
        part=SETTINGS,
        events=(ACTION,),
    ),
    Probe(
        "ddpg.exploration_process",
        f"How does an Ornstein-Uhlenbeck process with sigma {SIGMA} continue?",
        f"{DDPG_PAPER}, section 7: theta {THETA} and sigma {SIGMA}, per step; algorithm 1: a "
        "process of its own for each episode",
        "per step, by least squares, as shares of half the action range: "
        + ", ".join((*NOISE_NAMES, EPISODE_END_NAME)),
        _measure_ou_process,
        make_entry_description((*NOISE_NAMES, EPISODE_END_NAME)),
        tolerance=1e-3,
        events=(ACTION,),
    ),
)
