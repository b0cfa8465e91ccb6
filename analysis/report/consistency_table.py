"""Every pair of frameworks, as a sortable table."""

import math

from analysis.answers import Answers
from analysis.consistency import PairVerdict
from analysis.report.links import Links
from analysis.report.table_parts import (
    SortableTable,
    Value,
    amount,
    p_value,
    setting_columns,
    sizes,
)


def consistency_table(answers: Answers, links: Links) -> SortableTable:
    """One row per pair of frameworks in a setting."""
    items = answers.consistency
    heads = setting_columns([item.cell for item in items])
    names = (
        *("difference", "95% from", "to", "p corrected", "p permutation", "p equivalence"),
        *("margin", "Hedges' g", "P(first better)", "seeds needed"),
    )
    columns = [(name, False) for name, _ in heads] + [("first", False), ("second", False)]
    columns += [("verdict", False), *((name, True) for name in names)]
    columns += [("n first", True), ("n second", True)]
    rows = tuple(
        (
            (*(Value(get(item.cell)) for _, get in heads), *_pair_values(item)),
            links.of([item.first, item.second]),
        )
        for item in items
    )
    return SortableTable("t-consistency", "Every pair of frameworks", tuple(columns), rows)


def _pair_values(item: PairVerdict) -> list[Value]:
    return [
        Value(item.first.framework),
        Value(item.second.framework),
        Value(item.verdict, kind=item.verdict),
        *map(amount, (item.difference, item.low, item.high)),
        *map(p_value, (item.p_holm, item.p_permutation, item.p_equivalence_holm)),
        amount(item.margin.size),
        amount(item.hedges_g[0]),
        amount(item.improvement[0]),
        amount(item.seeds_needed, _seeds(item.seeds_needed)),
        sizes(item.first),
        sizes(item.second),
    ]


def _seeds(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if math.isfinite(value) else "> 1,000"
