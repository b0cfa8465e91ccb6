"""Stored answers: what is no longer as it was, here or between two versions of a framework."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.contract.fields import SpecError
from harness.probes.fleet import HERE, OTHER
from harness.probes.probe import alike, relate
from harness.probes.registry import PROBES
from harness.probes.results import (
    AGREES,
    Answer,
    Array,
    Report,
    Result,
    describe,
    entry_names,
    from_json,
)

ROOM = 1e-3
"""Change of an answer, as a share of its largest number, that another processor may cause."""

MOST = 5
"""Numbers of one answer that are listed when they changed."""

AnswerTable = dict[tuple[str, str], Answer]
"""By probe and implementation."""


def read(path: Path) -> Report:
    """A report that was stored.

    Raises:
        SpecError: There is none at `path`.
    """
    try:
        return from_json(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SpecError(
            f"{path}: no stored answers there ({error}). Write them with --json {path}."
        ) from error


def merged(report: Report, stored: Report) -> Report:
    """The stored report with what was asked anew in its place."""
    old = {result.probe: result for result in stored.results}
    known = {probe.name: probe for probe in PROBES}
    for result in report.results:
        if result.probe in old:
            kept = {**old[result.probe].answers, **result.answers}
            probe = known.get(result.probe)
            groups = alike(probe, kept) if probe else result.groups
            old[result.probe] = dataclasses.replace(result, answers=kept, groups=groups)
        else:
            old[result.probe] = result
    return dataclasses.replace(
        report, results=tuple(old.values()), versions={**stored.versions, **report.versions}
    )


def restricted(report: Report, probes: Sequence[str], names: Sequence[str]) -> Report:
    """The answers to some probes by some implementations."""
    results = [
        dataclasses.replace(
            result,
            answers={name: answer for name, answer in result.answers.items() if name in names},
            groups=tuple(filter(None, (tuple(n for n in g if n in names) for g in result.groups))),
        )
        for result in report.results
        if result.probe in probes
    ]
    versions = {name: packages for name, packages in report.versions.items() if name in names}
    return dataclasses.replace(report, results=tuple(results), versions=versions)


def changes(report: Report, stored: Report) -> Sequence[str]:
    """What is no longer as stored: one line per answer that changed, vanished or is new.

    Probes and implementations that were not asked this time are left out.
    """
    now, then = _answers(report), _answers(stored)
    asked = {result.probe: result for result in report.results}
    text = []
    for probe, name in sorted(now.keys() | then.keys()):
        if probe not in asked or name not in report.versions:
            continue
        before, after = then.get((probe, name)), now.get((probe, name))
        if before is None or after is None:
            text.append(f"{probe}, {name}: {'new' if before is None else 'gone'}")
        else:
            text += [f"{probe}, {name}: {line}" for line in changed(asked[probe], before, after)]
    return text


def other_versions(report: Report, stored: Report) -> list[str]:
    """One line per implementation whose packages are not those of the stored answers."""
    return [
        f"({name}: stored with {', '.join(stored.versions[name])})"
        for name, packages in report.versions.items()
        if stored.versions.get(name, packages) != packages
    ]


def changed(result: Result, before: Answer, after: Answer) -> list[str]:
    """How an answer to a probe differs from an earlier one, in at most one line."""
    was_is = f"was {describe(before)}; is {describe(after)}"
    if before.unmeasured or after.unmeasured:
        return [] if bool(before.unmeasured) == bool(after.unmeasured) else [was_is]
    if _same(result.probe, before, after):
        return []
    moved = numbers(result, before.value, after.value)
    # Names say it all; places do not.
    named = before.value.size > 1 and entry_names(result, before.value.size)[0] != "0"
    return [moved if named and moved else f"{was_is} ({moved})" if moved else was_is]


def _same(name: str, before: Answer, after: Answer) -> bool:
    if np.array_equal(before.value, after.value, equal_nan=True):
        return True
    probe = next((known for known in PROBES if known.name == name), None)
    if probe is None:
        return False
    looser = dataclasses.replace(probe, tolerance=max(ROOM, probe.tolerance))
    old, new = before.comparison, after.comparison
    alike = np.isclose(old.size, new.size, looser.tolerance, 1e-9, equal_nan=True)
    if old.kind != new.kind or not alike:
        return False
    return relate(looser, after.value, before.value).kind == AGREES


def numbers(result: Result, before: Array, after: Array) -> str:
    """The numbers that changed most, with their names or places where there are several."""
    old, new = np.ravel(before), np.ravel(after)
    if len(old) != len(new):
        return f"{len(old)} numbers -> {len(new)}"
    names = entry_names(result, len(old))
    room = np.maximum(np.abs(old), 1e-3 * np.nanmax(np.abs(old), initial=0.0))
    moved = np.abs(new - old) / np.where(room > 0, room, 1.0)
    worst = np.argsort(-np.nan_to_num(moved, nan=np.inf), kind="stable")[:MOST]
    return ", ".join(
        f"{names[i] + ' ' if len(old) > 1 else ''}{old[i]:.6g} -> {new[i]:.6g}"
        for i in worst
        if old[i] != new[i] and not moved[i] < ROOM
    )


def _answers(report: Report) -> AnswerTable:
    return {
        (result.probe, name): answer
        for result in report.results
        for name, answer in result.answers.items()
    }


def version_changes(report: Report) -> Sequence[str]:
    """One line per probe that the two versions answer differently."""
    return [
        f"{result.probe}: {line}"
        for result in report.results
        if _pair(result) is not None
        for line in changed(result, result.answers[OTHER], result.answers[HERE])
    ]


def version_lines(report: Report) -> list[str]:
    """Which versions were compared and what changed from the other one to this one."""
    other, here = (report.versions[name] for name in (OTHER, HERE))
    text = [f"from {', '.join(other)}", f"to   {', '.join(here)}"]
    if other == here:
        text.append("Both interpreters have the same versions.")
    found = version_changes(report)
    compared = sum(_pair(result) is not None for result in report.results)
    left_out = len(report.results) - compared
    text.append(
        f"{len(found) or 'None'} of {compared} answers changed"
        + (f"; {left_out} could not be compared" if left_out else "")
        + (":" if found else ".")
    )
    return [*text, *(f"  {line}" for line in found)]


def _pair(result: Result) -> tuple[Answer, Answer] | None:
    # Both versions' answers, where neither failed.
    answers = result.answers.get(OTHER), result.answers.get(HERE)
    if answers[0] is None or answers[1] is None or any(a and a.failed for a in answers):
        return None
    return answers[0], answers[1]
