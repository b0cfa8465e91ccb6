"""Learning curves, one panel per environment, algorithm and hyperparameters, with a caption."""

import itertools
import textwrap
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, MaxNLocator

from analysis.data.bounds import known_bounds
from analysis.figures.frames import y_range
from analysis.figures.panels import within
from analysis.figures.style import Look, looks, settings
from analysis.verdicts.curves import Curve, Panel
from analysis.words import FORMULAS, common_parts, own_parts

_TITLE_WIDTH = 44  # characters, about the width of a panel


def panel_title(panel: Panel, panels: Sequence[Panel]) -> str:
    """The setting, without what all panels share."""
    cell, cells = panel.cell, [other.cell for other in panels]
    first = [cell.env, cell.algorithm]
    if len({other.hps for other in cells}) > 1:
        first.append(cell.hps)
    lines = [", ".join(first)]
    if len({other.study for other in cells}) > 1:
        lines.append(f"study {cell.study}")
    lines.append(", ".join(own_parts(cell, cells)))
    if not _same_sizes(panels):
        lines.append(_sizes(panel))
    return "\n".join(part for line in lines for part in textwrap.wrap(line, _TITLE_WIDTH))


def caption(panels: Sequence[Panel], method: str) -> str:
    """What lines and shades mean, how many seeds there are, and what was left out."""
    curves = [curve for panel in panels for curve in panel.curves]
    sizes = _sizes(panels[0]) if _same_sizes(panels) else "see titles"
    parts = [
        _shared(panels),
        "Thick lines: mean over seeds of the mean return per evaluation. Thin lines: seeds. "
        f"Shades: 95% interval, {method} ({FORMULAS[method]}). "
        f"Number of runs used/requested: {sizes}.",
    ]
    if method == "thesis":
        parts.append("On normal data this formula holds the true mean less often than 95%.")
    if any(len(curve.seeds) == 1 for curve in curves):
        parts.append("n = 1 has no interval.")
    if any(y_range(panel.curves)[2] for panel in panels if panel.curves):
        parts.append("The return axes follow the curves and cut wide intervals off.")
    if any(curve.left_out for curve in curves):
        names = ", ".join(sorted({curve.framework for curve in curves if curve.left_out}))
        parts.append(
            f"Seeds of {names} were evaluated at different steps: "
            "mean and interval are drawn only where all of them were."
        )
    ends = [{int(at[-1]) for curve in panel.curves for at, _ in curve.seeds} for panel in panels]
    spans = sorted({(min(steps), max(steps)) for steps in ends if len(steps) > 1})
    if spans:
        words = ", ".join(f"{first:,} to {last:,}" for first, last in spans)
        parts.append(f"Runs in one panel end at different steps: {words}.")
    return " ".join(filter(None, parts))


def _same_sizes(panels: Sequence[Panel]) -> bool:
    return all(panel.sizes == panels[0].sizes for panel in panels)


def _sizes(panel: Panel) -> str:
    return ", ".join(f"{name} {size}" for name, size in panel.sizes.items())


def _shared(panels: Sequence[Panel]) -> str:
    cells = [panel.cell for panel in panels]
    studies, recipes = {cell.study for cell in cells}, {cell.hps for cell in cells}
    words = [f"study {study}" for study in studies] if len(studies) == 1 else []
    words += [f"hyperparameters {hps}" for hps in recipes] if len(recipes) == 1 else []
    text = ", ".join(words + common_parts(cells))
    return f"{text[:1].upper()}{text[1:]}." if text else ""


_PANEL = (3.6, 2.7)  # inches
_LEGEND_ENTRY = 1.4  # inches
_NARROWEST = 6.0  # inches; a legend and a caption need some room


def draw_curves(panels: Sequence[Panel], method: str) -> Figure:
    """A figure of all panels, with legend above and caption below.

    Args:
        panels: At least one, with at least one curve among them.
        method: The interval's method, for the caption.
    """
    grid = arrange(panels)
    styles = looks(curve.framework for panel in panels for curve in panel.curves)
    width = max(_NARROWEST, _PANEL[0] * len(grid[0]))
    with matplotlib.rc_context(settings()):
        height = _PANEL[1] * len(grid) + 1.4
        layout = ConstrainedLayoutEngine(h_pad=0.07, w_pad=0.08)
        figure = Figure(figsize=(width, height), layout=layout)
        axes = figure.subplots(len(grid), len(grid[0]), squeeze=False)
        for axis, panel in zip(axes.flat, itertools.chain(*grid), strict=True):
            if panel is None:
                axis.set_axis_off()
            else:
                _draw_panel(axis, panel, panels, styles)
        for row, drawn in zip(axes, grid, strict=True):
            row[[panel is not None for panel in drawn].index(True)].set_ylabel("mean return")
        handles = [_legend_line(name, look) for name, look in styles.items()]
        columns = min(len(handles), int(width / _LEGEND_ENTRY))
        figure.legend(handles=handles, loc="outside upper center", ncols=columns)
        text = textwrap.fill(caption(panels, method), int(width * 18))
        figure.supxlabel(text, x=0.01, ha="left", fontsize=7.5, linespacing=1.4)
    return figure


def arrange(panels: Sequence[Panel]) -> list[list[Panel | None]]:
    """Lays panels out: rows are environments, then hyperparameters; columns are algorithms."""
    columns = sorted({panel.cell.algorithm for panel in panels})
    rows: dict[tuple[str, str, str], dict[str, list[Panel]]] = {}
    for panel in panels:
        key = (panel.cell.study, panel.cell.env, panel.cell.hps)
        rows.setdefault(key, {}).setdefault(panel.cell.algorithm, []).append(panel)
    grid: list[list[Panel | None]] = []
    for key in sorted(rows):
        # Variants of an algorithm stand below each other.
        variants = [rows[key].get(column, []) for column in columns]
        grid += [list(row) for row in itertools.zip_longest(*variants)]
    return grid


def _draw_panel(axis: Axes, panel: Panel, panels: Sequence[Panel], styles: dict[str, Look]) -> None:
    axis.set_title(panel_title(panel, panels), fontsize=9)
    if not panel.curves:
        axis.set(xticks=[], yticks=[])
        axis.text(0.5, 0.5, "no run used", ha="center", transform=axis.transAxes)
        return
    axis.set_xlabel("environment steps")
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    low, high, cut = y_range(panel.curves)
    for curve in panel.curves:
        # Intervals that fill the panel lie over each other: paler, they leave lines readable.
        shade = 0.07 if cut else 0.14
        _draw_curve(axis, curve, styles[curve.framework], shade, panel.cell.env)
    axis.set_ylim(low, high)
    axis.set_xlim(left=0)


def _draw_curve(axis: Axes, curve: Curve, look: Look, shade: float, env: str) -> None:
    for steps, returns in curve.seeds:
        axis.plot(steps, returns, color=look.color, linewidth=0.6, alpha=0.4)
    if np.isfinite(curve.low).any():
        data = np.concatenate([returns for _, returns in curve.seeds])
        low, high = within(curve.low, curve.high, data, known_bounds(env))
        axis.fill_between(curve.steps, low, high, color=look.color, alpha=shade, linewidth=0)
    axis.plot(
        curve.steps,
        curve.mean,
        color=look.color,
        linestyle=look.line,
        marker=look.marker,
        markevery=max(1, len(curve.steps) // 8),
        markersize=4,
        linewidth=1.6,
    )


def _legend_line(name: str, look: Look) -> Line2D:
    return Line2D(
        [], [], color=look.color, linestyle=look.line, marker=look.marker, markersize=4, label=name
    )
