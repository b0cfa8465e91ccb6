"""Aggregates over all tasks in one figure.

Performance profiles (the share of runs above each normalized score), and median, interquartile
mean, mean and optimality gap with intervals.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.figures.figure_spec import FigureSpec, MissingFigure
from parallax.analysis.figures.panels import (
    PanelMargins,
    align_last_tick_label,
    compute_axis_limits,
    draw_curve,
    draw_legend,
    make_panel_grid,
    set_step_ticks,
)
from parallax.analysis.figures.style import (
    PAGE_WIDTH,
    SMALL_FONT,
    SeriesStyle,
    get_framework_styles,
)
from parallax.analysis.labels import format_range, get_label, get_recipe_label, make_file_name
from parallax.analysis.stats.aggregates import (
    AGGREGATE_NAMES,
    AggregateScores,
    ImprovementProbability,
    PerformanceProfiles,
    SampleEfficiency,
)
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.overall import OverallScores
from parallax.analysis.verdicts.study import StudyResults, StudyVariant

NO_DATA = (
    "no set of hyperparameters has two tasks with a scale that all of several frameworks have a "
    "run in"
)
MIN_TASKS = 2  # with a single task they would repeat the figures of that task
ChangedRows = Mapping[Any, FloatArray]  # values with failed runs, by framework or pair


@dataclasses.dataclass(frozen=True)
class AggregateFamily:
    """Figures of one kind: one per study, algorithm and variant, with recipes side by side.

    Attributes:
        name: Name of the family and first part of file names.
        title: Title of a figure, with the algorithm as `{}`.
        description: What the figure shows, and which interval, with resamples as `{:,}`.
        get_data: Takes what is drawn from the aggregates under one recipe.
        draw: Draws the titles and data of all recipes, and the rows that failed runs change.
        get_rows: Takes values by framework or pair, to find those that failed runs change.
        mark: Name of the marks of these values in captions.
        lacks: What is missing if there is no figure.
        has_data: Whether there is anything to draw of the aggregates under one recipe.
        describe_missing: Returns the caption's sentence on what is not drawn, or "".
        is_curve: Whether scores are those of single evaluations, whatever the endpoint is.
    """

    name: str
    title: str
    description: str
    get_data: Callable[[OverallScores], Any]
    draw: Callable[[Any], Figure]
    get_rows: Callable[[OverallScores], Mapping[Any, FloatArray]]
    mark: str
    lacks: str = ""
    has_data: Callable[[OverallScores], object] = lambda item: len(item.aggregates.names) > 1
    describe_missing: Callable[[list[OverallScores]], str] = lambda _: ""
    is_curve: bool = False

    def make_figure_specs(self, results: StudyResults) -> list[FigureSpec | MissingFigure]:
        """Return the figures of a study."""
        found = [
            (part, items)
            for part in results.parts
            if (items := [item for item in part.overall if self._is_drawn(item)])
        ]
        nothing = MissingFigure(self.name, f"{NO_DATA}{self.lacks}")
        options = results.verdicts.options
        return [self._make_figure_spec(part, items, options) for part, items in found] or [nothing]

    def _is_drawn(self, item: OverallScores) -> bool:
        return len(item.tasks) >= MIN_TASKS and bool(self.has_data(item))

    def _make_figure_spec(
        self, part: StudyVariant, items: list[OverallScores], options: VerdictOptions
    ) -> FigureSpec:
        title = self.title.format(get_label(part.algorithm))
        with_failed = part.overall_with_failed_runs
        data = tuple(
            (
                get_recipe_label(item.hps),
                self.get_data(item),
                self._find_changed_rows(item, with_failed.get(item.hps, item)),
            )
            for item in items
        )
        description = self.description.format(data[0][1].resamples)
        endpoint = options.chosen_endpoint
        scale = _describe_scale(items, options, self.is_curve or not endpoint.is_steps)
        score = "mean return of an evaluation" if self.is_curve else endpoint.description
        caption = (
            f"{title} ({part.context}){description} Score: {score}. {scale}"
            f"{self.describe_missing(items)}"
        )
        if any(changed for *_, changed in data):
            caption += (
                f" {self.mark}: with failed trainings at the bottom of the tasks' ranges, over "
                f"{format_range(len(item.tasks) for item in with_failed.values())} tasks."
            )
        return FigureSpec(
            make_file_name(self.name, part.algorithm, *part.suffix),
            title,
            caption,
            _list_aggregate_cells(items),
            functools.partial(self.draw, data),
        )

    def _find_changed_rows(self, item: OverallScores, with_failed: OverallScores) -> ChangedRows:
        rows = self.get_rows(item)
        return {
            key: values
            for key, values in self.get_rows(with_failed).items()
            if key not in rows or not np.array_equal(values, rows[key])
        }


def _list_aggregate_cells(items: list[OverallScores]) -> tuple[StudyCell, ...]:
    """Return the settings that went into aggregates."""
    return tuple(
        StudyCell(item.study, env, item.algorithm, item.hps, item.variant)
        for item in items
        for env in item.tasks
    )


def _describe_scale(items: list[OverallScores], options: VerdictOptions, has_returns: bool) -> str:
    """Return a caption's sentences on the runs used and on the scores that count as 0 and 1."""
    tasks = {len(item.tasks) for item in items}
    out = sorted({text for item in items for text in item.left_out})
    text = f"Tasks: {format_range(tasks)}"
    if has_returns:
        text = (
            f"Scores are normalized per task: 0 is {options.zero_description}, 1 the published "
            "score of the algorithm, or a solved task where none is published"
            f"{', or the upper end of the range given' * bool(options.ranges)}. {text}"
        )
    text += f" (left out: {'; '.join(out)})" if out else ""
    sizes = {n for item in items for seeds in item.aggregates.seeds for n in seeds}
    return f"{text}. n = {format_range(sizes)} runs used per task and framework."


def _describe_not_drawn(items: list[OverallScores]) -> str:
    lacking = sorted(
        f"{get_label(name)} under {get_recipe_label(item.hps)}"
        for item in items
        for name in set(item.aggregates.names) - set(item.efficiency.curves)
    )
    return f" Not drawn, as their runs share no evaluation: {', '.join(lacking)}." * bool(lacking)


def draw_profile_figure(panels: tuple[tuple[str, PerformanceProfiles, ChangedRows], ...]) -> Figure:
    """Draw one panel per set of hyperparameters."""
    styles = get_framework_styles(
        [name for _, item, changed in panels for name in (*item.names, *changed)]
    )
    margins = PanelMargins(left=0.5, top=0.42, bottom=0.36)
    width = max(3.4, margins.left + (PAGE_WIDTH - margins.left) * len(panels) / 4)
    figure, axes = make_panel_grid(1, len(panels), width, 1.5, margins, True, True)
    draw_legend(figure, styles)
    for axis, (title, item, changed) in zip(axes[0], panels, strict=True):
        axis.set_title(title)
        _draw_changed_lines(axis, changed, styles)
        for i, name in enumerate(item.names):
            band, marks = (item.low[i], item.high[i]), (3 * i, 12)
            draw_curve(axis, styles[name], item.thresholds, item.share[i], band, 1.2, marks)
        axis.set_xlim(*find_threshold_range([item for _, item, _ in panels]))
        axis.set_ylim(0, 1.02)
        axis.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes[0, 0].set_ylabel("share of runs above")
    figure.text(0.53, 0.06 / figure.get_figheight(), "normalized score", ha="center")
    return figure


def find_threshold_range(items: Sequence[PerformanceProfiles]) -> tuple[float, float]:
    """Return the thresholds between which any profile falls, with one more on either side."""
    thresholds = items[0].thresholds
    falls = np.zeros(len(thresholds), dtype=bool)
    for item in items:
        falls |= ((item.high > 0) & (item.low < 1)).any(axis=0)
    at = np.flatnonzero(falls)
    if not len(at):
        return float(thresholds[0]), float(thresholds[-1])
    first, last = max(0, at[0] - 1), min(len(thresholds) - 1, at[-1] + 1)
    return float(thresholds[first]), float(thresholds[last])


_AGGREGATE_TITLES = {
    "median": "median",
    "iqm": "interquartile mean",
    "mean": "mean",
    "optimality_gap": "optimality gap\n(lower is better)",
}


def draw_aggregate_figure(rows: tuple[tuple[str, AggregateScores, ChangedRows], ...]) -> Figure:
    """Draw one panel per aggregate."""
    styles = get_framework_styles(
        [name for _, item, changed in rows for name in (*item.names, *changed)]
    )
    margins = PanelMargins(left=0.95, top=0.54, bottom=0.36)
    height = 0.15 + 0.13 * len(styles) * len(rows)
    figure, axes = make_panel_grid(
        1, len(AGGREGATE_NAMES), PAGE_WIDTH, height, margins, False, True
    )
    draw_legend(figure, styles)
    step = 0.8 / len(styles)
    for k, (axis, aggregate) in enumerate(zip(axes[0], AGGREGATE_NAMES, strict=True)):
        axis.set_title(_AGGREGATE_TITLES[aggregate])
        for i, (_, item, changed) in enumerate(rows):
            places = {name: i - 0.4 + step * (j + 0.5) for j, name in enumerate(styles)}
            for name, values in changed.items():
                _draw_cross(axis, float(values[k]), places[name], styles[name].color)
            for j, name in enumerate(item.names):
                look, at = styles[name], places[name]
                ends = [item.low[j, k], item.high[j, k]]
                axis.plot(ends, [at, at], color=look.color, linewidth=1.2)
                axis.plot(item.point[j, k], at, color=look.color, marker=look.marker, markersize=3)
        for edge in range(1, len(rows)):
            axis.axhline(edge - 0.5, color="0.85", linewidth=0.5)
        axis.grid(axis="y", visible=False)
        axis.locator_params(axis="x", nbins=4)
    axes[0, 0].set_yticks(range(len(rows)), [row[0] for row in rows])
    axes[0, 0].set_ylim(len(rows) - 0.5, -0.5)
    figure.text(0.55, 0.06 / figure.get_figheight(), "normalized score", ha="center")
    return figure


def _draw_cross(axis: Axes, x: float, y: float, color: str) -> None:
    """Draw the mark of a value with failed runs."""
    axis.plot(x, y, color=color, marker="x", markersize=3.6, markeredgewidth=0.9, zorder=4)


def _draw_changed_lines(
    axis: Axes, changed: ChangedRows, styles: Mapping[str, SeriesStyle]
) -> None:
    """Draw a dotted line for each row of positions and values."""
    for name, (x, y) in changed.items():
        axis.plot(x, y, color=styles[name].color, linestyle=":", linewidth=1.0)


EfficiencyPanels = tuple[tuple[str, SampleEfficiency, ChangedRows], ...]  # title and curves


def draw_efficiency_figure(panels: EfficiencyPanels) -> Figure:
    """Draw one panel per set of hyperparameters."""
    curves = [curve for _, item, _ in panels for curve in item.curves.values()]
    rows = [row for *_, changed in panels for row in changed.values()]
    styles = get_framework_styles(
        [name for _, item, changed in panels for name in (*item.curves, *changed)]
    )
    margins = PanelMargins(left=0.5, top=0.42, bottom=0.36)
    width = max(3.4, margins.left + (PAGE_WIDTH - margins.left) * len(panels) / 4)
    ends = np.concatenate([end for curve in curves for end in (curve.low, curve.high)])
    low, high, _ = compute_axis_limits(
        np.concatenate([*(curve.point for curve in curves), *(y for _, y in rows)]), ends
    )
    figure, axes = make_panel_grid(1, len(panels), width, 1.5, margins, True, True)
    draw_legend(figure, styles)
    for axis, (title, item, changed) in zip(axes[0], panels, strict=True):
        axis.set_title(title)
        _draw_changed_lines(axis, changed, styles)
        for name, curve in item.curves.items():
            band, marks = (curve.low, curve.high), (2 * list(styles).index(name), 6)
            draw_curve(axis, styles[name], curve.steps, curve.point, band, 1.2, marks)
    set_step_ticks(axes[0, 0], max(float(curve.steps[-1]) for curve in curves))
    for axis in axes[-1]:
        align_last_tick_label(axis)
    axes[0, 0].set_ylim(low, high)
    axes[0, 0].yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes[0, 0].set_ylabel("normalized score")
    figure.text(0.53, 0.06 / figure.get_figheight(), "environment steps", ha="center")
    return figure


ImprovementPanels = tuple[tuple[str, ImprovementProbability, ChangedRows], ...]  # title and chances


def draw_improvement_figure(panels: ImprovementPanels) -> Figure:
    """Draw one panel per set of hyperparameters, a row per pair of frameworks."""
    found = (pair for _, item, changed in panels for pair in (*item.pairs, *changed))
    pairs = list(dict.fromkeys(found))
    margins = PanelMargins(left=1.2, top=0.24, bottom=0.36)
    width = margins.left + (PAGE_WIDTH - margins.left) * max(2, len(panels)) / 4
    height = 0.1 + 0.22 * len(pairs)
    figure, axes = make_panel_grid(1, len(panels), width, height, margins, True, True)
    for axis, (title, item, changed) in zip(axes[0], panels, strict=True):
        axis.set_title(title)
        for pair, value in changed.items():
            _draw_cross(axis, float(value), pairs.index(pair), "0.25")
        axis.axvline(0.5, color="0.3", linewidth=0.8)
        for i, pair in enumerate(item.pairs):
            at, color = pairs.index(pair), "0.25"
            axis.plot([item.low[i], item.high[i]], [at, at], color=color, linewidth=1.2)
            axis.plot(item.point[i], at, color=color, marker="o", markersize=3.5)
        axis.grid(axis="y", visible=False)
    axes[0, 0].set_xlim(-0.03, 1.03)
    axes[0, 0].set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes[0, 0].set_ylim(len(pairs) - 0.5, -0.5)
    names = [f"{get_label(first)} over {get_label(second)}" for first, second in pairs]
    axes[0, 0].set_yticks(range(len(pairs)), names, fontsize=SMALL_FONT)
    text = "chance that a run of the first scores higher"
    figure.text(0.55, 0.06 / figure.get_figheight(), text, ha="center")
    return figure


PROFILES = AggregateFamily(
    name="profiles",
    title="Performance profiles of {}",
    description=". Share of runs with a score above a threshold, tasks weighted equally. Bands: "
    "pointwise 95% intervals, bootstrap stratified over tasks, {:,} resamples.",
    get_data=lambda item: item.profiles,
    draw=draw_profile_figure,
    get_rows=lambda item: {
        name: np.stack([item.profiles.thresholds, share])
        for name, share in zip(item.profiles.names, item.profiles.share, strict=True)
    },
    mark="Dotted",
)
AGGREGATES = AggregateFamily(
    name="aggregates",
    title="Scores of {} over all tasks",
    description=". Points: aggregates of normalized scores; of the optimality gap, lower is "
    "better. Lines: 95% intervals, percentile bootstrap stratified over tasks, {:,} resamples.",
    get_data=lambda item: item.aggregates,
    draw=draw_aggregate_figure,
    get_rows=lambda item: dict(zip(item.aggregates.names, item.aggregates.point, strict=True)),
    mark="Crosses",
)
EFFICIENCY = AggregateFamily(
    name="efficiency",
    title="Sample efficiency of {}",
    description=": interquartile mean of normalized scores over all tasks, over environment steps, "
    "at no more than 30 of the evaluations that all runs share. Bands: pointwise 95% intervals, "
    "percentile bootstrap of whole runs stratified over tasks, {:,} resamples.",
    get_data=lambda item: item.efficiency,
    draw=draw_efficiency_figure,
    get_rows=lambda item: {
        name: np.stack([curve.steps, curve.point]) for name, curve in item.efficiency.curves.items()
    },
    mark="Dotted",
    lacks=", at steps that all runs share",
    has_data=lambda item: len(item.efficiency.curves) > 1,
    describe_missing=_describe_not_drawn,
    is_curve=True,
)
IMPROVEMENT = AggregateFamily(
    name="improvement",
    title="Probability of improvement, {}",
    description=": chance that a run of the first framework scores higher than one of the second "
    "in the same task, ties half, averaged over tasks. At 0.5 neither does. Lines: 95% intervals, "
    "percentile bootstrap stratified over tasks, {:,} resamples.",
    get_data=lambda item: item.improvement,
    draw=draw_improvement_figure,
    get_rows=lambda item: dict(zip(item.improvement.pairs, item.improvement.point, strict=True)),
    mark="Crosses",
    lacks=", or there is one framework",
    has_data=lambda item: item.improvement.pairs,
)
