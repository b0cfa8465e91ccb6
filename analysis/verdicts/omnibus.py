"""Omnibus verdicts: whether frameworks differ at all, even if no single pair can be named.

The test statistic is the number of pairs that are significant without correction; its null
distribution is simulated (`stats/multiple_testing.py`).
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from parallax.analysis.data.runs import VariantKey
from parallax.analysis.labels import group_items
from parallax.analysis.stats import multiple_testing
from parallax.analysis.stats.moments import stack_moments
from parallax.analysis.verdicts.consistency import DIFFERENT, PairVerdict
from parallax.analysis.verdicts.groups import GroupPair, ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions

DIFFERENCES_NAMED, DIFFERENCES_UNNAMED, NO_DIFFERENCES_SHOWN = (
    "named differences",
    "unnamed differences",
    "no difference shown",
)
RESAMPLES = 10_000  # simulated studies


@dataclasses.dataclass(frozen=True)
class OmnibusVerdict:
    """Omnibus verdict on all pairs of frameworks of one algorithm.

    Attributes:
        verdict: `named differences` if a pair is different; `unnamed differences` if none is, but
            more pairs are significant without correction than expected by chance; otherwise
            `no difference shown`.
        count: Number of significant pairs, and its null distribution.
    """

    study: str
    algorithm: str
    variant: str
    verdict: str
    different: int
    count: multiple_testing.OmnibusCount


def judge_omnibus(
    items: Sequence[PairVerdict], options: VerdictOptions
) -> tuple[OmnibusVerdict, ...]:
    """Judge every study, algorithm and variant."""
    found = group_items(items, lambda item: item.cell.variant_key)
    return tuple(_judge_study_omnibus(key, found[key], options) for key in sorted(found))


def _judge_study_omnibus(
    key: VariantKey, items: Sequence[PairVerdict], options: VerdictOptions
) -> OmnibusVerdict:
    pairs = [(item.first, item.second) for item in items]
    count = count_differences(pairs, [item.p_welch for item in items], options)
    different = sum(item.verdict == DIFFERENT for item in items)
    verdict = (
        DIFFERENCES_NAMED
        if different
        else DIFFERENCES_UNNAMED
        if count.p < options.alpha
        else NO_DIFFERENCES_SHOWN
    )
    return OmnibusVerdict(*key, verdict, different, count)


def count_differences(
    pairs: Sequence[GroupPair], p_values: Sequence[float], options: VerdictOptions
) -> multiple_testing.OmnibusCount:
    """Compare the number of significant pairs with studies in which all means are the same.

    Args:
        pairs: The groups compared; a group may be in several pairs.
        p_values: Welch's test of each pair; NaN if a sample has fewer than two seeds.
        options: Level, resamples and their seed.
    """
    known = [pair for pair, p in zip(pairs, p_values, strict=True) if not np.isnan(p)]
    observed = sum(p < options.alpha for p in p_values)
    rng = np.random.default_rng(options.seed)
    resamples = min(options.resamples, RESAMPLES)
    counts = np.zeros(resamples, dtype=np.int64)
    for setting in _connect_pairs(known):
        groups, places = _index_groups(setting)
        samples = multiple_testing.shrink_deviations(
            stack_moments([group.moments for group in groups])
        )
        counts += multiple_testing.simulate_counts(samples, places, options.alpha, rng, resamples)
    return multiple_testing.evaluate_count(observed, len(known), counts)


def _connect_pairs(pairs: Sequence[GroupPair]) -> list[list[GroupPair]]:
    """Split pairs into connected components, where pairs that share a group are connected.

    Only pairs in one component depend on each other, so each is simulated by itself.
    """
    sets: list[tuple[set[int], list[GroupPair]]] = []
    at: dict[int, int] = {}
    for pair in pairs:
        places = sorted({at[id(group)] for group in pair if id(group) in at})
        if not places:
            places = [len(sets)]
            sets.append((set(), []))
        first = sets[places[0]]
        for other in places[1:]:
            first[0].update(sets[other][0])
            first[1].extend(sets[other][1])
            at |= dict.fromkeys(sets[other][0], places[0])
            sets[other] = (set(), [])
        first[0].update(map(id, pair))
        first[1].append(pair)
        at |= dict.fromkeys(map(id, pair), places[0])
    return [members for _, members in sets if members]


def _index_groups(pairs: Sequence[GroupPair]) -> tuple[list[ScoreGroup], list[tuple[int, int]]]:
    """Return every group once, and each pair as two indices into them."""
    places: dict[int, int] = {}
    groups: list[ScoreGroup] = []
    for pair in pairs:
        for group in pair:
            if places.setdefault(id(group), len(groups)) == len(groups):
                groups.append(group)
    return groups, [(places[id(first)], places[id(second)]) for first, second in pairs]
