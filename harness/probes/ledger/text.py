"""The ledger as a Markdown page."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from harness.contract.fields import SpecError
from harness.probes.ledger.statements import Statement
from harness.probes.ledger.verdicts import (
    CONFIRMED,
    REFUTED,
    UNTESTABLE,
    Verdict,
    judge,
    unmentioned,
)
from harness.probes.results import RECIPE, Answer, Report, describe

FRAMEWORKS = ("cleanrl", "sb3", "torchrl")
"""The implementations that the statements are about."""

NAMES = {"cleanrl": "CleanRL", "sb3": "SB3", "torchrl": "TorchRL"}

HEAD = """# What is said of the implementations, and what they do

The thesis *How stable are baselines?* compares PPO, TD3 and SAC in Stable-Baselines3 (SB3),
CleanRL and TorchRL by reading their code. Here is every statement on the code in its sections 5
and 6 and its appendices C and D, in our words, with what [probes](probes.md) measured when they let
that code take a step. No verdict is written by hand:

    parallax probe --ledger docs/differences.md

computes each from the answers. *Confirmed*: every check of the statement holds. *Refuted*: one
does not; what was found stands beside it. *Not testable*: no probe can tell, or the installed
package does not have what the statement is about. Where a statement is about what stands in
upstream's text, the text is read, and file and line stand beside the verdict. Notes in round
brackets are ours. Square brackets say how an answer differs from the paper's: `x 2` a multiple,
`+ 0.5` an offset, `f` another function, with the largest difference, `#` another count.

TorchRL's wheel holds its training scripts, without their configuration files. What they do beside
its components, such as initialisation and schedules, is rebuilt here
([torchrl-recipes.md](torchrl-recipes.md)) and marked *our recipe*; tests run the scripts themselves
and find the same weights, bit for bit. No verdict rests on what a recipe does: the text of the
scripts decides, and what it leaves to a configuration file is not testable.
"""


def page(report: Report, statements: Sequence[Statement]) -> str:
    """The whole page.

    Raises:
        SpecError: Not every implementation, or not every probe, was asked.
    """
    results = {result.probe: result for result in report.results}
    check_complete(list(report.versions), list(results), statements)
    verdicts = [judge(statement, results) for statement in statements]
    lines = [HEAD, *_versions(report), "", *_summary(verdicts), ""]
    for section in dict.fromkeys(statement.section for statement in statements):
        chosen = [v for v in verdicts if v.statement.section == section]
        lines += [f"## {section}", "", *table(chosen), ""]
    return "\n".join([*lines, *_unmentioned(report, statements)]).rstrip() + "\n"


def check_complete(
    implementations: Sequence[str], probes: Sequence[str], statements: Sequence[Statement]
) -> None:
    """Refuses to judge by half of the answers.

    Raises:
        SpecError: Says which implementations or probes are missing.
    """
    missing = [name for name in FRAMEWORKS if name not in implementations]
    if missing:
        raise SpecError(f"--ledger needs answers of {', '.join(missing)}, too.")
    needed = {check.probe for s in statements for check in s.checks if check.probe}
    lacking = sorted(needed - set(probes))
    if lacking:
        raise SpecError(
            f"--ledger needs all probes, and {', '.join(lacking)} were not asked: "
            "drop --algorithm and --probe."
        )


def table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """One row per verdict."""
    yield "| where | statement | verdict | measured | probes |"
    yield "|---|---|---|---|---|"
    for verdict in verdicts:
        yield row(verdict)


def row(verdict: Verdict) -> str:
    """One verdict."""
    statement = verdict.statement
    probes = dict.fromkeys(f"`{check.probe}`" for check in statement.checks if check.probe)
    word = f"**{verdict.word}**" if verdict.word == REFUTED else verdict.word
    measured = statement.untestable or "; ".join(_measured(verdict))
    if statement.note:
        measured += f" ({statement.note.rstrip('.')}.)"
    cells = (statement.place, statement.says, word, measured, " ".join(probes))
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _measured(verdict: Verdict) -> Iterator[str]:
    # Frameworks that say the same stand together; where one check fails, only what fails.
    findings = verdict.findings
    if verdict.word == REFUTED:
        findings = tuple(f for f in findings if f.holds is False and f.source != RECIPE)
    elif verdict.word == UNTESTABLE:
        findings = tuple(f for f in findings if f.holds is None or f.source == RECIPE)
    texts: dict[str, list[str]] = {}
    for finding in findings:
        names = texts.setdefault(finding.shown, [])
        if NAMES[finding.framework] not in names:
            names.append(NAMES[finding.framework])
    for text, names in texts.items():
        yield f"{', '.join(names)}: {text}"


def _versions(report: Report) -> Iterator[str]:
    yield (
        "Measured with "
        + "; ".join(f"{NAMES[name]}: {', '.join(report.versions[name])}" for name in FRAMEWORKS)
        + "."
    )


def _summary(verdicts: Sequence[Verdict]) -> Iterator[str]:
    counts = Counter(verdict.word for verdict in verdicts)
    listed = ", ".join(f"{counts[word]} {word}" for word in (CONFIRMED, REFUTED, UNTESTABLE))
    yield f"{len(verdicts)} statements: {listed}."


def _unmentioned(report: Report, statements: Sequence[Statement]) -> Iterator[str]:
    yield "## What else the probes found"
    yield ""
    yield "Differences from the papers that none of the statements above tells of."
    yield ""
    yield "| probe | question | found |"
    yield "|---|---|---|"
    for result, answers in unmentioned(report, statements):
        known = {name: answer for name, answer in answers.items() if name in NAMES}
        if known:
            yield f"| `{result.probe}` | {result.question} | {_found(known)} |"


def _found(answers: Mapping[str, Answer]) -> str:
    texts: dict[str, list[str]] = {}
    for name, answer in answers.items():
        texts.setdefault(describe(answer), []).append(NAMES[name])
    found = (f"{', '.join(names)}: {text}" for text, names in texts.items())
    return "; ".join(found).replace("|", "/")
