"""Ranking on the page: do frameworks rank the algorithms alike?"""

import collections
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
from analysis.words import OWN, label, order_words, recipe_label, recipes, seeds_words


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
    causes: dict[tuple[str, str, str], list[RankingVerdict]] = {}
    for item in broken:  # the same task under several configurations has one cause, it may be
        causes.setdefault((item.study, item.variant, item.env), []).append(item)
    findings = [_finding(own, several, links) for own in causes.values()]
    headline = Sentence(head, _all(items, links), "t-ranking")
    return answer("ranking", question, headline, parts, findings)


def _all(items: Sequence[RankingVerdict], links: Links) -> tuple[int, ...]:
    return links.of(g for item in items for ranked in item.rankings for g in ranked.groups)


def _finding(items: Sequence[RankingVerdict], several: bool, links: Links) -> Sentence:
    """One task, under one or several configurations."""
    one = items[0]
    runs = sizes(group for item in items for ranked in item.rankings for group in ranked.groups)
    if len(items) == 1:
        ranks = "; ".join(
            f"{label(ranked.framework)}: {_ranks(ranked, one)}" for ranked in one.rankings
        )
        text = (
            f"{_where(one, several)}: {one.verdict}. "
            f"In opposite order: {', '.join(_opposite(one))}. Ranks: {ranks}. "
            "Probability that no two means are in opposite orders: "
            f"{order_words(one.same_order, one.chance)}. {runs}"
        )
        return Sentence(text, _all(items, links), "t-ranking", recipe_label(one.hps))
    found = collections.Counter(words for item in items for words in _opposite(item))
    opposite = ", ".join(f"{words} ({found[words]} of {len(items)})" for words in sorted(found))
    known = recipes(item.hps for item in items)
    under = "; ".join(recipe_words(hps) for hps in known)
    chances = [item.same_order for item in items]
    text = (
        f"{one.env}{_apart(one, several)}: {one.verdict} under {len(items)} configurations "
        f"({under}). In opposite order: {opposite}. Probability that no two means are in opposite "
        f"orders: {min(chances):.2f} to {max(chances):.2f} (if all tied: {one.chance.mean:.2f} on "
        f"average). {runs}"
    )
    return Sentence(text, _all(items, links), "t-ranking", one.env)


def _opposite(item: RankingVerdict) -> list[str]:
    return [
        f"{label(first)} and {label(second)} between {label(pair.first)} and {label(pair.second)}"
        for pair in item.pairs
        for first, second in pair.reversed_pairs
    ]


def _where(item: RankingVerdict, several: bool) -> str:
    return f"{item.env} under {recipe_words(item.hps)}{_apart(item, several)}"


def _apart(item: RankingVerdict, several: bool) -> str:
    own = f" (study {item.study}{', ' * bool(item.variant)}{item.variant})"
    return own if several else ""


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
