"""Effects of interventions on the return, sorted, beside the gap that they might explain."""

import functools
import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parallax.analysis.figures.figure_spec import FigureSpec
from parallax.analysis.figures.style import PAGE_WIDTH, SMALL_FONT, get_framework_styles
from parallax.analysis.labels import get_label, make_file_name
from parallax.analysis.verdicts.ablation import (
    CHANGES,
    NO_EFFECT,
    AblationVerdict,
    InterventionEffect,
)

EFFECT_COLORS = {CHANGES: "#b2182b", NO_EFFECT: "#1b7837"}
OTHER_EFFECT_COLOR = "0.45"
_ROW, _HEAD, _FOOT = 0.24, 0.42, 0.78  # inches


def make_ablation_figure_spec(item: AblationVerdict) -> FigureSpec:
    """Return the figure of one framework in one setting."""
    cell = item.cell
    title = f"Effects on {get_label(item.framework)}'s {get_label(cell.algorithm)}, {cell.env}"
    pairs = sorted({effect.result.n for effect in item.effects})
    count = f"{pairs[0]}" if len(pairs) == 1 else f"{pairs[0]} to {pairs[-1]}"
    gaps = ", ".join(
        f"unchanged {get_label(gap.other)}: {gap.result.difference:+.4g} ({gap.result.n} pairs)"
        for gap in item.gaps
    )
    caption = (
        f"{title} ({cell.study}, hyperparameters {cell.hps}, {cell.variant}): {item.score_name} "
        f"with each intervention - without, mean over {count} pairs of seeds, with 95% intervals "
        "of Student's paired test. Red: significant after Holm's correction; green: within the "
        "margin of equivalence; grey: inconclusive. Dashed lines: gap to another framework, "
        f"shaded by its interval. {gaps}"
    )
    place = (cell.study, cell.env, cell.algorithm, cell.hps, item.framework, cell.variant)
    name = make_file_name("ablation", *place)
    return FigureSpec(name, title, caption, (cell,), functools.partial(draw_ablation_figure, item))


def draw_ablation_figure(item: AblationVerdict) -> Figure:
    """Draw a row for each effect; those of several interventions are below a line."""
    effects = (*item.single_effects, *item.joint_effects)
    longest = max(len(_format_effect_name(effect)) for effect in effects)
    left = min(0.25 + 0.068 * longest, 0.55 * PAGE_WIDTH)
    height = _HEAD + _ROW * len(effects) + _FOOT
    figure = Figure(figsize=(PAGE_WIDTH, height))
    axis = figure.add_axes(
        (
            left / PAGE_WIDTH,
            _FOOT / height,
            (PAGE_WIDTH - left - 0.15) / PAGE_WIDTH,
            _ROW * len(effects) / height,
        )
    )
    axis.axvline(0, color="0.3", linewidth=0.8)
    _draw_gaps(axis, item)
    for row, effect in enumerate(effects):
        _draw_effect(axis, row, effect)
    if item.single_effects and item.joint_effects:
        axis.axhline(len(item.single_effects) - 0.5, color="0.8", linewidth=0.8)
    axis.set_ylim(len(effects) - 0.5, -0.5)
    axis.set_yticks(
        range(len(effects)),
        [_format_effect_name(effect) for effect in effects],
        fontsize=SMALL_FONT,
    )
    axis.grid(axis="y", visible=False)
    axis.set_xlabel(f"change of the {item.score_name}")
    title = f"{get_label(item.framework)}, {get_label(item.cell.algorithm)}, {item.cell.env}"
    figure.text(left / PAGE_WIDTH, 1 - 0.2 / height, title, va="center")
    if item.gaps:
        axis.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.42 / (_ROW * len(effects))),
            ncols=len(item.gaps),
            frameon=False,
            fontsize=SMALL_FONT,
        )
    return figure


def _format_effect_name(effect: InterventionEffect) -> str:
    parts = effect.name.count("+") + 1
    return effect.name if parts <= 2 else f"{parts} together"


def _draw_gaps(axis: Axes, item: AblationVerdict) -> None:
    styles = get_framework_styles([gap.other for gap in item.gaps])
    for gap in item.gaps:
        axis.axvline(
            gap.result.difference,
            color=styles[gap.other].color,
            linestyle="--",
            linewidth=1.0,
            label=f"gap to {get_label(gap.other)}",
        )
        if not math.isnan(gap.result.low):
            ends = gap.result.low, gap.result.high
            axis.axvspan(*ends, color=styles[gap.other].color, alpha=0.1, linewidth=0)


def _draw_effect(axis: Axes, row: int, effect: InterventionEffect) -> None:
    color, found = EFFECT_COLORS.get(effect.verdict, OTHER_EFFECT_COLOR), effect.result
    if not math.isnan(found.low):
        axis.plot([found.low, found.high], [row, row], color=color, linewidth=1.3)
    axis.plot(found.difference, row, color=color, marker="o", markersize=4)
