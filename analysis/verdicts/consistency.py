"""Pairwise consistency verdicts (RQ2): different, equivalent or inconclusive.

Two frameworks are compared under equal settings, and each pair also under library defaults.
"""

import collections
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.labels import LIBRARY_DEFAULTS
from parallax.analysis.stats import effect_size_and_power, two_sample
from parallax.analysis.stats.moments import FloatArray, SampleMoments, stack_moments
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.stats.survival import compute_log_rank_p
from parallax.analysis.verdicts.code_differences import is_same_algorithm
from parallax.analysis.verdicts.failures import FailureComparison, compare_failures
from parallax.analysis.verdicts.groups import GroupPair, ScoreGroup, list_group_pairs, to_own_recipe
from parallax.analysis.verdicts.margins import (
    EquivalenceMargin,
    ScoreRange,
    compute_margin,
    compute_unobserved_distances,
    compute_unobserved_p,
    find_score_range,
)
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.pair_caveats import find_caveats
from parallax.analysis.verdicts.statements import (
    DIFFERENT,
    EQUIVALENT,
    INCONCLUSIVE,
    PairStatement,
    state_pairs,
)

Verdict = TypeVar("Verdict")


@dataclasses.dataclass(frozen=True, eq=False)
class PairVerdict:
    """Verdict on two frameworks in one setting.

    Attributes:
        second: Differences are first - second.
        verdict: `different`, `equivalent` or `inconclusive`.
        statement: What is shown, and whether of the means or of the distributions.
        is_same_algorithm: Whether lockstep training shows that both compute the same updates.
        detectable: Whether the difference is significant, even if it is within the margin.
        difference: Of the means, in units of return.
        low: Lower end of Welch's 95% interval; NaN if either has fewer than two seeds.
        p_log_rank: p-value of the log-rank test, which replaces it for endpoints of steps; NaN
            for others.
        p_permutation: p-value of the permutation test; NaN for published numbers.
        p_holm: p-value of Welch's or the log-rank test after Holm's correction over the family.
        p_tost: p-value of two one-sided tests of "differs by the margin or more".
        p_unobserved_failures: p-value of the same hypothesis that assumes only the range of
            returns, so that failures too rare to be observed are allowed for.
        p_equivalence: The larger of `p_tost` and `p_unobserved_failures`.
        p_equivalence_holm: `p_equivalence` after Holm's correction over the family.
        family_size: Number of tests in the family.
        seeds_needed: Seeds per framework that give a verdict with the requested power if the
            measured values are the true ones; infinite above 1,000, NaN if unknown.
        hedges_g: Difference in pooled standard deviations, with the ends of its interval.
        improvement: Probability that a seed of the first beats one of the second, with the ends
            of its interval.
        is_rounding_sensitive: Whether the rounding of published numbers could change the
            verdict.
        caveats: Differences between the runs despite equal settings: seeds, versions.
    """

    cell: StudyCell
    first: ScoreGroup
    second: ScoreGroup
    verdict: str
    statement: PairStatement
    is_same_algorithm: bool
    detectable: bool
    difference: float
    low: float
    high: float
    p_welch: float
    p_log_rank: float
    p_permutation: float
    p_holm: float
    p_tost: float
    p_unobserved_failures: float
    p_equivalence: float
    p_equivalence_holm: float
    margin: EquivalenceMargin
    range: ScoreRange
    failures: FailureComparison
    family: str
    family_size: int
    seeds_needed: float
    hedges_g: tuple[float, float, float]
    improvement: tuple[float, float, float]
    is_rounding_sensitive: bool
    caveats: tuple[str, ...] = ()

    @property
    def is_limited_by_unobserved_failures(self) -> bool:
        """Return whether only possible unobserved failures prevent equivalence.

        The level is 5%, uncorrected. Trainings that failed are observed failures.
        """
        alike = self.p_tost < 0.05 <= self.p_unobserved_failures
        failed = self.first.failed or self.second.failed
        return self.verdict == INCONCLUSIVE and alike and not failed


@dataclasses.dataclass(frozen=True, eq=False)
class PairTests:
    """Tests of difference and of equivalence for the pairs of one family, float[pairs] each.

    Attributes:
        contrast: Differences of means.
        p: Welch's test, or the log-rank test for endpoints of steps.
        p_equivalence: The larger of `p_tost` and the bound on unobserved failures.
    """

    contrast: two_sample.MeanContrast
    p: FloatArray
    p_holm: FloatArray
    p_tost: FloatArray
    p_equivalence: FloatArray
    p_equivalence_holm: FloatArray

    def decide(self, permutation: FloatArray, alpha: float) -> tuple[list[str], list[bool]]:
        """Return the verdict of each pair, and whether its difference is significant.

        Args:
            permutation: float[pairs], p-values of permutation tests; NaN where unknown.
            alpha: Level.
        """
        with np.errstate(invalid="ignore"):
            agrees = np.isnan(permutation) | (permutation < alpha)
            detectable = (self.p_holm < alpha) & agrees
            equivalent = self.p_equivalence_holm < alpha
        words = np.where(equivalent, EQUIVALENT, np.where(detectable, DIFFERENT, INCONCLUSIVE))
        return [str(word) for word in words], [bool(flag) for flag in detectable]


def run_tests(
    first: SampleMoments,
    second: SampleMoments,
    margins: FloatArray,
    p_unobserved: FloatArray,
    p_log_rank: FloatArray | None = None,
) -> PairTests:
    """Test the pairs of one family.

    Args:
        first: Moments with float[pairs] arrays.
        second: Moments of the second framework of each pair.
        margins: float[pairs], margins of equivalence.
        p_unobserved: float[pairs], `margins.compute_unobserved_p` of each pair.
        p_log_rank: float[pairs], p-values that replace those of Welch's test where they are known.
    """
    contrast = two_sample.compute_contrast([first], [second])
    p = two_sample.compute_two_sided_p(contrast)
    if p_log_rank is not None:
        p = np.where(np.isnan(p_log_rank), p, p_log_rank)
    p_tost = two_sample.compute_equivalence_p(contrast, margins)
    p_equivalence = np.maximum(p_tost, p_unobserved)
    return PairTests(contrast, p, adjust_holm(p), p_tost, p_equivalence, adjust_holm(p_equivalence))


def check_rounding_sensitivity(
    pairs: Sequence[GroupPair],
    margins: FloatArray,
    p_unobserved: FloatArray,
    words: list[str],
    alpha: float,
) -> list[bool]:
    """Return whether the rounding of means and intervals could change each verdict.

    Published numbers have few digits: the means are moved apart and together, and the intervals
    made wider and narrower, by half a unit of the last digit.
    """
    if not any(group.rounding for pair in pairs for group in pair):
        return [False] * len(pairs)
    changed = np.zeros(len(pairs), dtype=bool)
    none = np.full(len(pairs), np.nan)
    for apart, wider in itertools.product((-1, 1), (-1, 1)):
        moved = [_shift_by_rounding(pair, apart, wider) for pair in pairs]
        first, second = (stack_moments([pair[side] for pair in moved]) for side in (0, 1))
        other, _ = run_tests(first, second, margins, p_unobserved).decide(none, alpha)
        changed |= np.array([a != b for a, b in zip(words, other, strict=True)])
    return [bool(flag) for flag in changed]


def _shift_by_rounding(
    pair: GroupPair, apart: int, wider: int
) -> tuple[SampleMoments, SampleMoments]:
    sign = 1.0 if pair[0].moments.mean >= pair[1].moments.mean else -1.0
    moved = []
    for group, side in zip(pair, (1, -1), strict=True):
        n, shift = group.moments.n, side * sign * apart * group.rounding
        # The thesis prints 1.96 d / sqrt(n) with the population deviation d = s sqrt((n - 1) / n);
        # solved for s, a change of the printed number by `rounding` changes s by this.
        extra = wider * group.rounding * n / (1.96 * np.sqrt(np.maximum(n - 1, 1)))
        sd = np.maximum(0.0, group.moments.sd + extra)
        moved.append(SampleMoments(group.moments.mean + shift, sd, n))
    return moved[0], moved[1]


def judge_consistency(
    groups: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[PairVerdict, ...]:
    """Judge every pair of frameworks in every setting in which two have a run.

    - `equivalent`: two one-sided tests are significant after Holm's correction over the family,
      and so is the bound on possible unobserved failures. This takes precedence over `different`:
      a difference can be significant and still lie within the margin.
    - `different`: Welch's test is significant after the correction, and the permutation test is
      significant without one. With five seeds each its p-value cannot be below 0.008, which is
      never significant after a correction. Published numbers have no permutation test.
    - `inconclusive`: neither.
    """
    pairs = list_group_pairs(group for group in groups if group.n)
    return judge_by_family(pairs, options, judge_family)


def judge_by_family(
    pairs: Sequence[GroupPair],
    options: VerdictOptions,
    judge: Callable[[Sequence[GroupPair], str, VerdictOptions], Sequence[Verdict]],
) -> tuple[Verdict, ...]:
    """Split pairs into the families of Holm's correction and judge each family by itself.

    `judge` returns one verdict per pair of a family, given the family's name.

    Returns:
        One verdict per pair, in the order of `pairs`.
    """
    families: dict[str, list[int]] = collections.defaultdict(list)
    for i, (first, _) in enumerate(pairs):
        families[name_family(first.cell, options.family)].append(i)
    verdicts: dict[int, Verdict] = {}
    for name, members in sorted(families.items()):
        judged = judge([pairs[i] for i in members], name, options)
        verdicts.update(zip(members, judged, strict=True))
    return tuple(verdicts[i] for i in range(len(pairs)))


def name_family(cell: StudyCell, kind: str) -> str:
    """Return the name of the family of Holm's correction that a setting belongs to.

    Each variant has its own family, and so has the comparison under library defaults.
    """
    under = f" under {cell.variant}" if cell.variant else ""
    own = f" ({LIBRARY_DEFAULTS})" if cell.hps == LIBRARY_DEFAULTS else ""
    if kind == "all":
        return f"all pairs{own}{under}"
    if kind == "algorithm":
        return f"all pairs of {cell.algorithm}{own} in study {cell.study}{under}"
    return f"pairs of {cell.algorithm}, {cell.hps}, {cell.env} in study {cell.study}{under}"


def judge_family(
    pairs: Sequence[GroupPair], family: str, options: VerdictOptions
) -> list[PairVerdict]:
    """Judge the pairs of one family, all with scores, with Holm's correction over all of them."""
    first, second = (stack_moments([pair[side].moments for pair in pairs]) for side in (0, 1))
    margins = [compute_margin(pair, options) for pair in pairs]
    sizes = np.array([margin.size for margin in margins])
    ranges = [find_score_range(pair, options) for pair in pairs]
    bounds = zip(pairs, ranges, sizes, strict=True)
    p_unobserved = np.array([compute_unobserved_p(*one) for one in bounds])
    p_log_rank = np.array([_compute_log_rank_p(pair) for pair in pairs])
    tests = run_tests(first, second, sizes, p_unobserved, p_log_rank)
    permutation = np.array([_compute_permutation_p(pair, options) for pair in pairs])
    words, detectable = tests.decide(permutation, options.alpha)
    low, high = two_sample.compute_contrast_bounds(tests.contrast)
    decided = sum(word != INCONCLUSIVE for word in words)
    # Holm (1979): after k rejections of m, the next smallest p-value must be below alpha / (m - k).
    level = np.full(len(pairs), options.alpha / max(1, len(pairs) - decided))
    needed = effect_size_and_power.estimate_seeds_needed(
        tests.contrast.difference,
        (first.sd, second.sd),
        level,
        sizes,
        options.power,
        compute_unobserved_distances(pairs, ranges),
    )
    g = effect_size_and_power.compute_hedges_g(first, second)
    theta = _compute_improvement_probability(pairs, first, second)
    theta_ends = effect_size_and_power.compute_improvement_interval(theta, first.n, second.n)
    sensitive = check_rounding_sensitivity(pairs, sizes, p_unobserved, words, options.alpha)
    failures = compare_failures(pairs, options)
    statements = state_pairs(
        pairs, words, tests.contrast, tests.p_tost, sizes, ranges, failures, options.alpha
    )
    p_welch = two_sample.compute_two_sided_p(tests.contrast)
    tested = int(np.count_nonzero(~np.isnan(tests.p)))
    return [
        PairVerdict(
            cell=pair[0].cell,
            first=pair[0],
            second=pair[1],
            verdict=words[i],
            statement=statements[i],
            is_same_algorithm=is_same_algorithm(*pair),
            detectable=detectable[i],
            difference=float(tests.contrast.difference[i]),
            low=float(low[i]),
            high=float(high[i]),
            p_welch=float(p_welch[i]),
            p_log_rank=float(p_log_rank[i]),
            p_permutation=float(permutation[i]),
            p_holm=float(tests.p_holm[i]),
            p_tost=float(tests.p_tost[i]),
            p_unobserved_failures=float(p_unobserved[i]),
            p_equivalence=float(tests.p_equivalence[i]),
            p_equivalence_holm=float(tests.p_equivalence_holm[i]),
            margin=margins[i],
            range=ranges[i],
            failures=failures[i],
            family=family,
            family_size=tested,
            seeds_needed=float(needed[i]),
            hedges_g=(float(g[0][i]), float(g[1][i]), float(g[2][i])),
            improvement=(float(theta[i]), float(theta_ends[0][i]), float(theta_ends[1][i])),
            is_rounding_sensitive=sensitive[i],
            caveats=find_caveats(*pair),
        )
        for i, pair in enumerate(pairs)
    ]


def compute_holm_levels(items: Sequence[PairVerdict], alpha: float) -> list[float]:
    """Return for each pair the level that Holm's procedure requires of the next p-value."""
    open_pairs = collections.Counter(item.family for item in items if item.verdict == INCONCLUSIVE)
    return [alpha / max(1, open_pairs[item.family]) for item in items]


def estimate_pair_seed_range(
    item: PairVerdict, level: float, options: VerdictOptions
) -> tuple[float, float]:
    """Estimate the 80% range of `seeds_needed`, which is wide if there are few seeds."""
    one, two = compute_unobserved_distances([(item.first, item.second)], [item.range])
    return effect_size_and_power.estimate_seed_range(
        (item.first.moments, item.second.moments),
        level,
        item.margin.size,
        np.random.default_rng(options.seed),
        options.power,
        (float(one[0]), float(two[0])),
    )


def _compute_permutation_p(pair: GroupPair, options: VerdictOptions) -> float:
    first, second = pair[0].scores, pair[1].scores
    if first is None or second is None:
        return float("nan")
    # Each pair has its own generator, so that its p-value does not depend on the other pairs.
    return two_sample.compute_permutation_p(first, second, np.random.default_rng(options.seed))


def _compute_log_rank_p(pair: GroupPair) -> float:
    first, second = pair[0].censored, pair[1].censored
    return np.nan if first is None or second is None else compute_log_rank_p(first, second)


def _compute_improvement_probability(
    pairs: Sequence[GroupPair], first: SampleMoments, second: SampleMoments
) -> FloatArray:
    normal = effect_size_and_power.improvement_from_moments(first, second)
    for i, (one, two) in enumerate(pairs):
        if one.scores is not None and two.scores is not None:
            normal[i] = effect_size_and_power.improvement_from_samples(one.scores, two.scores)
    return normal


def judge_library_defaults(
    groups: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[PairVerdict, ...]:
    """Judge every pair of frameworks that were each run under their library defaults.

    `groups` are those of `collect_library_defaults`.

    The rules are those of `judge_consistency`, with separate families: hyperparameters differ, so
    that this does not answer RQ2.
    """
    return tuple(
        dataclasses.replace(
            item, first=to_own_recipe(item.first), second=to_own_recipe(item.second)
        )
        for item in judge_consistency(groups, options)
    )
