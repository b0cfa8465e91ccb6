"""Parts of figures: panels with a layout in inches, curves, and shared sentences.

A fixed layout is quick to draw, and the same on every machine.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation

from parallax.analysis.figures.score_marks import ScoreMark, find_near_marks, make_mark_handles
from parallax.analysis.figures.style import LARGE_FONT, MEDIUM_FONT, SMALL_FONT, SeriesStyle
from parallax.analysis.labels import INTERVAL_FORMULAS, get_label
from parallax.analysis.stats.intervals import ConfidenceInterval
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.verdicts.curves import LearningCurve
from parallax.analysis.verdicts.groups import ScoreGroup

# Share of the data's own range that intervals may add above and below.
_HEADROOM = 0.3


def compute_return_limits(
    curves: Sequence[LearningCurve], marks: Iterable[ScoreMark] = ()
) -> tuple[float, float, bool]:
    """Return the limits of the return axis that keep the curves readable.

    Marks far from all curves do not widen the axis.

    Returns:
        Lower and upper limit, and whether they cut an interval off.
    """
    data = np.concatenate([returns for curve in curves for _, returns in curve.seeds])
    near = find_near_marks(marks, (float(data.min()), float(data.max())))
    data = np.array([*data, *(mark.score for mark in near)])
    drawn = [curve for curve in curves if len(curve.seeds) >= MIN_SEEDS_OF_BAND]
    ends = np.array([value for curve in drawn for end in (curve.low, curve.high) for value in end])
    return compute_axis_limits(data, ends)


def compute_axis_limits(
    data: FloatArray, ends: FloatArray, headroom: float = _HEADROOM
) -> tuple[float, float, bool]:
    """Compute axis limits that contain all data, and ends of intervals unless far off.

    Args:
        data: float[n], n at least 1.
        ends: float[m], ends of intervals; those that are NaN do not count.
        headroom: Share of the data's range that intervals may add above and below.

    Returns:
        Lower and upper limit, and whether they cut an interval off.
    """
    ends = ends[np.isfinite(ends)]
    bottom, top = float(data.min()), float(data.max())
    room = headroom * (top - bottom) or max(1.0, 0.05 * abs(top))
    reach_low = min(bottom, *ends) if len(ends) else bottom
    reach_high = max(top, *ends) if len(ends) else top
    cut = reach_low < bottom - room or reach_high > top + room
    low, high = max(reach_low, bottom - room), min(reach_high, top + room)
    edge = 0.05 * (high - low) or room
    return float(low - edge), float(high + edge), bool(cut)


AxesGrid = Any  # array of Axes, [rows, columns]


@dataclasses.dataclass(frozen=True)
class PanelMargins:
    """Space around and between panels, in inches."""

    left: float = 0.55
    right: float = 0.08
    top: float = 0.42
    bottom: float = 0.32
    across: float = 0.1
    down: float = 0.12


def make_panel_grid(
    rows: int,
    columns: int,
    width: float,
    heights: float | Sequence[float],
    margins: PanelMargins,
    sharex: bool | str = False,
    sharey: bool | str = False,
) -> tuple[Figure, AxesGrid]:
    """Return a figure with rows x columns panels.

    Width and heights are in inches; heights are of each panel, or one for each row. `sharex` and
    `sharey` are Matplotlib's.
    """
    each = [heights] * rows if isinstance(heights, int | float) else list(heights)
    inner = sum(each) + margins.down * (rows - 1)
    height = inner + margins.top + margins.bottom
    panel_width = (width - margins.left - margins.right - margins.across * (columns - 1)) / columns
    figure = Figure(figsize=(width, height))
    axes = figure.subplots(
        rows,
        columns,
        squeeze=False,
        sharex=sharex,  # type: ignore[arg-type]
        sharey=sharey,  # type: ignore[arg-type]
        gridspec_kw={
            "left": margins.left / width,
            "right": 1 - margins.right / width,
            "top": 1 - margins.top / height,
            "bottom": margins.bottom / height,
            "wspace": margins.across / panel_width,
            "hspace": margins.down / (sum(each) / rows),
            "height_ratios": each,
        },
    )
    return figure, np.asarray(axes, dtype=object)


def draw_legend(
    figure: Figure, styles: Mapping[str, SeriesStyle], marks: Sequence[str] = ()
) -> None:
    """Draw a line of names at the top of a figure, and one of marks below it."""
    handles = [
        Line2D(
            [],
            [],
            color=look.color,
            linestyle=look.line,
            marker=look.marker,
            markersize=3.5,
            linewidth=1.3,
            label=get_label(name),
        )
        for name, look in styles.items()
    ]
    _draw_legend_line(figure, handles, 0.01, LARGE_FONT)
    _draw_legend_line(figure, make_mark_handles(marks), 0.16 if handles else 0.01, MEDIUM_FONT)


MARK_LEGEND_HEIGHT = 0.14  # inches that a line of marks needs above the panels


def _draw_legend_line(figure: Figure, handles: list[Line2D], down: float, size: float) -> None:
    """Draw one line of a legend, smaller where it would not fit."""
    if not handles:
        return
    width = _estimate_legend_width([str(handle.get_label()) for handle in handles])
    size = min(size, 72 * figure.get_figwidth() / width)
    looks = {"fontsize": size, "handlelength": _HANDLE, "columnspacing": _BETWEEN}
    place_legend(figure, handles, down, **looks)


def place_legend(figure: Figure, handles: Sequence[Any], down: float, **looks: Any) -> None:
    """Draw a legend `down` inches below the top of a figure: one line, unless `ncols` is given."""
    figure.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 1 - down / figure.get_figheight()),
        frameon=False,
        borderaxespad=0,
        **{"ncols": len(handles), **looks},
    )


# Widths in a legend, in units of its font size.
_HANDLE, _BETWEEN, _BESIDE, _LETTER = 2.6, 1.4, 0.8, 0.6


def _estimate_legend_width(names: Sequence[str]) -> float:
    """Estimate the width of a legend of one line, in units of its font size."""
    return sum(_HANDLE + _BESIDE + _LETTER * len(name) for name in names) + _BETWEEN * len(names)


def draw_patch_legend(figure: Figure, colors: dict[str, str], down: float = 0.02) -> None:
    """Draw one line of coloured boxes, `down` inches below the top of a figure."""
    handles = [
        Patch(facecolor=color, edgecolor="0.4", label=text) for text, color in colors.items()
    ]
    place_legend(figure, handles, down, handlelength=1.2)


def label_row(axis: Axes, text: str) -> None:
    """Write bold text at the left of a row."""
    axis.set_ylabel(text, fontweight="bold")


@dataclasses.dataclass(frozen=True, eq=False)
class CurveLine:
    """A curve with its band.

    Attributes:
        name: Framework or algorithm.
        steps: int[K], environment steps.
        mean: float[K], mean return.
        low: float[K], lower end of the interval.
        high: float[K], upper end.
        final: Final score with its interval.
        size: Runs used/requested.
        scores: float[n], final score of each seed; empty if unknown.
        seeds: Steps and mean returns of each seed where there are too few for a band.
        with_failed_runs: Mean score with failed trainings at the bottom of the task's range; NaN
            where none failed.
        curve_with_failed_runs: Steps and mean returns with failed trainings at the bottom; empty
            where none failed.
    """

    name: str
    steps: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    final: ConfidenceInterval
    size: tuple[int, int]
    scores: FloatArray
    seeds: tuple[tuple[FloatArray, FloatArray], ...] = ()
    with_failed_runs: float = math.nan
    curve_with_failed_runs: tuple[FloatArray, ...] = ()


MIN_SEEDS_OF_BAND = 3  # with two, Student's interval is 13 standard errors wide on either side


def make_curve_line(
    name: str,
    curve: LearningCurve,
    final: ConfidenceInterval,
    group: ScoreGroup,
    bounds: tuple[float, float],
) -> CurveLine:
    """Return a line for a curve, with intervals cut off at the possible returns.

    With fewer than three seeds there is no interval, and single seeds are drawn instead. Scores
    beyond the bounds widen them.
    """
    steps = curve.steps.astype(np.float64)
    scores = np.empty(0) if group.scores is None else group.scores
    low, high = clip_to_bounds(curve.low, curve.high, curve.mean, bounds)
    ends = clip_to_bounds(
        np.array([final.low]), np.array([final.high]), np.array([final.mean, *scores]), bounds
    )
    shown = dataclasses.replace(final, low=float(ends[0][0]), high=float(ends[1][0]))
    size = (final.n, group.requested)
    if len(group.runs) and final.n < MIN_SEEDS_OF_BAND:
        none = np.full(len(steps), np.nan)
        shown = dataclasses.replace(final, low=math.nan, high=math.nan)
        seeds = tuple(
            (run.timesteps.astype(np.float64), run.results.mean(axis=1)) for run in group.runs
        )
        return CurveLine(name, steps, curve.mean, none, none, shown, size, scores, seeds)
    return CurveLine(name, steps, curve.mean, low, high, shown, size, scores)


@dataclasses.dataclass(frozen=True)
class ScorePanel:
    """Curves or scores of one setting, and the scores that they are compared with."""

    title: str
    lines: tuple[CurveLine, ...]
    marks: tuple[ScoreMark, ...]


def make_failed_line(name: str, requested: int) -> CurveLine:
    """Return the line of a framework without a used run: no curve, only a number of runs."""
    nothing = np.empty(0)
    final = ConfidenceInterval(math.nan, math.nan, math.nan, 0, "none")
    return CurveLine(name, nothing, nothing, nothing, nothing, final, (0, requested), nothing)


def clip_to_bounds(
    low: FloatArray, high: FloatArray, data: FloatArray, bounds: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of intervals, not beyond known bounds; data beyond them widen the bounds.

    Args:
        low: float[K], lower ends; NaN stays.
        high: float[K], upper ends.
        data: float[m], observed values.
        bounds: Least and largest possible value.
    """
    least, most = min([bounds[0], *data]), max([bounds[1], *data])
    return np.maximum(low, least), np.minimum(high, most)


def draw_lines(axis: Axes, lines: Sequence[CurveLine], styles: Mapping[str, SeriesStyle]) -> None:
    """Draw curves with their bands, or with thin lines of single seeds."""
    for line in lines:
        if line.curve_with_failed_runs:
            color = styles[line.name].color
            axis.plot(*line.curve_with_failed_runs, color=color, linestyle=":", linewidth=0.8)
        for steps, returns in line.seeds:
            axis.plot(steps, returns, color=styles[line.name].color, linewidth=0.5, alpha=0.6)
        every = max(1, len(line.steps) // 5)
        offset = list(styles).index(line.name) * every // max(1, len(styles))
        band = (line.low, line.high)
        draw_curve(axis, styles[line.name], line.steps, line.mean, band, 1.0, (offset, every))


def draw_curve(
    axis: Axes,
    look: SeriesStyle,
    steps: FloatArray,
    middle: FloatArray,
    band: tuple[FloatArray, FloatArray],
    width: float,
    marks: tuple[int, int],
) -> None:
    """Draw one curve with its band, where it has one.

    Args:
        axis: Axes to draw on.
        look: Its colour, dashes and mark.
        steps: float[n].
        middle: float[n].
        band: Lower and upper ends, float[n] each.
        width: Width of the line, in points.
        marks: First point that has a mark, and the step from one mark to the next.
    """
    if np.isfinite(band[0]).any():
        axis.fill_between(steps, *band, color=look.color, alpha=0.15, linewidth=0)
    axis.plot(
        steps,
        middle,
        color=look.color,
        linestyle=look.line,
        linewidth=width,
        marker=look.marker,
        markersize=2.5,
        markevery=marks,
    )


def fit_return_axis(
    axis: Axes, lines: Sequence[CurveLine], marks: Iterable[ScoreMark] = ()
) -> None:
    """Fit the return axis to all curves, also those of panels that share it, with few ticks.

    Marks far from all curves do not widen the axis.
    """
    shown = [line for line in lines if len(line.mean)]
    if not shown:
        return
    others = [returns for line in shown for _, returns in line.seeds]
    others += [line.curve_with_failed_runs[1] for line in lines if line.curve_with_failed_runs]
    data = np.concatenate([*(line.mean for line in shown), *others])
    near = find_near_marks(marks, (float(data.min()), float(data.max())))
    data = np.array([*data, *(mark.score for mark in near)])
    ends = np.concatenate([end for line in shown for end in (line.low, line.high)])
    low, high, _ = compute_axis_limits(data, ends)
    axis.set_ylim(low, high)
    axis.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10], min_n_ticks=3))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_return(value)))


def set_step_axis(axis: Axes, lines: Sequence[CurveLine]) -> None:
    """Set the axis of steps from 0 to the last evaluation of any line.

    Panels that share the axis get the same one.
    """
    set_step_ticks(
        axis, max((float(line.steps[-1]) for line in lines if len(line.steps)), default=1.0)
    )


def set_step_ticks(axis: Axes, end: float) -> None:
    """Set the axis of steps from 0 to an end, which has its own tick.

    Panels that share the axis get the same one.
    """
    even = MaxNLocator(3, steps=[1, 2, 5, 10]).tick_values(0, end)
    ticks = [*(tick for tick in even if 0 <= tick < 0.8 * end), end]
    words = EngFormatter(sep="")
    axis.set_xlim(0, 1.03 * end)  # the last marker is the value that is compared
    axis.set_xticks(ticks, [words(float(f"{tick:.3g}")) for tick in ticks])
    align_last_tick_label(axis)


def align_last_tick_label(axis: Axes) -> None:
    """Move the last label into its panel, so that it does not run into the next one's first."""
    for text in axis.get_xticklabels()[-1:]:
        text.set_horizontalalignment("right")


def format_return(value: float) -> str:
    """Return a return on an axis: 2.5k for 2500."""
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def annotate_unusual_sizes(axis: Axes, lines: Sequence[CurveLine], usual: int) -> None:
    """Write the runs used/requested of lines with an unusual number above a panel."""
    odd = [line for line in lines if line.size != (usual, usual)]
    text = ", ".join(f"{get_label(line.name)} {line.size[0]}/{line.size[1]}" for line in odd)
    if text:
        width = 72 * axis.bbox.width / axis.figure.dpi
        size = min(SMALL_FONT, width / (_LETTER * len(text)))
        place = axis.transAxes + ScaledTranslation(0, 1 / 72, axis.figure.dpi_scale_trans)
        align = {"ha": "right", "va": "bottom"}
        axis.text(1, 1, text, align, transform=place, fontsize=size, color="0.25")


def describe_failed_curves(lines: Sequence[CurveLine]) -> str:
    """Return a caption's sentence on curves with failed runs, or nothing."""
    has_failed = any(line.curve_with_failed_runs for line in lines)
    return " Dotted: mean with failed trainings at the bottom of the task's range." * has_failed


def get_usual_size(lines: Sequence[CurveLine]) -> int:
    """Return the most frequent number of runs requested."""
    sizes = [line.size[1] for line in lines]
    return max(sorted(set(sizes), reverse=True), key=sizes.count) if sizes else 0


def describe_interval(method: str) -> str:
    """Return the name of the interval shown, for captions."""
    text = f"95% interval, method {method} ({INTERVAL_FORMULAS[method]})"
    text += ", which is narrower than 95%" * (method == "thesis")
    return text + ", cut at what a task's rewards allow"


def describe_sizes(lines: Sequence[CurveLine]) -> str:
    """Return the number of runs behind the panels, for captions."""
    usual = get_usual_size(lines)
    odd = any(line.size != (usual, usual) for line in lines)
    text = f"n = {usual} runs requested, completed and used"
    if any(line.seeds for line in lines):
        text = f"With fewer than three runs, thin lines of single seeds in place of bands. {text}"
    return text + ("; where it differs, a panel says used/requested" if odd else "")
