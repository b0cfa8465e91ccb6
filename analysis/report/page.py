"""The page as text: a template, with style and script inside."""

from pathlib import Path

import jinja2

from analysis.figures.style import label
from analysis.notes import FORMULAS, counts
from analysis.report.content import Content
from analysis.report.statements import plural
from analysis.report.table_parts import setting_columns
from analysis.score_table_formats import score_text

_FOLDER = Path(__file__).parent

# Families of figures under each heading of the page.
SECTIONS = {
    "reproduction": ("reproduction",),
    "consistency": ("verdicts", "highlights", "intervals", "consistency"),
    "ranking": ("ranks", "ranking"),
    "overall": ("aggregates", "profiles"),
    "environment": ("wrappers", "vectorised", "actions"),
}


def render_page(content: Content) -> str:
    """The whole page, which loads nothing from anywhere.

    Args:
        content: What is on it.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        name=label, plural=plural, thousands=lambda n: f"{n:,}", together=_together
    )
    template = environment.get_template("template.html")
    return template.render(
        content=content,
        sections=SECTIONS,
        style=_read("style.css"),
        script=_read("script.js"),
        run_columns=[text for text, _ in setting_columns(content.material.loaded.cells)],
        score_text=score_text,
        counts=counts(content.material.loaded),
        formula=FORMULAS[content.material.method],
        number_of=lambda cell: content.links.numbers[cell.key],
    )


def _together(text: str) -> str:
    """Keeps numbers such as n = 5 on one line."""
    for sign in "=<>":
        text = text.replace(f" {sign} ", f"\N{NO-BREAK SPACE}{sign}\N{NO-BREAK SPACE}")
    return text


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
