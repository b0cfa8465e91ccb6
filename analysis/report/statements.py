"""Verdicts in words: what a statement is, and how its parts are written."""

import collections
import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from analysis.data.runs import Cell
from analysis.verdicts.groups import Group
from analysis.words import OWN, label, number, own_parts, span

Item = TypeVar("Item")

SHOWN = 12  # single findings; the tables have all


@dataclasses.dataclass(frozen=True)
class Sentence:
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
class AnswerInWords:
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
    headline: Sentence
    parts: tuple[Sentence, ...]
    findings: tuple[Sentence, ...]
    more: int


def p_text(value: float) -> str:
    """A p-value as people write it."""
    if math.isnan(value):
        return "p unknown"
    return "p < 0.0001" if value < 1e-4 else f"p = {value:.2g}"


def where(cell: Cell, cells: Iterable[Cell]) -> str:
    """A setting in words: its study if there are several, and what is special in its variant.

    Args:
        cell: The setting.
        cells: All settings.
    """
    known = list(cells)
    parts = own_parts(cell, [other for other in known if other.study == cell.study])
    if len({other.study for other in known}) > 1:
        parts = [f"study {cell.study}", *parts]
    own = f" ({', '.join(part for part in parts if part)})" if any(parts) else ""
    return f"{cell.env}, {label(cell.algorithm)} under {recipe_words(cell.hps)}{own}"


def by_variant(
    items: Iterable[Item], cells: Sequence[Cell], cell_of: Callable[[Item], Cell]
) -> list[tuple[str, list[Item]]]:
    """Items by algorithm and variant, each with these in words.

    Args:
        items: What is told apart.
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
        parts = own_parts(cell, [other for other in cells if other.study == cell.study])
        words = " with ".join(part for part in (label(cell.algorithm), ", ".join(parts)) if part)
        named.append((words, found[key]))
    return named


def main_first(
    items: Sequence[Item], is_main: Callable[[Cell], bool], cell_of: Callable[[Item], Cell]
) -> tuple[list[Item], list[tuple[str, list[Item]]]]:
    """What a headline is about, and everything by algorithm and variant.

    Args:
        items: What is told apart.
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
        for words, own in by_variant(group, cells, cell_of)
    ]
    return main or aside, begun


def ends_from_above(difference: float, low: float, high: float) -> str:
    """Ends of an interval for "the higher less the lower", in brackets.

    Args:
        difference: Its middle, of either sign.
        low: Lower end.
        high: Upper end.
    """
    sign = 1 if difference >= 0 else -1
    least, most = sorted((sign * low, sign * high))
    return f"[{number(least)}, {number(most)}]"


def recipe_words(hps: str) -> str:
    """A set of hyperparameters in words."""
    if hps == OWN:
        return "each framework's own defaults"
    known = {"original": "the original papers' values", "zoo": "RL Baselines3 Zoo's values"}
    return known.get(hps, f"{label(hps)}'s defaults")


def plural(count: int, noun: str) -> str:
    """Such as `1 pair` or `1,200 pairs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def sizes(groups: Iterable[Group]) -> str:
    """A sentence on how many runs are behind each mean."""
    return f"n = {span(group.n for group in groups)} runs used per mean."


def verdict_counts(words: Sequence[str], order: Sequence[str]) -> str:
    """Such as `3 different, 1 equivalent, 20 undecided`."""
    found = collections.Counter(words)
    return ", ".join(f"{found[word]:,} {word}" for word in order)


def answer(
    name: str,
    question: str,
    headline: Sentence,
    parts: Sequence[Sentence],
    findings: Sequence[Sentence],
) -> AnswerInWords:
    """An answer that shows the first findings and counts the others."""
    shown = tuple(findings[:SHOWN])
    return AnswerInWords(name, question, headline, tuple(parts), shown, len(findings) - len(shown))
