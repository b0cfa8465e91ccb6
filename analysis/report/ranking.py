"""Ranking on the page: do frameworks rank the algorithms alike?"""

from collections.abc import Sequence

from analysis.data.runs import Cell
from analysis.report.links import Links
from analysis.report.statements import (
    AnswerInWords,
    Sentence,
    answer,
    plural,
    recipe_words,
    sizes,
    verdict_counts,
)
from analysis.report.tables import SortableTable, Value, amount, setting_columns
from analysis.verdicts.ranking import (
    MAGNITUDE,
    NOT_PRESERVED,
    PRESERVED,
    UNDECIDED,
    Ranked,
    RankingVerdict,
    RankPair,
)
from analysis.verdicts.study import StudyVerdicts
from analysis.words import OWN, label, order_words, recipe_label, seeds_words


def ranking(verdicts: StudyVerdicts, links: Links) -> AnswerInWords:
    """Do frameworks rank the algorithms alike?"""
    items = verdicts.rankings
    question = "Do frameworks rank the algorithms alike?"
    if not items:
        text = "No two frameworks ran the same two algorithms in the same setting."
        return AnswerInWords("ranking", question, Sentence(text, ()), (), (), 0)
    order = (PRESERVED, MAGNITUDE, NOT_PRESERVED, UNDECIDED)
    aside = [item for item in items if not verdicts.ranks_main(item)]
    main = [item for item in items if verdicts.ranks_main(item)]
    items, aside = (tuple(main), aside) if main else (items, [])
    head = (
        f"Of {plural(len(items), 'ranking')}, one per task and configuration: "
        f"{verdict_counts([item.verdict for item in items], order)}. A ranking counts as its "
        "worst pair of frameworks. "
        f"{sizes(g for item in items for one in item.rankings for g in one.groups)}"
    )
    parts = []
    for hps in sorted({item.hps for item in items}, key=lambda name: (name == OWN, name)):
        own = [item for item in items if item.hps == hps]
        text = f"Under {recipe_words(hps)}: {verdict_counts([i.verdict for i in own], order)}."
        parts.append(Sentence(text, _all(own, links), "t-ranking", recipe_label(hps)))
    for variant in sorted({item.variant for item in aside}):
        own = [item for item in aside if item.variant == variant]
        text = f"Apart from these, with {variant}: "
        text += f"{verdict_counts([i.verdict for i in own], order)}."
        parts.append(Sentence(text, _all(own, links), "t-ranking", variant))
    several = len({(item.study, item.variant) for item in items}) > 1
    broken = [item for item in items if item.verdict == NOT_PRESERVED]
    broken.sort(key=lambda item: (item.same_order, item.env, item.hps))
    findings = [_finding(item, several, links) for item in broken]
    headline = Sentence(head, _all(items, links), "t-ranking")
    return answer("ranking", question, headline, parts, findings)


def _all(items: Sequence[RankingVerdict], links: Links) -> tuple[int, ...]:
    return links.of(g for item in items for ranked in item.rankings for g in ranked.groups)


def _finding(item: RankingVerdict, several: bool, links: Links) -> Sentence:
    ranks = "; ".join(f"{label(one.framework)}: {_ranks(one, item)}" for one in item.rankings)
    opposite = ", ".join(
        f"{label(first)} and {label(second)} between {label(pair.first)} and {label(pair.second)}"
        for pair in item.pairs
        for first, second in pair.reversed_pairs
    )
    text = (
        f"{_where(item, several)}: {item.verdict}. In opposite order: {opposite}. Ranks: {ranks}. "
        "Probability that no two means are in opposite orders: "
        f"{order_words(item.same_order, item.chance)}. "
        f"{sizes(group for one in item.rankings for group in one.groups)}"
    )
    words = recipe_label(item.hps)
    return Sentence(text, _all([item], links), "t-ranking", words)


def _where(item: RankingVerdict, several: bool) -> str:
    own = f" (study {item.study}{', ' * bool(item.variant)}{item.variant})" if several else ""
    return f"{item.env} under {recipe_words(item.hps)}{own}"


def _ranks(ranked: Ranked, item: RankingVerdict) -> str:
    """Algorithms with their ranks, the best first."""
    pairs = sorted(zip(ranked.ranks, item.algorithms, strict=True))
    return ", ".join(f"{label(name)} {rank:g}" for rank, name in pairs)


def ranking_table(verdicts: StudyVerdicts, links: Links) -> SortableTable:
    """One row per pair of frameworks in a task and configuration."""
    items = verdicts.rankings
    heads = setting_columns([_cell_of(item) for item in items])
    heads = [head for head in heads if head[0] != "algorithm"]
    columns = [(name, False) for name, _ in heads]
    columns += [("first", False), ("second", False), ("verdict", False)]
    columns += [("ranks in first", False), ("ranks in second", False)]
    columns += [(name, True) for name in ("tau-b", "tau-b of means")]
    columns += [("P(same order)", True), ("if all tied", True), ("seeds needed", True)]
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
        *map(amount, (pair.tau_b, pair.tau_b_means, pair.same_order, pair.chance.mean)),
        amount(pair.seeds_needed, seeds_words(pair.seeds_needed)),
        Value("; ".join(" and ".join(names) for names in pair.reversed_pairs)),
        Value("; ".join(" and ".join(names) for names in pair.changed_gaps)),
    ]
