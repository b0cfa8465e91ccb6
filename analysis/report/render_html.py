"""Renders a document as one HTML file that loads no other file; the template escapes all text."""

import base64
import dataclasses
import io
import os
import urllib.parse
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import jinja2
import PIL.Image
from markupsafe import Markup

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.escaping import escape_controls
from parallax.analysis.labels import MISSING, format_count, get_label, get_recipe_label, make_anchor
from parallax.analysis.report.document import MAX_FINDINGS, Document, Link, ReportSection
from parallax.analysis.report.tables import RUNS_TABLE
from parallax.analysis.verdicts.groups import GroupKey, ScoreGroup

PAGE_DPI = 130  # pixels per inch of a figure on the page
_ASSETS_FOLDER = Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class PageContext:
    """Data for the links and figures of a page.

    Attributes:
        numbers: Number of each group of runs, by setting and framework.
        images: Each figure's image as WebP, by its name.
    """

    numbers: Mapping[GroupKey, int]
    page_folder: Path
    images: Mapping[str, bytes]

    def number_groups(self, groups: Iterable[ScoreGroup]) -> list[int]:
        """Return the numbers of groups, each once, in order."""
        return sorted({self.numbers[group.key] for group in groups})

    def number_cells(self, cells: Collection[StudyCell]) -> list[int]:
        """Return the numbers of all groups in some settings."""
        return [number for (cell, _), number in self.numbers.items() if cell in cells]

    def get_target(self, link: Link) -> str:
        """Return the address of a link from the page; empty where there is none."""
        is_path = isinstance(link.target, Path)
        return self.get_address(link.target) if is_path else link.target  # type: ignore[arg-type,return-value]

    def read_image(self, name: str) -> dict[str, object]:
        """Return a figure's image in base64, its width in pixels, and that in inches."""
        content = self.images[name]
        with PIL.Image.open(io.BytesIO(content)) as image:
            width = image.width
        data = base64.b64encode(content).decode("ascii")
        return {"data": data, "width": width, "inches": round(width / PAGE_DPI, 2)}

    def get_address(self, path: Path) -> str:
        """Return the address of a file or folder from the page; empty where there is none."""
        if not path.exists():
            return ""
        address = urllib.parse.quote(os.fsencode(os.path.relpath(path, self.page_folder)))
        return f"{address}/" if path.is_dir() else address


def make_page_context(
    groups: Iterable[ScoreGroup], page_folder: Path, images: Mapping[str, bytes]
) -> PageContext:
    """Assign numbers to the groups, in their order; the folder of the page need not exist."""
    numbers = {group.key: number for number, group in enumerate(groups)}
    return PageContext(numbers, page_folder.resolve(), images)


def render_page(document: Document, context: PageContext) -> str:
    """Return the whole page, which loads no other files."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_ASSETS_FOLDER),
        autoescape=True,
        finalize=escape_controls,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "anchor": make_anchor,
        "count": format_count,
        "kind": lambda block: type(block).__name__,
        "label": get_label,
        "recipe": get_recipe_label,
        "unbroken": _insert_nonbreaking_spaces,
    }
    environment.globals |= {
        "context": context,
        "max_findings": MAX_FINDINGS,
        "missing": MISSING,
        "runs_table": RUNS_TABLE,
    }
    sections = [block for block in document.blocks if isinstance(block, ReportSection)]
    return environment.get_template("template.html").render(
        title=document.title,
        introduction=[block for block in document.blocks if not isinstance(block, ReportSection)],
        sections=sections,
        style=Markup(_read_asset("style.css")),
        script=Markup(_read_asset("script.js")),
    )


def _read_asset(name: str) -> str:
    return (_ASSETS_FOLDER / name).read_text(encoding="utf-8")


def _insert_nonbreaking_spaces(text: str) -> str:
    """Keep numbers such as n = 5 on one line."""
    for sign in "=<>":
        text = text.replace(f" {sign} ", f"\N{NO-BREAK SPACE}{sign}\N{NO-BREAK SPACE}")
    return text
