"""A page with curves over final scores, three settings in a row."""

import dataclasses
import math

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis.figures.curve_grid import FRAMEWORKS
from analysis.figures.layout import Margins, legend, panel_grid
from analysis.figures.parts import (
    Line,
    draw_lines,
    draw_spots,
    fit_axes,
    note_spot_sizes,
    plain_axes,
    short,
    spot_limits,
)
from analysis.figures.style import PAGE, Look, algorithm_looks, looks, paper_settings
from analysis.figures.words import usual_size

_COLUMNS = 3

Panel = tuple[str, tuple[Line, ...]]  # title and lines


@dataclasses.dataclass(frozen=True)
class Highlights:
    """Some settings, each with curves and final scores.

    Attributes:
        panels: Title and lines of each.
        kind: What lines stand for: `frameworks` or `algorithms`.
        shared: All panels share their axes.
    """

    panels: tuple[Panel, ...]
    kind: str
    shared: bool

    @property
    def lines(self) -> list[Line]:
        """All lines of all panels."""
        return [line for _, lines in self.panels for line in lines]


def draw(content: Highlights) -> Figure:
    """Draws curves over final scores, three settings in a row."""
    names = [line.name for line in content.lines]
    styles = looks(names) if content.kind == FRAMEWORKS else algorithm_looks(names)
    columns = min(_COLUMNS, len(content.panels))
    rows = math.ceil(len(content.panels) / columns)
    titles = max(title.count("\n") for title, _ in content.panels)
    margins = Margins(left=0.45, top=0.4 + 0.12 * titles, bottom=0.36, across=0.32, down=0.2)
    # An empty row between the blocks holds the titles of the lower one.
    heights = ([1.25, 0.13 * len(styles) + 0.1, 0.05 + 0.1 * titles] * rows)[:-1]
    with matplotlib.rc_context(paper_settings()):
        width = margins.left + (PAGE - margins.left) * max(2, columns) / _COLUMNS
        figure, axes = panel_grid(len(heights), columns, width, heights, margins)
        legend(figure, styles)
        for axis in axes.flat:
            axis.set_axis_off()
        for i, panel in enumerate(content.panels):
            row, column = divmod(i, columns)
            _draw_panel(axes[3 * row, column], axes[3 * row + 1, column], panel, content, styles)
        figure.text(
            0.5,
            0.06 / figure.get_figheight(),
            "above: mean return over environment steps; below: mean return at the end",
            ha="center",
        )
    return figure


def _draw_panel(
    top: Axes, bottom: Axes, panel: Panel, content: Highlights, styles: dict[str, Look]
) -> None:
    title, lines = panel
    for axis in (top, bottom):
        axis.set_axis_on()
    scope = content.lines if content.shared else list(lines)
    top.set_title(title)
    draw_lines(top, lines, styles)
    fit_axes(top, scope)
    plain_axes(top)
    places = {name: i for i, name in enumerate(styles)}
    spots = [(float(places[line.name]), line) for line in lines]
    draw_spots(bottom, spots, styles)
    note_spot_sizes(bottom, spots, usual_size(content.lines))
    bottom.set_xlim(spot_limits(scope))
    bottom.set_ylim(len(styles) - 0.4, -0.6)
    bottom.set_yticks([])
    bottom.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    bottom.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
