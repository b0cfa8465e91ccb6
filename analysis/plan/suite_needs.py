"""Power of verdicts over all tasks of an algorithm, and the seeds per task that they need.

Runs of all tasks are combined, so that a suite needs far fewer seeds than each of its settings.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from parallax.analysis.labels import (
    format_range,
    format_seeds_needed,
    get_label,
    get_recipe_label,
    group_items,
)
from parallax.analysis.stats.effect_size_and_power import (
    compute_difference_power,
    compute_equivalence_power,
)
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.margins import choose_unobserved_distances
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.statements import INCONCLUSIVE
from parallax.analysis.verdicts.suite import SuiteSample, SuiteVerdict, collect_suites

_SIZES = np.unique(np.concatenate([np.arange(2, 50), np.geomspace(50, 1000, 60).round()]))
_DRAWS = 200
NO_RANGE = "by the measured values; a range is not known, as no two runs of a framework differ"
_RANGE_QUANTILES = (0.1, 0.9)


@dataclasses.dataclass(frozen=True, eq=False)
class SuiteNeed:
    """Seeds that a pair of frameworks needs for a verdict over all tasks.

    Attributes:
        size: Seeds that both have in every task.
        power: Power at that size if the measured values are the true ones; NaN if
            all runs of each framework and task are equal, so that deviations are unknown.
        needed: Seeds per task for the requested power; infinite above 1,000.
        low: Lower end of its 80% range, since few seeds are imprecise; NaN where `power` is.
    """

    verdict: SuiteVerdict
    size: int
    power: float
    needed: float
    low: float
    high: float

    @property
    def is_open(self) -> bool:
        """Return whether the pair is inconclusive."""
        return self.verdict.verdict == INCONCLUSIVE


@dataclasses.dataclass(frozen=True)
class _SuiteMoments:
    """Scores of two frameworks over tasks: difference, and deviations, each float[draws].

    Attributes:
        gap: Mean over tasks of the differences.
        within: Deviations of both within tasks (root mean square), for the difference.
        pooled: Deviations of all runs as one sample, which the bound on unobserved failures uses.
    """

    gap: FloatArray
    within: tuple[FloatArray, FloatArray]
    pooled: tuple[FloatArray, FloatArray]


def estimate_suite_needs(
    groups: Sequence[ScoreGroup], suites: Sequence[SuiteVerdict], options: VerdictOptions
) -> tuple[SuiteNeed, ...]:
    """Estimate the power and the need of every pair over all tasks."""
    samples = {sample.key: sample for sample in collect_suites(groups, options)}
    decided = {
        key: sum(item.verdict != INCONCLUSIVE for item in suites if item.key == key)
        for key in samples
    }
    found = []
    for item in suites:
        if item.key not in samples:
            continue  # library defaults: each framework has its own recipe
        pairs = sum(other.key == item.key for other in suites)
        # Holm (1979): after k rejections of m, the next p-value must be below alpha / (m - k).
        level = options.alpha / max(1, pairs - decided[item.key])
        found.append(_estimate_need(item, samples[item.key], level, options))
    return tuple(found)


def _estimate_need(
    item: SuiteVerdict, sample: SuiteSample, level: float, options: VerdictOptions
) -> SuiteNeed:
    pair = sample.scores[item.first], sample.scores[item.second]
    tasks = len(sample.tasks)
    size = min(len(scores) for strata in pair for scores in strata)
    means = [float(np.mean([scores.mean() for scores in strata])) for strata in pair]
    rooms = choose_unobserved_distances((means[0], means[1]), sample.ends)
    moments = _draw_moments(pair, np.random.default_rng(options.seed))
    runs = tasks * np.array([[float(size)], *([n] for n in _SIZES)])
    different = compute_difference_power(moments.gap, moments.within, runs, level)
    alike = compute_equivalence_power(moments.gap, moments.pooled, runs, level, item.margin, rooms)
    chance = np.maximum(different, alike)  # of any verdict, float[sizes, draws]
    enough = chance[1:] >= options.power
    needed = np.where(enough.any(axis=0), _SIZES[enough.argmax(axis=0)], np.inf)
    low, high = np.quantile(needed[1:], _RANGE_QUANTILES, method="inverted_cdf")
    power = float(chance[0, 0])
    if not any(scores.std() for strata in pair for scores in strata):
        power = low = high = math.nan
    return SuiteNeed(item, size, power, float(needed[0]), float(low), float(high))


def _draw_moments(
    pair: tuple[Sequence[FloatArray], Sequence[FloatArray]], rng: np.random.Generator
) -> _SuiteMoments:
    """Return the measured moments, followed by draws of the possible true ones."""
    within, pooled, error, gap = [], [], np.zeros(_DRAWS + 1), 0.0
    for sign, strata in zip((1, -1), pair, strict=True):
        k = len(strata)
        runs, free = sum(map(len, strata)), sum(len(scores) - 1 for scores in strata)
        spread = float(np.mean([scores.var(ddof=1) for scores in strata]))
        between = float(np.var([scores.mean() for scores in strata]))
        # A variance measured with f degrees of freedom is the true one times chi-square / f.
        factor = np.concatenate([[1.0], free / rng.chisquare(free, _DRAWS)])
        within.append(np.sqrt(spread * factor))
        pooled.append(np.sqrt(spread * factor + between))
        error += spread * factor / runs
        gap += sign * sum(float(scores.mean()) for scores in strata) / k
    noise = np.concatenate([[0.0], rng.standard_normal(_DRAWS)])
    return _SuiteMoments(
        gap + np.sqrt(error) * noise, (within[0], within[1]), (pooled[0], pooled[1])
    )


def format_suite_needs(needs: Sequence[SuiteNeed], options: VerdictOptions) -> list[str]:
    """Return a line for each suite: present power, and seeds per task that would decide."""
    found = group_items(needs, lambda need: need.verdict.key)
    several = len({key[0] for key in found}) > 1
    lines = [_format_suite(key, own, options, several) for key, own in found.items()]
    head = "All tasks of an algorithm together (normalized scores, see study verdicts, suite.csv):"
    return [head, *lines] if lines else []


def _format_suite(
    key: tuple[str, ...], own: list[SuiteNeed], options: VerdictOptions, several: bool
) -> str:
    study, algorithm, hps, variant = key
    words = [get_label(algorithm), get_recipe_label(hps), *([variant] if variant else [])]
    words += [f"study {study}"] * several
    inconclusive = sorted((need for need in own if need.is_open), key=lambda need: need.needed)
    tasks, size = len(own[0].verdict.tasks), format_range({need.size for need in own})
    text = (
        f"  {', '.join(words)}, {tasks} tasks, {size} seeds each: "
        f"{len(own) - len(inconclusive)} of {len(own)} pairs decided"
    )
    if not inconclusive:
        return text
    powers = sorted(need.power for need in inconclusive if not math.isnan(need.power))
    power = f" (power with {size}: {powers[0]:.0%} to {powers[-1]:.0%})" if powers else ""
    median, last = inconclusive[(len(inconclusive) - 1) // 2], inconclusive[-1]
    return (
        f"{text}; {options.power:.0%} power for half of the others needs {_format_seeds(median)} "
        f"seeds per task, for all of them {_format_seeds(last)}{power}"
    )


def _format_seeds(need: SuiteNeed) -> str:
    """Format the seeds needed as a range, since a pilot study gives only a rough estimate."""
    if math.isnan(need.low):
        return f"{format_seeds_needed(need.needed)} ({NO_RANGE})"
    low, high = min(need.low, need.needed), max(need.high, need.needed)
    ends = f"{format_seeds_needed(low)} to {format_seeds_needed(high)}"
    return f"{ends} (80% range; {format_seeds_needed(need.needed)} by the measured values)"


def find_suite_goals(
    needs: Sequence[SuiteNeed], groups: Mapping[tuple[str, ...], Mapping[str, ScoreGroup]]
) -> list[tuple[ScoreGroup, ScoreGroup, SuiteNeed]]:
    """Return the groups of every task that have to grow for an inconclusive pair.

    `groups` has the group of each framework by study, algorithm, recipe, variant and task.
    """
    found = []
    for need in needs:
        if need.is_open and math.isfinite(need.needed):
            for env in need.verdict.tasks:
                members = groups[*need.verdict.key, env]
                found.append((members[need.verdict.first], members[need.verdict.second], need))
    return found
