"""Final scores on a horizontal axis: a dot per seed, their mean, and its interval.

An arrow marks an interval that goes beyond the axis, and unusual numbers of runs are at the right.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.markers import CARETLEFT, CARETRIGHT
from matplotlib.ticker import FuncFormatter, MaxNLocator

from parallax.analysis.figures.panels import CurveLine, compute_axis_limits, format_return
from parallax.analysis.figures.score_marks import ScoreMark, find_near_marks
from parallax.analysis.figures.style import SMALL_FONT, SeriesStyle

DotRow = tuple[float, CurveLine]  # height and what is drawn there

_HEADROOM = 1.5  # share of the data's range that intervals may add on either side


@dataclasses.dataclass(frozen=True)
class ScoreAxisLimits:
    """Limits of an axis of final scores.

    Attributes:
        low: Value at which intervals are cut off at the left.
        high: Value at which they are cut off at the right.
        edge: End of the axis; from `high` to here there is room for numbers of runs.
    """

    low: float
    high: float
    edge: float


def compute_score_axis_limits(
    lines: Sequence[CurveLine], usual: int, marks: Sequence[ScoreMark] = ()
) -> ScoreAxisLimits:
    """Return axis limits that contain all seeds and means, and intervals unless very wide.

    At least one line must have a used run. Marks far from all scores do not widen the axis.
    """
    used = [line for line in lines if line.size[0]]
    ends = [end for line in used for end in (line.final.low, line.final.high)]
    seeds = np.concatenate([line.scores for line in used])
    data = np.array([*(line.final.mean for line in used), *seeds])
    near = find_near_marks(marks, (float(data.min()), float(data.max())))
    data = np.array([*data, *(mark.score for mark in near)])
    low, high, _ = compute_axis_limits(data, np.array(ends), _HEADROOM)
    longest = max(
        (len(_format_size(line)) for line in lines if _has_unusual_size(line, usual)), default=0
    )
    room = (0.04 + 0.03 * longest) * (high - low) if longest else 0.0
    return ScoreAxisLimits(low, high, high + room)


def draw_score_dots(
    axis: Axes,
    dots: Sequence[DotRow],
    styles: Mapping[str, SeriesStyle],
    limits: ScoreAxisLimits,
    usual: int,
) -> None:
    """Draw final scores, each at its height.

    Numbers of runs other than the usual one are written beside the scores.
    """
    axis.set_xlim(limits.low, limits.edge)
    axis.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_return(value)))
    for height, line in dots:
        look = styles[line.name]
        _draw_interval(axis, height, line, look, limits)
        axis.plot(
            line.scores,
            np.full(len(line.scores), height),
            linestyle="none",
            marker="o",
            markersize=2.2,
            markerfacecolor="white",
            markeredgecolor=look.color,
            markeredgewidth=0.5,
            zorder=3,
        )
        axis.plot(
            line.final.mean,
            height,
            color=look.color,
            marker=look.marker,
            markersize=3.6,
            markeredgecolor="white",
            markeredgewidth=0.4,
            zorder=4,
        )
        _draw_mean_with_failed_runs(axis, height, line, look, limits)
        if _has_unusual_size(line, usual):
            _annotate_size(axis, height, line)


def describe_failed_runs(lines: Iterable[CurveLine]) -> str:
    """Return a caption's sentence on crosses, with a space before it; empty if no run failed."""
    if not any(np.isfinite(line.with_failed_runs) for line in lines):
        return ""
    return (
        " Crosses: mean with failed trainings at the bottom of the task's range; at the left end "
        "of an axis where it lies beyond."
    )


def _draw_mean_with_failed_runs(
    axis: Axes, height: float, line: CurveLine, look: SeriesStyle, limits: ScoreAxisLimits
) -> None:
    if np.isfinite(line.with_failed_runs):
        axis.plot(
            max(line.with_failed_runs, limits.low),
            height,
            color=look.color,
            marker="x",
            markersize=3.6,
            markeredgewidth=0.9,
            clip_on=False,
            zorder=5,
        )


def _draw_interval(
    axis: Axes, height: float, line: CurveLine, look: SeriesStyle, limits: ScoreAxisLimits
) -> None:
    low, high = line.final.low, line.final.high
    if not np.isfinite(low):
        return
    ends = [max(low, limits.low), min(high, limits.high)]
    axis.plot(ends, [height] * 2, color=look.color, linewidth=1.1, zorder=2)
    for end, cut, marker in (
        (limits.low, low < limits.low, CARETLEFT),
        (limits.high, high > limits.high, CARETRIGHT),
    ):
        if cut:
            axis.plot(
                end, height, color=look.color, marker=marker, markersize=4, clip_on=False, zorder=4
            )


def _annotate_size(axis: Axes, height: float, line: CurveLine) -> None:
    axis.text(
        0.99,
        height,
        _format_size(line),
        transform=axis.get_yaxis_transform(),
        ha="right",
        va="center",
        fontsize=SMALL_FONT - 1,
        color="0.25",
    )


def _has_unusual_size(line: CurveLine, usual: int) -> bool:
    return line.size != (usual, usual)


def _format_size(line: CurveLine) -> str:
    return f"{line.size[0]}/{line.size[1]}"
