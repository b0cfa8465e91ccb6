"""Group-sequential verdicts, valid at a check after every batch of seeds.

The tests on pairs of frameworks are those of `consistency.py`; their p-values are corrected for
repeated checks (`stats/multiple_testing.py`) and then by Holm's method. One implementation is
judged by the spread of reference implementations.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from parallax.analysis.stats import two_sample
from parallax.analysis.stats.moments import FloatArray, compute_moments, stack_moments
from parallax.analysis.stats.multiple_testing import (
    adjust_holm,
    compute_one_sided_sequential_p,
    compute_sequential_p,
)
from parallax.analysis.verdicts.consistency import judge_by_family
from parallax.analysis.verdicts.groups import GroupPair, ScoreGroup, list_group_pairs
from parallax.analysis.verdicts.margins import (
    compute_margin,
    compute_unobserved_p,
    find_score_range,
)
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.statements import DIFFERENT, EQUIVALENT, INCONCLUSIVE


@dataclasses.dataclass(frozen=True)
class SequentialSchedule:
    """Schedule of checks, fixed before the first seed is trained.

    Attributes:
        batch: Seeds per framework between two checks, at least 2.
        max_seeds: Seeds per framework after which a pair stays inconclusive; a multiple of `batch`.
    """

    batch: int
    max_seeds: int

    def __post_init__(self) -> None:
        if self.batch < 2 or self.max_seeds < self.batch or self.max_seeds % self.batch:
            raise ValueError(
                f"batch={self.batch} and max_seeds={self.max_seeds} do not fit: give a batch of at "
                "least 2 seeds and a multiple of it as max_seeds."
            )

    def list_sizes(self, n: int) -> tuple[int, ...]:
        """Return the seeds at each check that n seeds allow."""
        return tuple(range(self.batch, min(n, self.max_seeds) + 1, self.batch))


@dataclasses.dataclass(frozen=True, eq=False)
class SequentialVerdict:
    """Verdict on two frameworks in one setting after the checks so far.

    Attributes:
        verdict: `different`, `equivalent` or `inconclusive`; valid whenever training stops.
        check_sizes: Seeds per framework at each check so far; others are used at the next one.
        p: Group-sequential p-value of "no difference" after Holm's correction over the family.
        p_equivalence: The same for "differs by the margin or more".
        p_permutation: Group-sequential p-value of the permutation test; NaN where not needed.
        next_check_size: Seeds per framework at the next check; 0 if decided or at the end.
    """

    first: ScoreGroup
    second: ScoreGroup
    verdict: str
    check_sizes: tuple[int, ...]
    p: float
    p_equivalence: float
    p_permutation: float
    family: str
    next_check_size: int

    def select_used(self, group: ScoreGroup) -> ScoreGroup:
        """Return one of the groups with the seeds of the last check, as no test used others."""
        assert group.scores is not None
        size = self.check_sizes[-1] if self.check_sizes else 0
        runs = group.runs[:size]
        return dataclasses.replace(group, runs=runs).replace_scores(group.scores[:size])


def judge_sequentially(
    groups: Sequence[ScoreGroup], options: VerdictOptions, schedule: SequentialSchedule
) -> tuple[SequentialVerdict, ...]:
    """Judge every pair of frameworks in every setting at the checks that its seeds allow.

    Each check uses the first seeds by number. Corrected levels lie far out in the tails, where
    Welch's approximation is too liberal, so the degrees of freedom of the smaller sample are used.
    """
    pairs = list_group_pairs(group for group in groups if group.scores is not None)
    return judge_by_family(
        pairs, options, functools.partial(_judge_sequential_family, schedule=schedule)
    )


def _judge_sequential_family(
    pairs: Sequence[GroupPair], family: str, options: VerdictOptions, schedule: SequentialSchedule
) -> list[SequentialVerdict]:
    sizes = [schedule.list_sizes(min(first.n, second.n)) for first, second in pairs]
    uncorrected = np.array(
        [_compute_p_values(*item, options, schedule) for item in zip(pairs, sizes, strict=True)]
    )
    corrected = np.array([adjust_holm(column) for column in uncorrected.T]).T
    verdicts = []
    for pair, size, (p, p_equivalence) in zip(pairs, sizes, corrected, strict=True):
        permutation = (
            _compute_permutation_p(pair, size, options, schedule) if p < options.alpha else np.nan
        )
        verdict = INCONCLUSIVE
        if p_equivalence < options.alpha:
            verdict = EQUIVALENT
        elif permutation < options.alpha:
            verdict = DIFFERENT
        next_size = (size[-1] if size else 0) + schedule.batch
        if verdict != INCONCLUSIVE or next_size > schedule.max_seeds:
            next_size = 0
        verdicts.append(
            SequentialVerdict(
                *pair, verdict, size, float(p), float(p_equivalence), permutation, family, next_size
            )
        )
    return verdicts


def _compute_p_values(
    pair: GroupPair, sizes: Sequence[int], options: VerdictOptions, schedule: SequentialSchedule
) -> tuple[float, float]:
    if not sizes:
        return float("nan"), float("nan")
    samples = [
        stack_moments([compute_moments(part) for part in _select_scores_at_checks(group, sizes)])
        for group in pair
    ]
    item = two_sample.use_smallest_degrees_of_freedom(
        two_sample.compute_contrast(samples[:1], samples[1:]), samples
    )
    margin, ends = compute_margin(pair, options).size, find_score_range(pair, options)
    alike = np.maximum(
        two_sample.compute_equivalence_p(item, margin),
        [compute_unobserved_p(pair, ends, margin, size) for size in sizes],
    )
    return (
        float(
            compute_sequential_p(two_sample.compute_two_sided_p(item), sizes, schedule.max_seeds)
        ),
        float(compute_one_sided_sequential_p(alike, sizes, schedule.max_seeds)),
    )


def _compute_permutation_p(
    pair: GroupPair, sizes: Sequence[int], options: VerdictOptions, schedule: SequentialSchedule
) -> float:
    p = [
        two_sample.compute_permutation_p(first, second, np.random.default_rng(options.seed))
        for first, second in zip(
            *(_select_scores_at_checks(group, sizes) for group in pair), strict=True
        )
    ]
    return float(compute_sequential_p(np.array(p), sizes, schedule.max_seeds))


def _select_scores_at_checks(group: ScoreGroup, sizes: Sequence[int]) -> list[FloatArray]:
    assert group.scores is not None
    return [group.scores[:size] for size in sizes]


INSIDE, OUTSIDE = "inside", "outside"
MIN_REFERENCE_FRAMEWORKS = 3


@dataclasses.dataclass(frozen=True)
class ReferenceSpread:
    """Interval in which the mean score of one more implementation is expected."""

    means: Mapping[str, float]
    runs: int
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class SpreadVerdict:
    """Verdict on the mean score of one implementation, valid whenever training stops.

    Attributes:
        verdict: `inside`, `outside` or `inconclusive`.
        n: Number of scores at the last check.
        p_inside: Group-sequential p-value of "the mean lies outside the spread".
        p_outside: Group-sequential p-value of "the mean lies inside the spread".
    """

    verdict: str
    n: int
    mean: float
    p_inside: float
    p_outside: float


@dataclasses.dataclass(frozen=True)
class PairedChange:
    """Difference between two implementations with equal seeds.

    Attributes:
        difference: Mean of second - first.
        low: Lower end of the 95% interval of Student's t, for this number of pairs alone.
        p: Group-sequential p-value of "no difference".
    """

    n: int
    difference: float
    low: float
    high: float
    p: float


def compute_reference_spread(scores: Mapping[str, Sequence[float]]) -> ReferenceSpread:
    """Compute the 95% interval in which the mean score of one more framework is expected.

    The prediction interval of a normal sample, `m +- t(k - 1) s sqrt(1 + 1/k)`, of the means of k
    frameworks: their deviation s includes the differences between frameworks and the noise of a
    mean over seeds.

    Raises:
        ValueError: Fewer than three frameworks have scores.
    """
    means = {name: float(np.mean(values)) for name, values in scores.items() if len(values)}
    count = len(means)
    if count < MIN_REFERENCE_FRAMEWORKS:
        raise ValueError(
            f"A spread needs runs of at least {MIN_REFERENCE_FRAMEWORKS} frameworks; there are "
            f"runs of {', '.join(means) or 'none'}."
        )
    values = np.array(list(means.values()))
    half = float(stats.t.ppf(0.975, count - 1) * values.std(ddof=1) * math.sqrt(1 + 1 / count))
    center = float(values.mean())
    return ReferenceSpread(means, sum(map(len, scores.values())), center - half, center + half)


def judge_against_spread(
    scores: Sequence[float],
    spread: ReferenceSpread,
    schedule: SequentialSchedule,
    alpha: float = 0.05,
) -> SpreadVerdict:
    """Judge at the checks so far whether a mean score lies inside the reference spread.

    *Inside* rejects both "at most `low`" and "at least `high`" by one-sided t tests (two one-sided
    tests); *outside* rejects that the mean lies between them. Both are group-sequential.

    Args:
        scores: float[n], one per seed, in the order of training.
        spread: The reference.
        schedule: Checks, fixed before the first seed.
        alpha: Level.
    """
    values, sizes = np.asarray(scores, dtype=np.float64), schedule.list_sizes(len(scores))
    if not sizes:
        mean = float(values.mean()) if len(values) else math.nan
        return SpreadVerdict(INCONCLUSIVE, len(values), mean, math.nan, math.nan)
    above_low, below_high = (
        np.array([_compute_one_sample_p(values[:n], limit, side) for n in sizes])
        for limit, side in ((spread.low, "greater"), (spread.high, "less"))
    )
    most = schedule.max_seeds
    inside = compute_one_sided_sequential_p(np.maximum(above_low, below_high), sizes, most)
    ends = [
        float(compute_one_sided_sequential_p(1 - p, sizes, most)) for p in (above_low, below_high)
    ]
    outside = min(1.0, 2 * min(ends))  # either end
    verdict = INCONCLUSIVE
    if inside < alpha:
        verdict = INSIDE
    elif outside < alpha:
        verdict = OUTSIDE
    mean = float(values[: sizes[-1]].mean())
    return SpreadVerdict(verdict, sizes[-1], mean, float(inside), outside)


def compute_paired_change(
    first: Sequence[float], second: Sequence[float], schedule: SequentialSchedule
) -> PairedChange:
    """Compute the difference of two implementations from pairs of equal seeds.

    Args:
        first: float[n], one score per seed.
        second: float[n], the scores of the same seeds.
        schedule: Checks, fixed before the first seed.
    """
    changes = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    mean = float(changes.mean()) if len(changes) else math.nan
    sizes = schedule.list_sizes(len(changes))
    if not sizes:
        return PairedChange(len(changes), mean, math.nan, math.nan, math.nan)
    p = [min(1.0, 2 * min(_compute_both_sides(changes[:n]))) for n in sizes]
    error = float(changes.std(ddof=1) / math.sqrt(len(changes)))
    half = float(stats.t.ppf(0.975, len(changes) - 1)) * error
    sequential = float(compute_sequential_p(p, sizes, schedule.max_seeds))
    return PairedChange(len(changes), mean, mean - half, mean + half, sequential)


def _compute_both_sides(changes: FloatArray) -> tuple[float, float]:
    return (
        _compute_one_sample_p(changes, 0.0, "greater"),
        _compute_one_sample_p(changes, 0.0, "less"),
    )


def _compute_one_sample_p(values: FloatArray, limit: float, side: str) -> float:
    """Return the p-value of a one-sided t test; 0 or 1 if all values are equal."""
    error = values.std(ddof=1) / math.sqrt(len(values))
    distance = (values.mean() - limit) * (1 if side == "greater" else -1)
    if error == 0:
        return 0.0 if distance > 0 else 1.0
    return float(stats.t.sf(distance / error, len(values) - 1))
