"""How far twins get apart with updates, and how far rounding takes two copies of one, as SVG."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from harness.probes.pages.figures import COLORS, PAPER, SIZE, STYLE
from harness.probes.twins import Distance, Twins

NOTHING = 1e-17
"""What stands for no difference at all, which has no place on a logarithmic axis."""
_AWAY = "largest difference of a weight,\nas a share of the largest weight"


def figure(found: Twins) -> str:
    """Both distances over the updates, on logarithmic axes, and what still counts as rounding."""
    settings: Any = STYLE
    with mpl.rc_context(settings):
        drawn = Figure(figsize=SIZE, layout="constrained")
        ax = drawn.subplots()
        first = found.first.label
        _rounding(ax, found.distances, f"{first}, last bit changed")
        _apart(ax, found.distances, f"{first} and {found.second.label}", COLORS[0])
        ax.set_xlabel(f"updates of {found.algorithm}")
        ax.set_ylabel(_AWAY)
        ax.legend(fontsize=6, loc="best")
        return _svg(drawn)


def panels(found: Mapping[str, Mapping[str, Sequence[Distance]]]) -> str:
    """A panel per algorithm with the distances of several pairs, beside those of copies.

    Args:
        found: By algorithm and name of the pair; the copies of the first pair are drawn.
    """
    names = dict.fromkeys(name for pairs in found.values() for name in pairs)
    colors = {name: COLORS[number % len(COLORS)] for number, name in enumerate(names)}
    settings: Any = STYLE
    with mpl.rc_context(settings):
        drawn = Figure(figsize=(2.2 * len(found), 2.6), layout="constrained")
        axes = drawn.subplots(1, len(found), sharey=True, squeeze=False)[0]
        for ax, (algorithm, pairs) in zip(axes, found.items(), strict=True):
            _rounding(ax, next(iter(pairs.values())), "copies, one bit apart")
            for name, distances in pairs.items():
                _apart(ax, distances, name, colors[name])
            ax.set_title(algorithm)
            ax.set_xlabel("updates")
        axes[0].set_ylabel(_AWAY)
        handles = {
            label: handle
            for ax in axes
            for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
        }
        drawn.legend(
            handles.values(), handles.keys(), fontsize=6, loc="outside lower center", ncols=5
        )
        return _svg(drawn)


def _rounding(ax: Any, distances: Sequence[Distance], label: str) -> None:
    updates = [item.updates for item in distances]
    ax.loglog(updates, [item.room for item in distances], ":", color=PAPER, label="still rounding")
    copies = [max(item.rounding, NOTHING) for item in distances]
    ax.loglog(updates, copies, "--", color="black", label=label)


def _apart(ax: Any, distances: Sequence[Distance], label: str, color: str) -> None:
    apart = [max(item.apart, NOTHING) for item in distances]
    updates = [item.updates for item in distances]
    ax.loglog(updates, apart, "o-", color=color, markersize=3, label=label)


def _svg(drawn: Figure) -> str:
    text = io.StringIO()
    drawn.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
