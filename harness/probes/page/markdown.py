"""The answers as a Markdown page, with its figures in a folder beside it."""

from collections.abc import Iterator
from pathlib import Path

from harness.probes.page.figures import svg
from harness.probes.page.illustrations import illustrations
from harness.probes.report import LEGEND, alike, closing, describe, differs, symbol
from harness.probes.results import Report, Result


def pages(path: Path, report: Report) -> dict[Path, str]:
    """The page at `path`, and its figures in a folder of the same name without the ending."""
    folder = path.with_suffix("")
    found: dict[Path, str] = {}
    lines = [*_head(report), ""]
    for result in report.results:
        if differs(result):
            lines += [*_section(result), ""]
            for name, draw, caption in illustrations(result):
                found[folder / f"{name}.svg"] = svg(draw, name, fixed=True)
                lines += [f"![{caption}]({folder.name}/{name}.svg)", "", caption, ""]
    return {path: "\n".join(lines).rstrip() + "\n", **found}


def _head(report: Report) -> Iterator[str]:
    yield "# What one update does"
    yield ""
    yield from (f"- {line}" for line in closing(report))
    yield ""
    yield f"| probe | {' | '.join(report.versions)} |"
    yield "|---" * (1 + len(report.versions)) + "|"
    for result in report.results:
        answers = (result.answers.get(name) for name in report.versions)
        cells = (symbol(answer) if answer else "" for answer in answers)
        yield f"| `{result.probe}` | {' | '.join(cells)} |"
    yield ""
    yield LEGEND


def _section(result: Result) -> Iterator[str]:
    yield f"## {result.probe}"
    yield ""
    yield f"{result.question} Paper: {result.citation}."
    yield ""
    yield "| implementation | found |"
    yield "|---|---|"
    for name, answer in result.answers.items():
        yield f"| {name} | {describe(answer).replace('|', '/')} |"
    if result.groups:
        yield ""
        yield f"Alike: {alike(result).replace('|', '/')}"
