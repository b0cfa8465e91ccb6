"""Figures of answers as SVG text: functions, densities of actions, surfaces of a loss.

A drawn formula is the one that the measured numbers follow.
"""

import io
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.probes import experiment_setups
from parallax.harness.probes.ppo.experiments import CLIP
from parallax.harness.probes.results import (
    AGREES,
    FUNCTION,
    ProbeAnswer,
    ProbeResult,
    get_axis_values,
)

PAPER_COLOR = "black"
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's colours, which colour-blind readers can distinguish."""
SIZE = (4.6, 2.9)
STYLE: Any = {
    # Matplotlib reads settings from a file in the current folder, which may be untrusted.
    **{k: v for k, v in dict.items(mpl.rcParamsDefault) if not k.startswith("backend")},
    "text.parse_math": False,
    "svg.fonttype": "none",  # text stays text
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8,
}
MIN_CURVE_POINTS, MAX_MARKER_POINTS = 5, 20
"""Fewest numbers of a figure, and of a line without markers."""

FigureDrawer = Callable[[Figure], None]


def make_curve_drawer(result: ProbeResult) -> FigureDrawer | None:
    """Return a drawer of the answers over their axis, one line per group, the paper dashed.

    None if nothing differs or there is no axis.
    """
    kinds = {a.comparison.kind for a in result.answers.values() if not a.unmeasured}
    if result.axis is None or kinds <= {AGREES} or len(result.axis.values) < MIN_CURVE_POINTS:
        return None
    if len(result.groups) < 2 and FUNCTION not in kinds:
        return None
    label = result.axis.label
    apart = [g for g in result.groups if result.answers[g[0]].comparison.kind != AGREES]

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        answers = [result.answers[group[0]] for group in apart]
        close = all(_is_near_paper(answer) for answer in answers)
        for number, (group, answer) in enumerate(zip(apart, answers, strict=True)):
            x, expected = get_axis_values(result, answer), np.ravel(answer.expected)
            base = expected if close else np.zeros_like(expected)
            if number == 0:
                _draw_line(ax, x, expected - base, "paper", PAPER_COLOR)
            color = COLORS[list(result.answers).index(group[0]) % len(COLORS)]
            _draw_line(ax, x, np.ravel(answer.value) - base, ", ".join(group), color)
        for group in result.groups:
            if group not in apart:
                ax.plot([], [], " ", label=f"as the paper: {', '.join(group)}")
        ax.set_xlabel(textwrap.fill(label, 60))
        quantity = result.quantity + (", minus the paper's" if close else "")
        ax.set_ylabel(textwrap.fill(quantity, 34))
        add_legend(ax)

    return draw


def _is_near_paper(answer: ProbeAnswer) -> bool:
    # So near that only a plot of the difference shows it.
    largest = float(np.max(np.abs(answer.value - answer.expected), initial=0.0))
    return largest < 0.1 * float(np.ptp(answer.expected))


def add_legend(ax: Axes) -> None:
    """Add a legend above the axes."""
    ax.legend(loc="lower left", bbox_to_anchor=(-0.12, 1.0), ncols=2, borderaxespad=0.2)


def figure_to_svg(drawn: Figure, transparent: bool = False) -> str:
    """Return a figure as the text of an SVG file."""
    text = io.StringIO()
    drawn.savefig(text, format="svg", metadata={"Date": None}, transparent=transparent)
    return text.getvalue()


def render_svg(draw: FigureDrawer, name: str, fixed: bool = False) -> str:
    """Render a figure as an SVG element.

    Args:
        draw: Draws the figure.
        name: Unique name on the page.
        fixed: Whether the figure has a fixed size, and not that of its container.
    """
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=SIZE, layout="constrained")
        draw(figure)
        text = figure_to_svg(figure, transparent=True)
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    if fixed:
        return text
    return re.sub(r'(<svg[^>]*?) width="[^"]*"( height="[^"]*")?', r"\1", text, count=1)


def _draw_line(ax: Axes, x: Array | None, values: Array, label: str, color: str) -> None:
    # Start a new line where the axis restarts; draw values that jump along the axis as dots.
    if x is None or len(x) != len(values):
        return
    dots = len(x) < MAX_MARKER_POINTS or _has_jumps(values)
    paper = color == PAPER_COLOR
    look: dict[str, Any] = {
        "color": color,
        "linestyle": "none" if dots else "--" if paper else "-",
        "marker": ("x" if paper else "o") if dots else "",
        "markersize": 7 if paper else 5,
        "linewidth": 1 if paper else 2,
        "zorder": 5 if paper else 3,
    }
    breaks = np.flatnonzero(np.diff(x) < 0) + 1
    for number, part in enumerate(np.split(np.arange(len(x)), breaks)):
        ax.plot(x[part], values[part], label=label if number == 0 else None, **look)


def _has_jumps(values: Array) -> bool:
    steps = np.sign(np.diff(values))
    return bool(np.mean(steps[1:] * steps[:-1] < 0) > 0.3)


def compute_gaussian_density(x: Array, mean: float, std: float) -> Array:
    """Return the density of the normal distribution."""
    return np.asarray(np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi)))


ACTION_PROBE, VALUE_CLIPPING_PROBE = "ppo.action", "ppo.value_clipping"
ACTION_STD = 0.3
ACTION_MEANS = (0.0, -0.6)
VALUE_TOLERANCE = 2e-3
"""Gradients up to this size, in units of return, count as 0."""


def make_density_drawer(result: ProbeResult) -> FigureDrawer | None:
    """Return a drawer of densities of clipped or squashed actions, or None if neither is found."""
    kinds = {group: _classify_bounding(result, group[0]) for group in result.groups}
    if result.axis is None or len(set(kinds.values()) - {None}) < 2:
        return None

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        names = list(result.answers)
        for group, kind in kinds.items():
            if kind is None:
                continue
            color = COLORS[names.index(group[0]) % len(COLORS)]
            for mean, look in zip(ACTION_MEANS, ("-", ":"), strict=True):
                label = f"{', '.join(group)}: {kind}, mean {mean:g}"
                x = np.linspace(-0.999, 0.999, 400)
                ax.plot(x, DENSITY_FUNCTIONS[kind](x, mean), look, color=color, label=label)
                if kind == "cut" and mean < 0:
                    mass = 0.5 * math.erfc((mean + 1) / ACTION_STD / math.sqrt(2))
                    at_bound = f"{mass:.0%} at the bound (mean {mean})"
                    ax.plot([-1, -1], [0, 2], color=color, linewidth=4, alpha=0.5, label=at_bound)
        ax.set(xlabel="action, in a range from -1 to 1", ylabel="density", xlim=(-1.03, 1.03))
        add_legend(ax)

    return draw


DENSITY_FUNCTIONS: Mapping[str, Callable[[Array, float], Array]] = {
    "cut": lambda a, mean: compute_gaussian_density(a, mean, ACTION_STD),
    "tanh": lambda a, mean: np.asarray(
        compute_gaussian_density(np.arctanh(a), mean, ACTION_STD) / (1 - a**2)
    ),
}


def _classify_bounding(result: ProbeResult, name: str) -> str | None:
    answer = result.answers[name]
    if answer.comparison.kind == AGREES:
        return "cut"
    low, high = experiment_setups.WIDE_LOW[0], experiment_setups.WIDE_HIGH[0]
    x = get_axis_values(result, answer)
    if x is not None:
        squashed = (low + high) / 2 + (high - low) / 2 * np.tanh(x)
        if np.allclose(answer.value, squashed, atol=1e-4):
            return "tanh"
    return None


def make_surface_drawer(result: ProbeResult) -> FigureDrawer | None:
    """Return a drawer of the value loss's derivative for each group with a known form.

    None if nothing differs.
    """
    every = {group: _identify_value_loss(result, group[0]) for group in result.groups}
    found = {group: loss for group, loss in every.items() if loss is not None}
    left_out = [name for group in every if group not in found for name in group]
    if len(found) < 2:
        return None

    def draw(figure: Figure) -> None:
        change, target = np.meshgrid(np.linspace(-0.6, 0.6, 121), np.linspace(-0.8, 0.8, 121))
        axes = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
        for ax, (group, loss) in zip(axes, found.items(), strict=True):
            shown = ax.pcolormesh(
                change, target, loss(change, target), cmap="RdBu_r", vmin=-1.4, vmax=1.4,
                shading="auto", rasterized=True,
            )  # fmt: skip
            ax.set_title(", ".join(group), fontsize=9)
            ax.set_xlabel("change of prediction")
            ax.grid(visible=False)
        axes[0].set_ylabel("return - old prediction")
        figure.colorbar(shown, ax=axes, label="pull on the value")
        if left_out:
            figure.suptitle(f"without a known form: {', '.join(left_out)}", fontsize=8)

    return draw


def _identify_value_loss(result: ProbeResult, name: str) -> Callable[[Array, Array], Array] | None:
    answer = result.answers[name]
    change = get_axis_values(result, answer)
    if answer.comparison.kind == AGREES:
        return lambda v, r: formulas.compute_clipped_value_slope(v, np.zeros_like(v), r, CLIP) / 2
    if change is None:
        return None
    inside = np.abs(change) < CLIP
    if np.allclose(answer.value, np.where(inside, answer.value, 0.0), atol=VALUE_TOLERANCE):
        return lambda v, r: np.asarray(np.where(np.abs(v) < CLIP, v - r, 0.0))
    return None
