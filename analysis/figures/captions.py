"""What stands around the curves: panel titles and the caption."""

import textwrap
from collections.abc import Sequence

from analysis.curves import Panel, y_range
from analysis.notes import FORMULAS
from analysis.wording import common_parts, own_parts

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
