"""The answers as one HTML page that needs nothing else."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from harness.probes.page.figures import svg
from harness.probes.page.illustrations import illustrations
from harness.probes.report import LEGEND, alike, closing, describe, differs, symbol
from harness.probes.results import AGREES, Answer, Report, Result

STYLE = Path(__file__).with_name("style.css")


def page(report: Report) -> str:
    """The whole page."""
    names = ", ".join(escape(name) for name in report.versions)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>What one update does: {names}</title>",
            f"<style>{STYLE.read_text()}</style></head><body>",
            "<h1>What one update does</h1>",
            f"<p>Implementations of {names} take a step with the same weights, the same data and "
            "the same random numbers. What comes out is compared with the papers' formulas and "
            "with each other.</p>",
            '<ul class="quiet">',
            *(f"<li>{escape(line)}</li>" for line in closing(report)),
            "</ul><h2>All probes</h2>",
            f'<p class="quiet">{escape(LEGEND)}</p>',
            '<div class="matrices">',
            *(line for algorithm in algorithms(report) for line in _matrix(report, algorithm)),
            "</div>",
            *_details(report),
            "</body></html>\n",
        ]
    )


def algorithms(report: Report) -> list[str]:
    """In the order of the report."""
    return list(dict.fromkeys(result.algorithm for result in report.results))


def _matrix(report: Report, algorithm: str) -> Iterator[str]:
    heads = "".join(f"<th>{escape(name)}</th>" for name in report.versions)
    title = f"<thead><tr><th>{escape(algorithm.upper())}</th>{heads}</tr></thead>"
    yield f'<div class="scroll"><table class="matrix">{title}<tbody>'
    for result in report.results:
        if result.algorithm != algorithm:
            continue
        name = escape(result.probe.partition(".")[2])
        link = f'<a href="#{escape(result.probe)}">{name}</a>' if differs(result) else name
        cells = "".join(_cell(result.answers.get(party)) for party in report.versions)
        yield f'<tr title="{escape(result.question)}"><th scope="row">{link}</th>{cells}</tr>'
    yield "</tbody></table></div>"


def _cell(answer: Answer | None) -> str:
    if answer is None:
        return "<td></td>"
    return f'<td class="{_sort(answer)}">{escape(symbol(answer))}</td>'


def _sort(answer: Answer) -> str:
    if answer.unmeasured:
        return "failed" if answer.failed else "none"
    return "same" if answer.comparison.kind == AGREES else "other"


def _details(report: Report) -> Iterator[str]:
    for algorithm in algorithms(report):
        found = [r for r in report.results if r.algorithm == algorithm]
        apart = [result for result in found if differs(result)]
        yield f"<h2>{escape(algorithm.upper())}: {len(apart)} of {len(found)} probes differ</h2>"
        for result in apart:
            yield from _article(result)


def _article(result: Result) -> Iterator[str]:
    name = escape(result.probe)
    yield f'<article id="{name}"><h3>{escape(result.question)}</h3>'
    yield f'<p class="quiet"><code>{name}</code> · paper: {escape(result.citation)}</p>'
    yield '<div class="scroll"><table>'
    for party, answer in result.answers.items():
        cell = f'<td class="{_sort(answer)}">{escape(describe(answer))}</td>'
        yield f'<tr><th scope="row">{escape(party)}</th>{cell}</tr>'
    yield "</table></div>"
    if result.groups:
        yield f'<p class="quiet">Alike: {escape(alike(result))}</p>'
    figures = list(illustrations(result))
    if figures:
        yield '<div class="figures">'
        for label, draw, caption in figures:
            yield f"<figure>{svg(draw, label)}<figcaption>{escape(caption)}</figcaption></figure>"
        yield "</div>"
    yield "</article>"
