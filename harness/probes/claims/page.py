"""Page of published claims and their verdicts, in Markdown."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.probes.claims.claims import (
    CONFIRMED,
    REFUTED,
    TEXTS,
    UNTESTABLE,
    ClaimVerdict,
    ImplementationClaim,
    judge_claim,
    list_unclaimed_differences,
)
from parallax.harness.probes.results import (
    AGREES,
    RECIPE,
    ProbeAnswer,
    ProbeReport,
    ProbeResult,
    describe_answer,
    name_source,
)
from parallax.harness.record.labels import FRAMEWORK_LABELS

CLAIM_FRAMEWORKS = ("cleanrl", "sb3", "torchrl")
"""Implementations that the claims are about."""
CLAIM_FRAMEWORK_LABELS = {name: FRAMEWORK_LABELS[name] for name in CLAIM_FRAMEWORKS}
OTHER_FRAMEWORKS = tuple(name for name in FRAMEWORK_LABELS if name not in CLAIM_FRAMEWORKS)
"""Frameworks that the claims are not about."""
DOCUMENTED_PROBES = ("default_settings", "learning_rates", "network_sizes", "tau_unit")
"""Probes of documented values (signature, command line, recipe): their findings are left out."""
FINDINGS_TABLE_HEAD = ("| probe | question | found |", "|---|---|---|")


def is_in_thesis(algorithm: str) -> bool:
    """Return whether the claims are about an algorithm."""
    return ALGORITHMS[algorithm].thesis_table is not None


def format_other_findings(report: ProbeReport) -> Iterator[str]:
    """Format differences of algorithms, then of frameworks, that the claims are not about."""
    beyond = [name for name, cls in ALGORITHMS.items() if not is_in_thesis(name)]
    for algorithm in beyond:
        rows = [
            format_finding_row(r, found)
            for r, found in _list_differing_answers(report, algorithm, tuple(FRAMEWORK_LABELS))
        ]
        if rows:
            yield TEXTS["findings"].format(label=ALGORITHMS[algorithm].label)
            yield from (*FINDINGS_TABLE_HEAD, *rows, "")
    of_thesis = [name for name in ALGORITHMS if is_in_thesis(name)]
    for one in OTHER_FRAMEWORKS:
        rows = [
            format_finding_row(*pair)
            for name in of_thesis
            for pair in _list_differing_answers(report, name, (one,))
        ]
        if rows:
            yield TEXTS["findings_of_framework"].format(label=FRAMEWORK_LABELS[one])
            yield from (*FINDINGS_TABLE_HEAD, *rows, "")


def _list_differing_answers(
    report: ProbeReport, algorithm: str, frameworks: tuple[str, ...]
) -> Iterator[tuple[ProbeResult, dict[str, ProbeAnswer]]]:
    for result in report.results:
        documented = result.probe.split(".", 1)[1] in DOCUMENTED_PROBES
        if result.algorithm != algorithm or documented:
            continue
        answers = {
            name: result.answers[name]
            for name in frameworks
            if name in result.answers
            and not result.answers[name].unmeasured
            and result.answers[name].comparison.kind != AGREES
        }
        if answers:
            yield result, answers


def format_finding_row(result: ProbeResult, answers: Mapping[str, ProbeAnswer]) -> str:
    """Format the answers to one probe as a row; frameworks with the same answer are grouped."""
    texts: dict[str, list[str]] = {}
    source = name_source(result)
    for name, answer in answers.items():
        texts.setdefault(describe_answer(answer, source), []).append(FRAMEWORK_LABELS[name])
    found = "; ".join(f"{', '.join(names)}: {text}" for text, names in texts.items())
    found = found.replace("|", "/").replace("] [", "] \\[")  # two brackets in a row are a link
    return f"| `{result.probe}` | {result.question} | {found} |"


def render_claims_page(report: ProbeReport, statements: Sequence[ImplementationClaim]) -> str:
    """Render the page of claims and their verdicts as Markdown.

    Raises:
        SpecError: Answers of an implementation or a probe are missing.
    """
    results = {result.probe: result for result in report.results}
    check_answers_complete(list(report.versions), list(results), statements)
    verdicts = [judge_claim(statement, results) for statement in statements]
    lines = [TEXTS["claims"], *_format_versions(report), "", *_format_summary(verdicts), ""]
    for section in dict.fromkeys(statement.section for statement in statements):
        chosen = [v for v in verdicts if v.claim.section == section]
        lines += [f"## {section}", "", *format_verdict_table(chosen), ""]
    lines += [
        *_format_unclaimed_differences(report, statements),
        "",
        *format_other_findings(report),
    ]
    return "\n".join(lines).rstrip() + "\n"


def check_answers_complete(
    implementations: Sequence[str], probes: Sequence[str], statements: Sequence[ImplementationClaim]
) -> None:
    """Check that all implementations and probes that the claims need have answers.

    Raises:
        SpecError: Names the missing implementations or probes.
    """
    missing = [name for name in CLAIM_FRAMEWORKS if name not in implementations]
    if missing:
        raise SpecError(f"--claims needs answers of {', '.join(missing)}, too.")
    needed = {check.probe for s in statements for check in s.checks if check.probe}
    lacking = sorted(needed - set(probes))
    if lacking:
        raise SpecError(
            f"--claims needs all probes, and {', '.join(lacking)} were not run: "
            "drop --algorithms and --probe."
        )


def format_verdict_table(verdicts: Sequence[ClaimVerdict]) -> Iterator[str]:
    """Format verdicts as a table, one row each."""
    yield "| where | statement | verdict | measured | probes |"
    yield "|---|---|---|---|---|"
    for verdict in verdicts:
        yield format_verdict_row(verdict)


def format_verdict_row(verdict: ClaimVerdict) -> str:
    """Format one verdict as a row."""
    statement = verdict.claim
    probes = dict.fromkeys(f"`{check.probe}`" for check in statement.checks if check.probe)
    word = f"**{verdict.word}**" if verdict.word == REFUTED else verdict.word
    measured = statement.untestable or "; ".join(_list_measurements(verdict))
    if statement.note:
        measured += f" ({statement.note.rstrip('.')}.)"
    cells = (statement.place, statement.says, word, measured, " ".join(probes))
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _list_measurements(verdict: ClaimVerdict) -> Iterator[str]:
    # Frameworks with the same finding are grouped; if a check fails, only failures are listed.
    findings = verdict.findings
    if verdict.word == REFUTED:
        findings = tuple(f for f in findings if f.holds is False and f.source != RECIPE)
    elif verdict.word == UNTESTABLE:
        findings = tuple(f for f in findings if f.holds is None or f.source == RECIPE)
    texts: dict[str, list[str]] = {}
    for finding in findings:
        names = texts.setdefault(finding.measured_text, [])
        if CLAIM_FRAMEWORK_LABELS[finding.framework] not in names:
            names.append(CLAIM_FRAMEWORK_LABELS[finding.framework])
    for text, names in texts.items():
        yield f"{', '.join(names)}: {text}"


def _format_versions(report: ProbeReport) -> Iterator[str]:
    versions = (
        f"{label}: {', '.join(report.versions[name])}"
        for name, label in CLAIM_FRAMEWORK_LABELS.items()
    )
    yield f"Measured with {'; '.join(versions)}."


def _format_summary(verdicts: Sequence[ClaimVerdict]) -> Iterator[str]:
    counts = Counter(verdict.word for verdict in verdicts)
    listed = ", ".join(f"{counts[word]} {word}" for word in (CONFIRMED, REFUTED, UNTESTABLE))
    yield f"{len(verdicts)} statements: {listed}."


def _format_unclaimed_differences(
    report: ProbeReport, statements: Sequence[ImplementationClaim]
) -> Iterator[str]:
    yield "## What else the probes found"
    yield ""
    yield "Differences from the papers that none of the statements above covers."
    yield ""
    yield from FINDINGS_TABLE_HEAD
    for result, answers in list_unclaimed_differences(report, statements):
        known = {name: answer for name, answer in answers.items() if name in CLAIM_FRAMEWORK_LABELS}
        if known and is_in_thesis(result.algorithm):
            yield format_finding_row(result, known)
