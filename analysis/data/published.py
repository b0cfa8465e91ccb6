"""Published scores: one CSV file per source in `published/`, one row per number.

Tables of papers without scores of algorithms are in its sub-folders (`paper_tables.py`).
"""

import contextlib
import csv
import dataclasses
import functools
import hashlib
import io
import itertools
import math
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from parallax.harness.record.files import UnusableError, read_bounded

FOLDER = Path(__file__).parent / "published"
SPREAD_KINDS = ("", "sd", "population sd", "thesis interval")

# The first source that has an algorithm and task gives its reference score.
_TARGETS_TABLE, _THESIS_TABLE = "thesis_targets", "thesis_tables"
_REFERENCE_TABLES = ("thesis_targets", "td3_paper", "tianshou")

DIGESTS_FILE = "SHA256SUMS"
_MAX_BYTES = 2**22


class PublishedTableError(UnusableError, ValueError):
    """A table of published numbers cannot be used; names file, line and field."""


@dataclasses.dataclass(frozen=True)
class PublishedScore:
    """One published number.

    Attributes:
        table: Name of the CSV file without its ending.
        env: Task without its version, such as Hopper.
        version: Version of the task, such as v1; empty if not given.
        hps: Name of the hyperparameters; empty if there is no such recipe here.
        statistic: Quantity that was averaged, such as `last evaluation` or `max over time`.
        steps: Environment steps after which it was measured.
        mean: In units of return.
        spread: In units of return; NaN if not given.
        spread_kind: `sd`, `population sd`, `thesis interval` (1.96 population sd / sqrt n),
            or empty.
        trials: Number of runs behind the mean; 0 if not given.
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
    """Read the rows of one table.

    Raises:
        PublishedTableError: A row cannot be parsed; the message names file, line and field.
    """
    return tuple(_parse_row(name, i, row) for i, row in enumerate(read_csv_rows(name), 2))


def read_csv_rows(name: str) -> list[dict[str, str]]:
    """Read a CSV file of `published/` as one dictionary of texts per row.

    Args:
        name: Path below the folder without its ending, such as `muprl/tasks`.
    """
    content = _read_checked(name)
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""), strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise PublishedTableError(f"{name}.csv is not a table: {error}") from error
    for line, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise PublishedTableError(f"{name}.csv, row {line}: not as many cells as columns")
    return rows


def _read_checked(name: str) -> bytes:
    """Return the bytes of a table, and warn if they differ from the released ones.

    `SHA256SUMS` has the SHA-256 of every file, since a changed digit would go unnoticed.
    """
    try:
        content = read_bounded(FOLDER / f"{name}.csv", _MAX_BYTES)
    except (OSError, UnusableError) as error:
        raise PublishedTableError(f"{name}.csv cannot be read: {error}") from error
    lines: list[str] = []
    with contextlib.suppress(OSError, UnusableError):
        lines = read_bounded(FOLDER / DIGESTS_FILE, _MAX_BYTES).decode("latin-1").splitlines()
    if f"{hashlib.sha256(content).hexdigest()}  {name}.csv" not in lines:
        warnings.warn(
            f"{FOLDER / name}.csv is not the table that was released: its SHA-256 is not in "
            f"{DIGESTS_FILE}. Install this project again, or, if you changed a number on purpose: "
            f"cd {FOLDER} && sha256sum *.csv */*.csv > {DIGESTS_FILE}",
            stacklevel=2,
        )
    return content


def list_tables() -> list[str]:
    """Return the names of all tables of scores, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.csv"))


def split_version(env: str) -> tuple[str, str]:
    """Split an environment's name into task and version: Hopper-v4 into Hopper and v4.

    A task with changed parameters, such as `Pendulum-v1,g=9.81`, is not a published version.
    """
    match = re.fullmatch(r"(.+)-(v\d+)", env)
    return (match[1], match[2]) if match else (env, "")


@functools.cache
def get_reference_score(algorithm: str, env: str) -> tuple[float, str] | None:
    """Return the published score that margins are a share of, and its source.

    The original paper's score of the algorithm where there is one, otherwise the score in a
    later paper or benchmark.
    """
    rows = _iterate_rows(_REFERENCE_TABLES, algorithm, env)
    return next(((row.mean, row.source) for row in rows), None)


def _iterate_rows(tables: Iterable[str], algorithm: str, env: str) -> Iterator[PublishedScore]:
    """Yield the scores of an algorithm on any version of a task."""
    task, _ = split_version(env)
    for row in itertools.chain.from_iterable(map(read_table, tables)):
        if (row.algorithm, row.env) == (algorithm, task):
            yield row


@functools.cache
def get_random_score(env: str) -> tuple[float, str] | None:
    """Return the mean score of random actions on a task, and its source.

    Another version of the task is taken if this one was not measured.
    """
    return _get_policy_score("random", env)


@functools.cache
def get_do_nothing_score(env: str) -> tuple[float, str] | None:
    """Return the mean score of a policy that does nothing on a task, and its source.

    Actions are 0, or always the best discrete action: observations are not used.
    """
    return _get_policy_score("do_nothing", env)


def is_version_published(table: str, env: str) -> bool:
    """Return whether a table has a row of exactly this version of a task."""
    return any((row.env, row.version) == split_version(env) for row in read_table(table))


def _get_policy_score(table: str, env: str) -> tuple[float, str] | None:
    task, version = split_version(env)
    rows = [row for row in read_table(table) if row.env == task]
    row = next((row for row in rows if row.version == version), rows[0] if rows else None)
    return None if row is None else (row.mean, row.source)


@functools.cache
def get_best_published_score(algorithm: str, env: str) -> float | None:
    """Return the best score of an algorithm on a task in any table; None if there is none."""
    rows = _iterate_rows(list_tables(), algorithm, env)
    return max((row.mean for row in rows), default=None)


def find_reproduction_targets(
    algorithm: str, env: str, hps: str, framework: str
) -> tuple[PublishedScore, ...]:
    """Return every published number that scores under these hyperparameters can reproduce.

    The thesis' read-offs of the original curves come first and its tables last. Its tables apply
    to one framework each, the other numbers to all.
    """
    middle = [name for name in list_tables() if name not in (_TARGETS_TABLE, _THESIS_TABLE)]
    return tuple(
        row
        for row in _iterate_rows((_TARGETS_TABLE, *middle, _THESIS_TABLE), algorithm, env)
        if row.hps == hps and (row.table != _THESIS_TABLE or row.framework == framework)
    )


_NUMBERS: tuple[tuple[str, type, float, float], ...] = (
    ("steps", int, 0, 2**53),
    ("mean", float, -1e100, 1e100),  # their squares must be finite
    ("spread", float, 0, 1e100),
    ("trials", int, 1, 10**6),
)


def _parse_row(table: str, line: int, row: dict[str, str]) -> PublishedScore:
    fields = {field.name for field in dataclasses.fields(PublishedScore)} - {"table"}
    if row.keys() != fields:
        raise PublishedTableError(f"{table}.csv: columns must be {', '.join(sorted(fields))}.")
    numbers = {}
    for field, kind, low, high in _NUMBERS:
        text = row[field]
        try:
            numbers[field] = kind(text) if text else (math.nan if kind is float else 0)
        except ValueError as error:
            raise PublishedTableError(
                f"{table}.csv, line {line}: {field}={text[:80]!r} is not a number."
            ) from error
        if text and not low <= numbers[field] <= high:
            raise PublishedTableError(
                f"{table}.csv, line {line}: {field}={text[:80]!r} is not from {low:,} to {high:,}."
            )
    if row["spread_kind"] not in SPREAD_KINDS or bool(row["spread"]) != bool(row["spread_kind"]):
        raise PublishedTableError(
            f"{table}.csv, line {line}: spread_kind={row['spread_kind'][:80]!r} does not fit "
            f"spread={row['spread'][:80]!r}. Known: {', '.join(SPREAD_KINDS[1:])}."
        )
    return PublishedScore(**{"table": table, **row, **numbers})  # type: ignore[arg-type]


# From the reward functions of gymnasium's tasks:
# InvertedPendulum: 1 per step, at most 1,000 steps. InvertedDoublePendulum: 10 per step minus
# penalties. Reacher: -distance - control cost, unbounded below. Pendulum: 200 steps of
# -(angle^2 + 0.1 speed^2 + 0.001 torque^2), |angle| <= pi, |speed| <= 8, |torque| <= 2.
# CartPole: 1 per step, at most 500 steps.
_RETURN_BOUNDS: dict[str, tuple[float, float]] = {
    "InvertedPendulum": (0.0, 1000.0),
    "InvertedDoublePendulum": (0.0, 10_000.0),
    "Reacher": (-math.inf, 0.0),
    "Pendulum": (-200 * (math.pi**2 + 0.1 * 8**2 + 0.001 * 2**2), 0.0),
    "CartPole": (0.0, 500.0),
}


def get_return_bounds(env: str) -> tuple[float, float]:
    """Return the least and largest return that a task's rewards allow; infinite if unbounded."""
    task, _ = split_version(env)
    return _RETURN_BOUNDS.get(task, (-math.inf, math.inf))


# Thresholds of reward in gymnasium's registry. Pendulum has none there: policies that RL Baselines3
# Zoo trained with SAC, TD3 and DDPG score about -150.
_SOLVED_SCORES: dict[str, tuple[float, str]] = {
    "InvertedPendulum": (950.0, "gymnasium's threshold"),
    "InvertedDoublePendulum": (9100.0, "gymnasium's threshold"),
    "CartPole": (475.0, "gymnasium's threshold"),
    "Reacher": (-3.75, "gymnasium's threshold"),
    "Hopper": (3800.0, "gymnasium's threshold"),
    "HalfCheetah": (4800.0, "gymnasium's threshold"),
    "Pendulum": (-150.0, "about what trained policies of RL Baselines3 Zoo score"),
}


def get_top_score(algorithm: str, env: str) -> tuple[float, str] | None:
    """Return the score at the upper end of a task's scale, and its source.

    The published score of the algorithm, or the score at which the task counts as solved where
    nothing is published.
    """
    return get_reference_score(algorithm, env) or get_solved_score(env)


def get_solved_score(env: str) -> tuple[float, str] | None:
    """Return the mean return at which a task counts as solved, and its source."""
    return _SOLVED_SCORES.get(split_version(env)[0])
