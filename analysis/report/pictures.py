"""Figures as parts of the page."""

import base64
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from analysis.figures.render import Files, render_all
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.report.links import Links

DPI = 150

Drawn = tuple[Sheet, Files]
Progress = Callable[[Iterable[Drawn], int], Iterable[Drawn]]


@dataclasses.dataclass(frozen=True)
class Picture:
    """A figure on the page.

    Attributes:
        name: Name of its files, and its anchor.
        title: What it shows.
        caption: The caption.
        data: PNG, base64.
        width: Width in a paper, in inches.
        groups: Numbers of the groups behind it.
    """

    name: str
    title: str
    caption: str
    data: str
    width: float
    groups: tuple[int, ...]


def draw_pictures(
    found: Mapping[str, Sequence[Sheet | NotDrawn]], links: Links, jobs: int, progress: Progress
) -> dict[str, tuple[Picture, ...]]:
    """Draws figures.

    Args:
        found: Figures by family.
        links: Numbers of groups.
        jobs: Figures drawn at a time.
        progress: Passes on what is drawn, given how many there will be.

    Returns:
        What was drawn, by family.
    """
    owner = {
        item.name: family
        for family, items in found.items()
        for item in items
        if isinstance(item, Sheet)
    }
    sheets = [item for items in found.values() for item in items if isinstance(item, Sheet)]
    pictures: dict[str, list[Picture]] = {family: [] for family in found}
    drawn = render_all(sheets, ["png"], DPI, jobs)
    for sheet, files in progress(drawn, len(sheets)):
        content = files["png"]
        width = int.from_bytes(content[16:20], "big") / DPI  # from the PNG's header
        data = base64.b64encode(content).decode("ascii")
        picture = Picture(
            sheet.name, sheet.title, sheet.caption, data, width, links.of_cells(sheet.cells)
        )
        pictures[owner[sheet.name]].append(picture)
    return {family: tuple(items) for family, items in pictures.items()}
