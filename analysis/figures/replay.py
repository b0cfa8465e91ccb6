"""Ways of replaying side by side: returns, what is known of priorities, and what it costs."""

import functools
import math
from collections.abc import Sequence

import matplotlib
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.data.runs import Cell
from analysis.figures.panels import Margins, panel_grid
from analysis.figures.sheet import Sheet
from analysis.figures.style import PAGE, SMALL, paper_settings
from analysis.stats.intervals import Interval, bounds
from analysis.verdicts.replay import PARTS, ReplayStudy, Way, order_of
from analysis.words import file_name, label

_HEIGHT = 1.5  # inches of a panel
_MARGINS = Margins(left=0.55, right=0.1, top=0.35, bottom=0.75, across=0.55, down=0.55)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def sheets(study: ReplayStudy) -> tuple[Sheet, ...]:
    """A figure for each setting of a framework: curves, errors, costs."""
    places: dict[tuple[Cell, str], list[Way]] = {}
    for way in study.ways:
        places.setdefault((way.cell, way.framework), []).append(way)
    shown = {place: ways for place, ways in places.items() if any(way.group.n for way in ways)}
    return tuple(_sheet(*place, tuple(ways)) for place, ways in shown.items())


def _sheet(cell: Cell, framework: str, ways: tuple[Way, ...]) -> Sheet:
    title = f"Ways of replaying: {label(framework)}'s {label(cell.algorithm)}, {cell.env}"
    counts = ", ".join(f"{way.name} {way.group.n} of {way.group.requested}" for way in ways)
    caption = (
        f"{title} ({cell.study}, hyperparameters {cell.hps}, {cell.variant}). Left: mean return at "
        "evaluations. Middle: mean absolute percentage error of predicted priorities in each third "
        "of training. Right: CPU time of a minibatch. Bands and bars are 95% intervals of "
        f"Student's t over runs. Runs complete of asked for: {counts}."
    )
    place = (cell.study, cell.env, cell.algorithm, cell.hps, framework, cell.variant)
    draw_it = functools.partial(draw, ways)
    return Sheet(file_name("replay", *place), title, caption, (cell,), draw_it)


def draw(ways: Sequence[Way]) -> Figure:
    """Three panels in a row."""
    palette = sns.color_palette("colorblind")
    ordered = sorted(ways, key=lambda way: order_of(way.name))
    colors = {way.name: palette[i % len(palette)] for i, way in enumerate(ordered)}
    with matplotlib.rc_context(paper_settings()):
        figure, axes = panel_grid(1, 3, PAGE, _HEIGHT, _MARGINS)
        for number, way in enumerate(ordered):
            look = {"color": colors[way.name], "marker": _MARKERS[number % len(_MARKERS)]}
            _draw_curve(axes[0, 0], way, look)
            _draw_errors(axes[0, 1], way, look)
        _draw_costs(axes[0, 2], [way for way in ordered if way.seconds["sampling"].n])
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


def _draw_curve(axis: Axes, way: Way, look: dict[str, object]) -> None:
    runs = way.group.runs
    if not runs:
        return
    shared = sorted(set.intersection(*(set(run.timesteps.tolist()) for run in runs)))
    rows = [[int(np.flatnonzero(run.timesteps == step)[0]) for step in shared] for run in runs]
    curves = np.stack([run.results[at].mean(axis=1) for run, at in zip(runs, rows, strict=True)])
    mean, low, high = bounds(curves)
    axis.plot(shared, mean, label=f"{way.name} (n={len(runs)})", markersize=2.5, **look)  # type: ignore[arg-type]
    if not np.isnan(low).all():
        axis.fill_between(shared, low, high, color=look["color"], alpha=0.15, linewidth=0)


def _draw_errors(axis: Axes, way: Way, look: dict[str, object]) -> None:
    known = [(stage, error) for stage, error in enumerate(way.errors, 1) if error.n]
    if not known:
        return
    centres = np.array([100 * error.mean for _, error in known])
    away = np.array([[_half(error, -1), _half(error, 1)] for _, error in known]).T
    axis.errorbar([stage for stage, _ in known], centres, away, markersize=3, capsize=2, **look)  # type: ignore[arg-type]


def _half(found: Interval, side: int) -> float:
    end = found.low if side < 0 else found.high
    return 0.0 if math.isnan(end) else 100 * abs(end - found.mean)


def _draw_costs(axis: Axes, ways: Sequence[Way]) -> None:
    bottom = np.zeros(len(ways))
    for part, shade in zip(PARTS, ("0.25", "0.55", "0.8"), strict=True):
        heights = np.array([1e6 * way.seconds[part].mean for way in ways])
        axis.bar(range(len(ways)), heights, bottom=bottom, color=shade, label=part)
        bottom += heights
    axis.set_xticks(range(len(ways)), [way.name for way in ways], fontsize=SMALL)
    if ways:
        axis.set_ylim(0, 1.6 * float(bottom.max()))  # room for the legend
        # In the order in which the parts stand on each other.
        axis.legend(fontsize=SMALL, frameon=False, loc="upper left", reverse=True)
