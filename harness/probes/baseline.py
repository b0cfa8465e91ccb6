"""Stored answers: what is no longer as it was, and how to keep them."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.fields import SpecError
from harness.files import write_json
from harness.probes.compare import compare
from harness.probes.registry import PROBES
from harness.probes.report import describe
from harness.probes.results import AGREES, Answer, Array, Report, from_json, to_json

ROOM = 1e-3
"""Change of an answer, as a share of its largest number, that another processor may cause."""

Answers = dict[tuple[str, str], Answer]
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
            f"--baseline {path}: no stored probe results there ({error}). Write them with "
            f"--baseline {path} --update-baseline."
        ) from error


def write(path: Path, report: Report) -> None:
    """Stores a report.

    Raises:
        SpecError: The file cannot be written.
    """
    try:
        write_json(path, to_json(report))
    except OSError as error:
        raise SpecError(f"{path} cannot be written ({error.strerror}).") from error


def merged(report: Report, stored: Report) -> Report:
    """The stored report with what was asked anew in its place."""
    old = {result.probe: result for result in stored.results}
    for result in report.results:
        if result.probe in old:
            kept = {**old[result.probe].answers, **result.answers}
            old[result.probe] = dataclasses.replace(result, answers=kept)
        else:
            old[result.probe] = result
    return dataclasses.replace(
        report, results=tuple(old.values()), versions={**stored.versions, **report.versions}
    )


def changes(report: Report, stored: Report) -> Sequence[str]:
    """What is no longer as stored: one line per answer that changed, vanished or is new.

    Probes and implementations that were not asked this time are left out.
    """
    now, then = _answers(report), _answers(stored)
    asked = {result.probe for result in report.results}
    text = []
    for probe, name in sorted(now.keys() | then.keys()):
        if probe not in asked or name not in report.versions:
            continue
        before, after = then.get((probe, name)), now.get((probe, name))
        if before is None or after is None:
            text.append(f"{probe}, {name}: {'new' if before is None else 'gone'}")
        else:
            text += [f"{probe}, {name}: {line}" for line in changed(probe, before, after)]
    return text


def changed(probe: str, before: Answer, after: Answer) -> list[str]:
    """How an answer differs from an earlier one, in at most one line."""
    was_is = f"was {describe(before)}; is {describe(after)}"
    if before.unmeasured or after.unmeasured:
        return [] if bool(before.unmeasured) == bool(after.unmeasured) else [was_is]
    if np.array_equal(before.value, after.value, equal_nan=True):
        return []
    counts = any(known.counts for known in PROBES if known.name == probe)
    if compare(after.value, before.value, ROOM, counts).kind == AGREES:
        return []
    return [f"{was_is} ({numbers(before.value, after.value)})"]


def numbers(before: Array, after: Array) -> str:
    """The numbers that changed most, with their places where there are several."""
    old, new = np.ravel(before), np.ravel(after)
    if len(old) != len(new):
        return f"{len(old)} numbers -> {len(new)}"
    worst = np.argsort(-np.abs(new - old), kind="stable")[:3]
    places = [f"[{i}] " if len(old) > 1 else "" for i in worst]
    return ", ".join(
        f"{place}{old[i]:.6g} -> {new[i]:.6g}"
        for place, i in zip(places, worst, strict=True)
        if old[i] != new[i]
    )


def _answers(report: Report) -> Answers:
    return {
        (result.probe, name): answer
        for result in report.results
        for name, answer in result.answers.items()
    }
