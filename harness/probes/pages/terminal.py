"""What the command prints."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from harness.probes.results import (
    AGREES,
    Answer,
    Report,
    Result,
    alike,
    describe,
    differs,
    ranked,
    symbol,
)

WIDTH = 100
MOST = 5
"""Differences of one implementation that are listed."""
LEGEND = (
    "= as in the paper;  x 2 a multiple of it;  + 0.5 a constant away from it;  f another "
    "function, with the largest difference;  n another number, by which share;  # another count;  "
    "? not measured;  ! failed to run"
)


def lines(report: Report, everything: bool = False) -> list[str]:
    """The report as text: what differs (or everything), then one line per probe."""
    text: list[str] = []
    for result in report.results:
        if everything or differs(result):
            text += [*details(result), ""]
    end = [line for paragraph in closing(report) for line in _wrapped("", paragraph)]
    return [*text, *matrix(report), "", *end]


def details(result: Result) -> list[str]:
    """One probe with all its answers."""
    text = _wrapped("", f"{result.probe}: {result.question}")
    text += _wrapped("  paper: ", result.citation)
    width = max((len(name) for name in result.answers), default=0)
    for name, answer in result.answers.items():
        text += _wrapped(f"  {name:{width}}  ", describe(answer))
    return text + (_wrapped("  alike: ", alike(result)) if result.groups else [])


def matrix(report: Report) -> list[str]:
    """One line per probe, one column per implementation."""
    names = list(report.versions)
    first = max(len(result.probe) for result in report.results)
    cells = [
        [symbol(r.answers[name]) if name in r.answers else "" for name in names]
        for r in report.results
    ]
    widths = [max(len(name), *(len(row[i]) for row in cells)) for i, name in enumerate(names)]

    def line(head: str, row: Sequence[str]) -> str:
        padded = (f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        return f"{head:{first}}  {'  '.join(padded)}".rstrip()

    rows = (line(r.probe, row) for r, row in zip(report.results, cells, strict=True))
    return [line("", names), *rows, *_wrapped("", LEGEND)]


def closing(report: Report) -> Iterator[str]:
    """Versions, what was left out, and how many answers there are."""
    for name, packages in report.versions.items():
        yield f"{name}: {', '.join(packages)}"
    for name, why in report.not_probed.items():
        yield f"not probed: {name}: {why}"
    yield from furthest(report)
    yield totals(report)


def furthest(report: Report) -> Iterator[str]:
    """The largest differences of each implementation, as shares of the papers' answers."""
    for name in report.versions:
        own = [(share, probe) for share, probe, whose in ranked(report) if whose == name]
        if own:
            listed = ", ".join(f"{probe} {share:.3g}" for share, probe in own[:MOST])
            yield f"furthest from the papers, {name}: {listed}"


def totals(report: Report) -> str:
    """How many answers there are of each sort."""
    counts = Counter(_sort(a) for result in report.results for a in result.answers.values())
    text = (
        f"{len(report.results)} probes, {counts.total()} answers in {report.seconds:.0f} s: "
        f"{counts['same']} as in the papers, {counts['other']} not, "
        f"{counts['unmeasured']} could not be measured"
    )
    return text + (f", {counts['failed']} failed to run." if counts["failed"] else ".")


def _sort(answer: Answer) -> str:
    if answer.unmeasured:
        return "failed" if answer.failed else "unmeasured"
    return "same" if answer.comparison.kind == AGREES else "other"


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * (len(head) or 2))
