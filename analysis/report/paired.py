"""Pairs of frameworks seed by seed, on the page."""

import math
from collections.abc import Sequence

import numpy as np

from analysis.data.runs import Cell
from analysis.report.links import Links
from analysis.report.statements import (
    AnswerInWords,
    Sentence,
    answer,
    ends_from_above,
    main_first,
    p_text,
    plural,
    where,
)
from analysis.report.tables import SortableTable, Value, amount, ends, p_value, setting_columns
from analysis.verdicts.groups import Group
from analysis.verdicts.paired import LEAST, PairedVerdict
from analysis.verdicts.study import StudyVerdicts
from analysis.words import label, number, span

TABLE = "t-paired"
PAYS = 0.3  # correlation from which pairing gains power, by benchmarks/pooling.py


def paired(verdicts: StudyVerdicts, links: Links) -> AnswerInWords:
    """Do frameworks differ seed by seed, where seeds share initial states?"""
    items, question = verdicts.paired, "Do frameworks differ seed by seed?"
    if not items:
        text = (
            f"No two frameworks have {LEAST} equal seeds that were evaluated from the same initial "
            "states in a setting, which comparing seed by seed takes."
        )
        return AnswerInWords("paired", question, Sentence(text, ()), (), (), 0)
    cells = [item.item.cell for item in items]
    alpha = verdicts.options.alpha
    chosen, begun = main_first(items, verdicts.is_main, lambda item: item.item.cell)
    parts = [
        Sentence(
            f"{begin}: {_counts(own, alpha)}. {_correlation(own)}", links.of(_groups(own)), TABLE
        )
        for begin, own in begun
    ]
    text = (
        f"In {plural(len(chosen), 'pair')} of frameworks, runs of equal seeds were evaluated from "
        f"the same initial states (n = {span(len(item.seeds) for item in chosen)} seeds each): "
        f"at {alpha:.0%}, {_counts(chosen, alpha)}. {_correlation(chosen)} Pairing gains power "
        f"from a correlation of about {PAYS:g} on and costs some below. No verdict hangs on this, "
        "since choosing whichever test says more would be wrong."
    )
    clear = sorted(
        (item for item in chosen if item.p_holm < alpha), key=lambda i: (i.p_holm, i.result.p)
    )
    findings = [_finding(item, cells, links) for item in clear]
    return answer(
        "paired", question, Sentence(text, links.of(_groups(chosen)), TABLE), parts, findings
    )


def _counts(items: Sequence[PairedVerdict], alpha: float) -> str:
    """Significant tests of both kinds, on the same pairs."""
    after = [sum(p < alpha for p in own) for own in _p_values(items, True)]
    alone = [sum(p < alpha for p in own) for own in _p_values(items, False)]
    return (
        f"{after[0]} of {len(items)} differ by the paired test after Holm's correction, "
        f"{after[1]} by Welch's; one by one {alone[0]} and {alone[1]}"
    )


def _p_values(items: Sequence[PairedVerdict], corrected: bool) -> tuple[list[float], list[float]]:
    if corrected:
        return [i.p_holm for i in items], [i.item.p_holm for i in items]
    return [i.result.p for i in items], [i.item.p_welch for i in items]


def _correlation(items: Sequence[PairedVerdict]) -> str:
    known = [i.result.correlation for i in items if not math.isnan(i.result.correlation)]
    if not known:
        return "No correlation of their scores is known."
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
    return (
        f"The correlation of their scores is {middle:.2f} in the middle, and between {low:.2f} and "
        f"{high:.2f} in half of the pairs."
    )


def _groups(items: Sequence[PairedVerdict]) -> list[Group]:
    return [group for item in items for group in (item.item.first, item.item.second)]


def _finding(item: PairedVerdict, cells: Sequence[Cell], links: Links) -> Sentence:
    found = item.result
    first, second = item.item.first.framework, item.item.second.framework
    high, low = (first, second) if found.difference > 0 else (second, first)
    interval = ends_from_above(found.difference, found.low, found.high)
    text = (
        f"{where(item.item.cell, cells)}: {label(high)} scores higher than {label(low)} by "
        f"{number(abs(found.difference))} on the same seeds (n = {found.n}), 95% interval "
        f"{interval}, corrected {p_text(item.p_holm)}; by Welch's test "
        f"{p_text(item.item.p_holm)}; the verdict is {item.item.verdict}."
    )
    return Sentence(text, links.of(_groups([item])), TABLE)


def paired_table(verdicts: StudyVerdicts, links: Links) -> SortableTable:
    """One row per pair of frameworks in a setting."""
    items = verdicts.paired
    heads = setting_columns([item.item.cell for item in items])
    columns = [(name, False) for name, _ in heads] + [("first", False), ("second", False)]
    names = (
        *("difference", "95% interval", "p paired", "p paired corrected", "p Welch"),
        *("p Welch corrected", "correlation", "n"),
    )
    columns += [(name, True) for name in names] + [("seeds", False)]
    rows = tuple(
        (
            (*(Value(get(item.item.cell)) for _, get in heads), *_values(item)),
            links.of(_groups([item])),
        )
        for item in items
    )
    return SortableTable(TABLE, "Every pair of frameworks seed by seed", tuple(columns), rows)


def _values(item: PairedVerdict) -> list[Value]:
    found = item.result
    return [
        Value(item.item.first.framework),
        Value(item.item.second.framework),
        amount(found.difference),
        ends(found.low, found.high),
        *map(p_value, (found.p, item.p_holm, item.item.p_welch, item.item.p_holm)),
        amount(found.correlation),
        Value(str(found.n), str(found.n)),
        Value(" ".join(map(str, item.seeds))),
    ]
