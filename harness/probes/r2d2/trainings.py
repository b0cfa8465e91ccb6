"""Trainings that R2D2's probes read.

The learner, its target and the actor begin with weights of their own, and the actor keeps its, so
that it shows whose weights a state was made with.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.probes import setups
from harness.probes.lab import Experiment, Lab, Run
from harness.probes.networks import single
from harness.probes.results import Array
from harness.probes.setups import CHOICES, OBSERVATIONS
from harness.probes.world import TERMINATED, TRUNCATED

PAPER = "Kapturowski et al. 2019 (ICLR)"
LENGTH, BURN_IN, BATCH = 5, 3, 4
BEFORE, MEMORY, HEAD = 24, 20, 96
"""Units before the memory, of it, and of a head: more than a minibatch has steps."""
STEEP = 4.0
"""What weights behind the memory are multiplied by, so that its steps are told apart."""
WARM_UP, MORE = 60, 6
EPISODES = (11, 5, 7, 12, 3, 9)
"""Lengths of episodes, in turn, of which every other one ends by a time limit."""
NEVER = 10**6
"""Environment steps until something that does not happen here."""
COARSE, FINE = 1e-2, 1e-3
"""Epsilons of the rescaling."""
DISCOUNT, SUMMED = 0.9, 3
LOUD = 40.0
"""Rewards are as large as that where they are rescaled."""
NORM = 0.05
"""Norm that gradients are clipped at."""
SHARE, EXPONENT, BETA = 0.9, 0.9, 0.6
"""The paper's eta and exponents, of priorities and of importance weights."""
ACTORS, BASE, SPREAD = 4, 0.4, 7.0
"""Actors and their shares of random actions (Horgan et al. 2018)."""
ROUND, UPDATES, REFRESH, COPIES, OVERLAP = 4, 2, 6, 16, 2
"""Environment steps and updates of a round, and steps between other events."""

PLAIN: dict[str, Any] = {
    "learning_rate": 1e-3,
    "batch_size": BATCH,
    "buffer_size": 1000,
    "learning_starts": WARM_UP,
    "gamma": 0.0,
    "env_steps_per_round": 1,
    "gradient_steps_per_round": 1,
    "target_update_interval": NEVER,
    "n_step": 1,
    "value_rescaling": None,
    "sequence_length": LENGTH,
    "overlap": 0,
    "burn_in": BURN_IN,
    "stored_state": True,
    "last_step_inputs": True,
    "priority_exponent": 0.0,
    "importance_exponent": 0.0,
    "max_error_share": SHARE,
    "epsilon_base": 1.0,
    "epsilon_exponent": 0.0,
    "actor_refresh": NEVER,
    "double_q": False,
    "dueling": False,
    "max_grad_norm": None,
    "adam_eps": 1e-3,
    "hidden_sizes": (BEFORE,),
    "lstm_size": MEMORY,
    "head_sizes": (HEAD,),
}
"""Random actions, uniform draws, and the reward as the target."""


def bandit(lab: Lab) -> Run:
    """Some updates without a future, in which the target is the reward."""
    return lab.run(_experiment(lab, "bandit"))


def rewarded(lab: Lab) -> Run:
    """The same with large rewards and rescaled values."""
    experiment = _experiment(lab, "rewarded", value_rescaling=COARSE)
    rewards = experiment.dictation.rewards
    rewards[:] = single(np.random.default_rng([lab.seed, 5]).permutation(_spread(len(rewards))))
    return lab.run(experiment)


def future(lab: Lab) -> Run:
    """Some updates without rewards, in which the target is what the next state is worth."""
    experiment = _experiment(lab, "future", LOUD, gamma=DISCOUNT, value_rescaling=COARSE)
    experiment.dictation.rewards[:] = 0.0
    return lab.run(experiment)


def several(lab: Lab) -> Run:
    """Some updates with targets of several rewards and a bootstrap."""
    return lab.run(_several(lab, "several"))


def double(lab: Lab) -> Run:
    """The same where the network chooses the action that its target values."""
    return lab.run(_several(lab, "double", double_q=True))


def prioritised(lab: Lab) -> Run:
    """The same with priorities and importance weights."""
    priorities = {"priority_exponent": EXPONENT, "importance_exponent": BETA}
    return lab.run(_several(lab, "prioritised", **priorities))


def from_stored_states(lab: Lab) -> Run:
    """Updates of one step of one sequence each, which leave the weights as they are."""
    return lab.run(_single_steps(lab, "from stored states"))


def from_zeros(lab: Lab) -> Run:
    """The same where burn-ins begin with zeros."""
    return lab.run(_single_steps(lab, "from zeros", stored_state=False))


def without_burn_in(lab: Lab) -> Run:
    """The same without a burn-in."""
    return lab.run(_single_steps(lab, "without burn-in", burn_in=0))


def clipped(lab: Lab) -> Run:
    """Some updates with gradients that are clipped at a small norm."""
    return lab.run(_experiment(lab, "clipped", max_grad_norm=NORM))


def dueling(lab: Lab) -> Run:
    """Some updates of a network with heads for the value and the advantages."""
    return lab.run(_experiment(lab, "dueling", dueling=True))


def counting(lab: Lab) -> Run:
    """A longer run in rounds, with overlapping sequences, and copies of both kinds."""
    changes = {
        "learning_starts": 12,
        "env_steps_per_round": ROUND,
        "gradient_steps_per_round": UPDATES,
        "target_update_interval": COPIES,
        "actor_refresh": REFRESH,
        "overlap": OVERLAP,
    }
    experiment = _experiment(lab, "counting", steps=WARM_UP, **changes)
    return lab.run(dataclasses.replace(experiment, snapshots=2 * WARM_UP))


def actors(lab: Lab) -> Run:
    """Some steps of several actors, each with its own share of random actions."""
    shares = {"epsilon_base": BASE, "epsilon_exponent": SPREAD, "learning_starts": WARM_UP}
    experiment = _experiment(lab, "actors", steps=10 * ACTORS, **shares)
    return lab.run(setups.with_copies(experiment, ACTORS))


def _several(lab: Lab, name: str, **changes: Any) -> Experiment:
    ahead = {"gamma": DISCOUNT, "n_step": SUMMED, "value_rescaling": FINE}
    return _experiment(lab, name, STEEP, **ahead | changes)


def _single_steps(lab: Lab, name: str, **changes: Any) -> Experiment:
    one = {"batch_size": 1, "sequence_length": 1, "learning_rate": setups.NO_LEARNING}
    experiment = _experiment(lab, name, steps=WARM_UP + 24, **one | changes)
    return dataclasses.replace(experiment, snapshots=25)


def _experiment(
    lab: Lab, name: str, loud: float = 1.0, steps: int = WARM_UP + MORE, **changes: Any
) -> Experiment:
    settings = PLAIN | changes
    world = dataclasses.replace(setups.choosing(lab, steps), ends=_ends(steps))
    weights = _weights(lab, settings["dueling"], loud)
    return Experiment(f"r2d2 {name}", "r2d2", world, settings, weights, snapshots=MORE + 1)


def _spread(count: int) -> Array:
    return np.linspace(-LOUD, LOUD, count)


def _ends(steps: int) -> NDArray[np.int64]:
    ends, at = np.zeros(steps, dtype=int), -1
    for number in range(steps):
        at += EPISODES[number % len(EPISODES)]
        if at >= steps:
            break
        ends[at] = TRUNCATED if number % 2 else TERMINATED
    return ends


def _weights(lab: Lab, dueling: bool, loud: float) -> dict[str, Array]:
    """Random weights of the learner, its target and the actor.

    Args:
        lab: Has the seed.
        dueling: Whether the network has two heads.
        loud: What outputs are multiplied by.
    """
    generator, found = np.random.default_rng([lab.seed, 4]), dict[str, Array]()
    shapes = {
        "0": (BEFORE, OBSERVATIONS),
        "lstm_input": (4 * MEMORY, BEFORE + CHOICES + 1),
        "lstm_state": (4 * MEMORY, MEMORY),
    }
    heads = {"value": 1, "advantage": CHOICES} if dueling else {"out": CHOICES}
    for head, size in heads.items():
        shapes |= {(f"{head}0" if dueling else "1"): (HEAD, MEMORY), head: (size, HEAD)}
    for network in ("critic1", "critic1_target", "actor"):
        for layer, (rows, columns) in shapes.items():
            scale = STEEP if columns == MEMORY and rows == HEAD else 1.0
            scale *= loud if columns == HEAD else 1.0
            drawn = generator.normal(size=(rows, columns + 1)) / np.sqrt(columns)
            found[f"{network}.{layer}.weight"] = single(scale * drawn[:, 1:])
            found[f"{network}.{layer}.bias"] = single(drawn[:, 0])
    return found
