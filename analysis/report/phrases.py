"""Sentences with the runs behind them, and how their parts are formatted."""

import collections
import dataclasses
import math
import os
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.labels import (
    LIBRARY_DEFAULTS,
    find_own_parts,
    format_number,
    format_range,
    get_label,
)
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.study import StudyVerdicts

Item = TypeVar("Item")

MAX_FINDINGS = 12  # single findings; the tables have all


@dataclasses.dataclass(frozen=True)
class LinkedSentence:
    """A sentence with the runs that it rests on.

    Attributes:
        text: The sentence.
        groups: Numbers of the groups behind it.
        table: Table that holds its rows; empty if none.
        words: Words that these rows of the table have in common.
    """

    text: str
    groups: tuple[int, ...]
    table: str = ""
    words: str = ""


@dataclasses.dataclass(frozen=True)
class QuestionAnswer:
    """The answer to one question.

    Attributes:
        name: Anchor.
        question: The question.
        headline: The answer in one sentence; with the runs.
        parts: Answers for parts of the study.
        findings: Single findings, the clearest first.
        more: How many findings of that kind are in the table only.
    """

    name: str
    question: str
    headline: LinkedSentence
    parts: tuple[LinkedSentence, ...]
    findings: tuple[LinkedSentence, ...]
    more: int


def format_p_value(value: float) -> str:
    """Return a p-value as people write it."""
    if math.isnan(value):
        return "p unknown"
    return "p < 0.0001" if value < 1e-4 else f"p = {value:.2g}"


def format_setting(cell: StudyCell, cells: Iterable[StudyCell]) -> str:
    """A setting in words: its study if there are several, and what is special in its variant.

    Args:
        cell: The setting.
        cells: All settings.
    """
    known = list(cells)
    parts = find_own_parts(cell, [other for other in known if other.study == cell.study])
    if len({other.study for other in known}) > 1:
        parts = [f"study {cell.study}", *parts]
    own = f" ({', '.join(part for part in parts if part)})" if any(parts) else ""
    return f"{cell.env}, {get_label(cell.algorithm)} under {describe_recipe(cell.hps)}{own}"


def group_by_variant(
    items: Iterable[Item], cells: Sequence[StudyCell], cell_of: Callable[[Item], StudyCell]
) -> list[tuple[str, list[Item]]]:
    """Return items by algorithm and variant, each with these in words.

    Args:
        items: What is grouped.
        cells: All settings; what their variants have in common is left out.
        cell_of: The setting of an item.
    """
    found: dict[tuple[str, str, str], list[Item]] = {}
    for item in items:
        cell = cell_of(item)
        found.setdefault((cell.study, cell.algorithm, cell.variant), []).append(item)
    named = []
    for key in sorted(found):
        cell = cell_of(found[key][0])
        parts = find_own_parts(cell, [other for other in cells if other.study == cell.study])
        words = " with ".join(
            part for part in (get_label(cell.algorithm), ", ".join(parts)) if part
        )
        named.append((words, found[key]))
    return named


def split_main_variants(
    items: Sequence[Item],
    is_main: Callable[[StudyCell], bool],
    cell_of: Callable[[Item], StudyCell],
) -> tuple[list[Item], list[tuple[str, list[Item]]]]:
    """Return the items of main variants, and all items by algorithm and variant.

    Args:
        items: What is grouped.
        is_main: Whether a setting is of its study's main variant.
        cell_of: The setting of an item.

    Returns:
        The items of main variants, or all where there are none; and all items in parts, each with
        how its sentence begins.
    """
    cells = [cell_of(item) for item in items]
    main = [item for item in items if is_main(cell_of(item))]
    aside = [item for item in items if not is_main(cell_of(item))]
    begun = [
        (f"{lead}{words}", own)
        for group, lead in ((main, ""), (aside, "Apart from these, "))
        for words, own in group_by_variant(group, cells, cell_of)
    ]
    return main or aside, begun


def format_higher_minus_lower_interval(difference: float, low: float, high: float) -> str:
    """Return the ends of an interval for "higher - lower", in brackets.

    Args:
        difference: Its middle, of either sign.
        low: Lower end.
        high: Upper end.
    """
    sign = 1 if difference >= 0 else -1
    least, most = sorted((sign * low, sign * high))
    return f"[{format_number(least)}, {format_number(most)}]"


def describe_recipe(hps: str) -> str:
    """Return a set of hyperparameters in words."""
    if hps == LIBRARY_DEFAULTS:
        return "library defaults"
    known = {"original": "the original papers' values", "zoo": "RL Baselines3 Zoo's values"}
    return known.get(hps, f"{get_label(hps)}'s defaults")


def format_count(count: int, noun: str) -> str:
    """Format a number with its noun, such as `1 pair` or `1,200 pairs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def describe_group_sizes(groups: Iterable[ScoreGroup]) -> str:
    """Return a sentence on how many runs are behind each mean."""
    return f"n = {format_range(group.n for group in groups)} runs used per mean."


def format_verdict_counts(words: Sequence[str], order: Sequence[str]) -> str:
    """Format counts of verdicts, such as `3 different, 1 equivalent, 20 inconclusive`."""
    found = collections.Counter(words)
    return ", ".join(f"{found[word]:,} {word}" for word in order)


def make_answer(
    name: str,
    question: str,
    headline: LinkedSentence,
    parts: Sequence[LinkedSentence],
    findings: Sequence[LinkedSentence],
) -> QuestionAnswer:
    """Return an answer that shows the first findings and counts the others."""
    shown = tuple(findings[:MAX_FINDINGS])
    return QuestionAnswer(name, question, headline, tuple(parts), shown, len(findings) - len(shown))


@dataclasses.dataclass(frozen=True)
class RunLinks:
    """Links to runs on the page, and to their folders beside it.

    Attributes:
        numbers: Number of each group, by setting and framework.
        page_folder: Folder of the page.
    """

    numbers: dict[tuple[StudyCell, str], int]
    page_folder: Path

    def of(self, groups: Iterable[ScoreGroup]) -> tuple[int, ...]:
        """Return the numbers of groups, each once, in order."""
        return tuple(sorted({self.numbers[group.cell, group.framework] for group in groups}))

    def get_cell_numbers(self, cells: Iterable[StudyCell]) -> tuple[int, ...]:
        """Return the numbers of all groups in some settings, in order."""
        wanted = set(cells)
        return tuple(number for (cell, _), number in self.numbers.items() if cell in wanted)

    def folder(self, path: Path) -> str:
        """Relative address of a run folder, as seen from the page; empty where there is none."""
        return self.file(path) + "/" if path.exists() else ""

    def file(self, path: Path) -> str:
        """Relative address of a file, as seen from the page."""
        return urllib.parse.quote(os.fsencode(os.path.relpath(path, self.page_folder)))


def make_links(verdicts: StudyVerdicts, page_folder: Path) -> RunLinks:
    """Return links to all groups, which are numbered in their order.

    Args:
        verdicts: Holds the groups.
        page_folder: Folder of the page; need not exist.
    """
    keys = ((group.cell, group.framework) for group in verdicts.groups)
    return RunLinks({key: number for number, key in enumerate(keys)}, page_folder.resolve())
