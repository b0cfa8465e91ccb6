"""A page of learning curves: one row per task, return axes shared within it."""

import dataclasses
import functools
import itertools
from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure

from analysis.figures.layout import Margins, legend, panel_grid, row_label
from analysis.figures.names import task_lines
from analysis.figures.parts import Line, draw_lines, fit_axes, note_sizes, plain_axes
from analysis.figures.sheet import Sheet
from analysis.figures.style import (
    PAGE,
    algorithm_looks,
    looks,
    paper_settings,
)
from analysis.figures.words import interval_words, size_words, usual_size
from analysis.runs import Cell

FRAMEWORKS, ALGORITHMS = "frameworks", "algorithms"


@dataclasses.dataclass(frozen=True)
class CurveGrid:
    """The content of a page.

    Attributes:
        rows: Label of each row.
        columns: Label of each column.
        panels: Lines of each panel by row and column; none where nothing was run.
        kind: What lines stand for: `frameworks` or `algorithms`.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    panels: tuple[tuple[tuple[Line, ...], ...], ...]
    kind: str

    @property
    def lines(self) -> list[Line]:
        """All lines of all panels."""
        return [line for row in self.panels for panel in row for line in panel]


def curve_sheet(
    name: str, title: str, grid: CurveGrid, method: str, context: str, cells: Sequence[Cell]
) -> Sheet:
    """A page of curves with its caption.

    Args:
        name: Of the files.
        title: What it shows.
        grid: The content.
        method: Method of the intervals.
        context: What all panels share, for the caption.
        cells: Settings of the runs behind it.
    """
    caption = (
        f"{title} ({context}). Lines: mean over seeds of the mean return per evaluation, over "
        f"environment steps. Bands: {interval_words(method)}; wide ones are cut off. Panels of a "
        f"row share the return axis. {size_words(grid.lines)}."
    )
    return Sheet(name, title, caption, tuple(cells), functools.partial(draw_curve_grid, grid))


def draw_curve_grid(grid: CurveGrid) -> Figure:
    """Draws a page of curves."""
    names = [line.name for line in grid.lines]
    styles = looks(names) if grid.kind == FRAMEWORKS else algorithm_looks(names)
    width = PAGE if len(grid.columns) > 2 else PAGE * 0.7
    labels = [task_lines(text) for text in grid.rows]
    most = 1 + max(text.count("\n") for text in labels)
    margins = Margins(left=0.44 + 0.11 * most, bottom=0.36)
    with matplotlib.rc_context(paper_settings()):
        figure, axes = panel_grid(
            len(grid.rows), len(grid.columns), width, 0.98, margins, True, "row"
        )
        legend(figure, styles)
        for axis, column in zip(axes[0], grid.columns, strict=True):
            axis.set_title(column)
        usual = usual_size(grid.lines)
        for row, panels, text in zip(axes, grid.panels, labels, strict=True):
            row_label(row[0], text)
            fit_axes(row[0], list(itertools.chain(*panels)))
            for axis, lines in zip(row, panels, strict=True):
                plain_axes(axis)
                draw_lines(axis, lines, styles)
                note_sizes(axis, lines, usual)
                if not lines:
                    axis.text(0.5, 0.5, "no run", ha="center", transform=axis.transAxes)
        axes[0, 0].set_xlim(0, max(float(line.steps[-1]) for line in grid.lines if len(line.steps)))
        height = figure.get_figheight()
        figure.text(0.5, 0.06 / height, "environment steps", ha="center")
    return figure
