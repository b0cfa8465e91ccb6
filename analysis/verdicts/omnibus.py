"""Do frameworks differ at all in a study's settings, be it that no pair can be named?"""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from parallax.analysis.stats import omnibus
from parallax.analysis.stats.moments import stack_moments
from parallax.analysis.verdicts.consistency import DIFFERENT, PairVerdict
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions

DIFFERENCES_NAMED, DIFFERENCES_UNNAMED, NO_DIFFERENCES_SHOWN = (
    "named differences",
    "unnamed differences",
    "no difference shown",
)
RESAMPLES = 10_000  # made-up studies

OmnibusKey = tuple[str, str, str]  # study, algorithm, variant


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
    found: dict[OmnibusKey, list[PairVerdict]] = collections.defaultdict(list)
    for item in items:
        cell = item.cell
        found[cell.study, cell.algorithm, cell.variant].append(item)
    return tuple(_judge_study_omnibus(key, found[key], options) for key in sorted(found))


def _judge_study_omnibus(
    key: OmnibusKey, items: Sequence[PairVerdict], options: VerdictOptions
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
    pairs: Sequence[tuple[ScoreGroup, ScoreGroup]],
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
    pairs: Sequence[tuple[ScoreGroup, ScoreGroup]],
) -> list[list[tuple[ScoreGroup, ScoreGroup]]]:
    """Pairs that have groups in common, directly or by way of others."""
    sets: list[tuple[set[int], list[tuple[ScoreGroup, ScoreGroup]]]] = []
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
    pairs: Sequence[tuple[ScoreGroup, ScoreGroup]],
) -> tuple[list[ScoreGroup], list[tuple[int, int]]]:
    """Every group once, and each pair as places among them."""
    places: dict[int, int] = {}
    groups: list[ScoreGroup] = []
    for pair in pairs:
        for group in pair:
            if places.setdefault(id(group), len(groups)) == len(groups):
                groups.append(group)
    return groups, [(places[id(first)], places[id(second)]) for first, second in pairs]
