"""How far twins get apart with updates, and how far rounding takes two copies of one, as SVG."""

import io
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from harness.probes.pages.figures import COLORS, PAPER, SIZE, STYLE
from harness.probes.twins import ROOM, Twins

NOTHING = 1e-17
"""What stands for no difference at all, which has no place on a logarithmic axis."""


def figure(found: Twins) -> str:
    """Both distances over the updates, on logarithmic axes, and what still counts as rounding."""
    updates = [item.updates for item in found.distances]
    copies = [max(item.rounding, NOTHING) for item in found.distances]
    room = [max(item.least, ROOM * item.rounding) for item in found.distances]
    apart = [max(item.apart, NOTHING) for item in found.distances]
    settings: Any = STYLE
    with mpl.rc_context(settings):
        drawn = Figure(figsize=SIZE, layout="constrained")
        ax = drawn.subplots()
        ax.loglog(updates, room, ":", color=PAPER, label="still rounding")
        first = found.first.label
        ax.loglog(updates, copies, "--", color=COLORS[1], label=f"{first}, last bit changed")
        both = f"{first} and {found.second.label}"
        ax.loglog(updates, apart, "o-", color=COLORS[0], markersize=3, label=both)
        ax.set_xlabel(f"updates of {found.algorithm}")
        ax.set_ylabel("largest difference of a weight,\nas a share of the largest weight")
        ax.legend(fontsize=6, loc="best")
        text = io.StringIO()
        drawn.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
