"""Figures of lockstep comparisons: difference over updates, and that of rounding alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from parallax.harness.lockstep.comparison import LockstepResult, WeightDistance
from parallax.harness.probes.figures import COLORS, PAPER_COLOR, SIZE, STYLE, figure_to_svg

MIN_PLOTTED_DISTANCE = 1e-17
"""Plotted instead of a difference of 0, which a logarithmic axis cannot show."""
_DISTANCE_LABEL = "largest difference of a weight,\nas a share of the largest weight"


def render_distance_figure(result: LockstepResult) -> str:
    """Return the figure of one comparison, with logarithmic axes."""
    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=SIZE, layout="constrained")
        ax = drawn.subplots()
        first = result.first.label
        _plot_rounding(ax, result.distances, f"{first}, last bit changed")
        _plot_distance(ax, result.distances, f"{first} and {result.second.label}", COLORS[0])
        ax.set_xlabel(f"updates of {result.algorithm}")
        ax.set_ylabel(_DISTANCE_LABEL)
        ax.legend(fontsize=6, loc="best")
        return figure_to_svg(drawn)


def render_distance_panels(distances: Mapping[str, Mapping[str, Sequence[WeightDistance]]]) -> str:
    """Return a figure with one panel per algorithm and one line per pair.

    Args:
        distances: By algorithm and name of the pair; rounding is drawn for the first pair.
    """
    names = dict.fromkeys(name for pairs in distances.values() for name in pairs)
    colors = {name: COLORS[number % len(COLORS)] for number, name in enumerate(names)}
    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=(2.2 * len(distances), 2.6), layout="constrained")
        axes = drawn.subplots(1, len(distances), sharey=True, squeeze=False)[0]
        for ax, (algorithm, pairs) in zip(axes, distances.items(), strict=True):
            _plot_rounding(ax, next(iter(pairs.values())), "copies that differ in one bit")
            for name, line in pairs.items():
                _plot_distance(ax, line, name, colors[name])
            ax.set_title(algorithm)
            ax.set_xlabel("updates")
        axes[0].set_ylabel(_DISTANCE_LABEL)
        handles = {
            label: handle
            for ax in axes
            for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
        }
        drawn.legend(
            handles.values(), handles.keys(), fontsize=6, loc="outside lower center", ncols=5
        )
        return figure_to_svg(drawn)


def _plot_rounding(ax: Any, distances: Sequence[WeightDistance], label: str) -> None:
    updates = [item.updates for item in distances]
    ax.loglog(
        updates,
        [item.allowed_difference for item in distances],
        ":",
        color=PAPER_COLOR,
        label="counts as rounding",
    )
    copies = [max(item.rounding, MIN_PLOTTED_DISTANCE) for item in distances]
    ax.loglog(updates, copies, "--", color="black", label=label)


def _plot_distance(ax: Any, distances: Sequence[WeightDistance], label: str, color: str) -> None:
    differences = [max(item.difference, MIN_PLOTTED_DISTANCE) for item in distances]
    updates = [item.updates for item in distances]
    ax.loglog(updates, differences, "o-", color=color, markersize=3, label=label)
