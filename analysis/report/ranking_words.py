"""Ranking in words: do frameworks rank the algorithms alike?"""

import itertools
from collections.abc import Sequence

from analysis.answers import Answers
from analysis.figures.names import recipe_label
from analysis.figures.style import label
from analysis.ranking_verdict import (
    MAGNITUDE,
    NOT_PRESERVED,
    OWN,
    PRESERVED,
    UNDECIDED,
    Ranked,
    RankingVerdict,
)
from analysis.report.links import Links
from analysis.report.statements import Answer, Statement, answer, counts, plural, recipe_words


def ranking(answers: Answers, links: Links) -> Answer:
    """Do frameworks rank the algorithms alike?"""
    items = answers.rankings
    question = "Do frameworks rank the algorithms alike?"
    if not items:
        text = "No two frameworks ran the same two algorithms in the same setting."
        return Answer("ranking", question, Statement(text, ()), (), (), 0)
    order = (PRESERVED, MAGNITUDE, NOT_PRESERVED, UNDECIDED)
    head = (
        f"Of {plural(len(items), 'ranking')}, one per task and configuration: "
        f"{counts([item.verdict for item in items], order)}. A ranking counts as its worst pair of "
        "frameworks."
    )
    parts = []
    for hps in sorted({item.hps for item in items}, key=lambda name: (name == OWN, name)):
        own = [item for item in items if item.hps == hps]
        text = f"Under {recipe_words(hps)}: {counts([i.verdict for i in own], order)}."
        parts.append(Statement(text, _all(own, links), "t-ranking", recipe_label(hps)))
    broken = [item for item in items if item.verdict == NOT_PRESERVED]
    broken.sort(key=lambda item: (item.same_order, item.env, item.hps))
    findings = [_ranking_finding(item, links) for item in broken]
    headline = Statement(head, _all(items, links), "t-ranking")
    return answer("ranking", question, headline, parts, findings)


def _all(items: Sequence[RankingVerdict], links: Links) -> tuple[int, ...]:
    return links.of(g for item in items for ranked in item.rankings for g in ranked.groups)


def _ranking_finding(item: RankingVerdict, links: Links) -> Statement:
    orders = "; ".join(f"{label(one.framework)}: {_order(one, item)}" for one in item.rankings)
    text = (
        f"{item.env} under {recipe_words(item.hps)}: {item.verdict}. {orders}. "
        f"Probability that all are in the same order: {item.same_order:.2f}."
    )
    words = recipe_label(item.hps)
    return Statement(text, _all([item], links), "t-ranking", words)


def _order(ranked: Ranked, item: RankingVerdict) -> str:
    """Algorithms by rank; equal signs between those that share theirs."""
    pairs = sorted(zip(ranked.ranks, item.algorithms, strict=True))
    text = label(pairs[0][1])
    for (before, _), (rank, name) in itertools.pairwise(pairs):
        text += f" {'=' if rank == before else '>'} {label(name)}"
    return text
