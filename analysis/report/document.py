"""Model of a page: a document of sections, each of blocks. Renderers add no text to it.

A block is a paragraph, a list, a table, a figure, an answer or a section. Text is plain: renderers
escape it, and `Code`, `Strong` and `Link` are the only markup in it.
"""

import dataclasses
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from parallax.analysis.figures.figure_spec import FigureSpec
from parallax.analysis.report.tables import Table
from parallax.analysis.verdicts.groups import GroupKey, ScoreGroup


@dataclasses.dataclass(frozen=True)
class Code:
    """Code in a sentence, such as the name of an option."""

    text: str


@dataclasses.dataclass(frozen=True)
class Strong:
    """Emphasized text."""

    words: "Words"


@dataclasses.dataclass(frozen=True)
class Link:
    """A link.

    Attributes:
        target: Address relative to the page, section of a page after `#`, or path of a file, which
            only the HTML page links to.
        kind: Class that makes the page's script handle clicks; empty for none.
    """

    text: str
    target: str | Path
    kind: str = ""


Inline = str | Code | Strong | Link
Words = str | tuple[Inline, ...]


def join_words(parts: Iterable[Words], separator: str = "") -> tuple[Inline, ...]:
    """Join pieces of text to one."""
    joined: list[Inline] = []
    for part in parts:
        joined += [separator] if separator and joined else []
        joined += [part] if isinstance(part, str) else part
    return tuple(joined)


@dataclasses.dataclass(frozen=True)
class Listing:
    """A list.

    Attributes:
        lead: Sentence before the list, without its end; shown alone for an empty list.
        summary: Line under which pages fold the list; empty where they show it.
    """

    items: tuple[Words, ...]
    lead: Words = ""
    is_numbered: bool = False
    summary: str = ""


@dataclasses.dataclass(frozen=True)
class Grid:
    """A small table of text.

    Attributes:
        summary: Line under which pages fold the table; empty where they show it.
        numeric: Numbers of the columns that hold numbers.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[Words, ...], ...]
    summary: str = ""
    numeric: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class CodeBlock:
    """Lines of code, such as commands."""

    lines: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Remark:
    """A highlighted remark."""

    words: Words


@dataclasses.dataclass(frozen=True)
class LinkedSentence:
    """A sentence with the runs that it is based on.

    Attributes:
        table: Table that holds its rows; empty if none.
        words: Words that these rows of the table have in common.
    """

    text: str
    groups: tuple[ScoreGroup, ...] = ()
    table: str = ""
    words: str = ""


@dataclasses.dataclass(frozen=True)
class QuestionAnswer:
    """The answer to one question.

    Attributes:
        findings: Single findings, the clearest first.
    """

    question: str
    headline: LinkedSentence
    parts: tuple[LinkedSentence, ...] = ()
    findings: tuple[LinkedSentence, ...] = ()


MAX_FINDINGS = 12  # findings of an answer that pages show; the tables have all


Sizes = tuple[int, int, int]  # runs requested, completed, used


@dataclasses.dataclass(frozen=True)
class ScoreCell:
    """One framework in one setting.

    Attributes:
        mean: Mean over seeds of the final score; NaN without a run.
        low: Lower end of the interval; NaN below two runs.
        mark: `best`, `tied` or empty.
        failed: Runs whose training failed or diverged.
        mean_with_failed: Mean with them at the bottom of the task's range; NaN without any.
    """

    mean: float
    low: float
    high: float
    sizes: Sizes
    mark: str
    key: GroupKey
    text: str = ""
    failed: int = 0
    mean_with_failed: float = math.nan


@dataclasses.dataclass(frozen=True)
class ScoreTable:
    """The frameworks under all sets of hyperparameters, on all tasks, as the thesis prints them.

    Attributes:
        rows: Hyperparameters, framework, and one cell per task; None where nothing was run.
        sizes: The most frequent numbers of runs; cells say where theirs differ.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[ScoreCell | None, ...]], ...]
    sizes: Sizes
    method: str
    caption: str


@dataclasses.dataclass(frozen=True, eq=False)
class ReportSection:
    """Blocks under a heading.

    Attributes:
        blocks: The blocks, in order; empty ones are left out.
        anchor: Name that links refer to; empty for none.
    """

    heading: str
    blocks: tuple["Block", ...]
    anchor: str = ""


Block = (
    Words
    | Listing
    | Grid
    | CodeBlock
    | Remark
    | QuestionAnswer
    | Table[Any]
    | ScoreTable
    | FigureSpec
    | ReportSection
)


@dataclasses.dataclass(frozen=True, eq=False)
class Document:
    """A page: its heading, and the blocks below it."""

    title: str
    blocks: tuple[Block, ...]
