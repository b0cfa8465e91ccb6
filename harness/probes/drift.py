"""What changed in behaviour between two versions of one framework."""

from collections.abc import Sequence

from harness.probes.baseline import changed
from harness.probes.parties import HERE, OTHER
from harness.probes.results import Answer, Report, Result


def changes(report: Report) -> Sequence[str]:
    """One line per probe that the two versions answer differently."""
    return [
        f"{result.probe}: {line}"
        for result in report.results
        if _pair(result) is not None
        for line in changed(result, result.answers[OTHER], result.answers[HERE])
    ]


def lines(report: Report) -> list[str]:
    """Which versions were compared and what changed from the other one to this one."""
    other, here = (report.versions[name] for name in (OTHER, HERE))
    text = [f"from {', '.join(other)}", f"to   {', '.join(here)}"]
    if other == here:
        text.append("Both interpreters have the same versions.")
    found = changes(report)
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
