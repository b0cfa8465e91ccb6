"""Scores of all frameworks at each level of alignment, and the shares of causes of differences."""

import functools
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from parallax.analysis.figures.figure_spec import FigureSpec, MissingFigure
from parallax.analysis.figures.style import (
    MEDIUM_FONT,
    PAGE_WIDTH,
    SMALL_FONT,
    SeriesStyle,
    get_framework_styles,
)
from parallax.analysis.labels import MISSING, get_label, make_file_name
from parallax.analysis.stats.decomposition import SHARE_NAMES
from parallax.analysis.stats.intervals import ConfidenceInterval, compute_interval
from parallax.analysis.verdicts.alignment_levels import (
    LevelDecomposition,
    LevelResults,
    LevelSpread,
    LevelTask,
)
from parallax.analysis.verdicts.study import StudyResults

LEVELS_NAME = "levels"
LEVEL_LABELS = {
    "defaults": "own hyperparameters",
    "exact": "equal hyperparameters",
    "lockstep": "equal update code too",
}
_LETTER, _GAP = 0.051, 0.12  # inches, as the next ones: of names of tasks, and around columns
_ROW, _TEXT, _BAR = 0.58, 0.16, 0.2  # of a task, of the line above its dots, of a share
_LOWEST, _HIGHEST = -0.6, 1.3  # limits of the axis, even if intervals are longer


def make_level_figure_specs(results: StudyResults) -> list[FigureSpec | MissingFigure]:
    """Return one figure per study with runs at several levels of alignment."""
    return [
        _make_level_figure_spec(one, name) for one, name in name_level_figures(results, LEVELS_NAME)
    ] or [MissingFigure(LEVELS_NAME, "no study has runs at more than one level of alignment")]


def name_level_figures(results: StudyResults, name: str) -> list[tuple[LevelResults, str]]:
    """Return each study with several levels of alignment, and the name of its figure.

    The name of the study follows where there are several.
    """
    several = len(results.levels) > 1
    return [
        (one, make_file_name(name, one.spreads[0].task.study if several else "", ""))
        for one in results.levels
    ]


def _make_level_figure_spec(results: LevelResults, name: str) -> FigureSpec:
    caption = (
        f"Dots: mean over seeds of each framework's score, the {results.endpoint}; a run that "
        "failed or diverged counts as 0. Lines: 95% t interval, cut at the ends of the axis. 0 is "
        "the score of doing nothing or of random actions, whichever is higher; 1 is a solved task. "
        "Own hyperparameters: the defaults of the framework's library or example script. Equal "
        "ones: one recipe for all. Equal update code: known differences in the code of an update "
        "are removed too; initial weights still differ. Spread: how far frameworks lie apart "
        "(standard deviation without the noise of seeds, 95% bootstrap interval); n is the number "
        "of runs."
    )
    if results.decomposition:
        caption += (
            " Bottom: what explains the variance of scores at own hyperparameters, with 95% "
            "bootstrap intervals; estimates can be below 0. Other differences are those between "
            "frameworks at equal hyperparameters. They consist of the known update code and of "
            "all else, such as initial weights."
        )
    cells = tuple(sorted({spread.cell for spread in results.spreads}))
    title = "Scores of each framework at three levels of alignment"
    return FigureSpec(name, title, caption, cells, functools.partial(draw_level_figure, results))


def draw_level_figure(results: LevelResults) -> Figure:
    """Draw the figure of one study: a row per task, a column per level, and the shares below."""
    rows, styles = results.by_task, get_framework_styles(results.frameworks)
    levels = [one for one in LEVEL_LABELS if any(one in found for found in rows.values())]
    shares = results.decomposition
    bottom = 0.44 + (0.62 + len(list_share_rows(shares)) * _BAR if shares else 0.0)
    height = 0.46 + len(rows) * _ROW + bottom
    names = 0.1 + _LETTER * max(12, *(len(task.env) for task in rows))
    width = (PAGE_WIDTH - names) / len(levels)
    figure = Figure(figsize=(PAGE_WIDTH, height))
    for column, level in enumerate(levels):
        left = (names + column * width) / PAGE_WIDTH
        size = (width - _GAP) / PAGE_WIDTH, len(rows) * _ROW / height
        axis = figure.add_axes((left, bottom / height, *size))
        _set_score_axis(axis, results, len(rows))
        axis.set_title(LEVEL_LABELS[level], loc="left", fontweight="bold")
        if column == len(levels) // 2:
            axis.set_xlabel(f"normalized score: {results.endpoint.partition(' (')[0]}")
        for row, (task, found) in enumerate(rows.items()):
            if not column:
                _name_task(axis, row, task, names / (width - _GAP))
            if level in found:  # a level without runs has no strip
                _draw_strip(axis, row * _ROW, found[level], styles)
    _draw_legend(figure, styles)
    if shares:
        _draw_shares(figure, shares, height)
    return figure


def _set_score_axis(axis: Axes, results: LevelResults, rows: int) -> None:
    scores = [values for spread in results.spreads for values in spread.scores.values()]
    ends = np.concatenate([[0.0, 1.0], *scores])
    axis.set_xlim(max(_LOWEST, ends.min() - 0.08), min(_HIGHEST, ends.max() + 0.08))
    axis.set_ylim(rows * _ROW, 0)
    axis.set_yticks([])
    axis.spines[:].set_visible(False)
    for value in (0.0, 1.0):
        axis.axvline(value, color="0.35", linewidth=0.8, linestyle=":", zorder=1)
    axis.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0\ndoes nothing", "", "0.5", "", "1\nsolved"])


def _name_task(axis: Axes, row: int, task: LevelTask, left: float) -> None:
    for line, text in enumerate((get_label(task.algorithm), task.env, f"{task.length:,} steps")):
        axis.text(
            -left + 0.02,
            row * _ROW + (line + 0.8) * _ROW / 4,
            text,
            transform=axis.get_yaxis_transform(),
            fontsize=SMALL_FONT if line else MEDIUM_FONT,
            fontweight="normal" if line else "bold",
            va="center",
        )


def _draw_strip(
    axis: Axes, top: float, spread: LevelSpread, styles: Mapping[str, SeriesStyle]
) -> None:
    low, high = axis.get_xlim()
    axis.axhspan(top + 0.02, top + _ROW - 0.02, color="0.965", zorder=0)
    axis.text(
        0.02,
        top + _TEXT - 0.02,
        describe_spread(spread, len(styles)),
        transform=axis.get_yaxis_transform(),
        fontsize=SMALL_FONT,
        bbox={"pad": 0.5, "facecolor": "0.965", "edgecolor": "none"},
        va="bottom",
    )
    step = (_ROW - _TEXT - 0.1) / max(1, len(styles) - 1)
    for number, (name, style) in enumerate(styles.items()):
        values = spread.scores.get(name)
        if values is None or not len(values):
            continue
        place = top + _TEXT + 0.04 + number * step
        found = compute_interval(values, "t")
        if np.isfinite(found.low):
            ends = np.clip([found.low, found.high], low, high)
            axis.plot(ends, [place] * 2, color=style.color, linewidth=0.9, zorder=2)
        axis.plot(
            np.clip(found.mean, low, high),
            place,
            marker=style.marker,
            color=style.color,
            markersize=3.8,
            markeredgecolor="white",
            markeredgewidth=0.4,
            zorder=3,
        )


def describe_spread(spread: LevelSpread, frameworks: int) -> str:
    """Return the spread of a strip with its interval and number of runs, in one line.

    A strip with fewer frameworks than the study says so.
    """
    some = len(spread.scores)
    sizes = spread.format_sizes() + ("" if some == frameworks else f", {some} of {frameworks}")
    if spread.scale is None:
        return "solved score not known"
    if spread.variance is None:
        return f"too few runs, {sizes}"
    low, high = spread.interval
    return f"spread {spread.spread:.2f} [{low:.2f}, {high:.2f}], {sizes}"


def _draw_legend(figure: Figure, styles: Mapping[str, SeriesStyle]) -> None:
    handles = [
        Line2D([], [], color=one.color, marker=one.marker, markersize=4, label=get_label(name))
        for name, one in styles.items()
    ]
    figure.legend(
        handles=handles,
        loc="upper center",
        ncols=len(handles),
        frameon=False,
        handlelength=1.2,
        columnspacing=1.2,
    )


# The variance shares in reading order; the second is the sum of the two parts that follow it.
SHARE_LABELS = {
    "hyperparameters": "hyperparameters",
    "equal": "other differences",
    "code": "known update code",
    "residual": "the rest",
    "seeds": "seeds",
}
_PARTS = ("code", "residual")
_SHARE_COLORS = dict(zip(SHARE_LABELS, ("0.25", "0.45", "0.7", "0.7", "0.82"), strict=True))


def _draw_shares(figure: Figure, found: LevelDecomposition, height: float) -> None:
    rows = list_share_rows(found)
    left, right = 1.5 / PAGE_WIDTH, 1.3 / PAGE_WIDTH
    axis = figure.add_axes((left, 0.3 / height, 1 - left - right, len(rows) * _BAR / height))
    for number, (name, value, low, high) in enumerate(rows):
        thick = 0.35 if name in _PARTS else 0.62
        axis.barh(number, value, height=thick, color=_SHARE_COLORS[name], zorder=2)
        axis.plot([max(low, -1.0), min(high, 2.0)], [number] * 2, color="black", linewidth=0.9)
        axis.text(
            1.02,
            number,
            format_share(value, low, high),
            transform=axis.get_yaxis_transform(),
            va="center",
        )
    axis.set_yticks(range(len(rows)), [name_share(name) for name, *_ in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    ends = [value for row in rows for value in row[1:]]
    axis.set_xlim(max(-1.0, min([0.0, *ends]) - 0.03), min(2.0, max([1.0, *ends]) + 0.03))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axis.axvline(0, color="0.2", linewidth=0.8)
    axis.grid(axis="y", visible=False)
    axis.set_title(
        "Shares of the variance of scores at own hyperparameters", loc="left", fontweight="bold"
    )


def list_share_rows(found: LevelDecomposition) -> list[tuple[str, float, float, float]]:
    """Return each share's name, estimate and interval; no parts without runs at `lockstep`."""
    shares = found.shares
    rows = np.column_stack([shares.shares.array, shares.low, shares.high]).tolist()
    values = {**dict(zip(SHARE_NAMES, rows, strict=True)), "equal": shares.equal}
    return [
        (name, *values[name]) for name in SHARE_LABELS if found.has_lockstep or name not in _PARTS
    ]


def format_share(value: float, low: float, high: float) -> str:
    """Format a share with its interval, in percent; it is unknown where all scores are equal."""
    if np.isnan(value):
        return "unknown"
    value, low, high = (round(100 * one) for one in (value, low, high))
    return f"{value}% [{low}%, {high}%]"


def name_share(name: str) -> str:
    """Return the name of a share on pages; parts of the other differences say so."""
    return ("of these, " if name in _PARTS else "") + SHARE_LABELS[name]


def format_estimate(estimate: ConfidenceInterval) -> str:
    """Format an estimate on the scale from 0 to 1, with its interval."""
    if np.isnan(estimate.low):
        return MISSING
    return f"{estimate.mean:z.2f} [{estimate.low:z.2f}, {estimate.high:z.2f}]"
