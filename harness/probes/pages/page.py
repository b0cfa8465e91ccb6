"""The answers as one HTML page that needs nothing else, and as a Markdown page with figures."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from harness.probes.pages import figures
from harness.probes.pages.figures import Draw, curves, svg
from harness.probes.pages.terminal import LEGEND, closing
from harness.probes.ppo.trainings import CLIP
from harness.probes.results import AGREES, Answer, Report, Result, alike, describe, differs, symbol

DENSITY = (
    f"Density of actions from Gaussians with standard deviation {figures.STD} around "
    f"{figures.MEANS[0]:g} and {figures.MEANS[1]:g}, by the rule that the answers follow."
)
SURFACE = (
    "Derivative of the value loss by a prediction, over its change since the rollout and over the "
    f"return, with a range of {CLIP}, by the formula that the answers follow."
)


def illustrations(result: Result) -> Iterator[tuple[str, Draw, str]]:
    """Figures of a probe: a unique name, what draws it, and a caption."""
    measured = curves(result)
    if measured:
        yield result.probe, measured, "Measured."
    if result.probe == figures.ACTION and (drawn := figures.densities(result)):
        yield f"{result.probe}.densities", drawn, DENSITY
    if result.probe == figures.VALUE_CLIPPING and (drawn := figures.surfaces(result)):
        yield f"{result.probe}.surfaces", drawn, SURFACE


STYLE = Path(__file__).with_name("style.css")


def html_page(report: Report) -> str:
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


def markdown_pages(path: Path, report: Report) -> dict[Path, str]:
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
