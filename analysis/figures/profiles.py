"""All tasks in one figure.

Performance profiles (the share of runs above each normalised score), and median, interquartile
mean, mean and optimality gap with intervals.
"""

import functools
from collections.abc import Callable, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.data.runs import Cell
from analysis.figures.panels import Margins, legend, panel_grid
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.style import PAGE, looks, paper_settings
from analysis.stats.aggregates import NAMES, Aggregates, Profiles
from analysis.verdicts.overall import Overall
from analysis.verdicts.study import Material
from analysis.words import file_name, label, recipe_label, recipes, span

NO_DATA = "no set of hyperparameters has a task with a scale that all frameworks have a run in"


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One figure per algorithm, with a panel for each set of hyperparameters."""
    return pages(material, _sheet, NotDrawn("profiles", NO_DATA))


def pages(
    material: Material,
    draw: Callable[[Material, str, str, str, list[Overall]], Sheet],
    nothing: NotDrawn,
    holds: Callable[[Overall], object] = bool,
) -> list[Sheet | NotDrawn]:
    """One figure for each study, algorithm and variant.

    Args:
        material: Holds the aggregates.
        draw: Makes a figure of a study, algorithm and variant, and its aggregates.
        nothing: What there is in place of figures where there are none.
        holds: Whether there is anything to draw of an aggregate.
    """
    found = [
        (setting, [item for item in items if holds(item)])
        for setting, items in by_setting(material)
    ]
    return [draw(material, *setting, items) for setting, items in found if items] or [nothing]


def by_setting(material: Material) -> list[tuple[tuple[str, str, str], list[Overall]]]:
    """Aggregates of each study, algorithm and variant, by hyperparameters."""
    found = []
    for setting in material.settings:
        items = {
            item.hps: item
            for item in material.overall
            if (item.study, item.algorithm, item.variant) == setting
        }
        if items:
            found.append((setting, [items[hps] for hps in recipes(items)]))
    return found


def cells_of(items: list[Overall]) -> tuple[Cell, ...]:
    """The settings that went into aggregates."""
    return tuple(
        Cell(item.study, env, item.algorithm, item.hps, item.variant)
        for item in items
        for env in item.tasks
    )


def scale_words(items: list[Overall]) -> str:
    """What went in, and what counts as 0 and 1, for captions."""
    tasks = {len(item.tasks) for item in items}
    out = sorted({text for item in items for text in item.left_out})
    text = (
        f"Scores are normalised per task: 0 is random actions, 1 the best score of the original "
        f"papers. Tasks: {span(tasks)}"
    )
    text += f" (left out: {'; '.join(out)})" if out else ""
    sizes = {n for item in items for seeds in item.aggregates.seeds for n in seeds}
    return f"{text}. n = {span(sizes)} runs used per task and framework."


def _sheet(
    material: Material, study: str, algorithm: str, variant: str, items: list[Overall]
) -> Sheet:
    title = f"Performance profiles of {label(algorithm)}"
    resamples = items[0].profiles.resamples
    caption = (
        f"{title} ({material.context(study, variant)}). Share of runs with a final score above a "
        f"threshold, tasks weighted equally. Bands: pointwise 95% intervals, bootstrap stratified "
        f"over tasks, {resamples:,} resamples. {scale_words(items)}"
    )
    panels = tuple((recipe_label(item.hps), item.profiles) for item in items)
    name = file_name("profiles", algorithm, *material.suffix(study, variant, algorithm))
    return Sheet(name, title, caption, cells_of(items), functools.partial(draw, panels))


def draw(panels: tuple[tuple[str, Profiles], ...]) -> Figure:
    """Draws one panel per set of hyperparameters."""
    styles = looks(name for _, item in panels for name in item.names)
    margins = Margins(left=0.5, top=0.42, bottom=0.36)
    width = max(3.4, margins.left + (PAGE - margins.left) * len(panels) / 4)
    with matplotlib.rc_context(paper_settings()):
        figure, axes = panel_grid(1, len(panels), width, 1.5, margins, True, True)
        legend(figure, styles)
        for axis, (title, item) in zip(axes[0], panels, strict=True):
            axis.set_title(title)
            for i, name in enumerate(item.names):
                look = styles[name]
                band = (item.thresholds, item.low[i], item.high[i])
                axis.fill_between(*band, color=look.color, alpha=0.15, linewidth=0)
                axis.plot(
                    item.thresholds,
                    item.share[i],
                    color=look.color,
                    linestyle=look.line,
                    linewidth=1.2,
                    marker=look.marker,
                    markersize=2.5,
                    markevery=(3 * i, 12),
                )
            axis.set_xlim(*eventful([item for _, item in panels]))
            axis.set_ylim(0, 1.02)
            axis.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        axes[0, 0].set_ylabel("share of runs above")
        figure.text(0.53, 0.06 / figure.get_figheight(), "normalised score", ha="center")
    return figure


def eventful(items: Sequence[Profiles]) -> tuple[float, float]:
    """The thresholds between which any profile falls, with one more on either side."""
    thresholds = items[0].thresholds
    falls = np.zeros(len(thresholds), dtype=bool)
    for item in items:
        falls |= ((item.high > 0) & (item.low < 1)).any(axis=0)
    at = np.flatnonzero(falls)
    if not len(at):
        return float(thresholds[0]), float(thresholds[-1])
    first, last = max(0, at[0] - 1), min(len(thresholds) - 1, at[-1] + 1)
    return float(thresholds[first]), float(thresholds[last])


_TITLES = {
    "median": "median",
    "iqm": "interquartile mean",
    "mean": "mean",
    "optimality_gap": "optimality gap\n(lower is better)",
}


def aggregate_sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One figure per algorithm."""
    return pages(material, _aggregate_sheet, NotDrawn("aggregates", NO_DATA))


def _aggregate_sheet(
    material: Material, study: str, algorithm: str, variant: str, items: list[Overall]
) -> Sheet:
    title = f"Scores of {label(algorithm)} over all tasks"
    resamples = items[0].aggregates.resamples
    caption = (
        f"{title} ({material.context(study, variant)}). Points: aggregates of normalised final "
        f"scores; of the optimality gap, lower is better. Lines: 95% intervals, percentile "
        f"bootstrap stratified over tasks, {resamples:,} resamples. {scale_words(items)}"
    )
    rows = tuple((recipe_label(item.hps), item.aggregates) for item in items)
    name = file_name("aggregates", algorithm, *material.suffix(study, variant, algorithm))
    return Sheet(name, title, caption, cells_of(items), functools.partial(draw_aggregates, rows))


def draw_aggregates(rows: tuple[tuple[str, Aggregates], ...]) -> Figure:
    """Draws one panel per aggregate."""
    styles = looks(name for _, item in rows for name in item.names)
    margins = Margins(left=0.95, top=0.54, bottom=0.36)
    with matplotlib.rc_context(paper_settings()):
        height = 0.15 + 0.13 * len(styles) * len(rows)
        figure, axes = panel_grid(1, len(NAMES), PAGE, height, margins, False, True)
        legend(figure, styles)
        step = 0.8 / len(styles)
        for k, (axis, aggregate) in enumerate(zip(axes[0], NAMES, strict=True)):
            axis.set_title(_TITLES[aggregate])
            for i, (_, item) in enumerate(rows):
                for j, name in enumerate(item.names):
                    look = styles[name]
                    at = i - 0.4 + step * (list(styles).index(name) + 0.5)
                    ends = [item.low[j, k], item.high[j, k]]
                    axis.plot(ends, [at, at], color=look.color, linewidth=1.2)
                    axis.plot(
                        item.point[j, k], at, color=look.color, marker=look.marker, markersize=3
                    )
            for edge in range(1, len(rows)):
                axis.axhline(edge - 0.5, color="0.85", linewidth=0.5)
            axis.grid(axis="y", visible=False)
            axis.locator_params(axis="x", nbins=4)
        axes[0, 0].set_yticks(range(len(rows)), [text for text, _ in rows])
        axes[0, 0].set_ylim(len(rows) - 0.5, -0.5)
        figure.text(0.55, 0.06 / figure.get_figheight(), "normalised score", ha="center")
    return figure
