"""What muPRL's paper prints of its mutation analysis (Thomas et al., ICSE 2025, Table III)."""

import dataclasses
import math
from collections.abc import Mapping

VALUES = 5
"""Values that the paper draws of each operator."""
RUNS = 10
"""Originals, and mutants of each value."""


@dataclasses.dataclass(frozen=True)
class Cell:
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
class Column:
    """A task with an algorithm.

    Attributes:
        steps: Environment steps of the originals, by the reference's `hyperparams/`.
        operators: Cells by operator.
        sensitivity: The mean that is printed.
    """

    steps: int
    operators: Mapping[str, Cell]
    sensitivity: float


PUBLISHED: Mapping[tuple[str, str], Column] = {
    ("CartPole", "dqn"): Column(
        50_000,
        {
            "smr": Cell(0.20, 0.60, 0.90, 0.90, 0.00),
            "sdf": Cell(0.00, 0.80, 0.40, 0.44, 0.09),
            "sls": Cell(0.40, 0.60, 0.50, 0.75, 0.33),
            "nei": Cell(0.00, 0.80, 0.60, 0.67, 0.10),
            "snu": Cell(0.20, 0.80, 0.90, 0.80, 0.00),
        },
        0.11,
    ),
    ("CartPole", "ppo"): Column(
        100_000,
        {
            "sec": Cell(0.00, 0.00),
            "sdf": Cell(0.00, 0.20, 0.40, 0.50, 0.20),
            "snr": Cell(0.00, 0.00),
            "nei": Cell(0.00, 0.20, 0.50, 0.60, 0.17),
        },
        0.18,
    ),
    ("LunarLander", "ppo"): Column(
        1_000_000,
        {
            "sec": Cell(0.00, 1.00, 0.10, 0.78, 0.87),
            "sdf": Cell(0.25, 1.00, 0.10, 0.67, 0.85),
            "snr": Cell(0.00, 0.75, 0.10, 0.75, 0.87),
            "nei": Cell(0.00, 0.67, 0.00, 0.70, 1.00),
        },
        0.90,
    ),
    ("LunarLander", "dqn"): Column(
        100_000,
        {
            "smr": Cell(0.00, 0.80, 0.14, 1.00, 0.86),
            "sdf": Cell(0.20, 1.00, 0.67, 0.70, 0.04),
            "sls": Cell(0.00, 0.80, 0.17, 0.60, 0.72),
            "nei": Cell(0.20, 0.60, 0.00, 0.67, 1.00),
            "snu": Cell(0.00, 1.00, 0.56, 0.88, 0.36),
        },
        0.60,
    ),
    ("parking", "sac"): Column(
        100_000,
        {
            "sdf": Cell(0.20, 1.00, 0.80, 1.00, 0.20),
            "sls": Cell(0.00, 0.80, 0.00, 1.00, 1.00),
            "nei": Cell(0.20, 1.00, 0.00, 0.80, 1.00),
            "spv": Cell(0.00, 0.80, 0.00, 1.00, 1.00),
        },
        0.80,
    ),
    ("parking", "tqc"): Column(
        100_000,
        {
            "sdf": Cell(0.00, 0.80, 0.10, 0.60, 0.83),
            "sls": Cell(0.00, 0.60, 0.00, 0.30, 1.00),
            "nei": Cell(0.00, 0.80, 0.00, 0.30, 1.00),
            "spv": Cell(0.00, 0.40, 0.00, 0.90, 1.00),
        },
        0.96,
    ),
    ("Humanoid", "sac"): Column(
        700_000,
        {
            "sdf": Cell(0.75, 0.75),
            "sls": Cell(0.00, 1.00, 0.00, 0.22, 1.00),
            "nei": Cell(0.20, 1.00, 0.00, 0.20, 1.00),
            "spv": Cell(0.00, 0.50, 0.00, 0.10, 1.00),
        },
        1.00,
    ),
    ("Humanoid", "tqc"): Column(
        2_000_000,
        {
            "sdf": Cell(0.60, 0.80, 0.10, 0.20, 0.50),
            "sls": Cell(0.00, 0.00),
            "nei": Cell(0.00, 0.40, 0.00, 0.00),
            "spv": Cell(0.00, 0.00),
        },
        0.50,
    ),
}
"""By task, without its version, and algorithm."""


def published(env: str, algorithm: str) -> Column | None:
    """What the paper has of a task, whatever its version, with an algorithm; None for nothing."""
    return PUBLISHED.get((env.partition("-v")[0], algorithm))
