from pathlib import Path

import jinja2

from parallax.analysis.labels import INTERVAL_FORMULAS, format_run_counts, get_label
from parallax.analysis.report.document import list_setting_columns
from parallax.analysis.report.phrases import format_count
from parallax.analysis.report.sections import ablation
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
    """The whole page, which loads nothing from anywhere.

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
        formula=INTERVAL_FORMULAS[content.material.method],
        number_of=lambda cell: content.links.numbers[cell.key],
    )


def _insert_nonbreaking_spaces(text: str) -> str:
    """Keeps numbers such as n = 5 on one line."""
    for sign in "=<>":
        text = text.replace(f" {sign} ", f"\N{NO-BREAK SPACE}{sign}\N{NO-BREAK SPACE}")
    return text


def _read_asset(name: str) -> str:
    return (_ASSETS_FOLDER / name).read_text(encoding="utf-8")
