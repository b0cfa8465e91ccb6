"""Ranking (RQ3): words and tables on whether frameworks rank the algorithms alike."""

import collections
import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.labels import (
    LIBRARY_DEFAULTS,
    describe_recipe,
    describe_sizes_used,
    format_count,
    format_number,
    format_order_probability,
    format_range,
    format_seeds_needed,
    format_verdict_counts,
    get_label,
    get_recipe_label,
    group_items,
    sort_recipes,
)
from parallax.analysis.report import tables
from parallax.analysis.report.document import (
    Block,
    Grid,
    LinkedSentence,
    QuestionAnswer,
    ReportSection,
    Strong,
    Words,
)
from parallax.analysis.stats.ranks import SameOrderChance
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.ranking import (
    INCONCLUSIVE,
    MAGNITUDE_CHANGED,
    NOT_PRESERVED,
    PRESERVED,
    AlgorithmRanking,
    RankingVerdict,
    RankPair,
)
from parallax.analysis.verdicts.study import StudyVerdicts


def answer_ranking(verdicts: StudyVerdicts) -> QuestionAnswer:
    """Answer whether frameworks rank the algorithms alike."""
    items = verdicts.rankings
    question = "Do frameworks rank the algorithms alike?"
    if not items:
        text = "No two frameworks ran the same two algorithms in the same setting."
        return QuestionAnswer(question, LinkedSentence(text))
    order = (PRESERVED, MAGNITUDE_CHANGED, NOT_PRESERVED, INCONCLUSIVE)
    items, shown = verdicts.main_rankings, set(verdicts.main_rankings)
    aside = [item for item in verdicts.rankings if item not in shown]
    sizes = [group.n for item in items for one in item.rankings for group in one.groups]
    head = (
        f"Of {format_count(len(items), 'ranking')}, one per task and configuration: "
        f"{format_verdict_counts([item.verdict for item in items], order)}. A ranking counts as "
        f"its worst pair of frameworks. {describe_sizes_used(sizes)}"
    )
    parts = []
    for hps in sorted(
        {item.hps for item in items}, key=lambda name: (name == LIBRARY_DEFAULTS, name)
    ):
        own = [item for item in items if item.hps == hps]
        counts = format_verdict_counts([i.verdict for i in own], order)
        text = f"Under {describe_recipe(hps)}: {counts}."
        parts.append(LinkedSentence(text, _link_rankings(own), "t-ranking", get_recipe_label(hps)))
    for variant in sorted({item.variant for item in aside}):
        own = [item for item in aside if item.variant == variant]
        text = f"Apart from these, with {variant}: "
        text += f"{format_verdict_counts([i.verdict for i in own], order)}."
        parts.append(LinkedSentence(text, _link_rankings(own), "t-ranking", variant))
    several = len({(item.study, item.variant) for item in items}) > 1
    broken = [item for item in items if item.verdict == NOT_PRESERVED]
    broken.sort(key=lambda item: (item.same_order, item.env, item.hps))
    # One task under several configurations may have one cause.
    causes = group_items(broken, lambda item: (item.study, item.variant, item.env))
    findings = [_describe_finding(own, several) for own in causes.values()]
    headline = LinkedSentence(head, _link_rankings(items), "t-ranking")
    return QuestionAnswer(question, headline, tuple(parts), tuple(findings))


def _link_rankings(items: Sequence[RankingVerdict]) -> tuple[ScoreGroup, ...]:
    return tuple(g for item in items for ranked in item.rankings for g in ranked.groups)


def _describe_finding(items: Sequence[RankingVerdict], several: bool) -> LinkedSentence:
    """Describe one task on which rankings differ, under one or several configurations."""
    one = items[0]
    runs = describe_sizes_used(
        [group.n for item in items for ranked in item.rankings for group in ranked.groups]
    )
    if len(items) == 1:
        ranks = "; ".join(
            f"{get_label(ranked.framework)}: {_format_algorithm_order(ranked, one)}"
            for ranked in one.rankings
        )
        text = (
            f"{_format_ranking_setting(one, several)}: {one.verdict}. "
            f"In opposite order: {', '.join(_list_reversed_pairs(one))}. Ranks: {ranks}. "
            "Probability that no two means are in opposite orders: "
            f"{format_order_probability(one.same_order, one.chance)}. {runs}"
        )
        return LinkedSentence(text, _link_rankings(items), "t-ranking", get_recipe_label(one.hps))
    found = collections.Counter(words for item in items for words in _list_reversed_pairs(item))
    opposite = ", ".join(f"{words} ({found[words]} of {len(items)})" for words in sorted(found))
    known = sort_recipes(item.hps for item in items)
    under = "; ".join(describe_recipe(hps) for hps in known)
    chances = [item.same_order for item in items]
    text = (
        f"{one.env}{_format_study_and_variant(one, several)}: {one.verdict} under {len(items)} "
        f"configurations ({under}). In opposite order: {opposite}. Probability that no two means "
        f"are in opposite orders: {min(chances):.2f} to {max(chances):.2f} (if all tied: "
        f"{one.chance.mean:.2f} on average). {runs}"
    )
    return LinkedSentence(text, _link_rankings(items), "t-ranking", one.env)


def _list_reversed_pairs(item: RankingVerdict) -> list[str]:
    return [
        f"{get_label(first)} and {get_label(second)} between {get_label(pair.first)} and "
        f"{get_label(pair.second)}"
        for pair in item.pairs
        for first, second in pair.reversed_pairs
    ]


def _format_ranking_setting(item: RankingVerdict, several: bool) -> str:
    return f"{item.env} under {describe_recipe(item.hps)}{_format_study_and_variant(item, several)}"


def _format_study_and_variant(item: RankingVerdict, several: bool) -> str:
    own = f" (study {item.study}{', ' * bool(item.variant)}{item.variant})"
    return own if several else ""


def _format_algorithm_order(ranked: AlgorithmRanking, item: RankingVerdict) -> str:
    """Return algorithms with their ranks, the best first."""
    pairs = sorted(zip(ranked.ranks, item.algorithms, strict=True))
    return ", ".join(f"{get_label(name)} {rank:g}" for rank, name in pairs)


@dataclasses.dataclass(frozen=True)
class RankedPair:
    """Two frameworks' rankings in one task and configuration."""

    ranking: RankingVerdict
    pair: RankPair

    def list_groups(self) -> list[ScoreGroup]:
        """Return the groups of runs that both frameworks are ranked by."""
        return [
            group
            for ranked in self.ranking.rankings
            if ranked.framework in (self.pair.first, self.pair.second)
            for group in ranked.groups
        ]


def make_ranking_table(verdicts: StudyVerdicts) -> tables.Table[RankedPair]:
    """Return a table with a row for each pair of frameworks in a task and configuration."""
    items = [RankedPair(item, pair) for item in verdicts.rankings for pair in item.pairs]
    cells = [_cell_from_ranking(item.ranking) for item in items]
    columns: tuple[tables.Column[RankedPair], ...] = (
        *tables.make_setting_columns(
            lambda i: _cell_from_ranking(i.ranking), cells, omit=["algorithm"]
        ),
        *tables.make_pair_columns(lambda i: i.pair.first, lambda i: i.pair.second),
        tables.make_verdict_column("verdict", "verdict", lambda i: i.pair.verdict),
        tables.make_text_column(
            "first_ranks", "ranks in first", lambda i: _format_ranks_row(i, i.pair.first)
        ),
        tables.make_text_column(
            "second_ranks", "ranks in second", lambda i: _format_ranks_row(i, i.pair.second)
        ),
        tables.make_number_column("tau_b", "tau-b", lambda i: i.pair.tau_b),
        tables.make_number_column("tau_b_means", "tau-b of means", lambda i: i.pair.tau_b_means),
        tables.make_number_column("same_order", "P(same order)", lambda i: i.pair.same_order),
        *_make_chance_columns("same_order", "if all tied", lambda i: i.pair.chance),
        tables.make_text_column(
            "reversed", "opposite", lambda i: _format_framework_pairs(i.pair.reversed_pairs)
        ),
        tables.make_text_column(
            "changed_gaps", "gap changed", lambda i: _format_framework_pairs(i.pair.changed_gaps)
        ),
        tables.make_csv_column("all_frameworks", lambda i: i.ranking.verdict),
        tables.make_csv_column("all_same_order", lambda i: i.ranking.same_order),
        *_make_chance_columns("all_same_order", "", lambda i: i.ranking.chance),
        tables.make_number_column(
            "seeds_needed", "seeds needed", lambda i: i.pair.seeds_needed, format_seeds_needed
        ),
        tables.make_csv_column("left_out", lambda i: "; ".join(i.ranking.left_out)),
        tables.make_csv_column("versions", lambda i: i.ranking.versions),
    )
    return tables.Table(
        "t-ranking", "Every pair of rankings", columns, tuple(items), RankedPair.list_groups
    )


def _cell_from_ranking(item: RankingVerdict) -> StudyCell:
    return StudyCell(item.study, item.env, "", item.hps, item.variant)


def _format_ranks_row(item: RankedPair, framework: str) -> str:
    (ranks,) = (one.ranks for one in item.ranking.rankings if one.framework == framework)
    named = zip(item.ranking.algorithms, ranks, strict=True)
    return " ".join(f"{name}={rank:g}" for name, rank in named)


def _make_chance_columns(
    name: str, heading: str, get_chance: Callable[[RankedPair], SameOrderChance]
) -> list[tables.Column[RankedPair]]:
    return [
        tables.make_number_column(f"{name}_if_tied", heading, lambda i: get_chance(i).mean),
        tables.make_csv_column(f"{name}_if_tied_low", lambda i: get_chance(i).low),
        tables.make_csv_column(f"{name}_if_tied_high", lambda i: get_chance(i).high),
    ]


def make_ranking_sections(verdicts: StudyVerdicts) -> tuple[ReportSection, ...]:
    """Return a section for each task and configuration in which algorithms can be ranked."""
    items = verdicts.main_rankings
    places = [(item.env, item.hps, item.algorithms) for item in items]
    return tuple(
        ReportSection(
            f"{item.env}, {describe_recipe(item.hps)}"
            f"{_format_study_and_variant(item, places.count(place) > 1)}: "
            f"{', '.join(map(get_label, item.algorithms))}",
            _describe_ranking(item),
        )
        for item, place in zip(items, places, strict=True)
    )


def describe_unranked(verdicts: StudyVerdicts) -> str:
    """Return a sentence on algorithms that are in no ranking; empty if there are none."""
    ranked = {name for item in verdicts.rankings for name in item.algorithms}
    others = sorted({group.cell.algorithm for group in verdicts.groups if group.n} - ranked)
    if not others:
        return ""
    names = ", ".join(map(get_label, others))
    return (
        f"In no ranking: {names}. Algorithms are ranked where two frameworks ran the same two of "
        "them on the same task, for the same steps and with hyperparameters of the same name."
    )


_MIN_RUNS_FOR_BOOTSTRAP = 10  # runs per mean; with fewer, bootstrap means vary too little
_RANKING_PHRASES = {
    PRESERVED: "The ranking holds",
    MAGNITUDE_CHANGED: "No reversal is shown, but distances differ",
    NOT_PRESERVED: "The ranking does not hold",
    INCONCLUSIVE: "It is inconclusive whether the ranking holds",
}


def _describe_ranking(item: RankingVerdict) -> tuple[Block, ...]:
    counts = format_verdict_counts(
        [pair.verdict for pair in item.pairs],
        (PRESERVED, MAGNITUDE_CHANGED, NOT_PRESERVED, INCONCLUSIVE),
    )
    groups = [group for ranked in item.rankings for group in ranked.groups]
    alike = sum(pair.tau_b_means == 1 for pair in item.pairs)
    text = (
        f"{_RANKING_PHRASES[item.verdict]}, by the worst of "
        f"{format_count(len(item.pairs), 'pair')} of frameworks: {counts}; means alone are in the "
        f"same order in {alike}; n = {format_range(group.n for group in groups)} runs per mean."
    )
    if min(group.n for group in groups) >= _MIN_RUNS_FOR_BOOTSTRAP:
        text += (
            " Probability that no two means are in opposite orders, by the bootstrap: "
            f"{format_order_probability(item.same_order, item.chance)}."
        )
    two = list(itertools.combinations(range(len(item.algorithms)), 2))
    heads = [f"{get_label(item.algorithms[i])} - {get_label(item.algorithms[j])}" for i, j in two]
    rows = tuple(
        (
            get_label(one.framework),
            *(_format_gap(one, *pair) for pair in two),
            _format_algorithm_order(one, item),
        )
        for one in item.rankings
    )
    table = Grid(("framework", *heads, "ranks"), rows)
    note = "Differences of means with 95% intervals; bold: separated after correction."
    left = f" Left out: {'; '.join(item.left_out)}." if item.left_out else ""
    return text, table, note + left


def _format_gap(ranked: AlgorithmRanking, i: int, j: int) -> Words:
    gap, low, high = ranked.compute_gap(i, j)
    text = format_number(gap)
    if not math.isnan(low):
        text += f" [{format_number(low)}, {format_number(high)}]"
    return (Strong(text),) if ranked.signs[i, j] else text


def _format_framework_pairs(pairs: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{first} and {second}" for first, second in pairs)
