"""The faults of RLExplorer's Table II and of its user study, as faulty and healthy programs.

The programs are our own; a post's number tells whose fault it is. CartPole-v0 is CartPole-v1 with
episodes of 200 steps at most.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from faulty_programs import dqn, reinforce


@dataclasses.dataclass(frozen=True)
class Program:
    """One fault.

    Attributes:
        post: The number in Table II, or that of the user study.
        words: What is wrong, as the accepted answer says.
        check: That names it.
        fault: The program's name for it.
        train: Trains the program; without a fault it is the healthy one.
    """

    post: str
    words: str
    check: str
    fault: str
    train: Callable[..., Any]


CARTPOLE = functools.partial(dqn.train, steps=3000)
CARTPOLE_V0 = functools.partial(dqn.train, steps=3000, task=dqn.CARTPOLE_V0)
MOUNTAIN_CAR = functools.partial(dqn.train, steps=3000, task=dqn.MOUNTAIN_CAR)
BREAKOUT = functools.partial(dqn.train, steps=3000, task=dqn.BREAKOUT)
REINFORCE = functools.partial(reinforce.train, steps=3000)
HEALTHY_PROGRAMS = {
    "DQN, CartPole-v1": CARTPOLE,
    "DQN, CartPole-v0": CARTPOLE_V0,
    "DQN, MountainCar-v0": MOUNTAIN_CAR,
    "DQN, MinAtar/Breakout-v1": BREAKOUT,
    "REINFORCE, CartPole-v0": REINFORCE,
}

_TABLE = (
    ("57106676", "targets updated seldom", "target_updated_by_episodes", CARTPOLE_V0),
    ("56964657", "targets updated seldom", "target_seldom_updated", CARTPOLE_V0),
    ("47750291", "no exploration", "no_exploration", CARTPOLE_V0),
    ("54385568", "wrong update of the exploration factor", "exploration_rises", CARTPOLE_V0),
    ("74214034", "wrong discounted reward", "returns_backwards", REINFORCE),
    ("45886398", "too little exploration", "exploration_low", MOUNTAIN_CAR),
    ("47643678", "ends missing in targets", "ends_ignored", CARTPOLE_V0),
    ("64690471", "ends not put into the replay buffer", "ends_not_stored", CARTPOLE_V0),
    ("67789148", "a discount factor of 1", "no_discount", CARTPOLE),
    ("56816743", "no replay buffer", "no_replay", CARTPOLE),
    ("49035549 1", "exploration falls very quickly", "exploration_falls_fast", BREAKOUT),
    ("49035549 2", "no ReLU between convolutions", "no_nonlinearity", BREAKOUT),
    ("study A1", "all weights begin alike", "weights", CARTPOLE),
    ("study A2", "biases begin at 5", "biases", CARTPOLE),
    ("study A3", "the target network acts", "target_acts", CARTPOLE),
    ("study A4", "the target is never updated", "target_never_updated", CARTPOLE),
    ("study A5", "exploration falls very quickly", "exploration_falls_fast", CARTPOLE),
)
PROGRAMS = tuple(
    Program(post, words, (dqn.FAULTS | reinforce.FAULTS)[fault], fault, train)
    for post, words, fault, train in _TABLE
)
TABLE_II, STUDY = PROGRAMS[:12], PROGRAMS[12:]
"""Those of the posts, and those of the user study."""
