"""How figures look: one colour, line and marker per framework, and the settings of text."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import seaborn as sns

# Named here so that a framework keeps its colour in figures where another is missing.
_FIRST = ("cleanrl", "sb3", "torchrl")
# Blue, orange, green, pink, brown ... of a palette for colour-blind readers.
_PALETTE = "colorblind"
_LINES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


@dataclasses.dataclass(frozen=True)
class Look:
    """How one framework is drawn.

    Attributes:
        color: Red, green and blue in [0, 1].
        line: Line style in Matplotlib's terms.
        marker: Marker in Matplotlib's terms.
    """

    color: tuple[float, float, float]
    line: Any
    marker: str


def looks(frameworks: Iterable[str]) -> dict[str, Look]:
    """A look for each framework: the known ones always the same, then others by name."""
    names = set(frameworks)
    order = [*_FIRST, *sorted(names - set(_FIRST))]
    colors = sns.color_palette(_PALETTE)
    return {
        name: Look(colors[i % len(colors)], _LINES[i % len(_LINES)], _MARKERS[i % len(_MARKERS)])
        for i, name in enumerate(order)
        if name in names
    }


def settings() -> Any:
    """Matplotlib settings for all figures, for `rc_context`; fonts ship with Matplotlib."""
    return {
        **sns.axes_style("whitegrid"),
        **sns.plotting_context("paper"),
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "pdf.fonttype": 42,
        "text.parse_math": False,
        "axes.edgecolor": "0.4",
        "grid.color": "0.9",
    }
