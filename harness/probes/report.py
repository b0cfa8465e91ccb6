"""Reports of answers: terminal lines, a self-contained HTML page, and a Markdown page."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from parallax.harness.probes import figures
from parallax.harness.probes.experiments import AlignmentLevel
from parallax.harness.probes.figures import FigureDrawer, make_curve_drawer, render_svg
from parallax.harness.probes.ppo.experiments import CLIP
from parallax.harness.probes.results import (
    AGREES,
    ProbeAnswer,
    ProbeReport,
    ProbeResult,
    describe_answer,
    format_answer,
    format_groups,
    format_symbol,
    has_difference,
    name_source,
)
from parallax.harness.record.labels import get_label

LINE_WIDTH = 100
LEGEND = (
    "= as in the source;  x 2 a multiple of it;  + 0.5 a constant away from it;  f another "
    "function, with the largest difference;  n another number, by which share;  # another count;  "
    "? not measured;  ! failed to run"
)

PAGE_LEGEND = (
    "Each cell compares one implementation with the source that the question cites (the paper, its "
    "authors' code, a recipe, or a common rule): a multiple of it, more or less by a "
    "constant, another function with the largest difference, another number with the share by "
    "which it differs, or another count. Underlined questions lead to the details."
)


def format_report(report: ProbeReport, everything: bool = False) -> list[str]:
    """Return the report as lines for a terminal: differences, then one line per probe."""
    text: list[str] = []
    for result in report.results:
        if everything or has_difference(result):
            text += [*format_details(result), ""]
    end = [line for paragraph in format_closing_lines(report) for line in _wrap_text("", paragraph)]
    return [*text, *format_matrix(report), "", *end]


def format_details(result: ProbeResult) -> list[str]:
    """Return one probe with all its answers as lines."""
    text = _wrap_text("", f"{result.probe}: {result.question}")
    text += _wrap_text("  source: ", result.citation)
    width = max((len(name) for name in result.answers), default=0)
    for name, answer in result.answers.items():
        text += _wrap_text(f"  {name:{width}}  ", describe_answer(answer, name_source(result)))
    return text + (_wrap_text("  alike: ", format_groups(result)) if result.groups else [])


def format_matrix(report: ProbeReport) -> list[str]:
    """Return a table with one line per probe and one column per implementation."""
    names = list(report.versions)
    first = max(len(result.probe) for result in report.results)
    cells = [
        [format_symbol(r.answers[name]) if name in r.answers else "" for name in names]
        for r in report.results
    ]
    widths = [max(len(name), *(len(row[i]) for row in cells)) for i, name in enumerate(names)]

    def line(head: str, row: Sequence[str]) -> str:
        padded = (f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        return f"{head:{first}}  {'  '.join(padded)}".rstrip()

    rows = (line(r.probe, row) for r, row in zip(report.results, cells, strict=True))
    return [line("", names), *rows, *_wrap_text("", LEGEND)]


def format_closing_lines(report: ProbeReport) -> Iterator[str]:
    """Yield the level of alignment, package versions, implementations left out and totals."""
    recipe = f", recipe {report.hps}" if AlignmentLevel(report.alignment).uses_recipe else ""
    yield f"Alignment: {report.alignment}{recipe}"
    for name, packages in report.versions.items():
        yield f"{get_label(name)}: {', '.join(packages)}"
    for name, why in report.not_probed.items():
        yield f"not probed: {get_label(name)}: {why}"
    yield format_totals(report)


def format_totals(report: ProbeReport) -> str:
    """Return the number of answers by kind."""
    counts = Counter(
        _classify_answer(a) for result in report.results for a in result.answers.values()
    )
    text = (
        f"Probes: {len(report.results)}, answers: {counts.total()}, in {report.seconds:.0f} s: "
        f"{counts['same']} as in their sources, {counts['other']} not, "
        f"{counts['unmeasured']} could not be measured"
    )
    text += f", {counts['failed']} failed to run." if counts["failed"] else "."
    if report.n_stored:
        text += f" {report.n_stored} were measured before on the same code; `--fresh` repeats them."
    return text


def _classify_answer(answer: ProbeAnswer) -> str:
    if answer.unmeasured:
        return "failed" if answer.failed else "unmeasured"
    return "same" if answer.comparison.kind == AGREES else "other"


def _wrap_text(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, LINE_WIDTH, initial_indent=head, subsequent_indent=" " * (len(head) or 2)
    )


DENSITY_CAPTION = (
    f"Density of actions from Gaussians with standard deviation {figures.ACTION_STD} around "
    f"{figures.ACTION_MEANS[0]:g} and {figures.ACTION_MEANS[1]:g}, by the rule of the answers."
)
SURFACE_CAPTION = (
    "Derivative of the value loss by a prediction, over its change since the rollout and over the "
    f"return, with a range of {CLIP}, by the formula that the answers follow."
)

SPECIAL_FIGURES = (
    (figures.ACTION_PROBE, "densities", figures.make_density_drawer, DENSITY_CAPTION),
    (figures.VALUE_CLIPPING_PROBE, "surfaces", figures.make_surface_drawer, SURFACE_CAPTION),
)
"""Further figures of single probes: probe, name, function that makes the drawer, caption."""


def list_illustrations(result: ProbeResult) -> Iterator[tuple[str, FigureDrawer, str]]:
    """Yield the figures of a probe: a unique name, its drawer, and a caption."""
    if draw := make_curve_drawer(result):
        yield result.probe, draw, "Measured."
    for probe, name, make_drawer, caption in SPECIAL_FIGURES:
        if result.probe == probe and (draw := make_drawer(result)):
            yield f"{probe}.{name}", draw, caption


STYLE_SHEET = Path(__file__).with_name("style.css")


def render_html_page(report: ProbeReport) -> str:
    """Render the report as one HTML page without external files."""
    names = ", ".join(escape(get_label(name)) for name in report.versions)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>What one update does: {names}</title>",
            f"<style>{STYLE_SHEET.read_text()}</style></head><body>",
            "<h1>What one update does</h1>",
            f"<p>Implementations of {names} take a step with the same weights, the same data and "
            "the same random numbers. What comes out is compared with the papers' formulas and "
            "with each other.</p>",
            '<ul class="quiet">',
            *(f"<li>{escape(line)}</li>" for line in format_closing_lines(report)),
            "</ul><h2>All probes</h2>",
            f'<p class="quiet">{escape(PAGE_LEGEND)}</p>',
            '<div class="matrices">',
            *(line for name in list_algorithms(report) for line in _render_matrix(report, name)),
            "</div>",
            *_render_details(report),
            "</body></html>\n",
        ]
    )


def list_algorithms(report: ProbeReport) -> list[str]:
    """Return the algorithms in the order of the report."""
    return list(dict.fromkeys(result.algorithm for result in report.results))


def _render_matrix(report: ProbeReport, algorithm: str) -> Iterator[str]:
    heads = "".join(f"<th>{escape(get_label(name))}</th>" for name in report.versions)
    title = f"<thead><tr><th>{escape(get_label(algorithm))}</th>{heads}</tr></thead>"
    yield f'<div class="scroll"><table class="matrix">{title}<tbody>'
    for result in report.results:
        if result.algorithm != algorithm:
            continue
        text = escape(result.question)
        link = f'<a href="#{escape(result.probe)}">{text}</a>' if has_difference(result) else text
        cells = "".join(_render_cell(result, target) for target in report.versions)
        yield f'<tr title="{escape(result.probe)}"><th scope="row">{link}</th>{cells}</tr>'
    yield "</tbody></table></div>"


def _render_cell(result: ProbeResult, target: str) -> str:
    if target not in result.answers:
        return "<td></td>"
    answer = result.answers[target]
    words = format_answer(answer, name_source(result))
    return f'<td class="{_classify_answer(answer)}">{escape(words)}</td>'


def _render_details(report: ProbeReport) -> Iterator[str]:
    for algorithm in list_algorithms(report):
        found = [r for r in report.results if r.algorithm == algorithm]
        apart = [result for result in found if has_difference(result)]
        yield f"<h2>{escape(get_label(algorithm))}: {len(apart)} of {len(found)} probes differ</h2>"
        for result in apart:
            yield from _render_article(result)


def _render_article(result: ProbeResult) -> Iterator[str]:
    name = escape(result.probe)
    yield f'<article id="{name}"><h3>{escape(result.question)}</h3>'
    yield f'<p class="quiet"><code>{name}</code> · source: {escape(result.citation)}</p>'
    yield '<div class="scroll"><table>'
    for target, answer in result.answers.items():
        words = describe_answer(answer, name_source(result))
        cell = f'<td class="{_classify_answer(answer)}">{escape(words)}</td>'
        yield f'<tr><th scope="row">{escape(get_label(target))}</th>{cell}</tr>'
    yield "</table></div>"
    if result.groups:
        yield f'<p class="quiet">Alike: {escape(format_groups(result, get_label))}</p>'
    illustrations = list(list_illustrations(result))
    if illustrations:
        yield '<div class="figures">'
        for label, draw, caption in illustrations:
            svg = render_svg(draw, label)
            yield f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
        yield "</div>"
    yield "</article>"


def render_markdown_pages(path: Path, report: ProbeReport) -> dict[Path, str]:
    """Return the Markdown page at `path`, and its figures in a folder beside it."""
    folder = path.with_suffix("")
    found: dict[Path, str] = {}
    lines = [*_render_markdown_head(report), ""]
    for result in report.results:
        if has_difference(result):
            lines += [*_render_markdown_section(result), ""]
            for name, draw, caption in list_illustrations(result):
                found[folder / f"{name}.svg"] = render_svg(draw, name, fixed=True)
                lines += [f"![{caption}]({folder.name}/{name}.svg)", "", caption, ""]
    return {path: "\n".join(lines).rstrip() + "\n", **found}


def _render_markdown_head(report: ProbeReport) -> Iterator[str]:
    yield "# What one update does"
    yield ""
    yield from (f"- {line}" for line in format_closing_lines(report))
    yield ""
    yield f"| probe | {' | '.join(report.versions)} |"
    yield "|---" * (1 + len(report.versions)) + "|"
    for result in report.results:
        answers = (result.answers.get(name) for name in report.versions)
        cells = (format_symbol(answer) if answer else "" for answer in answers)
        yield f"| `{result.probe}` | {' | '.join(cells)} |"
    yield ""
    yield LEGEND


def _render_markdown_section(result: ProbeResult) -> Iterator[str]:
    yield f"## {result.probe}"
    yield ""
    yield f"{result.question} Source: {result.citation}."
    yield ""
    yield "| implementation | found |"
    yield "|---|---|"
    for name, answer in result.answers.items():
        words = describe_answer(answer, name_source(result)).replace("|", "/")
        yield f"| {name} | {words} |"
    if result.groups:
        yield ""
        yield f"Alike: {format_groups(result, get_label).replace('|', '/')}"
