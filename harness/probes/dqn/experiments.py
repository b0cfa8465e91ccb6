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
)
from parallax.harness.probes.experiments import ExperimentCache, ProbeExperiment, ProbeRun
from parallax.harness.probes.reference_networks import round_to_float32

DQN_PAPER = "Mnih et al. 2015 (Nature 518)"
DQN_ALGORITHM = f"{DQN_PAPER}, algorithm 1"
DQN_CODE = "the authors' code"
DOUBLE_Q_PAPER = "van Hasselt et al. 2016 (arXiv:1509.06461), eq. 4"
SMALL_SCALE = 0.25
"""What values and rewards are multiplied by, so that errors are below 1, where losses may bend."""
STEEP_SCALE, HUGE_SCALE = 4.0, 1e3
"""What values are multiplied by so that errors are above 1, and so that gradients are huge."""
FULL_BUFFER_STEPS = 36
"""Warm-up steps of a training whose buffer holds fewer transitions."""
PREFERRED_VALUE = 50.0
"""How far the value of the first choice is above the others."""
MAX_GRAD_NORM = 0.05
"""Norm that gradients are clipped at."""

SOFT_UPDATE_TAU = 0.25
"""Share of the way that a target goes which is not copied."""
NEVER_INTERVAL, SHORT_INTERVAL = 1000, 4
"""Environment steps between copies to the target: more than there are, and few."""

EPSILON_INITIAL, EPSILON_FINAL, EPSILON_STEPS, WARM_UP_STEPS, CYCLE_STEPS, EXPLORATION_STEPS = (
    0.8,
    0.2,
    30,
    10,
    5,
    60,
)
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
"""Random actions, and the paper's target from a network that stays as it is."""


def run_update(lab: ExperimentCache) -> ProbeRun:
    """Some updates with small errors, each on another minibatch."""
    return lab.run(_build_update_experiment(lab, "update"))


def run_moving_target(lab: ExperimentCache) -> ProbeRun:
    """The same with a target that is copied every fourth step."""
    return lab.run(_build_update_experiment(lab, "moving", target_update_interval=SHORT_INTERVAL))


def run_default_target(lab: ExperimentCache) -> ProbeRun:
    """The same with the framework's own way to choose the next action, and its own clipping."""
    experiment = _build_update_experiment(lab, "by default", 3)
    own = ("double_q", "max_grad_norm")
    changes = {name: value for name, value in experiment.changes.items() if name not in own}
    return lab.run(dataclasses.replace(experiment, changes=changes))


def run_double_q(lab: ExperimentCache) -> ProbeRun:
    """The same where the online network chooses the next action."""
    return lab.run(_build_update_experiment(lab, "double", 4, double_q=True))


def run_parallel_update(lab: ExperimentCache) -> ProbeRun:
    """The same on several copies of the environment."""
    return lab.run(
        experiment_setups.parallelize_experiment(
            _build_update_experiment(lab, "learning copies", 12), 4
        )
    )


def run_full_buffer(lab: ExperimentCache) -> ProbeRun:
    """A buffer that is full before the first update."""
    changes = {"learning_starts": FULL_BUFFER_STEPS, "buffer_size": FULL_BUFFER_STEPS - 9}
    return lab.run(
        _build_update_experiment(lab, "full", FULL_BUFFER_STEPS + 8 - BATCH_ROWS, **changes)
    )


def run_bandit(lab: ExperimentCache) -> ProbeRun:
    """Some updates without a future, so that the target is the reward, with large errors."""
    return lab.run(_build_bandit_experiment(lab, "bandit", STEEP_SCALE, 6))


def run_huber_loss(lab: ExperimentCache) -> ProbeRun:
    """The same with a loss that is linear from an error of 1 on."""
    return lab.run(_build_bandit_experiment(lab, "huber", STEEP_SCALE, 3, huber_delta=1.0))


def run_narrow_huber_loss(lab: ExperimentCache) -> ProbeRun:
    """The same with a loss that is linear from an error of one half on."""
    return lab.run(_build_bandit_experiment(lab, "narrow huber", STEEP_SCALE, 3, huber_delta=0.5))


def run_steep_values(lab: ExperimentCache) -> ProbeRun:
    """The same with very steep values, and the framework's own clipping."""
    experiment = _build_bandit_experiment(lab, "loud", HUGE_SCALE, 3)
    changes = {name: v for name, v in experiment.changes.items() if name != "max_grad_norm"}
    return lab.run(dataclasses.replace(experiment, changes=changes))


def run_clipped_gradients(lab: ExperimentCache) -> ProbeRun:
    """The same with gradients that are clipped at a small norm."""
    return lab.run(
        _build_bandit_experiment(lab, "clipped", STEEP_SCALE, 3, max_grad_norm=MAX_GRAD_NORM)
    )


def run_unclipped_rewards(lab: ExperimentCache) -> ProbeRun:
    """Updates without a future, with rewards beyond -1 and 1.

    The target, which nothing is learned from, goes a part of the way where the framework can.
    """
    part = {"tau": SOFT_UPDATE_TAU, "target_update_interval": 1}
    moves = part if lab.accepts_settings("dqn", part, BATCH_ROWS + 3) else {}
    experiment = _build_bandit_experiment(lab, "rewarded", SMALL_SCALE, 3, **moves)
    experiment.scripted_data.rewards[:] = round_to_float32(np.linspace(-3.0, 3.0, BATCH_ROWS + 3))
    return lab.run(experiment)


def run_dueling_network(lab: ExperimentCache) -> ProbeRun:
    """Some updates of a network with heads for the value and the advantages."""
    experiment = _build_update_experiment(lab, "dueling", 3, dueling=True)
    (first, second), generator = (
        experiment_setups.choose_hidden_sizes(lab, "dqn"),
        np.random.default_rng([lab.seed, 3]),
    )
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
    return lab.run(dataclasses.replace(experiment, weights=weights))


def run_exploration_schedule(lab: ExperimentCache) -> ProbeRun:
    """A schedule of exploration, in rounds of several steps, with episodes that end."""
    changes = {
        "exploration_initial": EPSILON_INITIAL,
        "exploration_final": EPSILON_FINAL,
        "exploration_steps": EPSILON_STEPS,
        "learning_starts": WARM_UP_STEPS,
        "train_freq": CYCLE_STEPS,
        "target_update_interval": 4 * CYCLE_STEPS,
        "batch_size": 4,
    }
    return lab.run(_build_first_action_experiment(lab, "exploring", EXPLORATION_STEPS, **changes))


def run_greedy_policy(lab: ExperimentCache) -> ProbeRun:
    """One round of greedy actions from values that the observations are."""
    weights = experiment_setups.make_weights(lab, "dqn")
    set_identity_values(weights)
    world = experiment_setups.make_discrete_data(
        lab, BATCH_ROWS, ends=False, exploration_draw=0.999
    )
    world.observations[:BATCH_ROWS, :N_DISCRETE_ACTIONS] = make_value_patterns()
    greedy = {"exploration_initial": 0.0, "exploration_final": 0.0, "batch_size": 2}
    one_round = {"train_freq": BATCH_ROWS, "gradient_steps": 1}
    settings = greedy | one_round | {"learning_rate": experiment_setups.NO_LEARNING}
    settings |= {"target_update_interval": BATCH_ROWS, "learning_starts": 0}
    return lab.run(_build_experiment(lab, "acting", world, 0, weights, **settings))


def run_count_experiment(lab: ExperimentCache) -> ProbeRun:
    """A longer run in rounds of three steps, with hardly any random actions after the warm-up."""
    return lab.run(_build_count_experiment(lab, "counts", 3, 9))


def run_parallel_envs(lab: ExperimentCache) -> ProbeRun:
    """Four copies of the environment and an update per transition."""
    return lab.run(
        experiment_setups.parallelize_experiment(_build_count_experiment(lab, "copies", 4, 8), 4)
    )


def run_library_defaults(lab: ExperimentCache, number: int = 0) -> ProbeRun:
    """A short training with the framework's own settings and networks."""
    return lab.run(experiment_setups.build_defaults_experiment(lab, "dqn", number))


def make_value_patterns() -> Array:
    """Values of all choices, float[ROWS, CHOICES]: first without ties, then with them."""
    turns = np.arange(BATCH_ROWS)[:, None] + np.arange(N_DISCRETE_ACTIONS)
    without = (turns * 5) % 7 / 4.0
    ties = np.array([[bool(number >> place & 1) for place in range(4)] for number in range(1, 16)])
    found = np.array(without, float)
    found[-len(ties) :] = ties
    return found


N_TIED_PATTERNS = 15
"""How many rows of the patterns have ties, or a single largest value of 1."""


def set_identity_values(weights: dict[str, Array], shift: float = 8.0) -> None:
    """Makes the network put out the first observations, in place."""
    for name, array in weights.items():
        if name.startswith("critic1."):
            weights[name] = np.zeros_like(array)
    places = np.arange(N_DISCRETE_ACTIONS)
    weights["critic1.0.weight"][places, places] = weights["critic1.1.weight"][places, places] = 1
    weights["critic1.0.bias"][places] = shift
    weights["critic1.out.weight"][places, places] = 1.0
    weights["critic1.out.bias"][:] = -shift


def _build_update_experiment(
    lab: ExperimentCache, name: str, more: int = 8, **changes: Any
) -> ProbeExperiment:
    world = dataclasses.replace(
        experiment_setups.make_discrete_data(lab, BATCH_ROWS + more), rotates_draws=True
    )
    world.rewards[:] = round_to_float32(world.rewards * SMALL_SCALE)
    return _build_experiment(
        lab, name, world, 12, _make_scaled_weights(lab, SMALL_SCALE), **changes
    )


def _build_bandit_experiment(
    lab: ExperimentCache, name: str, steep: float, more: int, **changes: Any
) -> ProbeExperiment:
    world = dataclasses.replace(
        experiment_setups.make_discrete_data(lab, BATCH_ROWS + more), rotates_draws=True
    )
    world.rewards[:] = round_to_float32(np.clip(world.rewards, -1, 1) * 0.9)
    return _build_experiment(
        lab, name, world, 6, _make_scaled_weights(lab, steep), gamma=0.0, **changes
    )


def _make_scaled_weights(lab: ExperimentCache, factor: float) -> dict[str, Array]:
    weights = experiment_setups.make_weights(lab, "dqn")
    for network in ("critic1", "critic1_target"):
        for kind in ("weight", "bias"):
            name = f"{network}.out.{kind}"
            weights[name] = round_to_float32(weights[name] * factor)
    return weights


def _build_count_experiment(
    lab: ExperimentCache, name: str, every: int, interval: int
) -> ProbeExperiment:
    changes = {
        # Not quite none: with none at all some implementations draw no coin.
        "exploration_initial": 1e-3,
        "exploration_final": 1e-3,
        "batch_size": 4,
        "learning_starts": 12,
        "train_freq": every,
        "target_update_interval": interval,
    }
    return _build_first_action_experiment(lab, name, 48, **changes)


def _build_first_action_experiment(
    lab: ExperimentCache, name: str, steps: int, **changes: Any
) -> ProbeExperiment:
    # The greedy choice is the first, a random one is another, and coins are too large for it.
    weights, world = (
        experiment_setups.make_weights(lab, "dqn"),
        experiment_setups.make_discrete_data(lab, steps, exploration_draw=0.999),
    )
    favoured = PREFERRED_VALUE * (np.arange(N_DISCRETE_ACTIONS) == 0)
    weights["critic1.out.bias"] = round_to_float32(weights["critic1.out.bias"] + favoured)
    world.random_actions[:] = (1 + 3 * world.random_actions) / N_DISCRETE_ACTIONS
    return _build_experiment(lab, name, world, 0, weights, **changes)


def _build_experiment(
    lab: ExperimentCache,
    name: str,
    world: ScriptedData,
    snapshots: int,
    weights: dict[str, Array] | None = None,
    **changes: Any,
) -> ProbeExperiment:
    networks = experiment_setups.make_weights(lab, "dqn") if weights is None else weights
    hidden = {"hidden_sizes": experiment_setups.choose_hidden_sizes(lab, "dqn")}
    settings = {"learning_starts": BATCH_ROWS, **BASE_SETTINGS, **hidden, **changes}
    return experiment_setups.build_off_policy_experiment(
        f"dqn {name}", "dqn", world, networks, snapshots, **settings
    )
