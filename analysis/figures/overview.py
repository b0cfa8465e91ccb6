"""All algorithms and tasks of a study at a glance: final scores of each framework, one panel each.

A panel holds the recipe that most frameworks share, of several the first in the usual order; in a
second figure, each framework under its own defaults.
"""

import collections
import dataclasses
import functools
import math

import matplotlib
from matplotlib.figure import Figure

from analysis.data.runs import Cell
from analysis.figures.curves import lines_of_frameworks
from analysis.figures.panels import (
    Line,
    Margins,
    interval_words,
    panel_grid,
    usual_size,
)
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.spots import draw_spots, frame_of
from analysis.figures.style import PAGE, looks, paper_settings
from analysis.verdicts.defaults import as_they_come
from analysis.verdicts.study import Material
from analysis.words import OWN, label, recipe_label, recipe_order

NAME, AS_THEY_COME = "overview", "as_they_come"
_COLUMNS = 3


@dataclasses.dataclass(frozen=True)
class Panel:
    """One algorithm on one task.

    Attributes:
        title: What it is.
        lines: One per framework.
    """

    title: str
    lines: tuple[Line, ...]


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """The figure of what frameworks share, and that of their own defaults."""
    shared, own = _cells(material)
    title = "Final scores by algorithm, task and framework"
    return [
        _sheet(material, NAME, title, shared, "no two frameworks have a run used in one setting"),
        _sheet(
            material,
            AS_THEY_COME,
            "Final scores of each framework under its own defaults",
            own,
            "no two frameworks have a run used under their own defaults",
        ),
    ]


def _sheet(
    material: Material, name: str, title: str, cells: tuple[Cell, ...], otherwise: str
) -> Sheet | NotDrawn:
    panels = tuple(
        Panel(
            f"{label(cell.algorithm)}, {cell.env}\n{recipe_label(cell.hps)}",
            lines_of_frameworks(material, cell),
        )
        for cell in cells
    )
    if not panels:
        return NotDrawn(name, otherwise)
    caption = (
        f"{title}. Filled: mean over seeds of the mean return of the last evaluation. Circles: "
        f"seeds. Lines: {interval_words(material.method)}; an arrow where one goes on. n: runs "
        "requested, completed and used of each framework; where it differs, a row says "
        "used/requested."
    )
    behind = [
        own for own, framework in material.curves if {own, as_they_come(own, framework)} & {*cells}
    ]
    return Sheet(name, title, caption, tuple(sorted(set(behind))), functools.partial(draw, panels))


def _cells(material: Material) -> tuple[tuple[Cell, ...], tuple[Cell, ...]]:
    """Per algorithm and task of what the study is about a shared setting, and own defaults."""
    sizes: collections.Counter[Cell] = collections.Counter()
    for cell, framework in material.curves:
        if material.verdicts.is_main(cell):
            sizes.update({cell, as_they_come(cell, framework)})
    several = [cell for cell in sizes if sizes[cell] > 1]
    shared = [cell for cell in several if cell.hps != OWN]
    first = sorted(
        shared, key=lambda cell: (-sizes[cell], cell.hps != "original", recipe_order(cell.hps))
    )
    found: dict[tuple[str, str, str], Cell] = {}
    for cell in first:
        found.setdefault((cell.study, cell.algorithm, cell.env), cell)
    own = sorted(
        (cell for cell in several if cell.hps == OWN),
        key=lambda cell: (cell.study, cell.algorithm, cell.env),
    )
    return tuple(found[key] for key in sorted(found)), tuple(own)


def draw(panels: tuple[Panel, ...]) -> Figure:
    """Draws it."""
    lines = [line for panel in panels for line in panel.lines]
    styles = looks(line.name for line in lines)
    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    margins = Margins(left=0.62, top=0.36, bottom=0.34, down=0.52, across=0.16)
    width = PAGE if columns > 1 else PAGE * 0.6
    with matplotlib.rc_context(paper_settings()):
        height = 0.16 + 0.16 * len(styles)
        figure, axes = panel_grid(rows, columns, width, height, margins, False, True)
        for axis, panel in zip(axes.flat, panels, strict=False):
            usual = usual_size(panel.lines)
            axis.set_title(f"{panel.title}, n = {usual}")
            places = {name: i for i, name in enumerate(styles)}
            spots = [(float(places[line.name]), line) for line in panel.lines]
            draw_spots(axis, spots, styles, frame_of(panel.lines, usual), usual)
            axis.set_ylim(len(styles) - 0.5, -0.5)
            axis.set_yticks(range(len(styles)), [label(name) for name in styles])
            axis.grid(axis="y", visible=False)
        for axis in axes.flat[len(panels) :]:
            axis.set_axis_off()
        figure.text(0.5, 0.05 / figure.get_figheight(), "mean return", ha="center")
    return figure
