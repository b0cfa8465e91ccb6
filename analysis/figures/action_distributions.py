"""Actions after clipping and after tanh, from the same normal distribution (thesis Figure 14).

Densities and means are computed, not sampled. No runs are used.
"""

import dataclasses
import functools

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import stats

from parallax.analysis.figures.figure_spec import FigureSpec, MissingFigure
from parallax.analysis.figures.panels import PanelMargins, make_panel_grid
from parallax.analysis.figures.style import LARGE_FONT, PAGE_WIDTH, SMALL_FONT
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.verdicts.study import StudyResults

_DENSITY_POINTS = 801
"""Number of actions at which densities are computed."""
MEANS, VARIANCES = (0.0, -0.6), (1.0, 0.4, 0.1)
# Colours of no framework or algorithm: both methods occur in several frameworks.
_CLIP, _TANH = "#444444", "#AA4499"


@dataclasses.dataclass(frozen=True, eq=False)
class ActionDistributions:
    """Actions in [-1, 1] made from one normal distribution.

    Attributes:
        actions: float[K], inside of (-1, 1).
        clipped: float[K], density after clipping, between the bounds.
        at_bounds: Probability of the actions -1 and 1 after clipping.
        squashed: float[K], density after tanh.
    """

    actions: FloatArray
    clipped: FloatArray
    at_bounds: tuple[float, float]
    squashed: FloatArray
    mean_clipped: float
    mean_squashed: float


def make_action_figure_specs(_: StudyResults) -> list[FigureSpec | MissingFigure]:
    """Return one figure, which needs no runs."""
    title = "Actions under clipping and under tanh"
    caption = (
        f"{title}: density of actions in [-1, 1] made from a normal distribution with mean μ and "
        "variance σ². Clipping leaves the normal density between the bounds and puts the rest on "
        "them (bars: probability, right axis). tanh bends all of it inside. Vertical lines: means "
        "of the actions. Computed, not sampled; no run enters."
    )
    return [
        FigureSpec(
            "actions", title, caption, (), functools.partial(draw_action_figure, MEANS, VARIANCES)
        )
    ]


def compute_action_distributions(mean: float, variance: float) -> ActionDistributions:
    """Return both distributions of actions that a normal distribution gives."""
    normal = stats.norm(mean, np.sqrt(variance))
    inside = np.linspace(-1, 1, _DENSITY_POINTS + 2)[1:-1]
    low, high = float(normal.cdf(-1)), float(normal.sf(1))
    # Change of variable: the density of tanh(x) is that of x divided by 1 - tanh(x)^2.
    squashed = normal.pdf(np.arctanh(inside)) / (1 - inside**2)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    bent = np.tanh(mean + np.sqrt(variance) * nodes) @ weights / np.sqrt(2 * np.pi)
    # Mean of a normal variable between the bounds, and of the rest on them.
    scale = np.sqrt(variance)
    between = mean * (1 - low - high) - scale**2 * float(normal.pdf(1) - normal.pdf(-1))
    return ActionDistributions(
        inside, normal.pdf(inside), (low, high), squashed, between - low + high, float(bent)
    )


def draw_action_figure(means: tuple[float, ...], variances: tuple[float, ...]) -> Figure:
    """Draw one panel per mean and variance."""
    margins = PanelMargins(left=0.5, right=0.45, top=0.32, bottom=0.36, across=0.32, down=0.14)
    figure, axes = make_panel_grid(
        len(means), len(variances), PAGE_WIDTH, 1.3, margins, True, False
    )
    for i, mean in enumerate(means):
        for j, variance in enumerate(variances):
            twin = _draw_action_panel(axes[i, j], compute_action_distributions(mean, variance))
            axes[i, j].text(
                0.03,
                0.95,
                f"μ = {mean:g}, σ² = {variance:g}",
                transform=axes[i, j].transAxes,
                va="top",
                fontsize=SMALL_FONT,
            )
            if j < len(variances) - 1:
                twin.set_yticklabels([])
            else:
                twin.set_ylabel("probability at bounds", fontsize=SMALL_FONT)
        axes[i, 0].set_ylabel("density")
    handles = [
        Line2D([], [], color=_CLIP, linestyle="-", label="clipped"),
        Line2D([], [], color=_TANH, linestyle=(0, (5, 1.5)), label="tanh"),
    ]
    figure.legend(handles=handles, loc="upper center", ncols=2, frameon=False, fontsize=LARGE_FONT)
    figure.text(0.5, 0.06 / figure.get_figheight(), "action", ha="center")
    return figure


def _draw_action_panel(axis: Axes, item: ActionDistributions) -> Axes:
    twin = axis.twinx()
    twin.bar((-1, 1), item.at_bounds, width=0.06, color=_CLIP, alpha=0.45, linewidth=0)
    twin.set_ylim(0, 1)
    twin.set_yticks([0, 0.5, 1])
    twin.grid(visible=False)
    axis.plot(item.actions, item.clipped, color=_CLIP, linewidth=1.3)
    axis.fill_between(item.actions, item.clipped, color=_CLIP, alpha=0.12, linewidth=0)
    axis.plot(item.actions, item.squashed, color=_TANH, linewidth=1.3, linestyle=(0, (5, 1.5)))
    axis.fill_between(item.actions, item.squashed, color=_TANH, alpha=0.1, linewidth=0)
    top = 1.35 * max(float(item.clipped.max()), float(item.squashed.max()))
    axis.set_ylim(0, top)
    axis.set_xlim(-1.06, 1.06)
    axis.set_xticks([-1, -0.5, 0, 0.5, 1])
    for mean, color, line in (
        (item.mean_clipped, _CLIP, "-"),
        (item.mean_squashed, _TANH, (0, (3, 1.2))),
    ):
        axis.plot([mean, mean], [0, 0.28 * top], color=color, linewidth=1.8, linestyle=line)
    for each in (axis, twin):
        each.tick_params(length=0)
    axis.set_zorder(twin.get_zorder() + 1)
    axis.patch.set_visible(False)
    return twin
