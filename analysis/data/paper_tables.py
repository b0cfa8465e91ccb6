"""Tables of papers on prioritized replay and on mutation testing, read from `published/*/*.csv`.

Imp-PER: Zhang et al., "Self-Adaptive Priority Correction for Prioritized Experience Replay",
Applied Sciences 10 (2020) 6925. The digits of its tables run together in the public text; they
were separated so that every normalized score of table 6 and every relative gain of table 8 follows
from the scores beside it.

muPRL: Thomas et al., "muPRL: a mutation testing pipeline for deep reinforcement learning based on
real faults", table III.
"""

import dataclasses
import math
from collections.abc import Mapping

from parallax.analysis.data.published import read_csv_rows

IMP_SOURCE = "Zhang et al. 2020"
IMP_MUJOCO_ALGORITHM = "ddpg"
IMP_STRATEGIES = ("uniform", "per", "imp")
"""Our names of uniform replay, Org-PER and Imp-PER, the columns of tables 6 to 8."""

MUPRL_VALUES = 5
"""Values that the paper draws of each operator."""
MUPRL_RUNS = 10
"""Number of originals, and of mutants per value."""

NumberRow = tuple[float, ...]


def _read_columns(table: str, key: str, columns: tuple[str, ...]) -> dict[str, NumberRow]:
    return {row[key]: tuple(float(row[name]) for name in columns) for row in read_csv_rows(table)}


IMP_MAPE: Mapping[str, NumberRow] = _read_columns(
    "imp_per/mape", "strategy", ("first_third", "second_third", "last_third")
)
"""Table 3: error of predicted priorities in percent, on Atari's Pong with DDQN, 6e7 steps."""

IMP_SECONDS: Mapping[str, NumberRow] = _read_columns(
    "imp_per/seconds", "strategy", ("total", "sampling", "priorities", "learning")
)
"""Table 4: seconds of an iteration on Atari with DDQN: total and its parts."""

ATARI_RANDOM_HUMAN: Mapping[str, tuple[float, float]] = {
    game: (row[0], row[1])
    for game, row in _read_columns("imp_per/atari", "game", ("random", "human")).items()
}
"""Table 6: scores of random play and of a human."""

IMP_ATARI_SCORES: Mapping[str, NumberRow] = _read_columns("imp_per/atari", "game", IMP_STRATEGIES)
"""Table 6: final scores of DDQN by strategy."""

IMP_PRINTED_MEDIANS: NumberRow = tuple(
    float(row[name]) for row in read_csv_rows("imp_per/medians") for name in IMP_STRATEGIES
)
"""Table 7, in percent. The paper takes the fifth of ten values, which is not their median."""

IMP_MUJOCO_SCORES: Mapping[str, NumberRow] = _read_columns(
    "imp_per/mujoco", "task", ("random", *IMP_STRATEGIES)
)
"""Table 8: scores of random play and of DDPG by strategy, on v1 tasks."""


def game_from_env(env: str) -> str:
    """Return the paper's name of a task: `Pong` for `ALE/Pong-v5`, `Hopper` for `Hopper-v4`."""
    if "," in env:  # a task with changed parameters
        return env
    return env.rpartition("/")[2].partition("-v")[0].removesuffix("NoFrameskip")


def is_atari(env: str) -> bool:
    """Return whether a task is an Atari game; those of MinAtar share the names but are not."""
    return env.startswith("ALE/") or "NoFrameskip" in env


@dataclasses.dataclass(frozen=True)
class MuprlOperatorScores:
    """One operator of a task and algorithm in muPRL's table III; NaN where it prints nothing.

    Attributes:
        trivial: Share of the operator's configurations that are trivial.
        killable: Share that can be killed.
        weak: Mutation score of the weak test generator.
        strong: Mutation score of the strong test generator.
        sensitivity: Relative gain of the strong over the weak one (equation 2).
    """

    trivial: float
    killable: float
    weak: float = math.nan
    strong: float = math.nan
    sensitivity: float = math.nan


@dataclasses.dataclass(frozen=True)
class MuprlTaskResults:
    """One task and algorithm in muPRL's table III.

    Attributes:
        steps: Environment steps of the originals, from `hyperparams/` of the published code.
        sensitivity: The printed mean over operators.
    """

    steps: int
    operators: Mapping[str, MuprlOperatorScores]
    sensitivity: float


def _read_muprl_results() -> dict[tuple[str, str], MuprlTaskResults]:
    fields = [field.name for field in dataclasses.fields(MuprlOperatorScores)]
    operators: dict[tuple[str, str], dict[str, MuprlOperatorScores]] = {}
    for row in read_csv_rows("muprl/operators"):
        scores = MuprlOperatorScores(*(float(row[name] or "nan") for name in fields))
        operators.setdefault((row["env"], row["algorithm"]), {})[row["operator"]] = scores
    results = {}
    for row in read_csv_rows("muprl/tasks"):
        key = row["env"], row["algorithm"]
        results[key] = MuprlTaskResults(
            int(row["steps"]), operators[key], float(row["sensitivity"])
        )
    return results


MUPRL_RESULTS: Mapping[tuple[str, str], MuprlTaskResults] = _read_muprl_results()
"""muPRL's table III by task, without its version, and algorithm."""


def find_muprl_results(env: str, algorithm: str) -> MuprlTaskResults | None:
    """Return the results of a task, of any version, and an algorithm; None if there are none."""
    return MUPRL_RESULTS.get((env.partition("-v")[0], algorithm))
