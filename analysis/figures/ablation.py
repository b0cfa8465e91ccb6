"""Effects of interventions on the return, sorted, beside the gap that they might explain."""

import functools
import math

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.sheet import Sheet
from analysis.figures.style import PAGE, SMALL, looks, paper_settings
from analysis.verdicts.ablation import CHANGES, NO_EFFECT, Ablation, Effect
from analysis.words import file_name, label

COLORS = {CHANGES: "#b2182b", NO_EFFECT: "#1b7837"}
OTHERWISE = "0.45"
_ROW, _HEAD, _FOOT = 0.24, 0.42, 0.78  # inches


def sheet(item: Ablation) -> Sheet:
    """The figure of one framework in one setting."""
    cell = item.cell
    title = f"Effects on {label(item.framework)}'s {label(cell.algorithm)}, {cell.env}"
    pairs = sorted({effect.result.n for effect in item.effects})
    count = f"{pairs[0]}" if len(pairs) == 1 else f"{pairs[0]} to {pairs[-1]}"
    gaps = ", ".join(
        f"{label(gap.other)} as it is: {gap.result.difference:+.4g} ({gap.result.n} pairs)"
        for gap in item.gaps
    )
    caption = (
        f"{title} ({cell.study}, hyperparameters {cell.hps}, {cell.variant}): return with each "
        f"intervention less that without, mean over {count} pairs of seeds, with 95% intervals of "
        "Student's paired test. Red: significant after Holm's correction; green: within the margin "
        f"of equivalence; grey: undecided. Dashed lines: the gap that was there, shaded by its "
        f"interval. {gaps}"
    )
    place = (cell.study, cell.env, cell.algorithm, cell.hps, item.framework, cell.variant)
    name = file_name("ablation", *place)
    return Sheet(name, title, caption, (cell,), functools.partial(draw, item))


def draw(item: Ablation) -> Figure:
    """Draws a row for each effect; those of several interventions stand below a line."""
    effects = (*item.singles, *item.together)
    longest = max(len(_name(effect)) for effect in effects)
    left = min(0.25 + 0.068 * longest, 0.55 * PAGE)
    height = _HEAD + _ROW * len(effects) + _FOOT
    with matplotlib.rc_context(paper_settings()):
        figure = Figure(figsize=(PAGE, height))
        axis = figure.add_axes(
            (left / PAGE, _FOOT / height, (PAGE - left - 0.15) / PAGE, _ROW * len(effects) / height)
        )
        axis.axvline(0, color="0.3", linewidth=0.8)
        _draw_gaps(axis, item)
        for row, effect in enumerate(effects):
            _draw_effect(axis, row, effect)
        if item.singles and item.together:
            axis.axhline(len(item.singles) - 0.5, color="0.8", linewidth=0.8)
        axis.set_ylim(len(effects) - 0.5, -0.5)
        axis.set_yticks(range(len(effects)), [_name(effect) for effect in effects], fontsize=SMALL)
        axis.grid(axis="y", visible=False)
        axis.set_xlabel("change of the final return")
        title = f"{label(item.framework)}, {label(item.cell.algorithm)}, {item.cell.env}"
        figure.text(left / PAGE, 1 - 0.2 / height, title, va="center")
        if item.gaps:
            axis.legend(
                loc="upper center",
                bbox_to_anchor=(0.5, -0.42 / (_ROW * len(effects))),
                ncols=len(item.gaps),
                frameon=False,
                fontsize=SMALL,
            )
    return figure


def _name(effect: Effect) -> str:
    parts = effect.name.count("+") + 1
    return effect.name if parts <= 2 else f"{parts} together"


def _draw_gaps(axis: Axes, item: Ablation) -> None:
    styles = looks([gap.other for gap in item.gaps])
    for gap in item.gaps:
        axis.axvline(
            gap.result.difference,
            color=styles[gap.other].color,
            linestyle="--",
            linewidth=1.0,
            label=f"gap to {label(gap.other)}",
        )
        if not math.isnan(gap.result.low):
            ends = gap.result.low, gap.result.high
            axis.axvspan(*ends, color=styles[gap.other].color, alpha=0.1, linewidth=0)


def _draw_effect(axis: Axes, row: int, effect: Effect) -> None:
    color, found = COLORS.get(effect.verdict, OTHERWISE), effect.result
    if not math.isnan(found.low):
        axis.plot([found.low, found.high], [row, row], color=color, linewidth=1.3)
    axis.plot(found.difference, row, color=color, marker="o", markersize=4)
