"""Marks on axes of scores: policies without training, and the score that was published.

A curve says little without them: a framework can stay below a policy that does nothing.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from parallax.analysis.data.published import find_reproduction_targets
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.figures.style import SMALL_FONT
from parallax.analysis.verdicts.endpoints import DO_NOTHING, RANDOM, UNTRAINED, ReferenceScore
from parallax.analysis.verdicts.reproduction import TARGETS_TABLE
from parallax.analysis.verdicts.study import StudyResults

PUBLISHED = "published score"
_LINES = {DO_NOTHING: ":", RANDOM: "--", UNTRAINED: "-.", PUBLISHED: "-"}
_NEARNESS = 0.6  # shares of the data's range that an axis is widened by to show a mark


@dataclasses.dataclass(frozen=True)
class ScoreMark:
    """A score that others are compared with.

    Attributes:
        name: `do nothing`, `random actions`, `untrained policy` or `published score`.
        score: In the units of the axis.
    """

    name: str
    score: float


def list_score_marks(
    results: StudyResults, cell: StudyCell, *, is_curve: bool = False
) -> tuple[ScoreMark, ...]:
    """Return the known marks of a setting.

    The endpoint decides whether a published score can be compared. A curve has returns of single
    evaluations, whatever the endpoint is.
    """
    endpoint = results.verdicts.options.chosen_endpoint
    if endpoint.is_steps and not is_curve:
        return ()
    marks = list_cell_marks(cell, results.references[cell])
    has_published = is_curve or endpoint.evaluations
    return tuple(mark for mark in marks if mark.name != PUBLISHED or has_published)


def list_cell_marks(cell: StudyCell, references: Iterable[ReferenceScore]) -> list[ScoreMark]:
    """Return the marks of a setting: policies without training, and published scores."""
    marks = [ScoreMark(one.name, one.mean) for one in references]
    marks.append(ScoreMark(PUBLISHED, find_published_mark(cell)))
    return [mark for mark in marks if math.isfinite(mark.score)]


def find_published_mark(cell: StudyCell) -> float:
    """Return the score that the thesis read off the paper whose recipe this is, or NaN."""
    found = find_reproduction_targets(cell.algorithm, cell.env, cell.hps, "")
    return next((row.mean for row in found if row.table == TARGETS_TABLE), math.nan)


def find_near_marks(marks: Iterable[ScoreMark], data: tuple[float, float]) -> tuple[ScoreMark, ...]:
    """Return the marks for which an axis is widened; the others are named at its end.

    `data` has the least and the largest value shown.
    """
    low, high = data
    room = _NEARNESS * (high - low)
    return tuple(mark for mark in marks if low - room <= mark.score <= high + room)


def list_mark_names(marks: Iterable[ScoreMark]) -> tuple[str, ...]:
    """Return the names of marks, each once and in their usual order."""
    found = {mark.name for mark in marks}
    return tuple(name for name in _LINES if name in found)


def make_mark_handles(names: Sequence[str]) -> list[Line2D]:
    """Return entries of a legend."""
    return [Line2D([], [], label=name, **_get_look(name)) for name in names]


def describe_marks(names: Sequence[str]) -> str:
    """Return a caption's sentence, with a space before it; empty without marks."""
    if not names:
        return ""
    paper = ", read off the paper, perhaps after other steps" * (PUBLISHED in names)
    return f" Grey and black lines: {', '.join(names)}{paper}; with an arrow, beyond the axis."


def draw_score_marks(axis: Axes, marks: Iterable[ScoreMark], *, along: str) -> None:
    """Draw marks across a panel whose limits are set; what lies outside is named at the edge.

    `along` is the axis that has scores, `x` or `y`.
    """
    low, high = axis.get_xlim() if along == "x" else axis.get_ylim()
    beyond: dict[bool, list[ScoreMark]] = {False: [], True: []}
    for mark in marks:
        if not low <= mark.score <= high:
            beyond[mark.score > high].append(mark)
        elif along == "x":
            axis.axvline(mark.score, zorder=1, **_get_look(mark.name))
        else:
            axis.axhline(mark.score, zorder=1, **_get_look(mark.name))
    for is_above, outside in beyond.items():
        if outside:
            _name_marks_outside(axis, outside, along, is_above)


def _name_marks_outside(axis: Axes, marks: Sequence[ScoreMark], along: str, is_above: bool) -> None:
    scores = sorted(mark.score for mark in marks)
    words = f"{marks[0].name} {_format_score(scores[0])}"
    if len(marks) > 1:  # all names would cover the data
        ends = dict.fromkeys(_format_score(score) for score in (scores[0], scores[-1]))
        words = f"{len(marks)} references: {' to '.join(ends)}"
    if along == "x":
        place = (0.985, 0.97) if is_above else (0.015, 0.03)
        text = f"{words} \N{RIGHTWARDS ARROW}" if is_above else f"\N{LEFTWARDS ARROW} {words}"
        sides = ("right", "top") if is_above else ("left", "bottom")
    else:
        arrow = "\N{UPWARDS ARROW}" if is_above else "\N{DOWNWARDS ARROW}"
        place = (0.015, 0.97) if is_above else (0.015, 0.03)
        text, sides = f"{arrow} {words}", ("left", "top" if is_above else "bottom")
    axis.text(
        *place,
        text,
        transform=axis.transAxes,
        ha=sides[0],
        va=sides[1],
        fontsize=SMALL_FONT - 1,
        color="0.25",
        zorder=5,
        bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.6},
    )


def _format_score(score: float) -> str:
    return f"{score:,.0f}" if abs(score) >= 100 else f"{score:.3g}"


def _get_look(name: str) -> dict[str, Any]:
    color = "0.15" if name == PUBLISHED else "0.45"
    return {"color": color, "linestyle": _LINES[name], "linewidth": 0.9}
