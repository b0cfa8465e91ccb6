"""Verdicts on statements, computed from what probes measured."""

import dataclasses
from collections.abc import Mapping, Sequence

from harness.probes.ledger.findings import Finding, find
from harness.probes.ledger.statements import Statement
from harness.probes.results import AGREES, Answer, Report, Result

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
    found = []
    for result in report.results:
        answers = {
            name: answer
            for name, answer in result.answers.items()
            if (result.probe, name) not in told
            and not answer.unmeasured
            and answer.comparison.kind != AGREES
        }
        if answers:
            found.append((result, answers))
    return found
