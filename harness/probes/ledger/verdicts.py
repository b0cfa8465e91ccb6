"""Verdicts on statements, computed check by check from what probes measured."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from harness.probes.ledger.statements import TAKES, Check, Statement
from harness.probes.ledger.texts import line_of
from harness.probes.results import (
    AGREES,
    FACTOR,
    OFFSET,
    RECIPE,
    Answer,
    Array,
    Report,
    Result,
    describe,
    entry_names,
)

PROBE, TEXT = "probe", "text"
"""What a finding rests on, beside `RECIPE`."""
YES_NO = "0 no, 1 yes"
FEW, SMALL = 4, 1e-7
"""Most numbers that are shown beside an answer that is the paper's; what is shown as 0."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One framework's answer to one check.

    Attributes:
        framework: Name.
        holds: Whether the check holds; None where the probe has no answer.
        shown: What was measured, in a few words.
        source: What it rests on: `PROBE`, `TEXT`, or `RECIPE`, which decides nothing on upstream.
    """

    framework: str
    holds: bool | None
    shown: str
    source: str = PROBE


def find(check: Check, results: Mapping[str, Result]) -> list[Finding]:
    """What a check finds, one entry per framework.

    Raises:
        KeyError: The check's probe was not asked.
    """
    if check.file:
        return [_read(check, name) for name in check.who]
    result = results[check.probe]
    return [_of_recipe(check, _find(check, result, name), result) for name in check.who]


def _read(check: Check, name: str) -> Finding:
    line = line_of(name, check.file, str(check.value))
    place = check.file.removeprefix("sota-implementations/")
    if line is None:
        return Finding(name, None, f"{place} is not installed", TEXT)
    shown = f"{place}:{line}: `{check.value}`" if line else f"{place} has no `{check.value}`"
    return Finding(name, bool(line) == (check.kind == "text"), shown, TEXT)


def _of_recipe(check: Check, finding: Finding, result: Result) -> Finding:
    compared = [str(check.value)] if check.kind in ("like", "unlike") else []
    answers = (result.answers.get(name) for name in (finding.framework, *compared))
    if not any(answer is not None and answer.origin == RECIPE for answer in answers):
        return finding
    shown = finding.shown.removesuffix("[our recipe]").rstrip()
    return dataclasses.replace(finding, shown=f"our recipe: {shown}", source=RECIPE)


def _find(check: Check, result: Result, name: str) -> Finding:
    answer = result.answers.get(name)
    if answer is None:
        return Finding(name, None, "was not probed")
    if check.kind == "set" and not answer.unmeasured:
        # Probes of an option find 1 where it has an effect; others are of what it does.
        works = bool(np.any(np.nan_to_num(answer.value)))
        shown = "can be set" if works else "can be set, without effect"
        return Finding(name, works == check.value, shown)
    if answer.unmeasured:
        return Finding(name, None, describe(answer))
    match check.kind:
        case "equals" | "above" | "below":
            return _numbers(check, result, name)
        case "like" | "unlike":
            alike = any(name in group and check.value in group for group in result.groups)
            other = describe(result.answers[str(check.value)])
            shown = f"as {check.value}" if alike else f"{_shown(answer)}; {check.value}: {other}"
            return Finding(name, alike == (check.kind == "like"), shown)
        case "says":
            return Finding(name, str(check.value) in answer.meaning, _shown(answer))
        case "paper":
            same = answer.comparison.kind == AGREES
            told = f" ({result.citation})" if same and not check.value else ""
            return Finding(name, same == check.value, _shown(answer, told))
    kind = {"factor": FACTOR, "offset": OFFSET}[check.kind]
    size = answer.comparison.size
    holds = answer.comparison.kind == kind and bool(np.isclose(size, check.value, check.tolerance))
    return Finding(name, holds, _shown(answer))


def _shown(answer: Answer, told: str = "") -> str:
    numbers = f": {_short(np.ravel(answer.value))}" if answer.value.size <= FEW else ""
    return describe(answer) + told + (numbers if answer.comparison.kind == AGREES else "")


def _numbers(check: Check, result: Result, name: str) -> Finding:
    taken = _take(check, result, np.ravel(result.answers[name].value)) / check.unit
    wanted = np.broadcast_to(np.asarray(check.value, float), taken.shape)
    match check.kind:
        case "above":
            holds = bool((taken > wanted).all())
        case "below":
            holds = bool((taken < wanted).all())
        case _:
            room = check.tolerance * np.where(wanted == 0, 1.0, np.abs(wanted))
            holds = bool((np.abs(taken - wanted) <= room).all())
    named = [place for place in check.take if isinstance(place, str)] if holds else []
    shown = (f"{' and '.join(named)} " if named and check.take not in TAKES else "") + _short(taken)
    if result.quantity.startswith(YES_NO) and holds:
        shown = {"0": "no", "1": "yes"}.get(shown, shown)
    return Finding(name, holds, shown if holds else f"{shown}, not {_wanted(check, wanted)}")


def _take(check: Check, result: Result, flat: Array) -> Array:
    match check.take:
        case "all":
            return flat
        case "smallest":
            return np.array([flat.min()])
        case "largest":
            return np.array([flat.max()])
        case "first":
            return flat[:1]
        case "last":
            return flat[-1:]
    names = entry_names(result, len(flat))
    return flat[[names.index(place) if isinstance(place, str) else place for place in check.take]]


def _wanted(check: Check, wanted: Array) -> str:
    head = "" if check.kind == "equals" else f"{check.kind} "
    return head + _short(wanted)


def _short(numbers: Array) -> str:
    # All alike are shown once.
    shown = [
        f"{x:.0f}" if x == round(x) else f"{x:.4g}"
        for x in np.where(np.abs(numbers) < SMALL, 0.0, numbers)
    ]
    if len(set(shown)) == 1:
        return shown[0]
    return ", ".join(shown[:6]) + (", ..." if len(shown) > 6 else "")


CONFIRMED, REFUTED, UNTESTABLE = "confirmed", "refuted", "not testable"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the probes say about a statement.

    Attributes:
        statement: It.
        word: `confirmed`, `refuted` or `not testable`.
        findings: What was measured.
    """

    statement: Statement
    word: str
    findings: tuple[Finding, ...] = ()


def judge(statement: Statement, results: Mapping[str, Result]) -> Verdict:
    """Confirmed where all checks hold, refuted where one does not.

    What this project's recipes do decides nothing: a statement that rests on it alone, for one of
    the frameworks, is not testable.

    Args:
        statement: With checks, or with the reason why it has none.
        results: By probe.

    Raises:
        KeyError: A check's probe was not asked.
    """
    if statement.untestable:
        return Verdict(statement, UNTESTABLE)
    findings = tuple(f for check in statement.checks for f in find(check, results))
    read = {f.framework for f in findings if f.source == TEXT}
    held = {
        None if f.source == RECIPE else f.holds
        for f in findings
        if not (f.source == RECIPE and f.framework in read)
    }
    word = REFUTED if False in held else UNTESTABLE if None in held else CONFIRMED
    return Verdict(statement, word, findings)


def unmentioned(
    report: Report, statements: Sequence[Statement]
) -> list[tuple[Result, dict[str, Answer]]]:
    """Differences from the papers that no statement tells of: probes, with answers by framework."""
    told = {
        (check.probe, name)
        for statement in statements
        if statement.covers
        for check in statement.checks
        for name in check.who
    }
    about = {name for statement in statements for c in statement.checks for name in c.who}
    found = []
    for result in report.results:
        answers = {
            name: answer
            for name, answer in result.answers.items()
            if name in about
            and (result.probe, name) not in told
            and not answer.unmeasured
            and answer.comparison.kind != AGREES
        }
        if answers:
            found.append((result, answers))
    return found
