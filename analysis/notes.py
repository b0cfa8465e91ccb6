"""What a reader must know beside the numbers, worded once for terminal, file and figure."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.compare import Comparison
from analysis.intervals import thesis_coverage
from analysis.numbers import steps
from analysis.runs import Cell, Loaded, Run

FORMULAS = {
    "t": "mean ± t(0.975, n-1)·s/√n",
    "thesis": "mean ± 1.96·population deviation/√n",
    "bootstrap": "2.5% and 97.5% percentiles of 10,000 bootstrap means",
    "bca": "percentiles of 10,000 bootstrap means, corrected for bias and skewness",
}

# These may differ between runs that are compared.
_FREE = {"framework", "seed"}


@dataclasses.dataclass(frozen=True)
class Notes:
    """Remarks on a table.

    Attributes:
        general: Remarks on all rows.
        marked: Remarks on single rows; the first is number 1.
        marks: Numbers of the remarks that apply to a setting.
    """

    general: tuple[str, ...]
    marked: tuple[str, ...]
    marks: Mapping[Cell, tuple[int, ...]]


def make_notes(loaded: Loaded, comparisons: Sequence[Comparison], method: str) -> Notes:
    """All remarks on a table of comparisons."""
    found: dict[str, list[Cell]] = {}
    for row in comparisons:
        runs = [run for run in loaded.runs if run.id.cell == row.cell]
        for text in (*_different_ends(row), *_different_settings(runs)):
            found.setdefault(text, []).append(row.cell)
    marks = {
        row.cell: tuple(i for i, cells in enumerate(found.values(), 1) if row.cell in cells)
        for row in comparisons
    }
    return Notes(tuple(_general(comparisons, method)), tuple(found), marks)


def counts(loaded: Loaded) -> str:
    """How many runs there are, honest about what the number cannot know."""
    links = len(loaded.links)
    passed_over = f" {links} links to folders were not followed." if links else ""
    return (
        f"Runs: {loaded.requested} requested (folders found), {loaded.completed} completed, "
        f"{loaded.used} used. A seed that was never started leaves no folder, unless pending, "
        f"and is not counted.{passed_over}"
    )


def _general(comparisons: Sequence[Comparison], method: str) -> list[str]:
    sizes = sorted({score.used for row in comparisons for score in row.scores if score.used > 1})
    notes = [
        "A seed's final score is the mean return over the episodes of its last evaluation. "
        "Shown: mean over seeds, 95% interval, n = used/requested.",
        f"Interval: {method}, {FORMULAS[method]}.",
        "Furthest apart: the largest difference between two means, with Welch's 95% interval "
        "for that pair. The pair was picked for being largest; its interval does not allow for it.",
    ]
    if method == "thesis" and sizes:
        shares = ", ".join(f"{thesis_coverage(n):.1%} at n = {n}" for n in sizes)
        notes[1] += f" On normal data it holds the true mean less often than 95%: {shares}."
    if method in ("bootstrap", "bca") and sizes and sizes[0] < 10:
        notes[1] += f" It is too narrow at few seeds (here n = {sizes[0]})."
    if sizes and sizes[0] == 2:
        notes.append(_two_seeds(method))
    return notes


def _two_seeds(method: str) -> str:
    wide = {
        "t": "t intervals are huge (± 12.7 s/√2)",
        "thesis": "intervals are far too narrow",
        "bootstrap": "intervals span the two seeds and hold the true mean half the time",
        "bca": "intervals span the two seeds and hold the true mean half the time",
    }[method]
    return (
        f"With n = 2, {wide}, and a difference between frameworks must be enormous to stand "
        "out: run more seeds before reading anything into these numbers."
    )


def _different_ends(row: Comparison) -> list[str]:
    names: dict[tuple[int, ...], list[str]] = {}
    for score in row.scores:
        if score.used:
            names.setdefault(score.last_steps, []).append(score.framework)
    if len(names) < 2 and all(len(ends) == 1 for ends in names):
        return []
    ends = ", ".join(
        f"{' or '.join(map(steps, at))} ({', '.join(names[at])})" for at in sorted(names)
    )
    return [f"The last evaluations are not at the same environment step: {ends}."]


def _different_settings(runs: Sequence[Run]) -> list[str]:
    flat = [_flatten(run.spec) for run in runs]
    names = sorted({name for spec in flat for name in spec} - _FREE)
    differ = [name for name in names if len({repr(spec.get(name)) for spec in flat}) > 1]
    if not differ:
        return []
    return [f"The runs differ in more than framework and seed: {', '.join(differ)} in run.json."]


def _flatten(spec: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in spec.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
