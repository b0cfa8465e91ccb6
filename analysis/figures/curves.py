"""Pages of learning curves: one row per task, with a shared return axis.

Columns are hyperparameters, with all frameworks (thesis Figures 18-20); frameworks, with all
algorithms (21-25); without and with wrappers (12); one and several parallel environments (13).
"""

import dataclasses
import functools
import itertools
import math
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, MaxNLocator

from parallax.analysis.data.published import get_return_bounds
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.figures import score_marks, style
from parallax.analysis.figures.figure_spec import FigureSpec, MissingFigure
from parallax.analysis.figures.panels import (
    MARK_LEGEND_HEIGHT,
    MIN_SEEDS_OF_BAND,
    CurveLine,
    PanelMargins,
    align_last_tick_label,
    annotate_unusual_sizes,
    clip_to_bounds,
    compute_return_limits,
    describe_failed_curves,
    describe_interval,
    describe_sizes,
    draw_legend,
    draw_lines,
    fit_return_axis,
    get_usual_size,
    label_row,
    make_curve_line,
    make_failed_line,
    make_panel_grid,
    set_step_axis,
)
from parallax.analysis.labels import (
    INTERVAL_FORMULAS,
    LIBRARY_DEFAULTS,
    find_common_parts,
    find_own_parts,
    get_label,
    get_recipe_label,
    make_file_name,
    sort_recipes,
    split_variant,
    wrap_task_name,
)
from parallax.analysis.verdicts.curves import CurvePanel, LearningCurve
from parallax.analysis.verdicts.study import StudyResults, StudyVariant

FRAMEWORK_LINES, ALGORITHM_LINES = "frameworks", "algorithms"


@dataclasses.dataclass(frozen=True)
class CurveGrid:
    """The content of a page.

    Attributes:
        panels: Lines of each panel by row and column; empty if nothing was run.
        kind: What lines represent: `frameworks` or `algorithms`.
        marks: Scores beside the curves, by row.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    panels: tuple[tuple[tuple[CurveLine, ...], ...], ...]
    kind: str
    marks: tuple[tuple[score_marks.ScoreMark, ...], ...] = ()

    @property
    def lines(self) -> list[CurveLine]:
        """All lines of all panels."""
        return [line for row in self.panels for panel in row for line in panel]

    @property
    def mark_names(self) -> tuple[str, ...]:
        """Names of all marks."""
        return score_marks.list_mark_names(mark for row in self.marks for mark in row)

    def drop_single_lines(self) -> "CurveGrid":
        """Leave out rows and columns without a panel of two lines, unless there are no others."""
        several = np.array([[len(panel) > 1 for panel in row] for row in self.panels])
        if not several.any():
            return self
        rows, columns = (np.flatnonzero(several.any(axis=axis)) for axis in (1, 0))
        return CurveGrid(
            tuple(self.rows[i] for i in rows),
            tuple(self.columns[j] for j in columns),
            tuple(tuple(self.panels[i][j] for j in columns) for i in rows),
            self.kind,
            tuple(self.marks[i] for i in rows) if self.marks else (),
        )


def make_curve_grid_figure_spec(
    name: str, title: str, grid: CurveGrid, method: str, context: str, cells: Sequence[StudyCell]
) -> FigureSpec:
    """Return a page of curves with its caption.

    `context` says what all panels share.
    """
    grid = grid.drop_single_lines()
    caption = (
        f"{title} ({context}). Lines: mean over seeds of the mean return per evaluation, over "
        f"environment steps. Bands: {describe_interval(method)}; wide ones are cut off. Panels of "
        f"a row share the return axis.{describe_failed_curves(grid.lines)}"
        f"{score_marks.describe_marks(grid.mark_names)} "
        f"{describe_sizes(grid.lines)}."
    )
    return FigureSpec(name, title, caption, tuple(cells), functools.partial(draw_curve_grid, grid))


def draw_curve_grid(grid: CurveGrid) -> Figure:
    """Draw a page of curves."""
    names = [line.name for line in grid.lines]
    styles = (
        style.get_framework_styles(names)
        if grid.kind == FRAMEWORK_LINES
        else style.get_algorithm_styles(names)
    )
    width = style.PAGE_WIDTH if len(grid.columns) > 2 else style.PAGE_WIDTH * 0.7
    labels = [wrap_task_name(text) for text in grid.rows]
    most = 1 + max(text.count("\n") for text in labels)
    top = 0.42 + MARK_LEGEND_HEIGHT * bool(grid.mark_names)
    usual = get_usual_size(grid.lines)
    # Numbers of runs are written between the titles and the panels.
    above = (style.SMALL_FONT + 2) * any(
        line.size != (usual, usual) for panel in grid.panels[0] for line in panel
    )
    margins = PanelMargins(left=0.56 + 0.11 * most, bottom=0.36, top=top + above / 72)
    figure, axes = make_panel_grid(
        len(grid.rows), len(grid.columns), width, 0.98, margins, True, "row"
    )
    draw_legend(figure, styles, grid.mark_names)
    for axis, column in zip(axes[0], grid.columns, strict=True):
        axis.set_title(column, pad=3 + above)
    set_step_axis(axes[0, 0], grid.lines)  # all panels share it
    for axis in axes[-1]:
        align_last_tick_label(axis)
    marks = grid.marks or ((),) * len(grid.rows)
    for row, panels, text, beside in zip(axes, grid.panels, labels, marks, strict=True):
        label_row(row[0], text)
        fit_return_axis(row[0], list(itertools.chain(*panels)), beside)
        for axis, lines in zip(row, panels, strict=True):
            draw_lines(axis, lines, styles)
            score_marks.draw_score_marks(axis, beside, along="y")
            annotate_unusual_sizes(axis, lines, usual)
            if not lines:
                axis.text(0.5, 0.5, "no run", ha="center", transform=axis.transAxes)
    figure.text(0.5, 0.06 / figure.get_figheight(), "environment steps", ha="center")
    figure.text(0.03 / width, 0.5, "mean return", va="center", rotation="vertical")
    return figure


def make_consistency_figure_specs(results: StudyResults) -> list[FigureSpec | MissingFigure]:
    """Return one page per algorithm."""
    return [_make_consistency_figure_spec(results, part) for part in results.parts] or [
        MissingFigure("consistency", "no run can be used")
    ]


def make_framework_lines(results: StudyResults, cell: StudyCell) -> tuple[CurveLine, ...]:
    """Return one line per framework with a used or failed run in a setting.

    Library defaults are a setting, too.
    """
    found = results.framework_cells.get(cell, {})
    return tuple(make_cell_line(results, own, name, name) for name, own in found.items())


def list_shared_recipes(results: StudyResults, cells: Collection[StudyCell]) -> tuple[str, ...]:
    """Return the recipes that several frameworks ran an algorithm under; others as `OWN`."""
    users: dict[str, set[str]] = {}
    for cell, framework in results.curves:
        if cell in cells:
            users.setdefault(cell.hps, set()).add(framework)
    own = [hps for hps, names in users.items() if hps in names]
    alone = [hps for hps in own if len(users[hps]) == 1 and len(own) > 1]
    return sort_recipes(LIBRARY_DEFAULTS if hps in alone else hps for hps in users)


def make_cell_line(results: StudyResults, cell: StudyCell, framework: str, name: str) -> CurveLine:
    """Return the line of a framework in a setting, named after it or its algorithm."""
    at = (cell, framework)
    group = results.groups[at]
    if at in results.curves:
        found = results.curves[at], results.finals[at], group
        line = make_curve_line(name, *found, results.bounds[cell.env])
    else:
        line = make_failed_line(name, group.requested)
    mean = results.means_with_failed_runs.get(at, math.nan)
    curve = results.curves_with_failed_runs.get(at)
    dotted = (curve.steps.astype(np.float64), curve.mean) if curve else ()
    return dataclasses.replace(line, with_failed_runs=mean, curve_with_failed_runs=dotted)


def _make_consistency_figure_spec(results: StudyResults, part: StudyVariant) -> FigureSpec:
    cells, algorithm = part.cells, part.algorithm
    rows = tuple(sorted({cell.env for cell in cells}))
    columns = list_shared_recipes(results, cells)
    panels = tuple(
        tuple(
            make_framework_lines(results, StudyCell(part.study, env, algorithm, hps, part.variant))
            for hps in columns
        )
        for env in rows
    )
    labels = tuple(get_recipe_label(hps) for hps in columns)
    return make_curve_grid_figure_spec(
        make_file_name("consistency", algorithm, *part.suffix),
        f"{get_label(algorithm)} in each framework; hyperparameters by column",
        CurveGrid(rows, labels, panels, FRAMEWORK_LINES, _list_row_marks(results, cells, rows)),
        results.method,
        part.context,
        cells,
    )


def _list_row_marks(
    results: StudyResults, cells: Iterable[StudyCell], rows: Sequence[str]
) -> tuple[tuple[score_marks.ScoreMark, ...], ...]:
    """Return the marks of each task, each name once; published scores differ by algorithm."""
    cells = list(cells)
    is_one = len({cell.algorithm for cell in cells}) == 1
    found: dict[str, dict[str, score_marks.ScoreMark]] = {env: {} for env in rows}
    for cell in cells:
        if cell.env in found:
            for mark in score_marks.list_score_marks(results, cell, is_curve=True):
                if is_one or mark.name != score_marks.PUBLISHED:
                    found[cell.env][mark.name] = mark
    return tuple(tuple(found[env].values()) for env in rows)


RankingConfiguration = tuple[str, str, str]  # study, hyperparameters, variant


def make_ranking_curve_figure_specs(results: StudyResults) -> list[FigureSpec | MissingFigure]:
    """Return one page per set of hyperparameters, and one for each framework's own."""
    pages = [
        _make_ranking_curve_figure_spec(results, *key)
        for key in list_ranking_configurations(results)
    ]
    reason = "no two frameworks ran the same two algorithms in the same setting"
    return [page for page in pages if page is not None] or [MissingFigure("ranking", reason)]


def list_ranking_configurations(results: StudyResults) -> list[RankingConfiguration]:
    """List study, hyperparameters and variant under which algorithms can be ranked."""
    found = {(cell.study, cell.hps, cell.variant) for cell, _ in results.curves}
    own = {(c.study, LIBRARY_DEFAULTS, c.variant) for c, name in results.curves if c.hps == name}
    order = sort_recipes(hps for _, hps, _ in found | own)
    return sorted(found | own, key=lambda key: (key[0], key[2], order.index(key[1])))


def make_algorithm_lines(
    results: StudyResults, key: RankingConfiguration, env: str, framework: str
) -> tuple[CurveLine, ...]:
    """Return a line per algorithm that a framework ran in a task under a configuration."""
    study, hps, variant = key
    recipe = framework if hps == LIBRARY_DEFAULTS else hps
    algorithms = sorted({cell.algorithm for cell, _ in results.curves})
    cells = [StudyCell(study, env, algorithm, recipe, variant) for algorithm in algorithms]
    return tuple(
        make_cell_line(results, cell, framework, cell.algorithm)
        for cell in cells
        if (cell, framework) in results.curves
    )


def _make_ranking_curve_figure_spec(
    results: StudyResults, study: str, hps: str, variant: str
) -> FigureSpec | None:
    part = results.variants[study, variant]
    cells = [cell for cell in part.cells if hps in (LIBRARY_DEFAULTS, cell.hps)]
    rows = tuple(sorted({cell.env for cell in cells}))
    columns = tuple(sorted({name for cell, name in results.curves if cell in cells}))
    panels = tuple(
        tuple(make_algorithm_lines(results, (study, hps, variant), env, name) for name in columns)
        for env in rows
    )
    if all(sum(len(panel) > 1 for panel in row) < 2 for row in panels):
        return None
    words = LIBRARY_DEFAULTS if hps == LIBRARY_DEFAULTS else get_recipe_label(hps)
    return make_curve_grid_figure_spec(
        make_file_name("ranking", hps, *part.suffix),
        f"Algorithms in each framework; hyperparameters: {words}",
        CurveGrid(
            rows,
            tuple(get_label(name) for name in columns),
            panels,
            ALGORITHM_LINES,
            _list_row_marks(results, part.cells, rows),
        ),
        results.method,
        part.context,
        cells,
    )


def remove_variant_setting(variant: str, key: str) -> tuple[str, str]:
    """Return a variant without one of its settings, and that setting's value, or empty."""
    parts = split_variant(variant)
    value = next((part.partition("=")[2] for part in parts if part.startswith(f"{key}=")), "")
    return ",".join(part for part in parts if not part.startswith(f"{key}=")), value


def find_variant_pairs(
    results: StudyResults, key: str
) -> dict[tuple[str, str, str], list[tuple[StudyCell, StudyCell]]]:
    """Group settings run with and without a setting, by study, value and what else they share."""
    cells = sorted({cell for cell, _ in results.curves})
    found: dict[tuple[str, str, str], list[tuple[StudyCell, StudyCell]]] = {}
    for cell in cells:
        rest, value = remove_variant_setting(cell.variant, key)
        plain = StudyCell(cell.study, cell.env, cell.algorithm, cell.hps, rest)
        if value and plain in cells:
            found.setdefault((cell.study, value, rest), []).append((plain, cell))
    return found


def make_variant_figure_specs(
    results: StudyResults,
    name: str,
    key: str,
    title: str,
    headings: Callable[[str], tuple[str, str]],
) -> list[FigureSpec]:
    """Return one page per value of a setting: left without it, right with it.

    `key` names the setting in variants; `headings` returns the titles of the columns for a value.
    """
    pages = []
    found = find_variant_pairs(results, key)
    for (study, value, rest), pairs in sorted(found.items()):
        grid = CurveGrid(
            tuple(
                f"{c.env}\n{get_label(c.algorithm)}\n{get_recipe_label(c.hps)}" for c, _ in pairs
            ),
            headings(value),
            tuple(tuple(make_framework_lines(results, cell) for cell in pair) for pair in pairs),
            FRAMEWORK_LINES,
            tuple(
                score_marks.list_score_marks(results, plain, is_curve=True) for plain, _ in pairs
            ),
        )
        part = results.variants[study, rest]
        suffix = (value, *part.suffix) if len(found) > 1 else (value,)
        cells = [cell for pair in pairs for cell in pair]
        pages.append(
            make_curve_grid_figure_spec(
                make_file_name(name, *suffix), title, grid, results.method, part.context, cells
            )
        )
    return pages


def make_wrapper_figure_specs(results: StudyResults) -> list[FigureSpec | MissingFigure]:
    """Return one page per kind of wrappers."""
    title = "Training without and with wrappers around the environment"
    pages = make_variant_figure_specs(
        results, "wrappers", "wrappers", title, lambda value: ("no wrappers", value)
    )
    reason = "no setting was run both with wrappers=none and with another value of wrappers"
    return [*pages] or [MissingFigure("wrappers", reason)]


def make_parallel_env_figure_specs(results: StudyResults) -> list[FigureSpec | MissingFigure]:
    """Return one page per number of parallel environments."""
    title = "Training with one and with several copies of the environment"
    pages = make_variant_figure_specs(
        results, "vectorised", "n_envs", title, lambda value: ("1 copy", f"{value} copies")
    )
    reason = "no setting was run both with n_envs=1 and with another value of n_envs"
    return [*pages] or [MissingFigure("vectorised", reason)]


_TITLE_WIDTH = 44  # characters, about the width of a panel


def format_panel_title(panel: CurvePanel, panels: Sequence[CurvePanel]) -> str:
    """Return the setting, without what all panels share."""
    cell, cells = panel.cell, [other.cell for other in panels]
    first = [cell.env, get_label(cell.algorithm)]
    if len({other.hps for other in cells}) > 1:
        first.append(cell.hps)
    lines = [", ".join(first)]
    if len({other.study for other in cells}) > 1:
        lines.append(f"study {cell.study}")
    lines.append(", ".join(find_own_parts(cell, cells)))
    if not _has_same_sizes(panels):
        lines.append(_format_sizes(panel))
    return "\n".join(part for line in lines for part in textwrap.wrap(line, _TITLE_WIDTH))


def format_caption(panels: Sequence[CurvePanel], method: str) -> str:
    """Return a caption: meaning of lines and shades, number of seeds, omissions."""
    curves = [curve for panel in panels for curve in panel.curves]
    sizes = _format_sizes(panels[0]) if _has_same_sizes(panels) else "see titles"
    parts = [
        _describe_shared_settings(panels),
        "Thick lines: mean over seeds of the mean return per evaluation. Thin lines: seeds. "
        f"Shades: 95% interval, {method} ({INTERVAL_FORMULAS[method]}). "
        f"Number of runs used/requested: {sizes}.",
    ]
    if any(panel.with_failed_runs for panel in panels):
        parts.append("Dotted: mean with failed trainings at the bottom of the task's range.")
    if method == "thesis":
        parts.append("On normal data this formula holds the true mean less often than 95%.")
    if any(len(curve.seeds) < MIN_SEEDS_OF_BAND for curve in curves):
        parts.append("Fewer than three seeds have no shade.")
    if any(compute_return_limits(panel.curves)[2] for panel in panels if panel.curves):
        parts.append("The return axes follow the curves and cut wide intervals off.")
    if any(curve.left_out for curve in curves):
        names = ", ".join(sorted({get_label(one.framework) for one in curves if one.left_out}))
        parts.append(
            f"Seeds of {names} were evaluated at different steps: "
            "mean and interval are drawn only where all of them were."
        )
    ends = [{int(at[-1]) for curve in panel.curves for at, _ in curve.seeds} for panel in panels]
    spans = sorted({(min(steps), max(steps)) for steps in ends if len(steps) > 1})
    if spans:
        words = ", ".join(f"{first:,} to {last:,}" for first, last in spans)
        parts.append(f"Runs in one panel end at different steps: {words}.")
    return " ".join(filter(None, parts))


def _has_same_sizes(panels: Sequence[CurvePanel]) -> bool:
    return all(panel.sizes == panels[0].sizes for panel in panels)


def _format_sizes(panel: CurvePanel) -> str:
    return ", ".join(f"{get_label(name)} {size}" for name, size in panel.sizes.items())


def _describe_shared_settings(panels: Sequence[CurvePanel]) -> str:
    cells = [panel.cell for panel in panels]
    studies, recipes = {cell.study for cell in cells}, {cell.hps for cell in cells}
    words = [f"study {study}" for study in studies] if len(studies) == 1 else []
    words += [f"hyperparameters {hps}" for hps in recipes] if len(recipes) == 1 else []
    text = ", ".join(words + find_common_parts(cells))
    return f"{text[:1].upper()}{text[1:]}." if text else ""


_PANEL_SIZE = (3.6, 2.7)  # inches
_LEGEND_ENTRY_WIDTH = 1.4  # inches
_MIN_WIDTH = 6.0  # inches; a legend and a caption need some room


def draw_learning_curves(panels: Sequence[CurvePanel], method: str) -> Figure:
    """Return a figure of all panels, with legend above and caption below.

    Args:
        panels: At least one, with at least one curve among them.
        method: The interval's method, for the caption.
    """
    grid = arrange_panels(panels)
    curves = [one for panel in panels for one in (*panel.curves, *panel.with_failed_runs)]
    styles = style.get_framework_styles([curve.framework for curve in curves])
    width = max(_MIN_WIDTH, _PANEL_SIZE[0] * len(grid[0]))
    with matplotlib.rc_context(style.get_rc_settings()):
        height = _PANEL_SIZE[1] * len(grid) + 1.4
        layout = ConstrainedLayoutEngine(h_pad=0.07, w_pad=0.08)
        figure = Figure(figsize=(width, height), layout=layout)
        axes = figure.subplots(len(grid), len(grid[0]), squeeze=False)
        for axis, panel in zip(axes.flat, itertools.chain(*grid), strict=True):
            if panel is None:
                axis.set_axis_off()
            else:
                _draw_learning_curve_panel(axis, panel, panels, styles)
        for row, drawn in zip(axes, grid, strict=True):
            row[[panel is not None for panel in drawn].index(True)].set_ylabel("mean return")
        names = score_marks.list_mark_names(
            one for panel in panels for one in _list_panel_marks(panel)
        )
        handles = [_make_legend_line(get_label(name), look) for name, look in styles.items()]
        handles += score_marks.make_mark_handles(names)
        columns = min(len(handles), int(width / _LEGEND_ENTRY_WIDTH))
        figure.legend(handles=handles, loc="outside upper center", ncols=columns)
        text = textwrap.fill(format_caption(panels, method), int(width * 18))
        figure.supxlabel(text, x=0.01, ha="left", fontsize=7.5, linespacing=1.4)
    return figure


def arrange_panels(panels: Sequence[CurvePanel]) -> list[list[CurvePanel | None]]:
    """Arrange panels: rows are environments, then hyperparameters; columns are algorithms."""
    columns = sorted({panel.cell.algorithm for panel in panels})
    rows: dict[tuple[str, str, str], dict[str, list[CurvePanel]]] = {}
    for panel in panels:
        key = (panel.cell.study, panel.cell.env, panel.cell.hps)
        rows.setdefault(key, {}).setdefault(panel.cell.algorithm, []).append(panel)
    grid: list[list[CurvePanel | None]] = []
    for key in sorted(rows):
        # Variants of an algorithm are placed below each other.
        variants = [rows[key].get(column, []) for column in columns]
        grid += [list(row) for row in itertools.zip_longest(*variants)]
    return grid


def _draw_learning_curve_panel(
    axis: Axes,
    panel: CurvePanel,
    panels: Sequence[CurvePanel],
    styles: dict[str, style.SeriesStyle],
) -> None:
    axis.set_title(format_panel_title(panel, panels), fontsize=9)
    if not panel.curves:
        axis.set(xticks=[], yticks=[])
        axis.text(0.5, 0.5, "no run used", ha="center", transform=axis.transAxes)
        return
    axis.set_xlabel("environment steps")
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    marks = _list_panel_marks(panel)
    low, high, cut = compute_return_limits(panel.curves, marks)
    for curve in panel.curves:
        # Intervals that fill the panel overlap: a paler shade leaves lines readable.
        shade = 0.07 if cut else 0.14
        _draw_seed_curves(axis, curve, styles[curve.framework], shade, panel.cell.env)
    for curve in panel.with_failed_runs:
        color = styles[curve.framework].color
        axis.plot(curve.steps, curve.mean, color=color, linestyle=":", linewidth=1.2)
        low = min(low, float(curve.mean.min()) - 0.03 * (high - low))
    axis.set_ylim(low, high)
    axis.set_xlim(left=0)
    score_marks.draw_score_marks(axis, marks, along="y")


def _list_panel_marks(panel: CurvePanel) -> tuple[score_marks.ScoreMark, ...]:
    return tuple(score_marks.ScoreMark(one.name, one.mean) for one in panel.references)


def _draw_seed_curves(
    axis: Axes, curve: LearningCurve, look: style.SeriesStyle, shade: float, env: str
) -> None:
    for steps, returns in curve.seeds:
        axis.plot(steps, returns, color=look.color, linewidth=0.6, alpha=0.4)
    if len(curve.seeds) >= MIN_SEEDS_OF_BAND and np.isfinite(curve.low).any():
        data = np.concatenate([returns for _, returns in curve.seeds])
        low, high = clip_to_bounds(curve.low, curve.high, data, get_return_bounds(env))
        axis.fill_between(curve.steps, low, high, color=look.color, alpha=shade, linewidth=0)
    axis.plot(
        curve.steps,
        curve.mean,
        color=look.color,
        linestyle=look.line,
        marker=look.marker,
        markevery=max(1, len(curve.steps) // 8),
        markersize=4,
        linewidth=1.6,
    )


def _make_legend_line(name: str, look: style.SeriesStyle) -> Line2D:
    return Line2D(
        [], [], color=look.color, linestyle=look.line, marker=look.marker, markersize=4, label=name
    )
