"""Share of runs that are nearly solved, over steps, at each level of alignment."""

import functools
from collections.abc import Mapping

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parallax.analysis.figures.alignment_levels import LEVEL_LABELS, name_level_figures
from parallax.analysis.figures.figure_spec import FigureSpec, MissingFigure
from parallax.analysis.figures.panels import PanelMargins, draw_legend, make_panel_grid
from parallax.analysis.figures.style import SeriesStyle, get_framework_styles, get_paper_rc_settings
from parallax.analysis.labels import get_label
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.stats.survival import SurvivalCurve, estimate_survival
from parallax.analysis.verdicts.alignment_levels import (
    LEVELS,
    REACHED_SHARE,
    LevelResults,
    LevelSpread,
    collect_reaching_times,
)
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.study import StudyResults

REACHED_NAME = "reached"
_WIDTH, _PANEL = 6.4, 0.95  # inches
_APART = 0.012  # of the axis, between curves of the same share


def make_reached_figure_specs(material: StudyResults) -> list[FigureSpec | MissingFigure]:
    """Return one figure per study with runs at several levels of alignment."""
    return [
        _make_spec(one, name)
        for one, name in name_level_figures(material, REACHED_NAME)
        if any(spread.scale for spread in one.spreads)
    ] or [MissingFigure(REACHED_NAME, "no study has several levels of alignment and solved scores")]


def _make_spec(results: LevelResults, name: str) -> FigureSpec:
    caption = (
        f"Share of runs with an evaluation at or above {REACHED_SHARE:.0%} of the way from doing "
        "nothing to a solved task, over environment steps: 1 - Kaplan and Meier's estimate. Runs "
        "that do not get there count to their end; failed runs count as never there. Curves of "
        "equal height are drawn slightly apart. n is the number of runs of each framework."
    )
    cells = tuple(sorted({spread.cell for spread in results.spreads if spread.scale}))
    title = f"Share of runs that reached {REACHED_SHARE:.0%}"
    return FigureSpec(name, title, caption, cells, functools.partial(draw_reached_figure, results))


def estimate_reaching(group: ScoreGroup, spread: LevelSpread) -> SurvivalCurve | None:
    """Estimate how many runs of a framework have not reached the threshold, over steps.

    Args:
        group: Runs of one framework.
        spread: Their task and level.

    Returns:
        None without a known scale or without a run.
    """
    sample = collect_reaching_times(group, spread)
    return None if sample is None else estimate_survival(sample)


def draw_reached_figure(results: LevelResults) -> Figure:
    """Draw it: a row of panels per task, a column per level."""
    rows = {
        task: levels
        for task, levels in results.by_task.items()
        if any(spread.scale for spread in levels.values())
    }
    styles = get_framework_styles(results.frameworks)
    margins = PanelMargins(left=0.42, right=0.1, top=0.48, bottom=0.36, across=0.12, down=0.5)
    with matplotlib.rc_context(get_paper_rc_settings()):
        figure, axes = make_panel_grid(
            len(rows), len(LEVELS), _WIDTH, _PANEL, margins, sharex="row", sharey=True
        )
        for line, (task, levels) in zip(axes, rows.items(), strict=True):
            title = f"{get_label(task.algorithm)} on {task.env}"
            line[0].set_title(title, loc="left", fontweight="bold", pad=12)
            for axis, level in zip(line, LEVELS, strict=True):
                if level in levels:
                    text = f"{LEVEL_LABELS[level]}, {levels[level].format_sizes()}"
                    axis.text(0, 1.03, text, transform=axis.transAxes, va="bottom")
                    _draw_panel(axis, levels[level], styles, task.length)
                else:  # the title of a row stands above its first panel, drawn or not
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
    axis.set_xlim(0, 1.03 * length)  # a run that gets there at the end is seen
    axis.set_ylim(-0.08, 1.1)
    axis.set_yticks([0, 0.5, 1])
    ticks = np.linspace(0, length, 3)
    axis.set_xticks(ticks, [f"{value:,.0f}" for value in ticks])
    first, _, last = axis.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")
    names = [name for name in styles if name in spread.groups]
    for place, name in enumerate(names):
        curve = estimate_reaching(spread.groups[name], spread)
        if curve is not None:
            shift = _APART * (place - (len(names) - 1) / 2)
            _draw_steps(axis, curve.steps, 1 - curve.share, shift, styles[name])


def _draw_steps(
    axis: Axes, steps: FloatArray, shares: FloatArray, shift: float, style: SeriesStyle
) -> None:
    end = axis.get_xlim()[1]
    axis.step(
        [0, *steps, end],
        [shift, *(share + shift for share in shares), (shares[-1] if len(shares) else 0) + shift],
        where="post",
        color=style.color,
        linestyle=style.line,
        linewidth=1.2,
    )
