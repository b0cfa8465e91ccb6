"""Final scores with intervals: one panel per task (thesis Figures 15-17)."""

import collections
import dataclasses
import functools
import math
import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.figures.curves import list_shared_recipes, make_framework_lines
from parallax.analysis.figures.dot_plot import (
    compute_score_axis_limits,
    describe_failed_runs,
    draw_score_dots,
)
from parallax.analysis.figures.figure_spec import FigureSpec, MissingFigure, limit_settings
from parallax.analysis.figures.panels import (
    CurveLine,
    PanelMargins,
    ScorePanel,
    describe_interval,
    describe_sizes,
    draw_legend,
    get_usual_size,
    make_panel_grid,
)
from parallax.analysis.figures.score_marks import (
    ScoreMark,
    describe_marks,
    draw_score_marks,
    list_mark_names,
    list_score_marks,
)
from parallax.analysis.figures.style import PAGE_WIDTH, SeriesStyle, get_framework_styles
from parallax.analysis.labels import (
    LIBRARY_DEFAULTS,
    get_label,
    get_recipe_label,
    get_recipe_order,
    make_file_name,
    wrap_task_name,
)
from parallax.analysis.verdicts.endpoints import ScoreScale, find_score_scale
from parallax.analysis.verdicts.groups import list_cells
from parallax.analysis.verdicts.study import StudyResults, StudyVariant

_INTERVAL_COLUMNS = 4
_LONGEST_TITLE = 20  # characters, about the width of a panel


@dataclasses.dataclass(frozen=True)
class TaskPanel:
    """One task.

    Attributes:
        lines: Frameworks by set of hyperparameters, in the order of the page.
        marks: Policies without training, and published scores under any of the sets.
    """

    env: str
    lines: tuple[tuple[CurveLine, ...], ...]
    marks: tuple[ScoreMark, ...]

    @property
    def all(self) -> list[CurveLine]:
        """All lines."""
        return [line for group in self.lines for line in group]


def make_interval_figure_specs(results: StudyResults) -> list[FigureSpec | MissingFigure]:
    """Return one page per algorithm."""
    found = [_make_interval_figure_spec(results, part) for part in results.parts]
    reason = "no two frameworks or recipes have a run used on one task"
    return [page for page in found if page] or [MissingFigure("intervals", reason)]


def _make_interval_figure_spec(results: StudyResults, part: StudyVariant) -> FigureSpec | None:
    cells, algorithm, variant = part.cells, part.algorithm, part.variant
    order = list_shared_recipes(results, cells)
    found = tuple(
        TaskPanel(
            env,
            tuple(
                make_framework_lines(results, StudyCell(part.study, env, algorithm, hps, variant))
                for hps in order
            ),
            _list_task_marks(results, [cell for cell in cells if cell.env == env]),
        )
        for env in sorted({cell.env for cell in cells})
    )
    panels = tuple(panel for panel in found if len(panel.all) > 1)
    if not panels:
        return None
    names = list_mark_names(mark for panel in panels for mark in panel.marks)
    lines = [line for panel in panels for line in panel.all]
    title = f"Scores of {get_label(algorithm)}"
    caption = (
        f"{title} ({part.context}). Filled: mean over seeds of the "
        f"{results.verdicts.options.chosen_endpoint.description}."
        f"{' Circles: seeds.' * any(len(line.scores) for line in lines)}"
        f"{describe_failed_runs(lines)} Lines: "
        f"{describe_interval(results.method)}; "
        f"an arrow where one goes on. Rows: whose hyperparameters.{describe_marks(names)} "
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
    margins = PanelMargins(left=0.85, top=0.62, bottom=0.34, down=0.5, across=0.14)
    width = margins.left + (PAGE_WIDTH - margins.left) * max(2, columns) / _INTERVAL_COLUMNS
    figure, axes = make_panel_grid(rows, columns, width, height, margins, False, True)
    draw_legend(figure, styles, list_mark_names(mark for panel in panels for mark in panel.marks))
    for axis, panel in zip(axes.flat, panels, strict=False):
        _draw_task_panel(axis, panel, labels, styles, get_usual_size(lines))
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    figure.text(0.5, 0.05 / figure.get_figheight(), "score", ha="center")
    return figure


def _draw_task_panel(
    axis: Axes,
    panel: TaskPanel,
    labels: tuple[str, ...],
    styles: dict[str, SeriesStyle],
    usual: int,
) -> None:
    axis.set_title(panel.env if len(panel.env) <= _LONGEST_TITLE else wrap_task_name(panel.env))
    limits = compute_score_axis_limits(panel.all, usual, panel.marks)
    step = 0.8 / len(styles)
    for i, lines in enumerate(panel.lines):
        places = {name: i - 0.4 + step * (j + 0.5) for j, name in enumerate(styles)}
        draw_score_dots(axis, [(places[line.name], line) for line in lines], styles, limits, usual)
    draw_score_marks(axis, panel.marks, along="x")
    axis.set_ylim(len(labels) - 0.5, -0.5)
    axis.set_yticks(range(len(labels)), labels)
    axis.grid(axis="y", visible=False)
    for edge in range(1, len(labels)):
        axis.axhline(edge - 0.5, color="0.85", linewidth=0.5)


def _list_task_marks(results: StudyResults, cells: Sequence[StudyCell]) -> tuple[ScoreMark, ...]:
    """Return the marks of one task under any recipe, each name once."""
    marks = {mark.name: mark for cell in cells for mark in list_score_marks(results, cell)}
    return tuple(marks.values())


OVERVIEW_NAME, DEFAULTS_NAME = "overview", "library_defaults"
_OVERVIEW_COLUMNS = 3


def make_overview_figure_specs(results: StudyResults) -> list[FigureSpec | MissingFigure]:
    """Return the figure of settings that frameworks share, and that of library defaults."""
    shared, own = _select_overview_cells(results)
    title, missing = "Scores by algorithm, task and framework", "no two frameworks have a run used"
    settings = (
        (OVERVIEW_NAME, title, shared, f"{missing} in one setting"),
        (DEFAULTS_NAME, "Scores under library defaults", own, f"{missing} under library defaults"),
    )
    return [limit_settings(_make_overview_figure_spec(results, *one)) for one in settings]


def _make_overview_figure_spec(
    results: StudyResults, name: str, title: str, cells: tuple[StudyCell, ...], otherwise: str
) -> FigureSpec | MissingFigure:
    options = results.verdicts.options
    scales = [find_score_scale(cell, options) for cell in cells]
    unknown = sorted({cell.env for cell, scale in zip(cells, scales, strict=True) if not scale})
    is_normalized = not unknown
    panels = tuple(
        ScorePanel(
            f"{get_label(cell.algorithm)}, {cell.env}\n{get_recipe_label(cell.hps)}",
            make_framework_lines(results, cell),
            list_score_marks(results, cell),
        )
        for cell in cells
    )
    if not panels:
        return MissingFigure(name, otherwise)
    if is_normalized:
        panels = tuple(
            _normalize_panel(panel, scale)
            for panel, scale in zip(panels, scales, strict=True)
            if scale
        )
    names = list_mark_names(mark for panel in panels for mark in panel.marks)
    lines = [line for panel in panels for line in panel.lines]
    how = (
        f" Scores are normalized, so that all panels share one axis: 0 is "
        f"{options.zero_description}, 1 the published score of the algorithm, or a solved "
        "task where none is published, or the range given for a task."
    ) * (not options.chosen_endpoint.is_steps)
    if unknown:
        how = f" Scores are not normalized, since no scale is known for {', '.join(unknown)}."
    caption = (
        f"{title}. Filled: mean over seeds of the {options.chosen_endpoint.description}. Circles: "
        f"seeds.{describe_failed_runs(lines)} Lines: {describe_interval(results.method)}; an "
        f"arrow where one goes on.{how}{describe_marks(names)} n: runs requested, completed and "
        "used of each framework; where it differs, a row says used/requested."
    )
    behind = [own for own, framework in results.curves if {*list_cells(own, framework)} & {*cells}]
    return FigureSpec(
        name,
        title,
        caption,
        tuple(sorted(set(behind))),
        functools.partial(draw_overview_figure, panels, is_normalized=is_normalized),
    )


def _normalize_panel(panel: ScorePanel, scale: ScoreScale) -> ScorePanel:
    lines = [
        dataclasses.replace(
            line,
            scores=scale.normalize(line.scores),
            with_failed_runs=scale.normalize(line.with_failed_runs),
            final=dataclasses.replace(
                line.final,
                mean=scale.normalize(line.final.mean),
                low=scale.normalize(line.final.low),
                high=scale.normalize(line.final.high),
            ),
        )
        for line in panel.lines
    ]
    marks = [ScoreMark(mark.name, scale.normalize(mark.score)) for mark in panel.marks]
    return ScorePanel(panel.title, tuple(lines), tuple(marks))


def _select_overview_cells(
    results: StudyResults,
) -> tuple[tuple[StudyCell, ...], tuple[StudyCell, ...]]:
    """Select a shared setting per algorithm and task of main settings, and library defaults."""
    sizes: collections.Counter[StudyCell] = collections.Counter()
    for cell, framework in results.curves:
        if cell in results.verdicts.main_cells:
            sizes.update(list_cells(cell, framework))
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


def draw_overview_figure(panels: tuple[ScorePanel, ...], *, is_normalized: bool = False) -> Figure:
    """Draw the panels, on one axis where scores are normalized."""
    lines = [line for panel in panels for line in panel.lines]
    styles = get_framework_styles([line.name for line in lines])
    columns = min(_OVERVIEW_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    margins = PanelMargins(left=0.62, top=0.52, bottom=0.34, down=0.52, across=0.16)
    width = PAGE_WIDTH if columns > 1 else PAGE_WIDTH * 0.6
    height = 0.16 + 0.16 * len(styles)
    figure, axes = make_panel_grid(rows, columns, width, height, margins, False, True)
    draw_legend(figure, {}, list_mark_names(mark for one in panels for mark in one.marks))
    shared = [mark for panel in panels for mark in panel.marks]
    for axis, panel in zip(axes.flat, panels, strict=False):
        usual = get_usual_size(panel.lines)
        axis.set_title(f"{panel.title}, n = {usual}")
        places = {name: i for i, name in enumerate(styles)}
        dots = [(float(places[line.name]), line) for line in panel.lines]
        scope = (lines, shared) if is_normalized else (panel.lines, panel.marks)
        limits = compute_score_axis_limits(scope[0], usual, scope[1])
        draw_score_dots(axis, dots, styles, limits, usual)
        draw_score_marks(axis, panel.marks, along="x")
        axis.set_ylim(len(styles) - 0.5, -0.5)
        axis.set_yticks(range(len(styles)), [get_label(name) for name in styles])
        axis.grid(axis="y", visible=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    text = "normalized score" if is_normalized else "score"
    figure.text(0.5, 0.05 / figure.get_figheight(), text, ha="center")
    return figure
