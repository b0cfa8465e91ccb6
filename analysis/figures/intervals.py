"""Final scores with intervals: one panel per task (thesis Figures 15-17)."""

import dataclasses
import functools
import math
import textwrap

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.data.published import targets
from analysis.data.runs import Cell
from analysis.figures.curves import lines_of_frameworks, recipes_across
from analysis.figures.panels import (
    Line,
    Margins,
    interval_words,
    legend,
    panel_grid,
    size_words,
    usual_size,
)
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.spots import draw_spots, frame_of
from analysis.figures.style import PAGE, Look, looks, paper_settings
from analysis.verdicts.study import Material
from analysis.words import file_name, label, recipe_label

_COLUMNS = 4


@dataclasses.dataclass(frozen=True)
class TaskPanel:
    """One task.

    Attributes:
        env: Its name.
        lines: Frameworks by set of hyperparameters, in the order of the page.
        published: Published score under each set; NaN where there is none.
    """

    env: str
    lines: tuple[tuple[Line, ...], ...]
    published: tuple[float, ...]

    @property
    def all(self) -> list[Line]:
        """All lines."""
        return [line for group in self.lines for line in group]


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One page per algorithm."""
    return [_sheet(material, *setting) for setting in material.settings] or [
        NotDrawn("intervals", "no run can be used")
    ]


def _sheet(material: Material, study: str, algorithm: str, variant: str) -> Sheet:
    cells = material.cells(study, algorithm, variant)
    order = recipes_across(material, cells)
    panels = tuple(
        TaskPanel(
            env,
            tuple(
                lines_of_frameworks(material, Cell(study, env, algorithm, hps, variant))
                for hps in order
            ),
            tuple(_published(algorithm, env, hps) for hps in order),
        )
        for env in sorted({cell.env for cell in cells})
    )
    lines = [line for panel in panels for line in panel.all]
    title = f"Final scores of {label(algorithm)}"
    bars = " Black lines: score read off the original paper, be it after other steps."
    caption = (
        f"{title} ({material.context(study, variant)}). Filled: mean over seeds of the mean "
        f"return of the last evaluation.{_dots(lines)} Lines: {interval_words(material.method)}; "
        f"an arrow where one goes on. Rows: whose hyperparameters.{bars * _any(panels)} "
        f"{size_words(lines)}."
    )
    labels = tuple(textwrap.fill(recipe_label(hps), 15) for hps in order)
    name = file_name("intervals", algorithm, *material.suffix(study, variant, algorithm))
    return Sheet(name, title, caption, cells, functools.partial(draw, panels, labels))


def draw(panels: tuple[TaskPanel, ...], labels: tuple[str, ...]) -> Figure:
    """Draws a page."""
    lines = [line for panel in panels for line in panel.all]
    styles = looks(line.name for line in lines)
    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    height = 0.3 + 0.13 * len(labels) * max(2, len(styles))
    margins = Margins(left=0.85, top=0.42, bottom=0.34, down=0.42, across=0.14)
    width = margins.left + (PAGE - margins.left) * max(2, columns) / _COLUMNS
    with matplotlib.rc_context(paper_settings()):
        figure, axes = panel_grid(rows, columns, width, height, margins, False, True)
        legend(figure, styles)
        for axis, panel in zip(axes.flat, panels, strict=False):
            _draw_panel(axis, panel, labels, styles, usual_size(lines))
        for axis in axes.flat[len(panels) :]:
            axis.set_axis_off()
        figure.text(0.5, 0.05 / figure.get_figheight(), "mean return", ha="center")
    return figure


def _draw_panel(
    axis: Axes, panel: TaskPanel, labels: tuple[str, ...], styles: dict[str, Look], usual: int
) -> None:
    axis.set_title(panel.env)
    known = [score for score in panel.published if math.isfinite(score)]
    frame = frame_of(panel.all, usual, known)
    step = 0.8 / len(styles)
    for i, (lines, score) in enumerate(zip(panel.lines, panel.published, strict=True)):
        places = {name: i - 0.4 + step * (j + 0.5) for j, name in enumerate(styles)}
        spots = [(places[line.name], line) for line in lines]
        draw_spots(axis, spots, styles, frame, usual)
        if math.isfinite(score):
            axis.plot([score, score], [i - 0.45, i + 0.45], color="0.15", linewidth=1.0)
    axis.set_ylim(len(labels) - 0.5, -0.5)
    axis.set_yticks(range(len(labels)), labels)
    axis.grid(axis="y", visible=False)
    for edge in range(1, len(labels)):
        axis.axhline(edge - 0.5, color="0.85", linewidth=0.5)


def _published(algorithm: str, env: str, hps: str) -> float:
    rows = [row for row in targets(algorithm, env, hps, "") if row.table == "thesis_targets"]
    return rows[0].mean if rows else math.nan


def _any(panels: tuple[TaskPanel, ...]) -> bool:
    return any(math.isfinite(score) for panel in panels for score in panel.published)


def _dots(lines: list[Line]) -> str:
    return " Circles: seeds." if any(len(line.scores) for line in lines) else ""
