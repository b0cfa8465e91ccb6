"""What Imp-PER's tables print (Zhang et al., Applied Sciences 10 (2020) 6925).

Their digits run together in the text that is public; they are separated so that every normalised
score of table 6 and every relative gain of table 8 follows from the scores beside it.
"""

import dataclasses
import math
from collections.abc import Mapping

IMP_SOURCE = "Zhang et al. 2020"

IMP_MAPE: Mapping[str, tuple[float, float, float]] = {"atdc": (76, 54, 48), "imp": (6, 3, 0.7)}
"""Table 3: percent on Atari's Pong, DDQN, in each third of 6e7 steps."""

IMP_SECONDS: Mapping[str, tuple[float, float, float, float]] = {
    "per": (0.014, 0.005, 0.0028, 0.006),
    "atdc": (0.150, 0.075, 0.0028, 0.006),
    "imp": (0.015, 0.005, 0.0029, 0.007),
}
"""Table 4: seconds of an iteration on Atari, DDQN: all, sampling, priority update, learning."""

ATARI_RANDOM_HUMAN: Mapping[str, tuple[float, float]] = {
    "BankHeist": (21.7, 644.5),
    "Bowling": (35.2, 146.5),
    "Boxing": (-1.5, 9.6),
    "Breakout": (1.7, 31.8),
    "FishingDerby": (-77.1, 5.1),
    "Freeway": (0.1, 25.6),
    "Pong": (-20.7, 9.3),
    "RoadRunner": (11.5, 7845),
    "Robotank": (2.2, 11.9),
    "Tutankham": (12.7, 138.3),
}
"""Table 6: scores of random play and of a human."""

IMP_ATARI_SCORES: Mapping[str, tuple[float, float, float]] = {
    "BankHeist": (728.3, 870.6, 951.6),
    "Bowling": (50.4, 53.5, 60.5),
    "Boxing": (81.7, 90.6, 90.3),
    "Breakout": (450, 420.5, 451.3),
    "FishingDerby": (3.2, 3.1, 3.4),
    "Freeway": (28.8, 32, 32.2),
    "Pong": (21, 20.7, 21),
    "RoadRunner": (48330.5, 50113, 54370.6),
    "Robotank": (47.8, 53.7, 52.1),
    "Tutankham": (125.7, 207, 190),
}
"""Table 6: final scores of DDQN with uniform replay, Org-PER and Imp-PER."""

IMP_STRATEGIES = ("uniform", "per", "imp")
"""What the three columns of tables 6 and 8 are called here."""

IMP_PRINTED_MEDIANS = (113.4, 138.0, 141.1)
"""Table 7, in percent; the lower of the two middle values of ten each, which is no median."""

IMP_MUJOCO_ALGORITHM = "ddpg"
IMP_MUJOCO_SCORES: Mapping[str, tuple[float, float, float, float]] = {
    "Walker2d": (-4.34, 500, 800, 1360),
    "Hopper": (11, 650, 800, 950),
    "InvertedPendulum": (7.76, 120, 105, 275),
    "InvertedDoublePendulum": (54.1, 1300, 275, 312),
    "Reacher": (-90, -9, -10, -10),
    "Humanoid": (102.0, 1284, 195, 271),
}
"""Table 8, v1 tasks, DDPG: random play, uniform replay, Org-PER, Imp-PER."""


def game_from_env(env: str) -> str:
    """The paper's name of a task: `Pong` of `ALE/Pong-v5`, `Hopper` of `Hopper-v4`."""
    return env.rpartition("/")[2].partition("-v")[0].removesuffix("NoFrameskip")


def is_atari(env: str) -> bool:
    """Whether a task is one of Atari's games, and not of MinAtar's, which share their names."""
    return env.startswith("ALE/") or "NoFrameskip" in env


MUPRL_VALUES = 5
"""Values that the paper draws of each operator."""
MUPRL_RUNS = 10
"""Originals, and mutants of each value."""


@dataclasses.dataclass(frozen=True)
class MuprlOperatorScores:
    """An operator's row in one of the table's columns; not a number where it prints none.

    Attributes:
        trivial: Share of the operator's configurations that are trivial.
        killable: Share that can be killed.
        weak: Mutation score of the weak test generator.
        strong: That of the strong one.
        sensitivity: How much the strong one gains.
    """

    trivial: float
    killable: float
    weak: float = math.nan
    strong: float = math.nan
    sensitivity: float = math.nan


@dataclasses.dataclass(frozen=True)
class MuprlTaskResults:
    """A task with an algorithm.

    Attributes:
        steps: Environment steps of the originals, by the reference's `hyperparams/`.
        operators: Cells by operator.
        sensitivity: The mean that is printed.
    """

    steps: int
    operators: Mapping[str, MuprlOperatorScores]
    sensitivity: float


MUPRL_RESULTS: Mapping[tuple[str, str], MuprlTaskResults] = {
    ("CartPole", "dqn"): MuprlTaskResults(
        50_000,
        {
            "smr": MuprlOperatorScores(0.20, 0.60, 0.90, 0.90, 0.00),
            "sdf": MuprlOperatorScores(0.00, 0.80, 0.40, 0.44, 0.09),
            "sls": MuprlOperatorScores(0.40, 0.60, 0.50, 0.75, 0.33),
            "nei": MuprlOperatorScores(0.00, 0.80, 0.60, 0.67, 0.10),
            "snu": MuprlOperatorScores(0.20, 0.80, 0.90, 0.80, 0.00),
        },
        0.11,
    ),
    ("CartPole", "ppo"): MuprlTaskResults(
        100_000,
        {
            "sec": MuprlOperatorScores(0.00, 0.00),
            "sdf": MuprlOperatorScores(0.00, 0.20, 0.40, 0.50, 0.20),
            "snr": MuprlOperatorScores(0.00, 0.00),
            "nei": MuprlOperatorScores(0.00, 0.20, 0.50, 0.60, 0.17),
        },
        0.18,
    ),
    ("LunarLander", "ppo"): MuprlTaskResults(
        1_000_000,
        {
            "sec": MuprlOperatorScores(0.00, 1.00, 0.10, 0.78, 0.87),
            "sdf": MuprlOperatorScores(0.25, 1.00, 0.10, 0.67, 0.85),
            "snr": MuprlOperatorScores(0.00, 0.75, 0.10, 0.75, 0.87),
            "nei": MuprlOperatorScores(0.00, 0.67, 0.00, 0.70, 1.00),
        },
        0.90,
    ),
    ("LunarLander", "dqn"): MuprlTaskResults(
        100_000,
        {
            "smr": MuprlOperatorScores(0.00, 0.80, 0.14, 1.00, 0.86),
            "sdf": MuprlOperatorScores(0.20, 1.00, 0.67, 0.70, 0.04),
            "sls": MuprlOperatorScores(0.00, 0.80, 0.17, 0.60, 0.72),
            "nei": MuprlOperatorScores(0.20, 0.60, 0.00, 0.67, 1.00),
            "snu": MuprlOperatorScores(0.00, 1.00, 0.56, 0.88, 0.36),
        },
        0.60,
    ),
    ("parking", "sac"): MuprlTaskResults(
        100_000,
        {
            "sdf": MuprlOperatorScores(0.20, 1.00, 0.80, 1.00, 0.20),
            "sls": MuprlOperatorScores(0.00, 0.80, 0.00, 1.00, 1.00),
            "nei": MuprlOperatorScores(0.20, 1.00, 0.00, 0.80, 1.00),
            "spv": MuprlOperatorScores(0.00, 0.80, 0.00, 1.00, 1.00),
        },
        0.80,
    ),
    ("parking", "tqc"): MuprlTaskResults(
        100_000,
        {
            "sdf": MuprlOperatorScores(0.00, 0.80, 0.10, 0.60, 0.83),
            "sls": MuprlOperatorScores(0.00, 0.60, 0.00, 0.30, 1.00),
            "nei": MuprlOperatorScores(0.00, 0.80, 0.00, 0.30, 1.00),
            "spv": MuprlOperatorScores(0.00, 0.40, 0.00, 0.90, 1.00),
        },
        0.96,
    ),
    ("Humanoid", "sac"): MuprlTaskResults(
        700_000,
        {
            "sdf": MuprlOperatorScores(0.75, 0.75),
            "sls": MuprlOperatorScores(0.00, 1.00, 0.00, 0.22, 1.00),
            "nei": MuprlOperatorScores(0.20, 1.00, 0.00, 0.20, 1.00),
            "spv": MuprlOperatorScores(0.00, 0.50, 0.00, 0.10, 1.00),
        },
        1.00,
    ),
    ("Humanoid", "tqc"): MuprlTaskResults(
        2_000_000,
        {
            "sdf": MuprlOperatorScores(0.60, 0.80, 0.10, 0.20, 0.50),
            "sls": MuprlOperatorScores(0.00, 0.00),
            "nei": MuprlOperatorScores(0.00, 0.40, 0.00, 0.00),
            "spv": MuprlOperatorScores(0.00, 0.00),
        },
        0.50,
    ),
}
"""By task, without its version, and algorithm."""


def find_muprl_results(env: str, algorithm: str) -> MuprlTaskResults | None:
    """What the paper has of a task, whatever its version, with an algorithm; None for nothing."""
    return MUPRL_RESULTS.get((env.partition("-v")[0], algorithm))
