"""Comparison of scores: a table of means with intervals, and notes on it."""

import dataclasses
import importlib.metadata
import itertools
import math
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parallax.analysis.data.runs import CELL_FIELDS, CompletedRun, LoadedRuns, StudyCell
from parallax.analysis.data.settings import describe_result_versions
from parallax.analysis.escaping import format_csv
from parallax.analysis.labels import (
    INTERVAL_FORMULAS,
    MISSING,
    find_common_parts,
    find_own_parts,
    format_interval_bounds,
    format_number,
    format_run_counts,
    format_steps,
    get_label,
    shorten_run_path,
)
from parallax.analysis.report.document import Block, Code, Document, Grid, Listing, ReportSection
from parallax.analysis.stats.intervals import (
    ConfidenceInterval,
    compute_interval,
    compute_thesis_coverage,
    compute_welch_interval,
)
from parallax.analysis.stats.learning_curves import FINAL, Endpoint
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.verdicts.endpoints import describe_mixed_endpoints
from parallax.analysis.verdicts.groups import GroupPair, ScoreGroup, group_by_cell, list_group_pairs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.harness.record.files import escape_unprintable

UNKNOWN = "unknown"
"""Value of names that an imported run does not state."""


@dataclasses.dataclass(frozen=True)
class FrameworkScore:
    """Score of one framework in one setting.

    Attributes:
        mean: Mean score over seeds, in units of the endpoint.
        with_failed: The same with failed runs at the bottom of the task's range; None without any.
        final: Mean final return over seeds; NaN without runs.
    """

    group: ScoreGroup
    mean: ConfidenceInterval
    with_failed: ConfidenceInterval | None
    final: float


@dataclasses.dataclass(frozen=True)
class LargestDifference:
    """The two frameworks whose means are furthest apart, with Welch's interval for this pair."""

    higher: str
    lower: str
    difference: ConfidenceInterval


@dataclasses.dataclass(frozen=True)
class SettingComparison:
    """All frameworks in one setting.

    Attributes:
        largest_difference: None if fewer than two frameworks have a run that is used.
        largest_with_failed: The same with failed runs at the bottom; None if none failed.
    """

    cell: StudyCell
    scores: tuple[FrameworkScore, ...]
    largest_difference: LargestDifference | None
    largest_with_failed: LargestDifference | None
    endpoint: Endpoint


def format_why_command(groups: Iterable[ScoreGroup], results: Path) -> str:
    """Return the command that explains the difference of the most different pair; empty if none."""
    pair = _find_most_different_pair(groups)
    if pair is None:
        return ""
    cell, names = pair[0].cell, [group.framework for group in pair]
    levels = {str(run.spec.get("alignment", "")) for group in pair for run in group.runs}
    words = ["parallax", "why", *names, "--algorithms", cell.algorithm]
    words += ["--env", cell.env] if cell.env != UNKNOWN and "," not in cell.env else []
    words += ["--hps", cell.hps] if cell.hps not in (UNKNOWN, "defaults") else []
    words += ["--alignment", *levels] if len(levels) == 1 and all(levels) else []
    scripts = [name.partition("@")[2] for name in names if "@" in name]
    words += ["--script", f"{scripts[0].rpartition('-')[0]}.py"] if scripts else []
    words += ["--study", str(results)] if results.exists() else []
    return shlex.join(words)


def _find_most_different_pair(groups: Iterable[ScoreGroup]) -> GroupPair | None:
    """Return the most different pair that `parallax why` can compare; None if there is none.

    Returns have different units on each task, so differences are divided by widths of intervals
    where there are any.
    """
    # Imported runs may be of frameworks without an adapter, which no command can run.
    adapters = {entry.name for entry in importlib.metadata.entry_points(group="parallax.adapters")}
    known = [
        group
        for group in groups
        if group.n
        and group.cell.algorithm != UNKNOWN
        and group.framework.partition("@")[0] in adapters
    ]
    found: dict[GroupPair, ConfidenceInterval] = {}
    for pair in list_group_pairs(known):
        interval = compute_welch_interval(*(np.asarray(group.scores) for group in pair))
        # Of two implementations one can be a user's own script, `framework@script`.
        if interval.mean and sum("@" in group.framework for group in pair) < 2:
            found[pair] = interval
    with_interval = {pair: one for pair, one in found.items() if one.high >= one.low}

    def rate(pair: GroupPair) -> float:
        width = found[pair].high - found[pair].low if with_interval else 1.0
        return abs(found[pair].mean) / width if width > 0 else math.inf

    return max(with_interval or found, key=rate, default=None)


def compare_frameworks(
    groups: Sequence[ScoreGroup],
    with_failed_runs: Iterable[ScoreGroup],
    options: VerdictOptions,
    method: str,
    rng: np.random.Generator,
) -> tuple[SettingComparison, ...]:
    """Compare the frameworks in each setting that has a folder, whether or not its runs are used.

    `with_failed_runs` has the groups that `count_failed_as_bottom` returns.
    """
    others = {group.key: group for group in with_failed_runs}
    return tuple(
        _compare_cell(cell, own, [others[group.key] for group in own], options, method, rng)
        for cell, own in group_by_cell(groups).items()
    )


def find_largest_difference(scores: Mapping[str, FloatArray]) -> LargestDifference | None:
    """Return the pair of frameworks with the largest difference of means.

    The interval is for this pair alone: it is not corrected for choosing the pair with the
    largest difference.

    Args:
        scores: float[n] scores by framework; empty ones are skipped.
    """
    present = {name: values for name, values in sorted(scores.items()) if len(values)}
    if len(present) < 2:
        return None
    higher, lower = max(
        itertools.permutations(present, 2),
        key=lambda pair: present[pair[0]].mean() - present[pair[1]].mean(),
    )
    return LargestDifference(higher, lower, compute_welch_interval(present[higher], present[lower]))


def _compare_cell(
    cell: StudyCell,
    groups: Sequence[ScoreGroup],
    with_failed_runs: Sequence[ScoreGroup],
    options: VerdictOptions,
    method: str,
    rng: np.random.Generator,
) -> SettingComparison:
    complete = {group.framework: group.scores for group in groups if group.scores is not None}
    imputed = {
        group.framework: group.scores
        for group in with_failed_runs
        if group.failed and group.scores is not None and group.n
    }
    scores = []
    for group in groups:
        name, with_failed = group.framework, None
        mean = compute_interval(complete[name], method, rng)
        if name in imputed and len(imputed[name]) > group.n:
            # A separate generator, so that failed runs do not change other intervals.
            with_failed = compute_interval(imputed[name], method, np.random.default_rng(0))
        final = float(np.mean([run.final_score for run in group.runs])) if group.runs else math.nan
        scores.append(FrameworkScore(group, mean, with_failed, final))
    return SettingComparison(
        cell,
        tuple(scores),
        find_largest_difference(complete),
        find_largest_difference(complete | imputed) if imputed else None,
        options.chosen_endpoint,
    )


# These may differ between runs that are compared.
_IGNORED_SETTINGS = {"framework", "seed"}


@dataclasses.dataclass(frozen=True)
class ComparisonNotes:
    """Remarks on a table: on all rows, and numbered ones on single settings, from 1 on."""

    general: tuple[str, ...]
    numbered_notes: tuple[str, ...]
    note_numbers: Mapping[StudyCell, tuple[int, ...]]


def make_notes(
    loaded: LoadedRuns,
    comparisons: Sequence[SettingComparison],
    options: VerdictOptions,
    method: str,
) -> ComparisonNotes:
    """Return all remarks on a table of comparisons."""
    found: dict[str, list[StudyCell]] = {}
    for row in comparisons:
        runs = [run for run in loaded.runs if run.id.cell == row.cell]
        notes = (*_note_different_ends(row), *_note_different_settings(runs))
        for text in filter(None, (*notes, describe_result_versions(runs))):
            found.setdefault(text, []).append(row.cell)
    marks = {
        row.cell: tuple(i for i, cells in enumerate(found.values(), 1) if row.cell in cells)
        for row in comparisons
    }
    mixed = describe_mixed_endpoints(loaded, options)
    general = (
        *_list_general_notes(comparisons, options, method),
        *(f"{text}." for text in (mixed, *loaded.conflicts) if text),
    )
    return ComparisonNotes(general, tuple(found), marks)


def _list_general_notes(
    comparisons: Sequence[SettingComparison], options: VerdictOptions, method: str
) -> list[str]:
    sizes = sorted(
        {score.group.n for row in comparisons for score in row.scores if score.group.n > 1}
    )
    notes = [
        _describe_score(options),
        f"Interval: {method}, {INTERVAL_FORMULAS[method]}.",
        "Furthest apart: the largest difference between two means, with Welch's 95% interval "
        "for that pair. The pair was picked for being largest; its interval does not allow for it.",
    ]
    if any(score.with_failed is not None for row in comparisons for score in row.scores):
        notes.append(
            "With failed: runs that failed or diverged count at the bottom of the task's range, or "
            "as the setting's lowest score where no range is known "
            "(intention to treat); the mean above is of complete runs alone."
        )
    if method == "thesis" and sizes:
        shares = ", ".join(f"{compute_thesis_coverage(n):.1%} at n = {n}" for n in sizes)
        notes[1] += f" On normal data it holds the true mean less often than 95%: {shares}."
    if method in ("bootstrap", "bca") and sizes and sizes[0] < 10:
        notes[1] += f" It is too narrow at few seeds (here n = {sizes[0]})."
    if sizes and sizes[0] == 2:
        notes.append(_warn_of_two_seeds(method))
    return notes


def _describe_score(options: VerdictOptions) -> str:
    endpoint = options.chosen_endpoint
    source = f", {options.endpoint_source}" if options.endpoint_source else ""
    final = "" if endpoint.name == FINAL else " Final: mean return of the last evaluation."
    return (
        f"A seed's score is its {endpoint.description}{source}. Shown: mean over seeds, 95% "
        f"interval, n = used/requested.{final}"
    )


def _warn_of_two_seeds(method: str) -> str:
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


def _note_different_ends(row: SettingComparison) -> list[str]:
    names: dict[tuple[int, ...], list[str]] = {}
    for score in row.scores:
        if score.group.n:
            names.setdefault(score.group.steps, []).append(score.group.framework)
    if len(names) < 2 and all(len(ends) == 1 for ends in names):
        return []
    ends = ", ".join(
        f"{' or '.join(map(format_steps, at))} ({', '.join(map(get_label, names[at]))})"
        for at in sorted(names)
    )
    return [f"The last evaluations are not at the same environment step: {ends}."]


def _note_different_settings(runs: Sequence[CompletedRun]) -> list[str]:
    flat = [_flatten_mapping(run.spec) for run in runs]
    names = sorted({name for spec in flat for name in spec} - _IGNORED_SETTINGS)
    differ = [name for name in names if len({repr(spec.get(name)) for spec in flat}) > 1]
    if not differ:
        return []
    shown = escape_unprintable(", ".join(differ))
    return [f"The runs differ in more than framework and seed: {shown} in run.json."]


def _flatten_mapping(spec: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in spec.items():
        if isinstance(value, Mapping):
            flat |= _flatten_mapping(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def make_comparison_document(
    loaded: LoadedRuns, comparisons: Sequence[SettingComparison], notes: ComparisonNotes
) -> Document:
    """Return the table, its notes and the runs that are not used."""
    cells = [row.cell for row in comparisons]
    endpoints = {row.endpoint.name for row in comparisons}
    names = sorted({score.group.framework for row in comparisons for score in row.scores})
    rows = tuple(
        (
            _format_setting(row.cell, cells, notes),
            *("\n".join(format_score_lines(row, name)) for name in names),
            "\n".join(format_furthest_lines(row)),
        )
        for row in comparisons
    )
    numbered = [f"[{i}] {text}" for i, text in enumerate(notes.numbered_notes, 1)]
    blocks: list[Block] = [
        Grid(("setting", *map(get_label, names), "furthest apart"), rows),
        *numbered,
        *notes.general,
        format_run_counts(loaded),
    ]
    if loaded.excluded:
        items = tuple(
            (Code(shorten_run_path(item, loaded)), f": {item.reason}") for item in loaded.excluded
        )
        blocks.append(ReportSection(f"Runs not used: {len(items)}", (Listing(items),)))
    absent = tuple(map(str, loaded.missing_seeds))
    if absent:
        blocks.append(ReportSection(_NO_FOLDER_HEADING, (Listing(absent),)))
    return Document(_format_title(cells, endpoints), tuple(blocks))


def _format_title(cells: Sequence[StudyCell], endpoints: Collection[str]) -> str:
    """Return a heading with the study and the parts of the variant that all settings share."""
    title = "Final score" if set(endpoints) <= {FINAL} else f"Score: {', '.join(endpoints)}"
    studies = {cell.study for cell in cells}
    parts = [f"study {study}" for study in studies] if len(studies) == 1 else []
    parts += find_common_parts(cells)
    return f"{title} ({', '.join(parts)})" if parts else title


def _format_setting(cell: StudyCell, cells: Sequence[StudyCell], notes: ComparisonNotes) -> str:
    """Return the parts of a setting that are not in the title, and the numbers of its notes."""
    study = [f"study {cell.study}"] * (len({other.study for other in cells}) > 1)
    parts = [cell.env, get_label(cell.algorithm), cell.hps, *study, *find_own_parts(cell, cells)]
    marks = "".join(f" [{mark}]" for mark in notes.note_numbers[cell])
    return ", ".join(part for part in parts if part) + marks


def format_score_lines(row: SettingComparison, framework: str) -> list[str]:
    """Return mean, interval and n of one framework, a line each."""
    score = next((score for score in row.scores if score.group.framework == framework), None)
    if score is None:
        return [MISSING]
    if score.group.n == 0:
        lines = ["no run used", _format_size(score)]
    else:
        mean = score.mean
        lines = [format_number(mean.mean), format_interval_bounds(mean), _format_size(score)]
        if row.endpoint.name != FINAL:
            lines.append(f"final: {format_number(score.final)}")
    if score.with_failed is not None:
        lines.append(f"with {score.group.failed} failed: {format_number(score.with_failed.mean)}")
        lines.append(format_interval_bounds(score.with_failed))
    return lines


def format_furthest_lines(row: SettingComparison) -> list[str]:
    """Return difference, interval and names of the pair, and the same with failed runs."""
    lines = [MISSING] if row.largest_difference is None else []
    for lead, found in (("", row.largest_difference), ("with failed: ", row.largest_with_failed)):
        if found is not None:
            lines += [
                f"{lead}{format_number(found.difference.mean)}",
                format_interval_bounds(found.difference),
                f"({get_label(found.higher)} - {get_label(found.lower)})",
            ]
    return lines


def _format_size(score: FrameworkScore) -> str:
    return f"(n={score.group.n}/{score.group.requested})"


_NUMBER_COLUMNS = (
    *("mean", "low", "high", "method", "n_requested", "n_completed", "n_used", "last_step"),
    *("failed", "mean_with_failed", "low_with_failed", "high_with_failed", "endpoint"),
    "final_mean",
)
_NO_FOLDER_HEADING = "No folder, though another framework has the seed"
CSV_COLUMNS = (*CELL_FIELDS, "framework", *_NUMBER_COLUMNS)


def comparison_to_csv(comparisons: Sequence[SettingComparison]) -> str:
    """Return a line per setting and framework as CSV; unknown numbers are empty.

    Where seeds of one framework ended at different steps, last_step lists them.
    """
    lines: list[Sequence[object]] = [CSV_COLUMNS]
    for row in comparisons:
        for score in row.scores:
            mean, lower = score.mean, score.with_failed
            sizes = (score.group.requested, score.group.completed, score.group.n)
            last = ";".join(map(str, score.group.steps))
            ends = (lower.mean, lower.low, lower.high) if lower else (math.nan,) * 3
            numbers = _format_numbers(mean.mean, mean.low, mean.high)
            extra = [score.group.failed, *_format_numbers(*ends), row.endpoint.name]
            extra += _format_numbers(score.final)
            row_values = [*numbers, mean.method, *sizes, last, *extra]
            lines.append(
                [*dataclasses.asdict(row.cell).values(), score.group.framework, *row_values]
            )
    return format_csv(lines)


def _format_numbers(*values: float) -> list[str]:
    return ["" if math.isnan(value) else repr(value) for value in values]
