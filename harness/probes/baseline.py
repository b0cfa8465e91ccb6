"""Comparison with stored answers, and between two versions of a framework."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.data_files import load_json
from parallax.harness.contract.fields import SpecError
from parallax.harness.probes.catalogue import PROBES
from parallax.harness.probes.probe import Probe, compare_in_probe_units, group_answers
from parallax.harness.probes.results import (
    AGREES,
    FACTOR,
    HERE,
    OFFSET,
    OTHER,
    AnswerComparison,
    ProbeAnswer,
    ProbeReport,
    ProbeResult,
    describe_answer,
    format_seed_label,
    list_entry_names,
    name_source,
    report_from_dict,
)

CHANGE_TOLERANCE = 1e-3
"""Change of an answer, as a share of its largest number, that another CPU model may cause."""

MAX_LISTED_CHANGES = 5
"""Largest number of changed numbers that are listed per answer."""

LISTED = re.compile(r", not (-?[\d.]|\[|nan|-?inf)")
"""An entry of a description that lists numbers; others are words."""

_KNOWN_PROBES = {probe.name: probe for probe in PROBES}

OTHER_NUMBERS = "as before, with other numbers"
"""End of the description of an answer of which only the numbers changed."""


def load_report(path: Path) -> ProbeReport:
    """Load a stored report.

    Raises:
        SpecError: There is no report at `path`.
    """
    what = f"stored answers. Write them with --json {path}"
    content = load_json(path, dict[str, Any], what)
    try:
        return parse_report(content)
    except ValueError as error:
        raise SpecError(f"{path} ({str(error)[:200]}) holds no {what}.") from error


def parse_report(content: Mapping[str, Any]) -> ProbeReport:
    """Return the report that stored plain data hold.

    Raises:
        ValueError: The content is damaged, or an answer contradicts its own numbers.
    """
    report, results = report_from_dict(content), []
    for result in report.results:
        if probe := _KNOWN_PROBES.get(result.probe):
            _check_comparisons(probe, result)
            groups = group_answers(probe, result.answers)
            results.append(dataclasses.replace(result, groups=groups))
        else:
            results.append(result)
    return dataclasses.replace(report, results=tuple(results))


def _check_comparisons(probe: Probe, result: ProbeResult) -> None:
    """Check that the relations of answers to the source, and to each other, fit their numbers."""
    for name, answer in result.answers.items():
        if answer.unmeasured:
            continue
        kind = answer.comparison.kind
        measured = compare_in_probe_units(probe, answer.value, answer.expected)
        if (kind == AGREES) != (measured.kind == AGREES):
            verb = "agree" if measured.kind == AGREES else "differ"
            raise ValueError(
                f"{result.probe}: {name}'s comparison={kind} contradicts its numbers, which {verb}"
            )
        _check_size(f"{result.probe}: {name}", answer, measured)
    for group in result.groups:
        if len({result.answers[name].comparison.kind == AGREES for name in group}) > 1:
            raise ValueError(f"{result.probe}: a group has answers that differ: {', '.join(group)}")


def _check_size(place: str, answer: ProbeAnswer, measured: AnswerComparison) -> None:
    """Check that the stored size of a difference fits the numbers."""
    stored, size = answer.comparison, measured.size
    value, expected = answer.value, answer.expected
    with np.errstate(all="ignore"):
        if stored.kind != measured.kind:  # of another version, in which more counted as rounding
            factor = np.sum(value * expected) / np.sum(expected**2)
            fits = {FACTOR: float(factor), OFFSET: float(np.mean(value - expected))}
            size = fits.get(stored.kind, np.inf)
        elif not np.isfinite(size):
            size = np.nan  # as files have it
        margin = 1e-6 * float(np.nanmax(np.abs(expected), initial=1.0))  # files have 9 digits
        if not np.isclose(stored.size, size, CHANGE_TOLERANCE, margin, equal_nan=True):
            raise ValueError(
                f"{place}'s comparison={stored.kind} of {stored.size:g} contradicts its numbers"
            )


def merge_reports(report: ProbeReport, stored: ProbeReport) -> ProbeReport:
    """Return the stored report with its answers replaced by new ones, in the catalogue's order."""
    old = {result.probe: result for result in stored.results}
    for result in report.results:
        if result.probe in old:
            answers = {**old[result.probe].answers, **result.answers}
            probe = _KNOWN_PROBES.get(result.probe)
            groups = group_answers(probe, answers) if probe else result.groups
            old[result.probe] = dataclasses.replace(result, answers=answers, groups=groups)
        else:
            old[result.probe] = result
    results = tuple(old[name] for name in dict.fromkeys((*_KNOWN_PROBES, *old)) if name in old)
    versions = {**stored.versions, **report.versions}
    return dataclasses.replace(report, results=results, versions=versions)


def select_answers(report: ProbeReport, probes: Sequence[str], names: Sequence[str]) -> ProbeReport:
    """Return the answers of some implementations to some probes."""
    results = []
    for result in report.results:
        if result.probe in probes:
            answers = {name: answer for name, answer in result.answers.items() if name in names}
            groups = (tuple(name for name in group if name in names) for group in result.groups)
            chosen = tuple(group for group in groups if group)
            results.append(dataclasses.replace(result, answers=answers, groups=chosen))
    versions = {name: packages for name, packages in report.versions.items() if name in names}
    return dataclasses.replace(report, results=tuple(results), versions=versions)


def list_changes(report: ProbeReport, stored: ProbeReport) -> Sequence[str]:
    """Return one line per answer that changed, disappeared or is new.

    Probes and implementations that were not run this time are left out.
    """
    now, then = _index_answers(report), _index_answers(stored)
    results = {result.probe: result for result in report.results}
    text = []
    for probe, name in sorted(now.keys() | then.keys()):
        if probe not in results or name not in report.versions:
            continue
        before, after = then.get((probe, name)), now.get((probe, name))
        if before is None or after is None:
            text.append(f"{probe}, {name}: {'new' if before is None else 'gone'}")
        else:
            text += [
                f"{probe}, {name}: {line}"
                for line in describe_change(results[probe], before, after)
            ]
    return text


def list_version_differences(report: ProbeReport, stored: ProbeReport) -> list[str]:
    """Return one line per implementation whose package versions differ from the stored ones."""
    return [
        f"({name}: stored with {', '.join(stored.versions[name])})"
        for name, packages in report.versions.items()
        if stored.versions.get(name, packages) != packages
    ]


def describe_change(result: ProbeResult, before: ProbeAnswer, after: ProbeAnswer) -> list[str]:
    """Return the difference of an answer from an earlier one, as one line, or none."""
    old, new = (describe_answer(answer, name_source(result)) for answer in (before, after))
    both = f"before: {old}; now: {new}" if old != new else f"{new} {OTHER_NUMBERS}"
    if before.unmeasured or after.unmeasured:
        return [] if bool(before.unmeasured) == bool(after.unmeasured) else [both]
    if _is_unchanged(result.probe, before, after):
        return []
    moved = format_changed_numbers(result, before.value, after.value)
    if not moved:
        return [both]
    # Numbers with names need no description, unless it says more than how large each entry is.
    has_names = before.value.size > 1 and list_entry_names(result, before.value.size)[0] != "0"
    meanings = [answer.meaning for answer in (before, after) if answer.meaning]
    if has_names and all(LISTED.search(part) for text in meanings for part in text.split("; ")):
        head = result.quantity.rpartition(": ")[0]
        return [f"{head}: {moved}" if head else moved]
    return [f"{both} ({moved})"]


def _is_unchanged(name: str, before: ProbeAnswer, after: ProbeAnswer) -> bool:
    if np.array_equal(before.value, after.value, equal_nan=True):
        return True
    probe = _KNOWN_PROBES.get(name)
    if probe is None:
        return False
    looser = dataclasses.replace(probe, tolerance=max(CHANGE_TOLERANCE, probe.tolerance))
    old, new = before.comparison, after.comparison
    alike = np.isclose(old.size, new.size, looser.tolerance, 1e-9, equal_nan=True)
    if old.kind != new.kind or not alike:
        return False
    return compare_in_probe_units(looser, after.value, before.value).kind == AGREES


def format_changed_numbers(result: ProbeResult, before: Array, after: Array) -> str:
    """Return the numbers that changed most, with their names or positions if there are several."""
    old, new = np.ravel(before), np.ravel(after)
    if len(old) != len(new):
        return f"{len(old)} numbers -> {len(new)}"
    names = [
        f"position {name}: " if name[:1] in "-0123456789" else f"{name} "
        for name in list_entry_names(result, len(old))
    ]
    scale = np.maximum(np.abs(old), 1e-3 * np.nanmax(np.abs(old), initial=0.0))
    moved = np.abs(new - old) / np.where(scale > 0, scale, 1.0)
    moved[np.isnan(old) & np.isnan(new)] = 0.0
    worst = np.argsort(-np.nan_to_num(moved, nan=np.inf), kind="stable")[:MAX_LISTED_CHANGES]
    return ", ".join(
        f"{names[i] if len(old) > 1 else ''}{old[i]:.6g} -> {new[i]:.6g}"
        for i in worst
        if old[i] != new[i] and not moved[i] < CHANGE_TOLERANCE
    )


def _index_answers(report: ProbeReport) -> dict[tuple[str, str], ProbeAnswer]:
    return {
        (result.probe, name): answer
        for result in report.results
        for name, answer in result.answers.items()
    }


def list_pair_changes(report: ProbeReport, before: str, after: str) -> list[tuple[str, str]]:
    """Return the probes whose answers of two implementations differ, each with its change."""
    return [
        (result.probe, line)
        for result in report.results
        if {before, after} <= result.answers.keys()
        for line in describe_change(result, result.answers[before], result.answers[after])
    ]


def format_pair_changes(changes: Sequence[tuple[str, str]]) -> list[str]:
    """Return one line per change, and one for all answers that only have other numbers."""
    lines = [f"  {probe}: {text}" for probe, text in changes if OTHER_NUMBERS not in text]
    echoes = [probe for probe, text in changes if OTHER_NUMBERS in text]
    if not lines:
        return [f"  {probe}: {text}" for probe, text in changes]
    return lines + ([f"  {OTHER_NUMBERS}: {', '.join(echoes)}"] if echoes else [])


def list_version_changes(report: ProbeReport) -> list[tuple[str, str]]:
    """Return the probes whose answers differ between the two versions, each with its change."""
    compared = [result for result in report.results if _has_both_versions(result)]
    return list_pair_changes(dataclasses.replace(report, results=tuple(compared)), OTHER, HERE)


def format_version_lines(report: ProbeReport) -> list[str]:
    """Return the compared versions and the answers that changed, as lines for a terminal."""
    other, here = (report.versions[name] for name in (OTHER, HERE))
    text = [f"from {', '.join(other)}", f"to   {', '.join(here)}"]
    if other == here:
        text.append("Both interpreters have the same versions.")
    found = list_version_changes(report)
    compared = sum(map(_has_both_versions, report.results))
    left_out = len(report.results) - compared
    head = f"{len(found) or 'None'} of {compared} answers changed"
    head += f"; {left_out} could not be compared" if left_out else ""
    return [*text, head + (":" if found else "."), *format_pair_changes(found)]


def _has_both_versions(result: ProbeResult) -> bool:
    answers = (result.answers.get(name) for name in (OTHER, HERE))
    return all(answer is not None and not answer.failed for answer in answers)


def list_seed_flips(report: ProbeReport, seeds: int) -> list[str]:
    """Return one line per answer that changes with other scripted numbers.

    An answer flips if it agrees with its source on one set of numbers and differs on another, or if
    it cannot be measured on one of them.
    """
    lines = []
    for result in report.results:
        for name in report.versions:
            first = result.answers.get(name)
            for seed in range(1, seeds):
                other = result.answers.get(format_seed_label(name, seed))
                if first and other and _read_outcome(first) != _read_outcome(other):
                    words = describe_answer(other, name_source(result))
                    lines.append(f"{result.probe}, {name}, seed {seed}: {words}")
    return lines


def _read_outcome(answer: ProbeAnswer) -> str:
    if answer.unmeasured:
        return "unmeasured"
    return "agrees" if answer.comparison.kind == AGREES else "differs"
