"""Share of runs that are nearly solved, over steps, at each level of alignment."""

import functools
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.figures.alignment_levels import LEVEL_LABELS, name_level_figures
from parallax.analysis.figures.figure_spec import FigureSpec, MissingFigure
from parallax.analysis.figures.panels import PanelMargins, draw_legend, make_panel_grid
from parallax.analysis.figures.style import SeriesStyle, get_framework_styles
from parallax.analysis.labels import get_label, make_file_name
from parallax.analysis.stats.survival import CensoredTimes, estimate_survival
from parallax.analysis.verdicts.alignment_levels import (
    LEVELS,
    REACHED_SHARE,
    LevelResults,
    LevelSpread,
    collect_reaching_times,
)
from parallax.analysis.verdicts.study import StudyResults, StudyVariant

REACHED_NAME = "reached"
_WIDTH, _PANEL = 6.4, 0.95  # inches
_APART = 0.012  # of the axis, between curves of the same share
_HOW_RUNS_COUNT = (
    "Runs that do not get there are censored at their last step. Dotted: with failed runs, which "
    "count as never there; other lines are of complete runs. Equal curves are drawn slightly apart."
)


PanelTimes = dict[str, dict[bool, CensoredTimes]]
"""Steps to the threshold by framework: of complete runs, and whether failed ones count too."""


def make_reached_figure_specs(results: StudyResults) -> list[FigureSpec | MissingFigure]:
    """Return one figure per study with several levels, or per algorithm for endpoints of steps."""
    by_level = [
        _make_spec(one, name)
        for one, name in name_level_figures(results, REACHED_NAME)
        if any(spread.scale for spread in one.spreads)
    ]
    endpoint = results.verdicts.options.chosen_endpoint
    parts = results.parts if endpoint.is_steps and not by_level else ()
    by_algorithm = [_make_endpoint_spec(results, part) for part in parts]
    reason = "no study has several levels of alignment and solved scores, or an endpoint of steps"
    found = [*by_level, *(spec for spec in by_algorithm if spec)]
    return [*found] or [MissingFigure(REACHED_NAME, reason)]


def _make_endpoint_spec(results: StudyResults, part: StudyVariant) -> FigureSpec | None:
    """Return the figure of an algorithm whose runs are compared by steps to a threshold."""
    options = results.verdicts.options
    rows: dict[StudyCell, PanelTimes] = {}
    lengths: dict[StudyCell, int] = {}
    other = results.verdicts.with_failed_runs
    failed = [group for group in (other.groups if other else ()) if group.failed]
    for group in (*results.verdicts.groups, *failed):
        if group.cell in part.cells and group.n and group.censored:
            times = rows.setdefault(group.cell, {}).setdefault(group.framework, {})
            times[group in failed] = group.censored
            lengths[group.cell] = max([lengths.get(group.cell, 0), *group.steps])
    rows = {cell: times for cell, times in rows.items() if len(times) > 1}
    if not rows:
        return None
    title = f"Share of runs that reached {options.chosen_endpoint.threshold_share:.0%}"
    caption = (
        f"{title} of the way to the published score, or to that of a solved task where none is "
        f"published, over environment steps ({part.context}): 1 - Kaplan and Meier's estimate. "
        f"{_HOW_RUNS_COUNT}"
    )
    draw = functools.partial(_draw_endpoint_figure, rows, lengths)
    name = make_file_name(REACHED_NAME, part.algorithm, *part.suffix)
    return FigureSpec(name, title, caption, tuple(rows), draw)


def _draw_endpoint_figure(
    rows: Mapping[StudyCell, PanelTimes], lengths: Mapping[StudyCell, int]
) -> Figure:
    """Draw a panel per setting, below each other."""
    styles = get_framework_styles(sorted({name for times in rows.values() for name in times}))
    margins = PanelMargins(left=0.42, right=0.1, top=0.48, bottom=0.36, across=0.12, down=0.5)
    figure, axes = make_panel_grid(len(rows), 1, _WIDTH, _PANEL, margins)
    for (axis,), (cell, times) in zip(axes, rows.items(), strict=True):
        axis.set_title(f"{cell.env}, {cell.hps}", loc="left", fontweight="bold")
        _set_axes(axis, lengths[cell])
        axis.set_ylabel("share of runs")
        _draw_curves(axis, times, styles)
    axes[-1][0].set_xlabel("environment steps")
    draw_legend(figure, styles)
    return figure


def _make_spec(results: LevelResults, name: str) -> FigureSpec:
    caption = (
        f"Share of runs with an evaluation at or above {REACHED_SHARE:.0%} of the way from doing "
        "nothing to a solved task, over environment steps: 1 - Kaplan and Meier's estimate. "
        f"{_HOW_RUNS_COUNT} n is the number of runs of each framework."
    )
    cells = tuple(sorted({spread.cell for spread in results.spreads if spread.scale}))
    title = f"Share of runs that reached {REACHED_SHARE:.0%}"
    return FigureSpec(name, title, caption, cells, functools.partial(draw_reached_figure, results))


def draw_reached_figure(results: LevelResults) -> Figure:
    """Draw the figure of one study: a row of panels per task, a column per level."""
    rows = {
        task: levels
        for task, levels in results.by_task.items()
        if any(spread.scale for spread in levels.values())
    }
    styles = get_framework_styles(results.frameworks)
    margins = PanelMargins(left=0.42, right=0.1, top=0.48, bottom=0.36, across=0.12, down=0.5)
    figure, axes = make_panel_grid(
        len(rows), len(LEVELS), _WIDTH, _PANEL, margins, sharex="row", sharey=True
    )
    for line, (task, levels) in zip(axes, rows.items(), strict=True):
        title = f"{get_label(task.algorithm)} on {task.env}"
        line[0].set_title(title, loc="left", fontweight="bold", pad=12)
        for axis, level in zip(line, LEVELS, strict=True):
            if level in levels:
                sizes = levels[level].format_sizes().removesuffix(" each")  # panels are narrow
                text = f"{LEVEL_LABELS[level]}, {sizes}"
                axis.text(0, 1.03, text, transform=axis.transAxes, va="bottom")
                _draw_panel(axis, levels[level], styles, task.length)
            else:  # the title of a row is above its first panel, drawn or not
                axis.axis("off")
        first = next(axis for axis, level in zip(line, LEVELS, strict=True) if level in levels)
        first.set_ylabel("share of runs")
        first.tick_params(labelleft=True)
    for axis in axes[-1]:
        axis.set_xlabel("environment steps")
    draw_legend(figure, styles)
    return figure


def _draw_panel(
    axis: Axes, spread: LevelSpread, styles: Mapping[str, SeriesStyle], length: int
) -> None:
    _set_axes(axis, length)
    times: PanelTimes = {name: {} for name in spread.groups}
    for name, group in spread.groups.items():
        for counts in (False, True) if group.failed else (False,):
            if sample := collect_reaching_times(group, spread, with_failed_runs=counts):
                times[name][counts] = sample
    _draw_curves(axis, times, styles)


def _set_axes(axis: Axes, length: int) -> None:
    axis.set_xlim(0, 1.03 * length)  # shows runs that get there at the end
    axis.set_ylim(-0.08, 1.1)
    axis.set_yticks([0, 0.5, 1])
    ticks = np.linspace(0, length, 3)
    axis.set_xticks(ticks, [f"{value:,.0f}" for value in ticks])
    first, _, last = axis.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")


def _draw_curves(axis: Axes, times: PanelTimes, styles: Mapping[str, SeriesStyle]) -> None:
    names, end = [name for name in styles if times.get(name)], axis.get_xlim()[1]
    for place, name in enumerate(names):
        shift = _APART * (place - (len(names) - 1) / 2)
        for counts, sample in times[name].items():
            curve = estimate_survival(sample)
            shares = [shift, *(1 + shift - curve.share)]
            axis.step(
                [0, *curve.steps, end],
                [*shares, shares[-1]],
                where="post",
                color=styles[name].color,
                linestyle=":" if counts else styles[name].line,
                linewidth=1.2,
            )
