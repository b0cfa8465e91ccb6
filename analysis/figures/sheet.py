"""A figure before it is drawn, and a figure that cannot be drawn."""

import dataclasses
from collections.abc import Callable

from matplotlib.figure import Figure

from analysis.runs import Cell


@dataclasses.dataclass(frozen=True)
class Sheet:
    """A figure before it is drawn: small enough to be sent to another process.

    Attributes:
        name: Name of its files, without ending.
        title: What it shows, in a few words.
        caption: What its parts mean, which interval, how many runs.
        cells: Settings of the runs behind it.
        draw: Draws it; takes nothing.
    """

    name: str
    title: str
    caption: str
    cells: tuple[Cell, ...]
    draw: Callable[[], Figure]


@dataclasses.dataclass(frozen=True)
class NotDrawn:
    """A figure for which there are no data.

    Attributes:
        name: What its files would be called.
        reason: What is not there.
    """

    name: str
    reason: str
