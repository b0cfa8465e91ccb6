"""Renders a report as one HTML file that loads nothing: the template escapes all text."""

from pathlib import Path

import jinja2
import markupsafe

from parallax.analysis.labels import INTERVAL_FORMULAS, MISSING, format_run_counts, get_label
from parallax.analysis.report.document import TableCell, list_setting_columns
from parallax.analysis.report.phrases import format_count
from parallax.analysis.report.sections import ablation, consistency
from parallax.analysis.report.sections.runs import RunRow
from parallax.analysis.report.sections.scores import format_score
from parallax.analysis.report.study_report import ReportContent

_ASSETS_FOLDER = Path(__file__).parent

# Families of figures under each heading of the page.
SECTION_FAMILIES = {
    "reproduction": ("reproduction",),
    "consistency": ("verdicts", "highlights", "intervals", "consistency"),
    "ranking": ("ranks", "ranking"),
    "overall": ("aggregates", "efficiency", "improvement", "profiles"),
    "environment": ("wrappers", "vectorised", "actions"),
}


def render_page(content: ReportContent) -> str:
    """Return the whole page, which loads nothing from anywhere.

    Args:
        content: What is on it.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_ASSETS_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        name=get_label,
        plural=format_count,
        thousands=lambda n: f"{n:,}",
        td=_render_cell,
        tr=_render_run_row,
        together=_insert_nonbreaking_spaces,
    )
    template = environment.get_template("template.html")
    return template.render(
        content=content,
        sections=SECTION_FAMILIES,
        ablated=ablation,
        style=_read_asset("style.css"),
        script=_read_asset("script.js"),
        run_columns=[text for text, _ in list_setting_columns(content.material.loaded.cells)],
        score_text=format_score,
        counts=format_run_counts(content.material.loaded),
        terms=consistency.describe_verdict_terms(content.material.verdicts.options),
        formula=INTERVAL_FORMULAS[content.material.method],
        number_of=lambda cell: content.links.numbers[cell.key],
    )


def _render_cell(cell: TableCell, is_numeric: bool) -> markupsafe.Markup:
    """Return a cell as HTML, with its sort key where its text is another.

    A page has some 20,000 cells: a template's own loop over them would take seconds.
    """
    text = markupsafe.escape(cell.text)
    if is_numeric and cell.sort in (cell.text, ""):
        return markupsafe.Markup(f"<td class=n>{text}")
    if is_numeric:
        return markupsafe.Markup(f'<td class=n data-v="{markupsafe.escape(cell.sort)}">{text}')
    if cell.verdict:
        name = markupsafe.escape(cell.verdict.replace(" ", "-"))
        return markupsafe.Markup(f'<td class="verdict {name}">{text}')
    return markupsafe.Markup(f"<td>{text}")


def _render_run_row(run: RunRow) -> markupsafe.Markup:
    """Return the row of a run folder as HTML."""
    anchor = f' id="g{run.group}"' if run.first else ""
    seed = TableCell(str(run.seed), f"{run.seed}") if run.seed >= 0 else TableCell(MISSING)
    score = TableCell(run.score, run.score) if run.score else TableCell(MISSING)
    last = TableCell(f"{run.last_step:,}") if run.last_step >= 0 else TableCell(MISSING)
    hours = TableCell(f"{run.hours:.2f}") if run.hours >= 0 else TableCell(MISSING)
    numbers = [_render_cell(cell, True) for cell in (seed, score, last, hours)]
    texts = [_render_cell(TableCell(text), False) for text in (*run.setting, run.framework)]
    path = markupsafe.escape(run.path)
    link = f'<a href="{markupsafe.escape(run.link)}">{path}</a>' if run.link else path
    problem = f'<td class="wrap problem">{markupsafe.escape(run.reason)}' if run.reason else "<td>"
    cells = "".join([*texts, *numbers, problem, "<td class=path>", link])
    return markupsafe.Markup(f"<tr data-g={run.group}{anchor}>{cells}")


def _insert_nonbreaking_spaces(text: str) -> str:
    """Keep numbers such as n = 5 on one line."""
    for sign in "=<>":
        text = text.replace(f" {sign} ", f"\N{NO-BREAK SPACE}{sign}\N{NO-BREAK SPACE}")
    return text


def _read_asset(name: str) -> str:
    return (_ASSETS_FOLDER / name).read_text(encoding="utf-8")
