"""Trainings that DQN's probes read."""

import dataclasses
from typing import Any

import numpy as np

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.scripted_env import ScriptedData
from parallax.harness.probes import experiment_setups
from parallax.harness.probes.experiment_setups import (
    BATCH_ROWS,
    N_DISCRETE_ACTIONS,
    OBSERVATION_SIZE,
    OffPolicyRuns,
)
from parallax.harness.probes.experiments import ExperimentCache, ProbeExperiment, ProbeRun
from parallax.harness.probes.reference_networks import round_to_float32

DQN_PAPER = "Mnih et al. 2015 (Nature 518)"
DQN_ALGORITHM = f"{DQN_PAPER}, algorithm 1"
DQN_CODE = "the authors' code"
DOUBLE_Q_PAPER = "van Hasselt et al. 2016 (arXiv:1509.06461), eq. 4"
SMALL_SCALE = 0.25
"""Factor of values and rewards with which errors are below 1, where a Huber loss is quadratic."""
STEEP_SCALE, HUGE_SCALE = 4.0, 1e3
"""Factors of values with which errors exceed 1, and with which gradients are huge."""
PREFERRED_VALUE = 50.0
"""Difference between the value of the first action and the others."""
MAX_GRAD_NORM = 0.05
"""Norm at which gradients are clipped."""

SOFT_UPDATE_TAU = 0.25
"""Share of the way that a target moves if it is not copied."""
NEVER_INTERVAL, SHORT_INTERVAL = 1000, 4
"""Environment steps between copies to the target: longer than any training, and short."""

EPSILON_INITIAL = 0.8
EPSILON_FINAL = 0.2
EPSILON_STEPS = 30
WARM_UP_STEPS = 10
CYCLE_STEPS = 5
EXPLORATION_STEPS = 60
"""A schedule of exploration: shares of random actions, and environment steps."""
RANDOM_ACTION_SETTINGS: dict[str, Any] = {
    "exploration_initial": 1.0,
    "exploration_final": 1.0,
    "exploration_steps": 1,
}
BASE_SETTINGS: dict[str, Any] = {
    **RANDOM_ACTION_SETTINGS,
    "learning_rate": 1e-3,
    "double_q": False,
    "max_grad_norm": None,
    "target_update_interval": NEVER_INTERVAL,
}
"""Random actions, and the paper's target from a network that does not change."""


def run_moving_target(cache: ExperimentCache) -> ProbeRun:
    """Run some updates with a target network that is copied every fourth step."""
    moves = {"target_update_interval": SHORT_INTERVAL}
    return cache.run(_build_update_experiment(cache, "moving", **moves))


def run_default_target(cache: ExperimentCache) -> ProbeRun:
    """Run the same with the framework's default choice of next actions and default clipping."""
    experiment = _build_update_experiment(cache, "by default", 3)
    own = ("double_q",) if cache.level.sets_all else ("double_q", "max_grad_norm")
    changes = {name: value for name, value in experiment.changes.items() if name not in own}
    return cache.run(dataclasses.replace(experiment, changes=changes))


def run_double_q(cache: ExperimentCache) -> ProbeRun:
    """Run the same with double Q-learning: the online network chooses the next action."""
    return cache.run(_build_update_experiment(cache, "double", 4, double_q=True))


def run_bandit(cache: ExperimentCache) -> ProbeRun:
    """Run some updates with a discount of 0, so that the target is the reward, and large errors."""
    return cache.run(_build_bandit_experiment(cache, "bandit", STEEP_SCALE, 6))


def run_huber_loss(cache: ExperimentCache) -> ProbeRun:
    """Run the same with a Huber loss that is linear above an error of 1."""
    return cache.run(_build_bandit_experiment(cache, "huber", STEEP_SCALE, 3, huber_delta=1.0))


def run_narrow_huber_loss(cache: ExperimentCache) -> ProbeRun:
    """Run the same with a Huber loss that is linear above an error of one half."""
    return cache.run(
        _build_bandit_experiment(cache, "narrow huber", STEEP_SCALE, 3, huber_delta=0.5)
    )


def run_steep_values(cache: ExperimentCache) -> ProbeRun:
    """Run the same with very steep values and the framework's default clipping."""
    experiment = _build_bandit_experiment(cache, "loud", HUGE_SCALE, 3)
    changes = {name: v for name, v in experiment.changes.items() if name != "max_grad_norm"}
    return cache.run(dataclasses.replace(experiment, changes=changes))


def run_clipped_gradients(cache: ExperimentCache) -> ProbeRun:
    """Run the same with gradients clipped at a small norm."""
    return cache.run(
        _build_bandit_experiment(cache, "clipped", STEEP_SCALE, 3, max_grad_norm=MAX_GRAD_NORM)
    )


def run_unclipped_rewards(cache: ExperimentCache) -> ProbeRun:
    """Run updates with a discount of 0 and rewards beyond -1 and 1.

    The target network, which has no effect on learning, has soft updates if the framework can.
    """
    part = {"tau": SOFT_UPDATE_TAU, "target_update_interval": 1}
    moves = part if cache.accepts_settings("dqn", part, BATCH_ROWS + 3) else {}
    experiment = _build_bandit_experiment(cache, "rewarded", SMALL_SCALE, 3, **moves)
    experiment.scripted_data.rewards[:] = round_to_float32(np.linspace(-3.0, 3.0, BATCH_ROWS + 3))
    return cache.run(experiment)


def run_dueling_network(cache: ExperimentCache) -> ProbeRun:
    """Run some updates of a dueling network, with heads for the value and the advantages."""
    experiment = _build_update_experiment(cache, "dueling", 3, dueling=True)
    first, second = experiment_setups.choose_hidden_sizes(cache, "dqn")
    generator = np.random.default_rng([cache.seed, 3])
    shapes = {"0": (first, OBSERVATION_SIZE)} | {
        name: shape
        for head, size in (("advantage", N_DISCRETE_ACTIONS), ("value", 1))
        for name, shape in ((f"{head}0", (second, first)), (head, (size, second)))
    }
    weights = {}
    for network in ("critic1", "critic1_target"):
        for layer, (rows, columns) in shapes.items():
            drawn = generator.normal(size=(rows, columns + 1)) * 1.4 / np.sqrt(columns)
            weights[f"{network}.{layer}.weight"] = round_to_float32(drawn[:, 1:])
            weights[f"{network}.{layer}.bias"] = round_to_float32(drawn[:, 0])
    return cache.run(dataclasses.replace(experiment, weights=weights))


def run_exploration_schedule(cache: ExperimentCache) -> ProbeRun:
    """Run an epsilon schedule in update cycles of several steps, with episodes that end."""
    return cache.run(_build_schedule_experiment(cache, "exploring"))


def run_parallel_exploration(cache: ExperimentCache) -> ProbeRun:
    """Run the same schedule with four parallel environments, and a cycle per step of all."""
    experiment = _build_schedule_experiment(cache, "exploring copies")
    return cache.run(experiment_setups.parallelize_experiment(experiment, 4))


def _build_schedule_experiment(cache: ExperimentCache, name: str) -> ProbeExperiment:
    changes = {
        "exploration_initial": EPSILON_INITIAL,
        "exploration_final": EPSILON_FINAL,
        "exploration_steps": EPSILON_STEPS,
        "learning_starts": WARM_UP_STEPS,
        "train_freq": CYCLE_STEPS,
        "target_update_interval": 4 * CYCLE_STEPS,
        "batch_size": 4,
    }
    return _build_first_action_experiment(cache, name, EXPLORATION_STEPS, **changes)


def run_greedy_policy(cache: ExperimentCache) -> ProbeRun:
    """Run one update cycle of greedy actions; the observations are the values."""
    weights = experiment_setups.make_weights(cache, "dqn")
    _set_identity_values(weights)
    world = experiment_setups.make_discrete_data(
        cache, BATCH_ROWS, ends=False, exploration_draw=0.999
    )
    world.observations[:BATCH_ROWS, :N_DISCRETE_ACTIONS] = make_value_patterns()
    greedy = {"exploration_initial": 0.0, "exploration_final": 0.0, "batch_size": 2}
    one_round = {"train_freq": BATCH_ROWS, "gradient_steps": 1}
    settings = greedy | one_round | {"learning_rate": experiment_setups.NO_LEARNING}
    settings |= {"target_update_interval": BATCH_ROWS, "learning_starts": 0}
    return cache.run(_build_experiment(cache, "acting", world, 0, weights, **settings))


def make_value_patterns() -> Array:
    """Return values of all actions, float[rows, actions]: first without ties, then with ties."""
    turns = np.arange(BATCH_ROWS)[:, None] + np.arange(N_DISCRETE_ACTIONS)
    without = (turns * 5) % 7 / 4.0
    ties = np.array([[bool(number >> place & 1) for place in range(4)] for number in range(1, 16)])
    found = np.array(without, float)
    found[-len(ties) :] = ties
    return found


N_TIED_PATTERNS = 15
"""Number of pattern rows with ties, or with a single largest value of 1."""


def _set_identity_values(weights: dict[str, Array]) -> None:
    # Makes the network output the first observations; the shift holds hidden units above 0.
    shift = 8.0
    for name, array in weights.items():
        if name.startswith("critic1."):
            weights[name] = np.zeros_like(array)
    places = np.arange(N_DISCRETE_ACTIONS)
    weights["critic1.0.weight"][places, places] = weights["critic1.1.weight"][places, places] = 1
    weights["critic1.0.bias"][places] = shift
    weights["critic1.out.weight"][places, places] = 1.0
    weights["critic1.out.bias"][:] = -shift


def _build_update_experiment(
    cache: ExperimentCache, name: str, more: int = 8, **changes: Any
) -> ProbeExperiment:
    data = experiment_setups.make_discrete_data(cache, BATCH_ROWS + more)
    data.rewards[:] = round_to_float32(data.rewards * SMALL_SCALE)
    world = _rotate_draws(cache, data)
    weights = _make_scaled_weights(cache, SMALL_SCALE)
    return _build_experiment(cache, name, world, 12, weights, **changes)


def _build_bandit_experiment(
    cache: ExperimentCache, name: str, steep: float, more: int, **changes: Any
) -> ProbeExperiment:
    world = _rotate_draws(cache, experiment_setups.make_discrete_data(cache, BATCH_ROWS + more))
    world.rewards[:] = round_to_float32(np.clip(world.rewards, -1, 1) * 0.9)
    return _build_experiment(
        cache, name, world, 6, _make_scaled_weights(cache, steep), gamma=0.0, **changes
    )


def _rotate_draws(cache: ExperimentCache, data: ScriptedData) -> ScriptedData:
    # With a recipe everywhere, minibatches must not depend on the number of stored transitions.
    window = BATCH_ROWS if cache.level.sets_all else 0
    return dataclasses.replace(data, rotates_draws=True, minibatch_window=window)


def _make_scaled_weights(cache: ExperimentCache, factor: float) -> dict[str, Array]:
    weights = experiment_setups.make_weights(cache, "dqn")
    for network in ("critic1", "critic1_target"):
        for kind in ("weight", "bias"):
            name = f"{network}.out.{kind}"
            weights[name] = round_to_float32(weights[name] * factor)
    return weights


def _build_count_experiment(
    cache: ExperimentCache, name: str, is_parallel: bool
) -> ProbeExperiment:
    # Almost no random actions, and cycles of three steps with one environment.
    every, interval = (4, 8) if is_parallel else (3, 9)
    changes = {
        # Not exactly 0: then some implementations would draw no random number.
        "exploration_initial": 1e-3,
        "exploration_final": 1e-3,
        "batch_size": 4,
        "learning_starts": 12,
        "train_freq": every,
        "target_update_interval": interval,
    }
    return _build_first_action_experiment(cache, name, 48, **changes)


def _build_first_action_experiment(
    cache: ExperimentCache, name: str, steps: int, **changes: Any
) -> ProbeExperiment:
    # The greedy action is the first, random ones are others, and scripted draws exceed epsilon.
    weights = experiment_setups.make_weights(cache, "dqn")
    world = experiment_setups.make_discrete_data(cache, steps, exploration_draw=0.999)
    favoured = PREFERRED_VALUE * (np.arange(N_DISCRETE_ACTIONS) == 0)
    weights["critic1.out.bias"] = round_to_float32(weights["critic1.out.bias"] + favoured)
    world.random_actions[:] = (1 + 3 * world.random_actions) / N_DISCRETE_ACTIONS
    return _build_experiment(cache, name, world, 0, weights, **changes)


def _build_experiment(
    cache: ExperimentCache,
    name: str,
    world: ScriptedData,
    snapshots: int,
    weights: dict[str, Array] | None = None,
    **changes: Any,
) -> ProbeExperiment:
    networks = experiment_setups.make_weights(cache, "dqn") if weights is None else weights
    settings = {"learning_starts": BATCH_ROWS, **choose_base_settings(cache), **changes}
    return experiment_setups.build_off_policy_experiment(
        f"dqn {name}", "dqn", world, networks, snapshots, **settings
    )


def choose_base_settings(cache: ExperimentCache) -> dict[str, Any]:
    """Return `BASE_SETTINGS` and the hidden sizes that the framework supports."""
    return {**BASE_SETTINGS, "hidden_sizes": experiment_setups.choose_hidden_sizes(cache, "dqn")}


RUNS = OffPolicyRuns("dqn", _build_update_experiment, _build_count_experiment, updates=8)
