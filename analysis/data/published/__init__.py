"""Published numbers: one CSV file per source, one row per number, each with where it stands."""

import csv
import dataclasses
import functools
import math
from pathlib import Path

FOLDER = Path(__file__).parent
SPREADS = ("", "sd", "population sd", "thesis interval")

# Order in which sources stand for "the published score" of an algorithm on a task.
_TARGETS, _TABLES = "thesis_targets", "thesis_tables"
_REFERENCES = ("thesis_targets", "td3_paper", "tianshou")


@dataclasses.dataclass(frozen=True)
class Published:
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
def read_table(name: str) -> tuple[Published, ...]:
    """The rows of one table.

    Args:
        name: One of `table_names()`.

    Raises:
        ValueError: A row cannot be read; the message names file, line and field.
    """
    path = FOLDER / f"{name}.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return tuple(_row(name, i, row) for i, row in enumerate(csv.DictReader(file), 2))


def table_names() -> list[str]:
    """Every table there is, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.csv"))


def split_version(env: str) -> tuple[str, str]:
    """Task and version of an environment: Hopper-v4 is Hopper and v4."""
    task, _, version = env.rpartition("-")
    return (task, version) if task and version.startswith("v") else (env, "")


@functools.cache
def reference_score(algorithm: str, env: str) -> tuple[float, str] | None:
    """The published score that margins are a share of, and its source.

    The original paper's score of the algorithm where there is one, otherwise the score in a
    later paper or benchmark.
    """
    task, _ = split_version(env)
    for name in _REFERENCES:
        for row in read_table(name):
            if (row.algorithm, row.env) == (algorithm, task):
                return row.mean, row.source
    return None


@functools.cache
def random_score(env: str) -> tuple[float, str] | None:
    """The mean score of random actions on a task, and its source; of another version if need be."""
    task, version = split_version(env)
    rows = [row for row in read_table("random") if row.env == task]
    row = next((row for row in rows if row.version == version), rows[0] if rows else None)
    return None if row is None else (row.mean, row.source)


@functools.cache
def best_score(algorithm: str, env: str) -> float | None:
    """The best score that any table has of an algorithm on a task."""
    task, _ = split_version(env)
    return max(
        (
            row.mean
            for name in table_names()
            for row in read_table(name)
            if (row.algorithm, row.env) == (algorithm, task)
        ),
        default=None,
    )


def targets(algorithm: str, env: str, hps: str, framework: str) -> tuple[Published, ...]:
    """Every published number that scores under these hyperparameters can be held against.

    The thesis' own read-offs of the original curves come first, its tables last: those hold
    for one framework each, the other numbers for all.
    """
    task, _ = split_version(env)
    middle = [name for name in table_names() if name not in (_TARGETS, _TABLES)]
    return tuple(
        row
        for name in (_TARGETS, *middle, _TABLES)
        for row in read_table(name)
        if (row.algorithm, row.env, row.hps) == (algorithm, task, hps)
        and (name != _TABLES or row.framework == framework)
    )


def _row(table: str, line: int, row: dict[str, str]) -> Published:
    numbers = {}
    for field, kind in (("steps", int), ("mean", float), ("spread", float), ("trials", int)):
        text = row[field]
        try:
            numbers[field] = kind(text) if text else (math.nan if kind is float else 0)
        except ValueError as error:
            raise ValueError(f"{table}.csv, line {line}: {field}={text!r} is no number.") from error
    if row["spread_kind"] not in SPREADS or bool(row["spread"]) != bool(row["spread_kind"]):
        raise ValueError(
            f"{table}.csv, line {line}: spread_kind={row['spread_kind']!r} does not fit "
            f"spread={row['spread']!r}. Known: {', '.join(SPREADS[1:])}."
        )
    return Published(**{"table": table, **row, **numbers})  # type: ignore[arg-type]
