"""Trainings that DQN's probes read."""

import dataclasses
from typing import Any

import numpy as np

from harness.probes import setups
from harness.probes.lab import Experiment, Lab, Run
from harness.probes.networks import single
from harness.probes.results import Array
from harness.probes.setups import CHOICES, OBSERVATIONS, ROWS
from harness.probes.world import Dictation

PAPER = "Mnih et al. 2015 (Nature 518)"
ALGORITHM = f"{PAPER}, algorithm 1"
CODE = "the authors' code"
DOUBLE = "van Hasselt et al. 2016 (arXiv:1509.06461), eq. 4"
SMALL = 0.25
"""What values and rewards are multiplied by, so that errors are below 1, where losses may bend."""
STEEP, LOUD = 4.0, 1e3
"""What values are multiplied by so that errors are above 1, and so that gradients are huge."""
FULL = 36
"""Warm-up steps of a training whose buffer holds fewer transitions."""
FAR = 50.0
"""How far the value of the first choice is above the others."""
NORM = 0.05
"""Norm that gradients are clipped at."""

PART = 0.25
"""Share of the way that a target goes which is not copied."""
NEVER, SOON = 1000, 4
"""Environment steps between copies to the target: more than there are, and few."""

INITIAL, FINAL, LENGTH, WARM_UP, ROUND, STEPS = 0.8, 0.2, 30, 10, 5, 60
"""A schedule of exploration: shares of random actions, and environment steps."""
RANDOM: dict[str, Any] = {
    "exploration_initial": 1.0,
    "exploration_final": 1.0,
    "exploration_steps": 1,
}
PLAIN: dict[str, Any] = {
    **RANDOM,
    "learning_rate": 1e-3,
    "double_q": False,
    "max_grad_norm": None,
    "target_update_interval": NEVER,
}
"""Random actions, and the paper's target from a network that stays as it is."""


def update(lab: Lab) -> Run:
    """Some updates with small errors, each on another minibatch."""
    return lab.run(_update(lab, "update"))


def moving(lab: Lab) -> Run:
    """The same with a target that is copied every fourth step."""
    return lab.run(_update(lab, "moving", target_update_interval=SOON))


def by_default(lab: Lab) -> Run:
    """The same with the framework's own way to choose the next action, and its own clipping."""
    experiment = _update(lab, "by default", 3)
    own = ("double_q", "max_grad_norm")
    changes = {name: value for name, value in experiment.changes.items() if name not in own}
    return lab.run(dataclasses.replace(experiment, changes=changes))


def double(lab: Lab) -> Run:
    """The same where the online network chooses the next action."""
    return lab.run(_update(lab, "double", 4, double_q=True))


def learning_copies(lab: Lab) -> Run:
    """The same on several copies of the environment."""
    return lab.run(setups.with_copies(_update(lab, "learning copies", 12), 4))


def full(lab: Lab) -> Run:
    """A buffer that is full before the first update."""
    changes = {"learning_starts": FULL, "buffer_size": FULL - 9}
    return lab.run(_update(lab, "full", FULL + 8 - ROWS, **changes))


def bandit(lab: Lab) -> Run:
    """Some updates without a future, so that the target is the reward, with large errors."""
    return lab.run(_bandit(lab, "bandit", STEEP, 6))


def huber(lab: Lab) -> Run:
    """The same with a loss that is linear from an error of 1 on."""
    return lab.run(_bandit(lab, "huber", STEEP, 3, huber_delta=1.0))


def narrow_huber(lab: Lab) -> Run:
    """The same with a loss that is linear from an error of one half on."""
    return lab.run(_bandit(lab, "narrow huber", STEEP, 3, huber_delta=0.5))


def loud(lab: Lab) -> Run:
    """The same with very steep values, and the framework's own clipping."""
    experiment = _bandit(lab, "loud", LOUD, 3)
    changes = {name: v for name, v in experiment.changes.items() if name != "max_grad_norm"}
    return lab.run(dataclasses.replace(experiment, changes=changes))


def clipped(lab: Lab) -> Run:
    """The same with gradients that are clipped at a small norm."""
    return lab.run(_bandit(lab, "clipped", STEEP, 3, max_grad_norm=NORM))


def rewarded(lab: Lab) -> Run:
    """Updates without a future, with rewards beyond -1 and 1.

    The target, which nothing is learned from, goes a part of the way where the framework can.
    """
    part = {"tau": PART, "target_update_interval": 1}
    moves = part if lab.accepts("dqn", part, ROWS + 3) else {}
    experiment = _bandit(lab, "rewarded", SMALL, 3, **moves)
    experiment.dictation.rewards[:] = single(np.linspace(-3.0, 3.0, ROWS + 3))
    return lab.run(experiment)


def dueling(lab: Lab) -> Run:
    """Some updates of a network with heads for the value and the advantages."""
    experiment = _update(lab, "dueling", 3, dueling=True)
    (first, second), generator = setups.sizes(lab, "dqn"), np.random.default_rng([lab.seed, 3])
    shapes = {"0": (first, OBSERVATIONS)} | {
        name: shape
        for head, size in (("advantage", CHOICES), ("value", 1))
        for name, shape in ((f"{head}0", (second, first)), (head, (size, second)))
    }
    weights = {}
    for network in ("critic1", "critic1_target"):
        for layer, (rows, columns) in shapes.items():
            drawn = generator.normal(size=(rows, columns + 1)) * 1.4 / np.sqrt(columns)
            weights[f"{network}.{layer}.weight"] = single(drawn[:, 1:])
            weights[f"{network}.{layer}.bias"] = single(drawn[:, 0])
    return lab.run(dataclasses.replace(experiment, weights=weights))


def exploring(lab: Lab) -> Run:
    """A schedule of exploration, in rounds of several steps, with episodes that end."""
    changes = {
        "exploration_initial": INITIAL,
        "exploration_final": FINAL,
        "exploration_steps": LENGTH,
        "learning_starts": WARM_UP,
        "env_steps_per_round": ROUND,
        "target_update_interval": 4 * ROUND,
        "batch_size": 4,
    }
    return lab.run(_first_preferred(lab, "exploring", STEPS, **changes))


def acting(lab: Lab) -> Run:
    """One round of greedy actions from values that the observations are."""
    weights = setups.weights(lab, "dqn")
    passing(weights)
    world = setups.choosing(lab, ROWS, ends=False, coin=0.999)
    world.observations[:ROWS, :CHOICES] = patterns()
    greedy = {"exploration_initial": 0.0, "exploration_final": 0.0, "batch_size": 2}
    one_round = {"env_steps_per_round": ROWS, "gradient_steps_per_round": 1}
    settings = greedy | one_round | {"learning_rate": setups.NO_LEARNING}
    settings |= {"target_update_interval": ROWS, "learning_starts": 0}
    return lab.run(_experiment(lab, "acting", world, 0, weights, **settings))


def counting(lab: Lab) -> Run:
    """A longer run in rounds of three steps, with hardly any random actions after the warm-up."""
    return lab.run(_counting(lab, "counts", 3, 9))


def copies(lab: Lab) -> Run:
    """Four copies of the environment and an update per transition."""
    return lab.run(setups.with_copies(_counting(lab, "copies", 4, 8), 4))


def own(lab: Lab, number: int = 0) -> Run:
    """A short training with the framework's own settings and networks."""
    return lab.run(setups.own(lab, "dqn", number))


def patterns() -> Array:
    """Values of all choices, float[ROWS, CHOICES]: first without ties, then with them."""
    turns = np.arange(ROWS)[:, None] + np.arange(CHOICES)
    without = (turns * 5) % 7 / 4.0
    ties = np.array([[bool(number >> place & 1) for place in range(4)] for number in range(1, 16)])
    found = np.array(without, float)
    found[-len(ties) :] = ties
    return found


TIED = 15
"""How many rows of the patterns have ties, or a single largest value of 1."""


def passing(weights: dict[str, Array], shift: float = 8.0) -> None:
    """Makes the network put out the first observations, in place."""
    for name, array in weights.items():
        if name.startswith("critic1."):
            weights[name] = np.zeros_like(array)
    places = np.arange(CHOICES)
    weights["critic1.0.weight"][places, places] = weights["critic1.1.weight"][places, places] = 1
    weights["critic1.0.bias"][places] = shift
    weights["critic1.out.weight"][places, places] = 1.0
    weights["critic1.out.bias"][:] = -shift


def _update(lab: Lab, name: str, more: int = 8, **changes: Any) -> Experiment:
    world = dataclasses.replace(setups.choosing(lab, ROWS + more), turning=True)
    world.rewards[:] = single(world.rewards * SMALL)
    return _experiment(lab, name, world, 12, _scaled(lab, SMALL), **changes)


def _bandit(lab: Lab, name: str, steep: float, more: int, **changes: Any) -> Experiment:
    world = dataclasses.replace(setups.choosing(lab, ROWS + more), turning=True)
    world.rewards[:] = single(np.clip(world.rewards, -1, 1) * 0.9)
    return _experiment(lab, name, world, 6, _scaled(lab, steep), gamma=0.0, **changes)


def _scaled(lab: Lab, factor: float) -> dict[str, Array]:
    weights = setups.weights(lab, "dqn")
    for network in ("critic1", "critic1_target"):
        for kind in ("weight", "bias"):
            name = f"{network}.out.{kind}"
            weights[name] = single(weights[name] * factor)
    return weights


def _counting(lab: Lab, name: str, every: int, interval: int) -> Experiment:
    changes = {
        # Not quite none: with none at all some implementations draw no coin.
        "exploration_initial": 1e-3,
        "exploration_final": 1e-3,
        "batch_size": 4,
        "learning_starts": 12,
        "env_steps_per_round": every,
        "target_update_interval": interval,
    }
    return _first_preferred(lab, name, 48, **changes)


def _first_preferred(lab: Lab, name: str, steps: int, **changes: Any) -> Experiment:
    # The greedy choice is the first, a random one is another, and coins are too large for it.
    weights, world = setups.weights(lab, "dqn"), setups.choosing(lab, steps, coin=0.999)
    favoured = FAR * (np.arange(CHOICES) == 0)
    weights["critic1.out.bias"] = single(weights["critic1.out.bias"] + favoured)
    world.random_actions[:] = (1 + 3 * world.random_actions) / CHOICES
    return _experiment(lab, name, world, 0, weights, **changes)


def _experiment(
    lab: Lab,
    name: str,
    world: Dictation,
    snapshots: int,
    weights: dict[str, Array] | None = None,
    **changes: Any,
) -> Experiment:
    networks = setups.weights(lab, "dqn") if weights is None else weights
    hidden = {"hidden_sizes": setups.sizes(lab, "dqn")}
    settings = {"learning_starts": ROWS, **PLAIN, **hidden, **changes}
    return setups.off_policy(f"dqn {name}", "dqn", world, networks, snapshots, **settings)
