"""What the command prints."""

from collections.abc import Sequence

from harness.probes.results import AGREES, Answer, Report, Result


def lines(report: Report) -> list[str]:
    """The report as text."""
    text: list[str] = []
    for result in report.results:
        text += ["", *_result(result)]
    text.append("")
    text += [f"not probed: {name}: {why}" for name, why in report.not_probed.items()]
    answers = [answer for result in report.results for answer in result.answers.values()]
    measured = [answer for answer in answers if not answer.unmeasured]
    agreeing = [answer for answer in measured if answer.comparison.kind == AGREES]
    text.append(
        f"{len(report.results)} probes, {len(measured)} answers in {report.seconds:.0f} s: "
        f"{len(agreeing)} agree with the paper, {len(measured) - len(agreeing)} do not, "
        f"{len(answers) - len(measured)} could not be measured."
    )
    return text


def _result(result: Result) -> list[str]:
    text = [f"{result.probe}: {result.question}", f"  paper: {result.citation}"]
    width = max((len(name) for name in result.answers), default=0)
    text += [f"  {name:{width}}  {describe(answer)}" for name, answer in result.answers.items()]
    if len(result.groups) > 1:
        text.append("  alike: " + " | ".join(", ".join(group) for group in result.groups))
    return text


def describe(answer: Answer) -> str:
    """One answer in one line."""
    if answer.unmeasured:
        return f"not measured: {answer.unmeasured}"
    comparison = answer.comparison
    if comparison.kind == AGREES:
        return "agrees"
    size = f"{comparison.size:+.4g}" if comparison.kind == "count" else f"{comparison.size:.4g}"
    return f"{comparison.kind} {size}: {answer.meaning}"


def changes(report: Report, expected: Report) -> Sequence[str]:
    """What is no longer as stored: one line per answer that changed, vanished or is new."""
    now, then = _answers(report), _answers(expected)
    probed = {framework for _, framework in now}
    asked = {result.probe for result in report.results}
    text = []
    for key in sorted(now.keys() | then.keys()):
        probe, framework = key
        if probe not in asked or framework not in probed:
            continue  # was not asked for
        before, after = then.get(key), now.get(key)
        if before is None or after is None:
            text.append(f"{probe}, {framework}: {'new' if before is None else 'gone'}")
        elif not _same(before, after):
            text.append(f"{probe}, {framework}: was {describe(before)}; is {describe(after)}")
    return text


def _answers(report: Report) -> dict[tuple[str, str], Answer]:
    return {
        (result.probe, framework): answer
        for result in report.results
        for framework, answer in result.answers.items()
    }


def _same(before: Answer, after: Answer) -> bool:
    if bool(before.unmeasured) != bool(after.unmeasured):
        return False
    if before.comparison.kind != after.comparison.kind:
        return False
    room = 1e-3 * max(abs(before.comparison.size), 1e-6)
    return abs(before.comparison.size - after.comparison.size) <= room
