"""Final scores with intervals: one panel per task (thesis Figures 15-17)."""

import collections
import dataclasses
import functools
import math
import textwrap

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parallax.analysis.data.published import find_reproduction_targets
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.figures.curves import list_shared_recipes, make_framework_lines
from parallax.analysis.figures.dot_plot import compute_score_axis_limits, draw_score_dots
from parallax.analysis.figures.figure_spec import FigureSpec, MissingFigure
from parallax.analysis.figures.panels import (
    CurveLine,
    PanelMargins,
    describe_interval,
    describe_sizes,
    draw_legend,
    get_usual_size,
    make_panel_grid,
)
from parallax.analysis.figures.style import (
    PAGE_WIDTH,
    SeriesStyle,
    get_framework_styles,
    get_paper_rc_settings,
)
from parallax.analysis.labels import (
    LIBRARY_DEFAULTS,
    get_label,
    get_recipe_label,
    get_recipe_order,
    make_file_name,
)
from parallax.analysis.verdicts.groups import to_library_defaults_cell
from parallax.analysis.verdicts.study import StudyResults, StudyVariant

_INTERVAL_COLUMNS = 4


@dataclasses.dataclass(frozen=True)
class TaskPanel:
    """One task.

    Attributes:
        env: Its name.
        lines: Frameworks by set of hyperparameters, in the order of the page.
        published: Published score under each set; NaN where there is none.
    """

    env: str
    lines: tuple[tuple[CurveLine, ...], ...]
    published: tuple[float, ...]

    @property
    def all(self) -> list[CurveLine]:
        """All lines."""
        return [line for group in self.lines for line in group]


def make_interval_figure_specs(material: StudyResults) -> list[FigureSpec | MissingFigure]:
    """One page per algorithm."""
    return [_make_interval_figure_spec(material, part) for part in material.parts] or [
        MissingFigure("intervals", "no run can be used")
    ]


def _make_interval_figure_spec(material: StudyResults, part: StudyVariant) -> FigureSpec:
    cells, algorithm, variant = part.cells, part.algorithm, part.variant
    order = list_shared_recipes(material, cells)
    panels = tuple(
        TaskPanel(
            env,
            tuple(
                make_framework_lines(material, StudyCell(part.study, env, algorithm, hps, variant))
                for hps in order
            ),
            tuple(_find_published_score(algorithm, env, hps) for hps in order),
        )
        for env in sorted({cell.env for cell in cells})
    )
    lines = [line for panel in panels for line in panel.all]
    title = f"Final scores of {get_label(algorithm)}"
    bars = " Black lines: score read off the original paper, be it after other steps."
    caption = (
        f"{title} ({part.context}). Filled: mean over seeds of the mean "
        f"return of the last evaluation.{_describe_dots(lines)} Lines: "
        f"{describe_interval(material.method)}; "
        "an arrow where one goes on. Rows: whose "
        f"hyperparameters.{bars * _has_published_score(panels)} "
        f"{describe_sizes(lines)}."
    )
    labels = tuple(textwrap.fill(get_recipe_label(hps), 15) for hps in order)
    name = make_file_name("intervals", algorithm, *part.suffix)
    return FigureSpec(
        name, title, caption, cells, functools.partial(draw_interval_figure, panels, labels)
    )


def draw_interval_figure(panels: tuple[TaskPanel, ...], labels: tuple[str, ...]) -> Figure:
    """Draw a page."""
    lines = [line for panel in panels for line in panel.all]
    styles = get_framework_styles([line.name for line in lines])
    columns = min(_INTERVAL_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    height = 0.3 + 0.13 * len(labels) * max(2, len(styles))
    margins = PanelMargins(left=0.85, top=0.42, bottom=0.34, down=0.42, across=0.14)
    width = margins.left + (PAGE_WIDTH - margins.left) * max(2, columns) / _INTERVAL_COLUMNS
    with matplotlib.rc_context(get_paper_rc_settings()):
        figure, axes = make_panel_grid(rows, columns, width, height, margins, False, True)
        draw_legend(figure, styles)
        for axis, panel in zip(axes.flat, panels, strict=False):
            _draw_task_panel(axis, panel, labels, styles, get_usual_size(lines))
        for axis in axes.flat[len(panels) :]:
            axis.set_axis_off()
        figure.text(0.5, 0.05 / figure.get_figheight(), "mean return", ha="center")
    return figure


def _draw_task_panel(
    axis: Axes,
    panel: TaskPanel,
    labels: tuple[str, ...],
    styles: dict[str, SeriesStyle],
    usual: int,
) -> None:
    axis.set_title(panel.env)
    known = [score for score in panel.published if math.isfinite(score)]
    frame = compute_score_axis_limits(panel.all, usual, known)
    step = 0.8 / len(styles)
    for i, (lines, score) in enumerate(zip(panel.lines, panel.published, strict=True)):
        places = {name: i - 0.4 + step * (j + 0.5) for j, name in enumerate(styles)}
        spots = [(places[line.name], line) for line in lines]
        draw_score_dots(axis, spots, styles, frame, usual)
        if math.isfinite(score):
            axis.plot([score, score], [i - 0.45, i + 0.45], color="0.15", linewidth=1.0)
    axis.set_ylim(len(labels) - 0.5, -0.5)
    axis.set_yticks(range(len(labels)), labels)
    axis.grid(axis="y", visible=False)
    for edge in range(1, len(labels)):
        axis.axhline(edge - 0.5, color="0.85", linewidth=0.5)


def _find_published_score(algorithm: str, env: str, hps: str) -> float:
    rows = [
        row
        for row in find_reproduction_targets(algorithm, env, hps, "")
        if row.table == "thesis_targets"
    ]
    return rows[0].mean if rows else math.nan


def _has_published_score(panels: tuple[TaskPanel, ...]) -> bool:
    return any(math.isfinite(score) for panel in panels for score in panel.published)


def _describe_dots(lines: list[CurveLine]) -> str:
    return " Circles: seeds." if any(len(line.scores) for line in lines) else ""


OVERVIEW_NAME, DEFAULTS_NAME = "overview", "library_defaults"
_OVERVIEW_COLUMNS = 3


@dataclasses.dataclass(frozen=True)
class OverviewPanel:
    """One algorithm on one task.

    Attributes:
        title: What it is.
        lines: One per framework.
    """

    title: str
    lines: tuple[CurveLine, ...]


def make_overview_figure_specs(material: StudyResults) -> list[FigureSpec | MissingFigure]:
    """Return the figure of what frameworks share, and that of library defaults."""
    shared, own = _select_overview_cells(material)
    title = "Final scores by algorithm, task and framework"
    return [
        _make_overview_figure_spec(
            material,
            OVERVIEW_NAME,
            title,
            shared,
            "no two frameworks have a run used in one setting",
        ),
        _make_overview_figure_spec(
            material,
            DEFAULTS_NAME,
            "Final scores under library defaults",
            own,
            "no two frameworks have a run used under library defaults",
        ),
    ]


def _make_overview_figure_spec(
    material: StudyResults, name: str, title: str, cells: tuple[StudyCell, ...], otherwise: str
) -> FigureSpec | MissingFigure:
    panels = tuple(
        OverviewPanel(
            f"{get_label(cell.algorithm)}, {cell.env}\n{get_recipe_label(cell.hps)}",
            make_framework_lines(material, cell),
        )
        for cell in cells
    )
    if not panels:
        return MissingFigure(name, otherwise)
    caption = (
        f"{title}. Filled: mean over seeds of the mean return of the last evaluation. Circles: "
        f"seeds. Lines: {describe_interval(material.method)}; an arrow where one goes on. n: runs "
        "requested, completed and used of each framework; where it differs, a row says "
        "used/requested."
    )
    behind = [
        own
        for own, framework in material.curves
        if {own, to_library_defaults_cell(own, framework)} & {*cells}
    ]
    return FigureSpec(
        name,
        title,
        caption,
        tuple(sorted(set(behind))),
        functools.partial(draw_overview_figure, panels),
    )


def _select_overview_cells(
    material: StudyResults,
) -> tuple[tuple[StudyCell, ...], tuple[StudyCell, ...]]:
    """Per algorithm and task of what the study is about a shared setting, and library defaults."""
    sizes: collections.Counter[StudyCell] = collections.Counter()
    for cell, framework in material.curves:
        if cell in material.verdicts.main_cells:
            sizes.update({cell, to_library_defaults_cell(cell, framework)})
    several = [cell for cell in sizes if sizes[cell] > 1]
    shared = [cell for cell in several if cell.hps != LIBRARY_DEFAULTS]
    first = sorted(
        shared, key=lambda cell: (-sizes[cell], cell.hps != "original", get_recipe_order(cell.hps))
    )
    found: dict[tuple[str, str, str], StudyCell] = {}
    for cell in first:
        found.setdefault((cell.study, cell.algorithm, cell.env), cell)
    own = sorted(
        (cell for cell in several if cell.hps == LIBRARY_DEFAULTS),
        key=lambda cell: (cell.study, cell.algorithm, cell.env),
    )
    return tuple(found[key] for key in sorted(found)), tuple(own)


def draw_overview_figure(panels: tuple[OverviewPanel, ...]) -> Figure:
    """Draw it."""
    lines = [line for panel in panels for line in panel.lines]
    styles = get_framework_styles([line.name for line in lines])
    columns = min(_OVERVIEW_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    margins = PanelMargins(left=0.62, top=0.36, bottom=0.34, down=0.52, across=0.16)
    width = PAGE_WIDTH if columns > 1 else PAGE_WIDTH * 0.6
    with matplotlib.rc_context(get_paper_rc_settings()):
        height = 0.16 + 0.16 * len(styles)
        figure, axes = make_panel_grid(rows, columns, width, height, margins, False, True)
        for axis, panel in zip(axes.flat, panels, strict=False):
            usual = get_usual_size(panel.lines)
            axis.set_title(f"{panel.title}, n = {usual}")
            places = {name: i for i, name in enumerate(styles)}
            spots = [(float(places[line.name]), line) for line in panel.lines]
            draw_score_dots(
                axis, spots, styles, compute_score_axis_limits(panel.lines, usual), usual
            )
            axis.set_ylim(len(styles) - 0.5, -0.5)
            axis.set_yticks(range(len(styles)), [get_label(name) for name in styles])
            axis.grid(axis="y", visible=False)
        for axis in axes.flat[len(panels) :]:
            axis.set_axis_off()
        figure.text(0.5, 0.05 / figure.get_figheight(), "mean return", ha="center")
    return figure
