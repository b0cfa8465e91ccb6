"""What panels are made of: curves with bands, and points with intervals."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from analysis.curves import Curve, limits
from analysis.figures.style import SMALL, Look, label
from analysis.intervals import Interval
from analysis.stats.moments import Floats


@dataclasses.dataclass(frozen=True, eq=False)
class Line:
    """A curve with its band.

    Attributes:
        name: Framework or algorithm.
        steps: int[K], environment steps.
        mean: float[K], mean return.
        low: float[K], lower end of the interval.
        high: float[K], upper end.
        final: Final score with its interval.
        size: Runs used/requested.
    """

    name: str
    steps: Floats
    mean: Floats
    low: Floats
    high: Floats
    final: Interval
    size: tuple[int, int]


def line_of(name: str, curve: Curve, final: Interval, requested: int) -> Line:
    """A line for a curve."""
    steps = curve.steps.astype(np.float64)
    size = (final.n, requested)
    return Line(name, steps, curve.mean, curve.low, curve.high, final, size)


def draw_lines(axis: Axes, lines: Sequence[Line], styles: Mapping[str, Look]) -> None:
    """Curves with their bands; wide bands are paler."""
    for line in lines:
        look = styles[line.name]
        if np.isfinite(line.low).any():
            axis.fill_between(
                line.steps, line.low, line.high, color=look.color, alpha=0.15, linewidth=0
            )
        every = max(1, len(line.steps) // 5)
        offset = list(styles).index(line.name) * every // max(1, len(styles))
        axis.plot(
            line.steps,
            line.mean,
            color=look.color,
            linestyle=look.line,
            linewidth=1.0,
            marker=look.marker,
            markersize=2.5,
            markevery=(offset, every),
        )


def fit_axes(axis: Axes, lines: Sequence[Line]) -> None:
    """Limits that hold all curves, also those of other panels that share the axes."""
    shown = [line for line in lines if len(line.mean)]
    if not shown:
        return
    data = np.concatenate([line.mean for line in shown])
    ends = np.concatenate([end for line in shown for end in (line.low, line.high)])
    low, high, _ = limits(data, ends)
    axis.set_ylim(low, high)
    axis.set_xlim(0, max(float(line.steps[-1]) for line in shown))


def plain_axes(axis: Axes, xticks: int = 3, yticks: int = 4) -> None:
    """Few ticks, steps as 1M, returns as 5k."""
    axis.xaxis.set_major_locator(MaxNLocator(xticks, steps=[1, 2, 5, 10], prune="upper"))
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.yaxis.set_major_locator(MaxNLocator(yticks, steps=[1, 2, 2.5, 5, 10]))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def short(value: float) -> str:
    """A return on an axis: 2.5k for 2500."""
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def draw_spots(axis: Axes, spots: Sequence[tuple[float, Line]], styles: Mapping[str, Look]) -> None:
    """Final scores across, with their intervals, each at its height."""
    for height, line in spots:
        look, final = styles[line.name], line.final
        if np.isfinite(final.low):
            axis.plot([final.low, final.high], [height] * 2, color=look.color, linewidth=1.2)
        axis.plot(final.mean, height, color=look.color, marker=look.marker, markersize=3)


def note_spot_sizes(axis: Axes, spots: Sequence[tuple[float, Line]], usual: int) -> None:
    """Writes runs used/requested at the right end of rows with an unusual number."""
    for height, line in spots:
        if line.size != (usual, usual):
            axis.text(
                0.99,
                height,
                f"{line.size[0]}/{line.size[1]}",
                transform=axis.get_yaxis_transform(),
                ha="right",
                va="center",
                fontsize=SMALL - 1,
                color="0.25",
                bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 0.5},
            )


def spot_limits(lines: Sequence[Line], more: Sequence[float] = ()) -> tuple[float, float]:
    """Limits of an axis of final scores and of other values shown beside them."""
    ends = [end for line in lines for end in (line.final.low, line.final.high)]
    data = [*(line.final.mean for line in lines), *more]
    low, high, _ = limits(np.array(data), np.array(ends), headroom=1.5)
    return low, high


def note_sizes(axis: Axes, lines: Sequence[Line], usual: int) -> None:
    """Names in a corner of a panel the runs used/requested that are not the usual number."""
    odd = [line for line in lines if line.size != (usual, usual)]
    text = ", ".join(f"{label(line.name)} {line.size[0]}/{line.size[1]}" for line in odd)
    if text:
        axis.text(
            0.98, 0.03, text, transform=axis.transAxes, ha="right", fontsize=SMALL - 1, color="0.25"
        )
