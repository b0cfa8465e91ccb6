"""Do frameworks differ at all in a study's settings, be it that no pair can be named?"""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from parallax.analysis.data.runs import VariantKey
from parallax.analysis.stats import omnibus
from parallax.analysis.stats.moments import stack_moments
from parallax.analysis.verdicts.consistency import DIFFERENT, PairVerdict
from parallax.analysis.verdicts.groups import GroupPair, ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions

DIFFERENCES_NAMED, DIFFERENCES_UNNAMED, NO_DIFFERENCES_SHOWN = (
    "named differences",
    "unnamed differences",
    "no difference shown",
)
RESAMPLES = 10_000  # made-up studies


@dataclasses.dataclass(frozen=True)
class OmnibusVerdict:
    """All pairs of frameworks of one algorithm, at once.

    Attributes:
        study: Name of the study.
        algorithm: Algorithm.
        variant: What else is held equal.
        verdict: `named differences` where a pair is different; `unnamed differences` where more pairs are significant one by one than where nothing differs;
            otherwise `no difference shown`.
        different: Pairs that are different.
        count: Pairs that are significant one by one, against made-up studies.
    """

    study: str
    algorithm: str
    variant: str
    verdict: str
    different: int
    count: omnibus.OmnibusCount


def judge_omnibus(
    items: Sequence[PairVerdict], options: VerdictOptions
) -> tuple[OmnibusVerdict, ...]:
    """A verdict for every study, algorithm and variant.

    Args:
        items: Verdicts on pairs.
        options: Level, resamples and their seed.
    """
    found: dict[VariantKey, list[PairVerdict]] = collections.defaultdict(list)
    for item in items:
        found[item.cell.variant_key].append(item)
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
    pairs: Sequence[GroupPair],
    p_values: Sequence[float],
    options: VerdictOptions,
) -> omnibus.OmnibusCount:
    """Significant comparisons against those of studies in which all means are the same.

    Args:
        pairs: What is compared; a group may be in several pairs.
        p_values: Welch's test for each; NaN where it could not be made.
        options: Level, resamples and their seed.
    """
    known = [pair for pair, p in zip(pairs, p_values, strict=True) if not np.isnan(p)]
    observed = sum(p < options.alpha for p in p_values)
    rng = np.random.default_rng(options.seed)
    resamples = min(options.resamples, RESAMPLES)
    made_up = np.zeros(resamples, dtype=np.int64)
    for setting in _connect_pairs(known):
        groups, places = _index_groups(setting)
        samples = omnibus.shrink_deviations(stack_moments([group.moments for group in groups]))
        made_up += omnibus.simulate_counts(samples, places, options.alpha, rng, resamples)
    return omnibus.evaluate_count(observed, len(known), made_up)


def _connect_pairs(
    pairs: Sequence[GroupPair],
) -> list[list[GroupPair]]:
    """Pairs that have groups in common, directly or by way of others."""
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


def _index_groups(
    pairs: Sequence[GroupPair],
) -> tuple[list[ScoreGroup], list[tuple[int, int]]]:
    """Every group once, and each pair as places among them."""
    places: dict[int, int] = {}
    groups: list[ScoreGroup] = []
    for pair in pairs:
        for group in pair:
            if places.setdefault(id(group), len(groups)) == len(groups):
                groups.append(group)
    return groups, [(places[id(first)], places[id(second)]) for first, second in pairs]
