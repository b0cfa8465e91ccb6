"""Figures of what an answer means: densities of actions, surfaces of the clipped value loss.

The formula that is drawn is the one that the measured numbers are found to follow.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.figure import Figure

from harness.probes import oracles, setups
from harness.probes.page.figures import Draw, colors, gaussian, legend
from harness.probes.ppo.runs import CLIP
from harness.probes.results import AGREES, Array, Result, places

ACTION, VALUE_CLIPPING = "ppo.action", "ppo.value_clipping"
STD = 0.3
MEANS = (0.0, -0.6)
SMALL = 2e-3
"""A pull, in units of return, that is none."""


def densities(result: Result) -> Draw | None:
    """Densities of actions for two means, cut or squashed; None where neither is found."""
    kinds = {group: _bounding(result, group[0]) for group in result.groups}
    if result.axis is None or len(set(kinds.values()) - {None}) < 2:
        return None

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        for group, color in zip(result.groups, colors(result), strict=True):
            kind = kinds[group]
            for mean, look in zip(MEANS, ("-", ":"), strict=True):
                if kind is None:
                    continue
                label = f"{', '.join(group)}: {kind}, mean {mean:g}"
                x = np.linspace(-0.999, 0.999, 400)
                ax.plot(x, DENSITIES[kind](x, mean), look, color=color, label=label)
                if kind == "cut" and mean < 0:
                    mass = 0.5 * math.erfc((mean + 1) / STD / math.sqrt(2))
                    at_bound = f"{mass:.0%} at the bound (mean {mean})"
                    ax.plot([-1, -1], [0, 2], color=color, linewidth=4, alpha=0.5, label=at_bound)
        ax.set(xlabel="action, in a range from -1 to 1", ylabel="density", xlim=(-1.03, 1.03))
        legend(ax)

    return draw


def _cut(a: Array, mean: float) -> Array:
    return gaussian(a, mean, STD)


def _squashed(a: Array, mean: float) -> Array:
    return np.asarray(gaussian(np.arctanh(a), mean, STD) / (1 - a**2))


DENSITIES: Mapping[str, Callable[[Array, float], Array]] = {"cut": _cut, "tanh": _squashed}


def _bounding(result: Result, name: str) -> str | None:
    answer = result.answers[name]
    if answer.comparison.kind == AGREES:
        return "cut"
    low, high, x = setups.LOW[0], setups.HIGH[0], places(result, answer)
    if x is not None:
        squashed = (low + high) / 2 + (high - low) / 2 * np.tanh(x)
        if np.allclose(answer.value, squashed, atol=1e-4):
            return "tanh"
    return None


def surfaces(result: Result) -> Draw | None:
    """Pull on the value over its change and the error, per group; None where nothing differs."""
    found = {group: _value_loss(result, group[0]) for group in result.groups}
    if len(found) < 2 or None in found.values():
        return None

    def draw(figure: Figure) -> None:
        change, target = np.meshgrid(np.linspace(-0.6, 0.6, 121), np.linspace(-0.8, 0.8, 121))
        axes = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
        for ax, (group, loss) in zip(axes, found.items(), strict=True):
            assert loss is not None
            shown = ax.pcolormesh(
                change, target, loss(change, target), cmap="RdBu_r", vmin=-1.4, vmax=1.4,
                shading="auto", rasterized=True,
            )  # fmt: skip
            ax.set_title(", ".join(group), fontsize=9)
            ax.set_xlabel("change of prediction")
            ax.grid(visible=False)
        axes[0].set_ylabel("return - old prediction")
        figure.colorbar(shown, ax=axes, label="pull on the value")

    return draw


def _value_loss(result: Result, name: str) -> Callable[[Array, Array], Array] | None:
    answer = result.answers[name]
    change = places(result, answer)
    if answer.comparison.kind == AGREES:
        return lambda v, r: oracles.clipped_value_slope(v, np.zeros_like(v), r, CLIP) / 2
    if change is None:
        return None
    inside = np.abs(change) < CLIP
    if np.allclose(answer.value, np.where(inside, answer.value, 0.0), atol=SMALL):
        return lambda v, r: np.asarray(np.where(np.abs(v) < CLIP, v - r, 0.0))
    return None
