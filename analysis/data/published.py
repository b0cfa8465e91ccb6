"""Published numbers: one CSV file per source, one row per number, each with where it stands."""

import csv
import dataclasses
import functools
import math
from pathlib import Path

FOLDER = Path(__file__).parent / "published"
SPREAD_KINDS = ("", "sd", "population sd", "thesis interval")

# Order in which sources stand for "the published score" of an algorithm on a task.
_TARGETS_TABLE, _THESIS_TABLE = "thesis_targets", "thesis_tables"
_REFERENCE_TABLES = ("thesis_targets", "td3_paper", "tianshou")


@dataclasses.dataclass(frozen=True)
class PublishedScore:
    """One published number.

    Attributes:
        table: Name of the CSV file without its ending.
        algorithm: ppo, td3 or sac.
        env: Task without its version, such as Hopper.
        version: Version of the task, such as v1; empty where not told.
        hps: Hyperparameters; empty where they are none of ours.
        framework: Whose code it was.
        statistic: What was averaged, such as `last evaluation` or `max over time`.
        steps: Environment steps after which it was measured.
        mean: In units of return.
        spread: In units of return; NaN where not told.
        spread_kind: `sd`, `population sd`, `thesis interval` (1.96 population sd / sqrt n),
            or empty.
        trials: Runs behind the mean; 0 where not told.
        source: Where it stands.
        note: What else must be known.
    """

    table: str
    algorithm: str
    env: str
    version: str
    hps: str
    framework: str
    statistic: str
    steps: int
    mean: float
    spread: float
    spread_kind: str
    trials: int
    source: str
    note: str


@functools.cache
def read_table(name: str) -> tuple[PublishedScore, ...]:
    """The rows of one table.

    Args:
        name: One of `list_tables()`.

    Raises:
        ValueError: A row cannot be read; the message names file, line and field.
    """
    path = FOLDER / f"{name}.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return tuple(_parse_row(name, i, row) for i, row in enumerate(csv.DictReader(file), 2))


def list_tables() -> list[str]:
    """Every table there is, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.csv"))


def split_version(env: str) -> tuple[str, str]:
    """Task and version of an environment: Hopper-v4 is Hopper and v4."""
    task, _, version = env.rpartition("-")
    return (task, version) if task and version.startswith("v") else (env, "")


@functools.cache
def get_reference_score(algorithm: str, env: str) -> tuple[float, str] | None:
    """The published score that margins are a share of, and its source.

    The original paper's score of the algorithm where there is one, otherwise the score in a
    later paper or benchmark.
    """
    task, _ = split_version(env)
    for name in _REFERENCE_TABLES:
        for row in read_table(name):
            if (row.algorithm, row.env) == (algorithm, task):
                return row.mean, row.source
    return None


@functools.cache
def get_random_score(env: str) -> tuple[float, str] | None:
    """The mean score of random actions on a task, and its source; of another version if need be."""
    task, version = split_version(env)
    rows = [row for row in read_table("random") if row.env == task]
    row = next((row for row in rows if row.version == version), rows[0] if rows else None)
    return None if row is None else (row.mean, row.source)


@functools.cache
def get_best_published_score(algorithm: str, env: str) -> float | None:
    """The best score that any table has of an algorithm on a task."""
    task, _ = split_version(env)
    return max(
        (
            row.mean
            for name in list_tables()
            for row in read_table(name)
            if (row.algorithm, row.env) == (algorithm, task)
        ),
        default=None,
    )


def find_reproduction_targets(
    algorithm: str, env: str, hps: str, framework: str
) -> tuple[PublishedScore, ...]:
    """Every published number that scores under these hyperparameters can be held against.

    The thesis' own read-offs of the original curves come first, its tables last: those hold
    for one framework each, the other numbers for all.
    """
    task, _ = split_version(env)
    middle = [name for name in list_tables() if name not in (_TARGETS_TABLE, _THESIS_TABLE)]
    return tuple(
        row
        for name in (_TARGETS_TABLE, *middle, _THESIS_TABLE)
        for row in read_table(name)
        if (row.algorithm, row.env, row.hps) == (algorithm, task, hps)
        and (name != _THESIS_TABLE or row.framework == framework)
    )


def _parse_row(table: str, line: int, row: dict[str, str]) -> PublishedScore:
    numbers = {}
    for field, kind in (("steps", int), ("mean", float), ("spread", float), ("trials", int)):
        text = row[field]
        try:
            numbers[field] = kind(text) if text else (math.nan if kind is float else 0)
        except ValueError as error:
            raise ValueError(f"{table}.csv, line {line}: {field}={text!r} is no number.") from error
    if row["spread_kind"] not in SPREAD_KINDS or bool(row["spread"]) != bool(row["spread_kind"]):
        raise ValueError(
            f"{table}.csv, line {line}: spread_kind={row['spread_kind']!r} does not fit "
            f"spread={row['spread']!r}. Known: {', '.join(SPREAD_KINDS[1:])}."
        )
    return PublishedScore(**{"table": table, **row, **numbers})  # type: ignore[arg-type]


# By the tasks' rewards: 1 a step for 1,000 steps; 10 a step less penalties, and the end of the
# episode where the pole falls; less a distance and an effort; for 200 steps less the squares of an
# angle up to pi, of a tenth of a speed up to 8 and of a thousandth of a torque up to 2; 1 a step.
_RETURN_BOUNDS: dict[str, tuple[float, float]] = {
    "InvertedPendulum": (0.0, 1000.0),
    "InvertedDoublePendulum": (0.0, 10_000.0),
    "Reacher": (-math.inf, 0.0),
    "Pendulum": (-200 * (math.pi**2 + 0.1 * 8**2 + 0.001 * 2**2), 0.0),
    "CartPole": (0.0, 500.0),
}


def get_return_bounds(env: str) -> tuple[float, float]:
    """Least and largest return that a task's rewards allow, of any version; infinite where none."""
    task, _ = split_version(env)
    return _RETURN_BOUNDS.get(task, (-math.inf, math.inf))
