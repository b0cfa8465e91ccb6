"""Grids of panels laid out in inches: quick, and the same on every machine."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.figures.style import LARGE, Look, label

Grid = Any  # array of Axes, [rows, columns]


@dataclasses.dataclass(frozen=True)
class Margins:
    """Space around and between panels, in inches."""

    left: float = 0.55
    right: float = 0.08
    top: float = 0.42
    bottom: float = 0.32
    across: float = 0.1
    down: float = 0.12


def panel_grid(
    rows: int,
    columns: int,
    width: float,
    heights: float | Sequence[float],
    margins: Margins,
    sharex: bool | str = False,
    sharey: bool | str = False,
) -> tuple[Figure, Grid]:
    """A figure with rows x columns panels.

    Args:
        rows: Number of rows.
        columns: Number of columns.
        width: Of the figure, in inches.
        heights: Of a panel, in inches, or one for each row.
        margins: The space that is not panels.
        sharex: As in Matplotlib.
        sharey: As in Matplotlib.
    """
    each = [heights] * rows if isinstance(heights, int | float) else list(heights)
    inner = sum(each) + margins.down * (rows - 1)
    height = inner + margins.top + margins.bottom
    panel_width = (width - margins.left - margins.right - margins.across * (columns - 1)) / columns
    figure = Figure(figsize=(width, height))
    axes = figure.subplots(
        rows,
        columns,
        squeeze=False,
        sharex=sharex,  # type: ignore[arg-type]
        sharey=sharey,  # type: ignore[arg-type]
        gridspec_kw={
            "left": margins.left / width,
            "right": 1 - margins.right / width,
            "top": 1 - margins.top / height,
            "bottom": margins.bottom / height,
            "wspace": margins.across / panel_width,
            "hspace": margins.down / (sum(each) / rows),
            "height_ratios": each,
        },
    )
    return figure, np.asarray(axes, dtype=object)


def legend(figure: Figure, styles: dict[str, Look]) -> None:
    """One line of names at the top of a figure."""
    handles = [
        Line2D(
            [],
            [],
            color=look.color,
            linestyle=look.line,
            marker=look.marker,
            markersize=3.5,
            linewidth=1.3,
            label=label(name),
        )
        for name, look in styles.items()
    ]
    height = figure.get_figheight()
    figure.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 1 - 0.01 / height),
        ncols=len(handles),
        frameon=False,
        fontsize=LARGE,
        handlelength=2.6,
        columnspacing=1.4,
        borderaxespad=0,
    )


def patch_legend(figure: Figure, colors: dict[str, str], down: float = 0.02) -> None:
    """One line of coloured boxes, `down` inches below the top of a figure."""
    handles = [
        Patch(facecolor=color, edgecolor="0.4", label=text) for text, color in colors.items()
    ]
    figure.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 1 - down / figure.get_figheight()),
        ncols=len(handles),
        frameon=False,
        handlelength=1.2,
        borderaxespad=0,
    )


def row_label(axis: Axes, text: str) -> None:
    """Bold text at the left of a row."""
    axis.set_ylabel(text, fontweight="bold")
