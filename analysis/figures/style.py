"""Style of figures: colours, lines and markers, sizes, and the settings of text.

A framework or an algorithm looks the same in every figure. All colours are distinguishable by
colour-blind readers, and none has a meaning on its own: a line style, marker or word is added.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

import matplotlib
import seaborn as sns

# Widths in inches of a column and of a page in common paper formats; text is 6 to 8 points there.
COLUMN_WIDTH, PAGE_WIDTH = 3.4, 7.0
SMALL_FONT, MEDIUM_FONT, LARGE_FONT = 6.0, 7.0, 8.0  # points

# Named here so that a framework keeps its colour in figures where another is missing.
_FRAMEWORKS = ("cleanrl", "sb3", "torchrl", "tianshou", "skrl", "sbx")

# Blue, orange, green, vermilion, pink ... of a palette for colour-blind readers.
PALETTE = tuple(sns.color_palette("colorblind").as_hex())
# Indigo, olive and rose of Paul Tol's muted scheme: none of them is a framework's.
_ALGORITHMS = {"ppo": "#332288", "td3": "#999933", "sac": "#CC6677"}
_LINES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "h")

# Colours of verdicts, from bad to good; text on them is black.
VERDICT_COLORS = {
    "worse": "#D5876B",
    "similar": "#E8E8E8",
    "better": "#6FA8D6",
    "different": "#E39B7B",
    "inconclusive": "#F0F0F0",
    "equivalent": "#8CC3A5",
    "not preserved": "#E39B7B",
    "magnitude changed": "#EBD595",
    "preserved": "#8CC3A5",
}

# The same meanings for lines and marks on white.
VERDICT_LINE_COLORS = {
    "different": "#B5482A",
    "different in mean": "#B5482A",
    "different in distribution": "#D99A2B",
    "equivalent": "#2F7D57",
    "equivalent unless": "#7DBB4E",
    "inconclusive": "#6B6B6B",
}


@dataclasses.dataclass(frozen=True)
class SeriesStyle:
    """Style of one framework's or algorithm's line, in Matplotlib's terms."""

    color: Any
    line: Any
    marker: str


def get_framework_styles(frameworks: Iterable[str]) -> dict[str, SeriesStyle]:
    """Return a style for each framework: fixed for the known ones, then others by name."""
    return _assign_styles(_FRAMEWORKS, PALETTE, set(frameworks))


def get_algorithm_styles(algorithms: Iterable[str]) -> dict[str, SeriesStyle]:
    """Return a style for each algorithm; no known one shares a known framework's colour."""
    known = list(_ALGORITHMS.values())
    return _assign_styles(tuple(_ALGORITHMS), [*known, *PALETTE[5:]], set(algorithms))


def get_rc_settings() -> Any:
    """Return settings of all figures for `rc_context`; their fonts ship with Matplotlib."""
    return {
        # Matplotlib reads settings from a file in the current folder, which may be untrusted.
        **{k: v for k, v in dict.items(matplotlib.rcParamsDefault) if not k.startswith("backend")},
        **sns.axes_style("whitegrid"),
        **sns.plotting_context("paper"),
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "pdf.fonttype": 42,
        "text.parse_math": False,
        "axes.edgecolor": "0.4",
        "grid.color": "0.9",
    }


def get_paper_rc_settings() -> Any:
    """Return `get_rc_settings` with text and lines sized for `COLUMN_WIDTH` and `PAGE_WIDTH`."""
    return {
        **get_rc_settings(),
        "font.size": MEDIUM_FONT,
        "axes.titlesize": MEDIUM_FONT,
        "axes.labelsize": MEDIUM_FONT,
        "xtick.labelsize": SMALL_FONT,
        "ytick.labelsize": SMALL_FONT,
        "legend.fontsize": MEDIUM_FONT,
        "axes.titlepad": 3,
        "axes.titley": 1.0,  # the default position; searching for overlaps is slow
        "axes.labelpad": 2,
        "axes.linewidth": 0.6,
        "grid.linewidth": 0.5,
        "xtick.major.pad": 1.5,
        "ytick.major.pad": 1.5,
        "hatch.linewidth": 0.5,
    }


def _assign_styles(known: tuple[str, ...], colors: Any, names: set[str]) -> dict[str, SeriesStyle]:
    order = [*known, *sorted(names - set(known))]
    return {
        name: SeriesStyle(
            colors[i % len(colors)], _LINES[i % len(_LINES)], _MARKERS[i % len(_MARKERS)]
        )
        for i, name in enumerate(order)
        if name in names
    }
