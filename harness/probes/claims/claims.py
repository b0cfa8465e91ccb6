"""Published claims about implementations (`claims.yaml`), judged by results of probes.

A claim has checks of measured answers or of the text of upstream's files. Its verdict is computed
from them and never written by hand.
"""

import dataclasses
import functools
import importlib.metadata
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.fields import SpecError
from parallax.harness.probes.results import (
    AGREES,
    FACTOR,
    OFFSET,
    RECIPE,
    ProbeAnswer,
    ProbeReport,
    ProbeResult,
    describe_answer,
    list_entry_names,
    name_source,
)

CLAIMS_FILE = Path(__file__).with_name("claims.yaml")
TEXTS: Mapping[str, str] = yaml.safe_load(CLAIMS_FILE.with_name("texts.yaml").read_text("utf-8"))
"""Texts of the pages of claims and of implementation details."""
NUMBER_SELECTIONS = ("all", "smallest", "largest", "first", "last")
TEXT_CHECK_KINDS = ("text", "absent")
CHECK_KINDS = (
    *("equals", "above", "below", "paper", "factor", "offset", "like", "unlike", "says", "set"),
    *TEXT_CHECK_KINDS,
)


@dataclasses.dataclass(frozen=True)
class ClaimCheck:
    """Condition on the answer to a probe, or on the text of a file, for a claim to be true.

    Attributes:
        probe: Name of the probe; empty if a file is read.
        who: Frameworks that the claim is about.
        kind: One of `CHECK_KINDS`: the numbers equal, are above or below a number; the answer is
            the paper's or is not; differs by a factor or an offset; is like or unlike that of
            another framework; its meaning contains a text; the probe's setting can be set or not;
            the file contains a text or does not.
        value: Number, text or framework of the condition.
        take: Selection of the answer's numbers: one of `NUMBER_SELECTIONS`, or positions or names.
        unit: Divisor of the numbers before they are compared and shown.
        tolerance: Largest relative difference that counts as equal.
        file: Upstream's file, as a path in the distribution.
    """

    probe: str
    who: tuple[str, ...]
    kind: str
    value: Any
    take: str | tuple[int | str, ...] = "all"
    unit: float = 1.0
    tolerance: float = 1e-3
    file: str = ""


@dataclasses.dataclass(frozen=True)
class ImplementationClaim:
    """One published claim.

    Attributes:
        section: Heading of its section on the page.
        place: Section, box or table of the publication.
        says: The claim in our own words.
        checks: Checks that all hold if it is true; empty if it cannot be tested.
        untestable: Reason why it cannot be tested.
        note: Further explanation.
        covers: Whether the claim describes the differences that its probes find.
    """

    section: str
    place: str
    says: str
    checks: tuple[ClaimCheck, ...] = ()
    untestable: str = ""
    note: str = ""
    covers: bool = True


def load_claims(path: Path = CLAIMS_FILE) -> tuple[ImplementationClaim, ...]:
    """Load all claims.

    Raises:
        SpecError: An entry is invalid.
    """
    sections: Mapping[str, list[Mapping[str, Any]]] = yaml.safe_load(path.read_text())
    return tuple(
        _claim_from_dict(section, entry)
        for section, entries in sections.items()
        for entry in entries
    )


def _claim_from_dict(section: str, entry: Mapping[str, Any]) -> ImplementationClaim:
    fields = {"section": section, **entry}
    checks = tuple(make_check(check, entry["says"]) for check in fields.pop("checks", []))
    if bool(checks) == bool(fields.get("untestable")):
        raise SpecError(f"claims: {entry['says']!r} needs either checks or untestable.")
    return ImplementationClaim(checks=checks, **fields)


def make_check(entry: Mapping[str, Any], says: str) -> ClaimCheck:
    """Make a check from an entry in a file.

    Args:
        entry: Probe or file, frameworks (`who`), one kind of check with its value, and options.
        says: The claim that it checks, for messages.

    Raises:
        SpecError: The entry is not a valid check.
    """
    fields = dict(entry)
    kinds = [kind for kind in CHECK_KINDS if kind in fields]
    if len(kinds) != 1:
        raise SpecError(
            f"claims: a check of {says!r} needs exactly one of {', '.join(CHECK_KINDS)}."
        )
    if (kinds[0] in TEXT_CHECK_KINDS) != ("file" in fields) or ("probe" in fields) == (
        "file" in fields
    ):
        raise SpecError(f"claims: a check of {says!r} needs a probe, or a file and its text.")
    if "take" in fields and kinds[0] not in ("equals", "above", "below"):
        raise SpecError(f"claims: {kinds[0]} of {says!r} is about a whole answer: drop take.")
    take = fields.pop("take", "all")
    if isinstance(take, str) and take not in NUMBER_SELECTIONS:
        raise SpecError(
            f"claims: take: {take} of {says!r} must be one of {', '.join(NUMBER_SELECTIONS)}."
        )
    return ClaimCheck(
        probe=fields.pop("probe", ""),
        who=tuple(fields.pop("who")),
        kind=kinds[0],
        value=fields.pop(kinds[0]),
        take=take if isinstance(take, str) else tuple(take),
        **fields,
    )


DISTRIBUTION_NAMES = {"cleanrl": "cleanrl", "sb3": "stable-baselines3", "torchrl": "torchrl"}
"""Distributions whose files are read, by framework."""


def find_line(framework: str, file: str, text: str) -> int | None:
    """Return the first line at which a text begins, or 0 if the file does not contain it.

    Args:
        framework: Name of the framework.
        file: Path in its distribution.
        text: Text to find; all white space counts as equal.

    Returns:
        The line, counted from 1; None if the file does not exist.
    """
    content = _read_upstream_file(framework, file)
    if content is None:
        return None
    found = re.search(r"\s+".join(re.escape(part) for part in text.split()), content)
    return content.count("\n", 0, found.start()) + 1 if found else 0


@functools.cache
def _read_upstream_file(framework: str, file: str) -> str | None:
    try:
        distribution = importlib.metadata.distribution(DISTRIBUTION_NAMES[framework])
        return Path(str(distribution.locate_file(file))).read_text()
    except (importlib.metadata.PackageNotFoundError, OSError):
        return None


PROBE_SOURCE, TEXT_SOURCE = "probe", "text"
"""Sources of a finding, besides `RECIPE`."""
YES_NO = "0 no, 1 yes"
MAX_SHOWN_NUMBERS, ZERO_TOLERANCE = 4, 1e-7
"""Largest number of numbers shown beside an answer that agrees; largest number shown as 0."""


@dataclasses.dataclass(frozen=True)
class ClaimFinding:
    """Result of one check for one framework.

    Attributes:
        framework: Name of the framework.
        holds: Whether the check holds; None if the probe has no answer.
        measured_text: Measured answer, in a few words.
        source: `PROBE_SOURCE`, `TEXT_SOURCE`, or `RECIPE`, which is no evidence about upstream.
    """

    framework: str
    holds: bool | None
    measured_text: str
    source: str = PROBE_SOURCE


def evaluate_check(check: ClaimCheck, results: Mapping[str, ProbeResult]) -> list[ClaimFinding]:
    """Return the findings of a check, one per framework.

    Raises:
        KeyError: The check's probe was not run.
    """
    if check.file:
        return [_check_upstream_text(check, name) for name in check.who]
    result = results[check.probe]
    return [
        _mark_recipe_finding(check, _evaluate_for_framework(check, result, name), result)
        for name in check.who
    ]


def _check_upstream_text(check: ClaimCheck, name: str) -> ClaimFinding:
    line = find_line(name, check.file, str(check.value))
    place = check.file.removeprefix("sota-implementations/")
    if line is None:
        return ClaimFinding(name, None, f"{place} is not installed", TEXT_SOURCE)
    shown = f"{place}:{line}: `{check.value}`" if line else f"{place} has no `{check.value}`"
    return ClaimFinding(name, bool(line) == (check.kind == "text"), shown, TEXT_SOURCE)


def _mark_recipe_finding(
    check: ClaimCheck, finding: ClaimFinding, result: ProbeResult
) -> ClaimFinding:
    compared = [str(check.value)] if check.kind in ("like", "unlike") else []
    answers = (result.answers.get(name) for name in (finding.framework, *compared))
    if not any(answer is not None and answer.origin == RECIPE for answer in answers):
        return finding
    shown = finding.measured_text.removesuffix("[our recipe]").rstrip()
    return dataclasses.replace(finding, measured_text=f"our recipe: {shown}", source=RECIPE)


def _evaluate_for_framework(check: ClaimCheck, result: ProbeResult, name: str) -> ClaimFinding:
    answer, source = result.answers.get(name), name_source(result)
    if answer is None:
        return ClaimFinding(name, None, "was not probed")
    if check.kind == "set" and not answer.unmeasured:
        # Probes of an option measure 1 if it has an effect; other probes measure the effect.
        works = bool(np.any(np.nan_to_num(answer.value)))
        shown = "can be set" if works else "can be set, without effect"
        return ClaimFinding(name, works == check.value, shown)
    if answer.unmeasured:
        return ClaimFinding(name, None, describe_answer(answer))
    match check.kind:
        case "equals" | "above" | "below":
            return _check_numbers(check, result, name)
        case "like" | "unlike":
            alike = any(name in group and check.value in group for group in result.groups)
            other = describe_answer(result.answers[str(check.value)], source)
            shown = (
                f"as {check.value}"
                if alike
                else f"{_format_answer(answer, source)}; {check.value}: {other}"
            )
            return ClaimFinding(name, alike == (check.kind == "like"), shown)
        case "says":
            return ClaimFinding(
                name, str(check.value) in answer.meaning, _format_answer(answer, source)
            )
        case "paper":
            same = answer.comparison.kind == AGREES
            citation = f" ({result.citation})" if same and not check.value else ""
            return ClaimFinding(name, same == check.value, _format_answer(answer, source, citation))
    kind = {"factor": FACTOR, "offset": OFFSET}[check.kind]
    size = answer.comparison.size
    holds = answer.comparison.kind == kind and bool(np.isclose(size, check.value, check.tolerance))
    return ClaimFinding(name, holds, _format_answer(answer, source))


def _format_answer(answer: ProbeAnswer, source: str, citation: str = "") -> str:
    text = describe_answer(answer, source) + citation
    if answer.comparison.kind == AGREES and answer.value.size <= MAX_SHOWN_NUMBERS:
        text += f": {_format_numbers(np.ravel(answer.value))}"
    return text


def _check_numbers(check: ClaimCheck, result: ProbeResult, name: str) -> ClaimFinding:
    flat = np.ravel(result.answers[name].value)
    try:
        taken = _select_numbers(check, result, flat) / check.unit
        wanted = np.broadcast_to(np.asarray(check.value, float), taken.shape)
    except (IndexError, ValueError) as error:
        raise SpecError(
            f"{result.probe}: the answer of {name} has {flat.size} numbers, and not those that a "
            "claim is about: it is of another version. Measure it again."
        ) from error
    if np.isnan(taken).any():
        return ClaimFinding(name, None, "upstream declares no value")
    match check.kind:
        case "above":
            holds = bool((taken > wanted).all())
        case "below":
            holds = bool((taken < wanted).all())
        case _:
            room = check.tolerance * np.where(wanted == 0, 1.0, np.abs(wanted))
            holds = bool((np.abs(taken - wanted) <= room).all())
    named = [place for place in check.take if isinstance(place, str)] if holds else []
    shown = (
        f"{' and '.join(named)} " if named and check.take not in NUMBER_SELECTIONS else ""
    ) + _format_numbers(taken)
    if result.quantity.startswith(YES_NO) and holds:
        shown = {"0": "no", "1": "yes"}.get(shown, shown)
    return ClaimFinding(
        name, holds, shown if holds else f"{shown}, not {_format_expected(check, wanted)}"
    )


def _select_numbers(check: ClaimCheck, result: ProbeResult, flat: Array) -> Array:
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
    names = list_entry_names(result, len(flat))
    return flat[[names.index(place) if isinstance(place, str) else place for place in check.take]]


def _format_expected(check: ClaimCheck, wanted: Array) -> str:
    head = "" if check.kind == "equals" else f"{check.kind} "
    return head + _format_numbers(wanted)


def _format_numbers(numbers: Array) -> str:
    # Equal numbers are shown once.
    shown = [
        f"{x:.0f}" if x == round(x) else f"{x:.4g}"
        for x in np.where(np.abs(numbers) < ZERO_TOLERANCE, 0.0, numbers)
    ]
    if len(set(shown)) == 1:
        return shown[0]
    return ", ".join(shown[:6]) + (", ..." if len(shown) > 6 else "")


CONFIRMED, REFUTED, UNTESTABLE = "confirmed", "refuted", "not testable"


@dataclasses.dataclass(frozen=True)
class ClaimVerdict:
    """Verdict on a claim.

    Attributes:
        claim: The claim.
        word: `confirmed`, `refuted` or `not testable`.
        findings: Results of its checks.
    """

    claim: ImplementationClaim
    word: str
    findings: tuple[ClaimFinding, ...] = ()


def judge_claim(statement: ImplementationClaim, results: Mapping[str, ProbeResult]) -> ClaimVerdict:
    """Return the verdict: confirmed if all checks hold, refuted if one does not.

    Findings about this project's recipes do not count: a claim that has only such findings for one
    of the frameworks is not testable.

    Args:
        statement: The claim, with checks or the reason why it has none.
        results: Results by probe.

    Raises:
        KeyError: A check's probe was not run.
    """
    if statement.untestable:
        return ClaimVerdict(statement, UNTESTABLE)
    findings = tuple(f for check in statement.checks for f in evaluate_check(check, results))
    read = {f.framework for f in findings if f.source == TEXT_SOURCE}
    results_of_checks = {
        None if f.source == RECIPE else f.holds
        for f in findings
        if not (f.source == RECIPE and f.framework in read)
    }
    word = UNTESTABLE if None in results_of_checks else CONFIRMED
    return ClaimVerdict(statement, REFUTED if False in results_of_checks else word, findings)


def list_unclaimed_differences(
    report: ProbeReport, statements: Sequence[ImplementationClaim]
) -> list[tuple[ProbeResult, dict[str, ProbeAnswer]]]:
    """Return differences from the papers that no claim covers, with answers by framework."""
    covered = {
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
            and (result.probe, name) not in covered
            and not answer.unmeasured
            and answer.comparison.kind != AGREES
        }
        if answers:
            found.append((result, answers))
    return found
