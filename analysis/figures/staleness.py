"""Q-value discrepancy over training, a panel for the first and for the last step."""

import functools

import matplotlib
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.data.staleness import PLACES
from analysis.figures.sheet import Sheet
from analysis.figures.style import PAGE, SMALL, paper_settings
from analysis.verdicts.staleness import Setting, Summary
from analysis.words import file_name, label

_HEIGHT = 2.6  # inches


def sheet(setting: Setting) -> Sheet:
    """The figure of one setting."""
    cell = setting.cell
    title = f"Q-value discrepancy of {label(cell.algorithm)}, {cell.env}"
    counts = ", ".join(f"{s.strategy.title}: {len(s.seeds)}" for s in setting.strategies)
    caption = (
        f"{title} ({cell.study}, hyperparameters {cell.hps}, {cell.variant}): distance of action "
        "values from those of the states that actors had, by the largest value, in equal parts of "
        "the training; means over runs with 95% t intervals. Dashed: zero state. "
        f"Runs: {counts}."
    )
    place = (cell.study, cell.env, cell.algorithm, cell.hps, setting.framework, cell.variant)
    name = file_name("discrepancy", *place)
    return Sheet(name, title, caption, (cell,), functools.partial(draw, setting))


def draw(setting: Setting) -> Figure:
    """Draws a line for each strategy."""
    lengths = sorted({item.strategy.burn_in for item in setting.strategies})
    colors = dict(zip(lengths, sns.color_palette("colorblind", len(lengths)), strict=True))
    with matplotlib.rc_context(paper_settings()):
        figure = Figure(figsize=(PAGE, _HEIGHT), layout="constrained")
        for axis, place in zip(figure.subplots(1, len(PLACES)), PLACES, strict=True):
            for item in setting.strategies:
                _line(axis, item, place, colors[item.strategy.burn_in])
            axis.set_title(f"{place} step after burn-in")
            axis.set_xlabel("part of the training")
            axis.set_ylim(bottom=0)
            axis.xaxis.get_major_locator().set_params(integer=True)
        figure.axes[0].set_ylabel("Q-value discrepancy")
        figure.axes[0].legend(fontsize=SMALL, frameon=False)
    return figure


def _line(axis: Axes, item: Summary, place: str, color: object) -> None:
    stages = item.stages[place]
    at = np.arange(1, len(stages) + 1)
    style = "-" if item.strategy.stored_state else "--"
    axis.plot(
        at,
        [s.mean for s in stages],
        style,
        color=color,
        marker="o",
        markersize=2.5,
        linewidth=1,
        label=item.strategy.title,
    )
    axis.fill_between(
        at, [s.low for s in stages], [s.high for s in stages], color=color, alpha=0.15, linewidth=0
    )
