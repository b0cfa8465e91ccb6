"""Every pair of rankings, as a sortable table."""

from analysis.answers import Answers
from analysis.figures.names import recipe_label
from analysis.ranking_verdict import RankingVerdict, RankPair
from analysis.report.links import Links
from analysis.report.table_parts import (
    SortableTable,
    Value,
    amount,
    setting_columns,
)
from analysis.runs import Cell


def ranking_table(answers: Answers, links: Links) -> SortableTable:
    """One row per pair of frameworks in a task and configuration."""
    items = answers.rankings
    heads = setting_columns([_cell_of(item) for item in items])
    heads = [head for head in heads if head[0] != "algorithm"]
    columns = [(name, False) for name, _ in heads]
    columns += [("first", False), ("second", False), ("verdict", False)]
    columns += [("ranks in first", False), ("ranks in second", False)]
    columns += [(name, True) for name in ("tau-b", "tau-b of means", "P(same order)")]
    columns += [("opposite", False), ("gap changed", False)]
    rows = tuple(
        (
            (*(Value(get(_cell_of(item))) for _, get in heads), *_rank_values(item, pair)),
            links.of(
                group
                for ranked in item.rankings
                if ranked.framework in (pair.first, pair.second)
                for group in ranked.groups
            ),
        )
        for item in items
        for pair in item.pairs
    )
    return SortableTable("t-ranking", "Every pair of rankings", tuple(columns), rows)


def _cell_of(item: RankingVerdict) -> Cell:
    return Cell(item.study, item.env, "", recipe_label(item.hps), item.variant)


def _rank_values(item: RankingVerdict, pair: RankPair) -> list[Value]:
    ranks = {
        ranked.framework: ", ".join(
            f"{name} {rank:g}" for name, rank in zip(item.algorithms, ranked.ranks, strict=True)
        )
        for ranked in item.rankings
    }
    return [
        Value(pair.first),
        Value(pair.second),
        Value(pair.verdict, kind=pair.verdict),
        Value(ranks[pair.first]),
        Value(ranks[pair.second]),
        *map(amount, (pair.tau_b, pair.tau_b_means, pair.same_order)),
        Value("; ".join(" and ".join(names) for names in pair.reversed_pairs)),
        Value("; ".join(" and ".join(names) for names in pair.changed_gaps)),
    ]
