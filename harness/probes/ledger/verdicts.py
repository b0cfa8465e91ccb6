"""Verdicts on statements, computed check by check from what probes measured."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from harness.probes.ledger.statements import TAKES, Check, Statement
from harness.probes.results import (
    AGREES,
    FACTOR,
    OFFSET,
    Answer,
    Array,
    Report,
    Result,
    describe,
    entry_names,
)

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
    """

    framework: str
    holds: bool | None
    shown: str


def find(check: Check, result: Result) -> list[Finding]:
    """What a check finds, one entry per framework."""
    return [_find(check, result, name) for name in check.who]


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

    Args:
        statement: With checks, or with the reason why it has none.
        results: By probe.

    Raises:
        KeyError: A check's probe was not asked.
    """
    if statement.untestable:
        return Verdict(statement, UNTESTABLE)
    findings = tuple(f for check in statement.checks for f in find(check, results[check.probe]))
    held = {finding.holds for finding in findings}
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
