"""Trainings that R2D2's probes read.

Learner, target and actor start with different weights, and the actor's do not change, so that a
state shows with which weights it was computed.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.scripted_env import TERMINATED, TRUNCATED
from parallax.harness.probes import experiment_setups
from parallax.harness.probes.experiment_setups import N_DISCRETE_ACTIONS, OBSERVATION_SIZE
from parallax.harness.probes.experiments import ExperimentCache, ProbeExperiment, ProbeRun
from parallax.harness.probes.reference_networks import round_to_float32

R2D2_PAPER = "Kapturowski et al. 2019 (ICLR)"
SEQUENCE_LENGTH, BURN_IN, BATCH_SIZE = 5, 3, 4
ENCODER_UNITS, LSTM_UNITS, HEAD_UNITS = 24, 20, 96
"""Units before the LSTM, of the LSTM, and of a head, which has more than a minibatch has steps."""
STEEP_SCALE = 4.0
"""Factor of the weights after the LSTM, so that its steps can be distinguished."""
WARM_UP_STEPS, EXTRA_STEPS = 60, 6
EPISODE_LENGTHS = (11, 5, 7, 12, 3, 9)
"""Lengths of successive episodes; every other one ends by a time limit."""
NEVER_INTERVAL = 10**6
"""Interval in environment steps of events that must not happen."""
LARGE_RESCALING_EPSILON, SMALL_RESCALING_EPSILON = 1e-2, 1e-3
"""Epsilons of the rescaling."""
DISCOUNT, N_STEP = 0.9, 3
MAX_REWARD = 40.0
"""Largest reward in trainings with rescaled values."""
MAX_GRAD_NORM = 0.05
"""Norm at which gradients are clipped."""
PRIORITY_MAX_SHARE, PRIORITY_EXPONENT, IMPORTANCE_EXPONENT = 0.9, 0.9, 0.6
"""The paper's eta and exponents, of priorities and of importance weights."""
N_ACTORS, EPSILON_BASE, EPSILON_EXPONENT = 4, 0.4, 7.0
"""Actors and their shares of random actions (Horgan et al. 2018)."""
CYCLE_STEPS = 4
UPDATES_PER_CYCLE = 2
ACTOR_REFRESH_INTERVAL = 6
TARGET_UPDATE_INTERVAL = 16
OVERLAP = 2
"""Steps and updates of a cycle, intervals of refreshes and target updates, sequences' overlap."""

BASE_SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-3,
    "batch_size": BATCH_SIZE,
    "buffer_size": 1000,
    "learning_starts": WARM_UP_STEPS,
    "gamma": 0.0,
    "train_freq": 1,
    "gradient_steps": 1,
    "target_update_interval": NEVER_INTERVAL,
    "n_step": 1,
    "value_rescaling": None,
    "sequence_length": SEQUENCE_LENGTH,
    "overlap": 0,
    "burn_in": BURN_IN,
    "stored_state": True,
    "last_step_inputs": True,
    "priority_exponent": 0.0,
    "importance_exponent": 0.0,
    "max_error_share": PRIORITY_MAX_SHARE,
    "epsilon_base": 1.0,
    "epsilon_exponent": 0.0,
    "actor_refresh": NEVER_INTERVAL,
    "double_q": False,
    "dueling": False,
    "max_grad_norm": None,
    "adam_eps": 1e-3,
    "hidden_sizes": (ENCODER_UNITS,),
    "lstm_size": LSTM_UNITS,
    "head_sizes": (HEAD_UNITS,),
}
"""Random actions, uniform draws, and the reward as the target."""


def run_bandit(cache: ExperimentCache) -> ProbeRun:
    """Run some updates with a discount of 0: the target is the reward."""
    return cache.run(_build_experiment(cache, "bandit"))


def run_rescaled_rewards(cache: ExperimentCache) -> ProbeRun:
    """Run the same with large rewards and rescaled values."""
    experiment = _build_experiment(cache, "rewarded", value_rescaling=LARGE_RESCALING_EPSILON)
    rewards = experiment.scripted_data.rewards
    rewards[:] = round_to_float32(
        np.random.default_rng([cache.seed, 5]).permutation(
            np.linspace(-MAX_REWARD, MAX_REWARD, len(rewards))
        )
    )
    return cache.run(experiment)


def run_bootstrap_only(cache: ExperimentCache) -> ProbeRun:
    """Run some updates without rewards: the target is the discounted next value."""
    experiment = _build_experiment(
        cache, "future", MAX_REWARD, gamma=DISCOUNT, value_rescaling=LARGE_RESCALING_EPSILON
    )
    experiment.scripted_data.rewards[:] = 0.0
    return cache.run(experiment)


def run_n_step(cache: ExperimentCache) -> ProbeRun:
    """Run some updates with n-step targets."""
    return cache.run(_build_n_step_experiment(cache, "several"))


def run_double_q(cache: ExperimentCache) -> ProbeRun:
    """Run the same with double Q-learning."""
    return cache.run(_build_n_step_experiment(cache, "double", double_q=True))


def run_prioritized_replay(cache: ExperimentCache) -> ProbeRun:
    """Run the same with priorities and importance weights."""
    priorities = {
        "priority_exponent": PRIORITY_EXPONENT,
        "importance_exponent": IMPORTANCE_EXPONENT,
    }
    return cache.run(_build_n_step_experiment(cache, "prioritised", **priorities))


def run_stored_states(cache: ExperimentCache) -> ProbeRun:
    """Run updates of one step of one sequence each, which leave the weights unchanged."""
    return cache.run(_build_single_step_experiment(cache, "from stored states"))


def run_zero_states(cache: ExperimentCache) -> ProbeRun:
    """Run the same with burn-ins that start from zeros."""
    return cache.run(_build_single_step_experiment(cache, "from zeros", stored_state=False))


def run_without_burn_in(cache: ExperimentCache) -> ProbeRun:
    """Run the same without burn-in."""
    return cache.run(_build_single_step_experiment(cache, "without burn-in", burn_in=0))


def run_clipped_gradients(cache: ExperimentCache) -> ProbeRun:
    """Run some updates with gradients clipped at a small norm."""
    return cache.run(_build_experiment(cache, "clipped", max_grad_norm=MAX_GRAD_NORM))


def run_dueling_network(cache: ExperimentCache) -> ProbeRun:
    """Run some updates of a dueling network, with heads for the value and the advantages."""
    return cache.run(_build_experiment(cache, "dueling", dueling=True))


def run_count_experiment(cache: ExperimentCache) -> ProbeRun:
    """Run a longer training with overlapping sequences, target updates and actor refreshes."""
    changes = {
        "learning_starts": 12,
        "train_freq": CYCLE_STEPS,
        "gradient_steps": UPDATES_PER_CYCLE,
        "target_update_interval": TARGET_UPDATE_INTERVAL,
        "actor_refresh": ACTOR_REFRESH_INTERVAL,
        "overlap": OVERLAP,
    }
    experiment = _build_experiment(cache, "counting", steps=WARM_UP_STEPS, **changes)
    return cache.run(dataclasses.replace(experiment, snapshots=2 * WARM_UP_STEPS))


def run_parallel_actors(cache: ExperimentCache) -> ProbeRun:
    """Run some steps of several actors, each with its own epsilon."""
    shares = {
        "epsilon_base": EPSILON_BASE,
        "epsilon_exponent": EPSILON_EXPONENT,
        "learning_starts": WARM_UP_STEPS,
    }
    experiment = _build_experiment(cache, "actors", steps=10 * N_ACTORS, **shares)
    return cache.run(experiment_setups.parallelize_experiment(experiment, N_ACTORS))


def _build_n_step_experiment(cache: ExperimentCache, name: str, **changes: Any) -> ProbeExperiment:
    ahead = {"gamma": DISCOUNT, "n_step": N_STEP, "value_rescaling": SMALL_RESCALING_EPSILON}
    return _build_experiment(cache, name, STEEP_SCALE, **ahead | changes)


def _build_single_step_experiment(
    cache: ExperimentCache, name: str, **changes: Any
) -> ProbeExperiment:
    one = {"batch_size": 1, "sequence_length": 1, "learning_rate": experiment_setups.NO_LEARNING}
    experiment = _build_experiment(cache, name, steps=WARM_UP_STEPS + 24, **one | changes)
    return dataclasses.replace(experiment, snapshots=25)


def _build_experiment(
    cache: ExperimentCache,
    name: str,
    loud: float = 1.0,
    steps: int = WARM_UP_STEPS + EXTRA_STEPS,
    **changes: Any,
) -> ProbeExperiment:
    settings = BASE_SETTINGS | changes
    world = dataclasses.replace(
        experiment_setups.make_discrete_data(cache, steps), ends=_make_episode_ends(steps)
    )
    weights = _draw_weights(cache, settings["dueling"], loud)
    return ProbeExperiment(
        f"r2d2 {name}", "r2d2", world, settings, weights, snapshots=EXTRA_STEPS + 1
    )


def _make_episode_ends(steps: int) -> NDArray[np.int64]:
    ends, at = np.zeros(steps, dtype=int), -1
    for number in range(steps):
        at += EPISODE_LENGTHS[number % len(EPISODE_LENGTHS)]
        if at >= steps:
            break
        ends[at] = TRUNCATED if number % 2 else TERMINATED
    return ends


def _draw_weights(cache: ExperimentCache, dueling: bool, loud: float) -> dict[str, Array]:
    """Return random weights of the learner, its target and the actor.

    Args:
        cache: Provides the seed.
        dueling: Whether the network has two heads.
        loud: Factor of the outputs.
    """
    generator, found = np.random.default_rng([cache.seed, 4]), dict[str, Array]()
    shapes = {
        "0": (ENCODER_UNITS, OBSERVATION_SIZE),
        "lstm_input": (4 * LSTM_UNITS, ENCODER_UNITS + N_DISCRETE_ACTIONS + 1),
        "lstm_state": (4 * LSTM_UNITS, LSTM_UNITS),
    }
    heads = (
        {"value": 1, "advantage": N_DISCRETE_ACTIONS} if dueling else {"out": N_DISCRETE_ACTIONS}
    )
    for head, size in heads.items():
        shapes |= {
            (f"{head}0" if dueling else "1"): (HEAD_UNITS, LSTM_UNITS),
            head: (size, HEAD_UNITS),
        }
    for network in ("critic1", "critic1_target", "actor"):
        for layer, (rows, columns) in shapes.items():
            scale = STEEP_SCALE if columns == LSTM_UNITS and rows == HEAD_UNITS else 1.0
            scale *= loud if columns == HEAD_UNITS else 1.0
            drawn = generator.normal(size=(rows, columns + 1)) / np.sqrt(columns)
            found[f"{network}.{layer}.weight"] = round_to_float32(scale * drawn[:, 1:])
            found[f"{network}.{layer}.bias"] = round_to_float32(drawn[:, 0])
    return found
