"""Comparison of replay strategies: returns, errors of priorities, and costs."""

import functools
import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parallax.analysis.data.replay_metrics import SEQUENCE_POSITIONS
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.figures.figure_spec import FigureSpec
from parallax.analysis.figures.panels import MIN_SEEDS_OF_BAND, PanelMargins, make_panel_grid
from parallax.analysis.figures.style import PAGE_WIDTH, PALETTE, SMALL_FONT
from parallax.analysis.labels import get_label, group_items, make_file_name
from parallax.analysis.stats.intervals import ConfidenceInterval, compute_interval_bounds
from parallax.analysis.verdicts import replay

_REPLAY_HEIGHT = 1.5  # inches of a panel
_MARGINS = PanelMargins(left=0.55, right=0.1, top=0.35, bottom=0.75, across=0.55, down=0.55)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def make_replay_figure_specs(study: replay.ReplayVerdicts) -> tuple[FigureSpec, ...]:
    """Return a figure for each setting of a framework: curves, errors, costs."""
    places = group_items(study.strategy_results, lambda result: (result.cell, result.framework))
    return tuple(
        _make_replay_figure_spec(*place, tuple(results))
        for place, results in places.items()
        if any(result.group.n for result in results)
    )


def _make_replay_figure_spec(
    cell: StudyCell, framework: str, results: tuple[replay.ReplayStrategyResult, ...]
) -> FigureSpec:
    title = f"Replay strategies: {get_label(framework)}'s {get_label(cell.algorithm)}, {cell.env}"
    counts = ", ".join(f"{one.name} {one.group.n} of {one.group.requested}" for one in results)
    caption = (
        f"{title} ({cell.study}, hyperparameters {cell.hps}, {cell.variant}). Left: mean return at "
        "evaluations. Middle: mean absolute percentage error of predicted priorities in each third "
        "of training. Right: CPU time of a minibatch. Bands and bars are 95% intervals of "
        f"Student's t over runs. Runs completed of requested: {counts}."
    )
    place = (cell.study, cell.env, cell.algorithm, cell.hps, framework, cell.variant)
    draw = functools.partial(draw_replay_figure, results)
    return FigureSpec(make_file_name("replay", *place), title, caption, (cell,), draw)


def draw_replay_figure(results: Sequence[replay.ReplayStrategyResult]) -> Figure:
    """Draw three panels in a row: returns, errors of priorities, and costs."""
    ordered = sorted(results, key=lambda result: replay.get_strategy_order(result.name))
    colors = {one.name: PALETTE[i % len(PALETTE)] for i, one in enumerate(ordered)}
    figure, axes = make_panel_grid(1, 3, PAGE_WIDTH, _REPLAY_HEIGHT, _MARGINS)
    for number, result in enumerate(ordered):
        marker = _MARKERS[number % len(_MARKERS)]
        look: dict[str, object] = {"color": colors[result.name], "marker": marker}
        _draw_strategy_curve(axes[0, 0], result, look)
        _draw_errors(axes[0, 1], result, look)
    _draw_costs(axes[0, 2], [result for result in ordered if result.seconds["sampling"].n])
    axes[0, 0].set(title="return", xlabel="environment steps")
    axes[0, 1].set(title="error of priorities, %", xlabel="third of training")
    axes[0, 1].set_yscale("log")
    axes[0, 1].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes[0, 1].yaxis.set_minor_formatter(lambda value, _: "")
    axes[0, 1].axhline(10, color="0.6", linewidth=0.7, linestyle=":")
    axes[0, 1].set_xticks([1, 2, 3])
    axes[0, 2].set(title="CPU time of a minibatch, µs")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="lower center", ncols=len(names), frameon=False)
    return figure


def _draw_strategy_curve(
    axis: Axes, result: replay.ReplayStrategyResult, look: dict[str, object]
) -> None:
    runs = result.group.runs
    if not runs:
        return
    shared = sorted(set.intersection(*(set(run.timesteps.tolist()) for run in runs)))
    rows = [[int(np.flatnonzero(run.timesteps == step)[0]) for step in shared] for run in runs]
    curves = np.stack([run.results[at].mean(axis=1) for run, at in zip(runs, rows, strict=True)])
    mean, low, high = compute_interval_bounds(curves)
    axis.plot(shared, mean, label=f"{result.name} (n={len(runs)})", markersize=2.5, **look)  # type: ignore[arg-type]
    if len(runs) < MIN_SEEDS_OF_BAND:
        axis.plot(shared, curves.T, color=str(look["color"]), linewidth=0.5, alpha=0.6)
    elif not np.isnan(low).all():
        axis.fill_between(shared, low, high, color=look["color"], alpha=0.15, linewidth=0)


def _draw_errors(axis: Axes, result: replay.ReplayStrategyResult, look: dict[str, object]) -> None:
    known = [(stage, error) for stage, error in enumerate(result.errors, 1) if error.n]
    if not known:
        return
    centres = np.array([100 * error.mean for _, error in known])
    away = np.array(
        [[_compute_half_width(error, -1), _compute_half_width(error, 1)] for _, error in known]
    ).T
    axis.errorbar([stage for stage, _ in known], centres, away, markersize=3, capsize=2, **look)  # type: ignore[arg-type]


def _compute_half_width(found: ConfidenceInterval, side: int) -> float:
    end = found.low if side < 0 else found.high
    return 0.0 if math.isnan(end) else 100 * abs(end - found.mean)


def _draw_costs(axis: Axes, results: Sequence[replay.ReplayStrategyResult]) -> None:
    bottom = np.zeros(len(results))
    for part, shade in zip(replay.COST_PARTS, ("0.25", "0.55", "0.8"), strict=True):
        heights = np.array([1e6 * result.seconds[part].mean for result in results])
        axis.bar(range(len(results)), heights, bottom=bottom, color=shade, label=part)
        bottom += heights
    axis.set_xticks(range(len(results)), [result.name for result in results], fontsize=SMALL_FONT)
    if results:
        axis.set_ylim(0, 1.6 * float(bottom.max()))  # room for the legend
        # In the order in which the parts are stacked.
        axis.legend(fontsize=SMALL_FONT, frameon=False, loc="upper left", reverse=True)


_STALENESS_HEIGHT = 2.6  # inches
_ACTOR_MARKERS = {1: "o", 2: "s", 4: "D"}


def make_staleness_figure_spec(setting: replay.StalenessSetting) -> FigureSpec:
    """Return the figure of one setting."""
    cell = setting.cell
    title = f"Q-value discrepancy of {get_label(cell.algorithm)}, {cell.env}"
    counts = ", ".join(f"{s.strategy.title}: {len(s.seeds)}" for s in setting.strategies)
    caption = (
        f"{title} ({cell.study}, hyperparameters {cell.hps}, {cell.variant}): distance of action "
        "values from those of the states that actors had, by the largest value, in equal parts of "
        f"the training; means over runs with 95% t intervals. Dashed: zero state. Runs: {counts}."
    )
    place = (cell.study, cell.env, cell.algorithm, cell.hps, setting.framework, cell.variant)
    name = make_file_name("discrepancy", *place)
    return FigureSpec(
        name, title, caption, (cell,), functools.partial(draw_staleness_figure, setting)
    )


def draw_staleness_figure(setting: replay.StalenessSetting) -> Figure:
    """Draw a line for each strategy."""
    lengths = sorted({item.strategy.burn_in for item in setting.strategies})
    colors = dict(zip(lengths, PALETTE[: len(lengths)], strict=True))
    figure = Figure(figsize=(PAGE_WIDTH, _STALENESS_HEIGHT), layout="constrained")
    for axis, place in zip(
        figure.subplots(1, len(SEQUENCE_POSITIONS)), SEQUENCE_POSITIONS, strict=True
    ):
        for item in setting.strategies:
            _draw_staleness_line(axis, item, place, colors[item.strategy.burn_in])
        axis.set_title(f"{place} step after burn-in")
        axis.set_xlabel("part of the training")
        axis.set_ylim(bottom=0)
        axis.xaxis.get_major_locator().set_params(integer=True)
    figure.axes[0].set_ylabel("Q-value discrepancy")
    figure.axes[0].legend(fontsize=SMALL_FONT, frameon=False)
    return figure


def _draw_staleness_line(
    axis: Axes, item: replay.StalenessSummary, place: str, color: object
) -> None:
    stages = item.stages[place]
    at = np.arange(1, len(stages) + 1)
    style = "-" if item.strategy.stored_state else "--"
    axis.plot(
        at,
        [s.mean for s in stages],
        style,
        color=color,
        marker=_ACTOR_MARKERS.get(item.strategy.actors, "^"),
        markersize=2.5,
        linewidth=1,
        label=item.strategy.title,
    )
    axis.fill_between(
        at, [s.low for s in stages], [s.high for s in stages], color=color, alpha=0.15, linewidth=0
    )
