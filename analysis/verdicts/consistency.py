"""RQ2: do two frameworks give the same under equal settings? Different, equivalent, undecided."""

import collections
import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.labels import LIBRARY_DEFAULTS
from parallax.analysis.stats import effect_size_and_power, two_sample
from parallax.analysis.stats.moments import FloatArray, SampleMoments, stack_moments
from parallax.analysis.verdicts.caveats import find_caveats
from parallax.analysis.verdicts.equivalence import (
    EquivalenceMargin,
    ScoreRange,
    compute_margin,
    compute_unobserved_distances,
    compute_unobserved_p,
    find_score_range,
)
from parallax.analysis.verdicts.failures import FailureComparison, compare_failures
from parallax.analysis.verdicts.groups import ScoreGroup, group_by_cell, to_library_defaults_cell
from parallax.analysis.verdicts.options import VerdictOptions

DIFFERENT, EQUIVALENT, INCONCLUSIVE = "different", "equivalent", "inconclusive"


@dataclasses.dataclass(frozen=True, eq=False)
class PairVerdict:
    """Two frameworks in one setting.

    Attributes:
        cell: The setting.
        first: A framework.
        second: The other; differences are first less second.
        verdict: `different`, `equivalent` or `inconclusive`.
        detectable: A difference is significant, be it within the margin or not.
        difference: Of the means, in units of return.
        low: Lower end of Welch's 95% interval; NaN where either has fewer than two seeds.
        high: Upper end.
        p_welch: Welch's test.
        p_permutation: Permutation test; NaN for published numbers.
        p_holm: Welch's p-value after Holm's correction over the family.
        p_tost: Two one-sided tests of "differs by the margin or more".
        p_unobserved_failures: The same without an assumption on returns but their range: what runs that were
            not seen could make of the means.
        p_equivalence: The larger of the two.
        p_equivalence_holm: The same after Holm's correction over the family.
        margin: What counts as no difference, and why.
        range: Between what scores runs are taken to end.
        failures: Runs that failed, of both.
        family: Name of the family that was corrected over.
        family_size: Number of tests in it.
        seeds_needed: Seeds per framework that decide at 80% power if the measured values are
            the true ones; infinite above 1,000; NaN where unknown.
        hedges_g: Difference in pooled standard deviations, with low and high end.
        improvement: Chance that a seed of the first beats one of the second, with ends.
        is_rounding_sensitive: Other digits behind the printed ones could change the verdict.
        caveats: Differences between the runs in spite of equal settings: seeds, versions.
    """

    cell: StudyCell
    first: ScoreGroup
    second: ScoreGroup
    verdict: str
    detectable: bool
    difference: float
    low: float
    high: float
    p_welch: float
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
        """Whether only runs that were not seen keep the two from being equivalent, by one test."""
        return self.verdict == INCONCLUSIVE and self.p_tost < 0.05 <= self.p_unobserved_failures


@dataclasses.dataclass(frozen=True, eq=False)
class PairTests:
    """Both tests for the pairs of one family.

    Attributes:
        contrast: Differences, float[pairs] each.
        p: Welch's test.
        p_holm: The same after Holm's correction.
        p_tost: Two one-sided tests.
        p_equivalence: The larger of these and what runs not seen allow.
        p_equivalence_holm: The same after Holm's correction.
    """

    contrast: two_sample.MeanContrast
    p: FloatArray
    p_holm: FloatArray
    p_tost: FloatArray
    p_equivalence: FloatArray
    p_equivalence_holm: FloatArray

    def verdicts(self, permutation: FloatArray, alpha: float) -> tuple[list[str], list[bool]]:
        """Words, and whether a difference is significant, for each pair.

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
    first: SampleMoments, second: SampleMoments, margins: FloatArray, unseen: FloatArray
) -> PairTests:
    """Tests the pairs of one family.

    Args:
        first: Moments with float[pairs] arrays.
        second: The same for the others of the pairs.
        margins: float[pairs], margins of equivalence.
        unseen: float[pairs], p-values of "differs by the margin" whatever the runs not seen are.
    """
    item = two_sample.compute_contrast([first], [second])
    p, p_tost = (
        two_sample.compute_two_sided_p(item),
        two_sample.compute_equivalence_p(item, margins),
    )
    both = np.maximum(p_tost, unseen)
    return PairTests(item, p, two_sample.adjust_holm(p), p_tost, both, two_sample.adjust_holm(both))


def check_rounding_sensitivity(
    pairs: Sequence[tuple[ScoreGroup, ScoreGroup]],
    margins: FloatArray,
    unseen: FloatArray,
    words: list[str],
    alpha: float,
) -> list[bool]:
    """Whether means and intervals at the ends of their rounding give another verdict."""
    if not any(group.rounding for pair in pairs for group in pair):
        return [False] * len(pairs)
    changed = np.zeros(len(pairs), dtype=bool)
    none = np.full(len(pairs), np.nan)
    for apart, wider in itertools.product((-1, 1), (-1, 1)):
        moved = [_shift_by_rounding(pair, apart, wider) for pair in pairs]
        first, second = (stack_moments([pair[side] for pair in moved]) for side in (0, 1))
        other, _ = run_tests(first, second, margins, unseen).verdicts(none, alpha)
        changed |= np.array([a != b for a, b in zip(words, other, strict=True)])
    return [bool(flag) for flag in changed]


def _shift_by_rounding(
    pair: tuple[ScoreGroup, ScoreGroup], apart: int, wider: int
) -> tuple[SampleMoments, SampleMoments]:
    sign = 1.0 if pair[0].moments.mean >= pair[1].moments.mean else -1.0
    moved = []
    for group, side in zip(pair, (1, -1), strict=True):
        n, shift = group.moments.n, side * sign * apart * group.rounding
        # The interval is 1.96 d / sqrt(n) with d = s sqrt((n - 1) / n).
        extra = wider * group.rounding * n / (1.96 * np.sqrt(np.maximum(n - 1, 1)))
        sd = np.maximum(0.0, group.moments.sd + extra)
        moved.append(SampleMoments(group.moments.mean + shift, sd, n))
    return moved[0], moved[1]


__all__ = [
    "DIFFERENT",
    "EQUIVALENT",
    "INCONCLUSIVE",
    "PairVerdict",
    "judge_consistency",
    "judge_family",
]


def judge_consistency(
    groups: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[PairVerdict, ...]:
    """A verdict for every pair of frameworks in every setting that has two with a run.

    `different`: Welch's test is significant after Holm's correction over the family, and the
    permutation test is significant by itself where seeds are known (five seeds each cannot
    give less than 0.008, which no correction survives). `equivalent`: two one-sided tests are
    significant after the correction, and so is the bound on what runs that were not seen could
    make of the means; this goes before `different`, since a difference can be certain and still
    be within the margin. Otherwise `inconclusive`.

    Args:
        groups: Final scores.
        options: Level, share that makes the margin, family, seed of the permutations.
    """
    pairs = [
        pair
        for members in group_by_cell(groups).values()
        for pair in itertools.combinations([item for item in members if item.n], 2)
    ]
    if not pairs:
        return ()
    families = [name_family(first.cell, options.family) for first, _ in pairs]
    verdicts: dict[int, PairVerdict] = {}
    for name in sorted(set(families)):
        members = [i for i, family in enumerate(families) if family == name]
        found = judge_family([pairs[i] for i in members], name, options)
        verdicts.update(zip(members, found, strict=True))
    return tuple(verdicts[i] for i in range(len(pairs)))


def name_family(cell: StudyCell, kind: str) -> str:
    """Name of the family that a pair in this setting is corrected over.

    Variants stand apart, and so do frameworks that are each under their own defaults.
    """
    under = f" under {cell.variant}" if cell.variant else ""
    own = f" ({LIBRARY_DEFAULTS})" if cell.hps == LIBRARY_DEFAULTS else ""
    if kind == "all":
        return f"all pairs{own}{under}"
    if kind == "algorithm":
        return f"all pairs of {cell.algorithm}{own} in study {cell.study}{under}"
    return f"pairs of {cell.algorithm}, {cell.hps}, {cell.env} in study {cell.study}{under}"


def judge_family(
    pairs: Sequence[tuple[ScoreGroup, ScoreGroup]], family: str, options: VerdictOptions
) -> list[PairVerdict]:
    """Verdicts on pairs, in their order, corrected over all of them.

    Args:
        pairs: At least one; each group has a score.
        family: What they are called together.
        options: Level, margins, ranges and the seed of the permutations.
    """
    first, second = (stack_moments([pair[side].moments for pair in pairs]) for side in (0, 1))
    margins = [compute_margin(pair, options) for pair in pairs]
    sizes = np.array([margin.size for margin in margins])
    unseen = np.array([compute_unobserved_p(pair, options) for pair in pairs])
    tests = run_tests(first, second, sizes, unseen)
    permutation = np.array([_compute_permutation_p(pair, options) for pair in pairs])
    words, detectable = tests.verdicts(permutation, options.alpha)
    low, high = two_sample.compute_contrast_bounds(tests.contrast)
    decided = sum(word != INCONCLUSIVE for word in words)
    # Level that Holm's procedure would hold the next p-value of the family against.
    level = np.full(len(pairs), options.alpha / max(1, len(pairs) - decided))
    needed = effect_size_and_power.estimate_seeds_needed(
        tests.contrast.difference,
        (first.sd, second.sd),
        level,
        sizes,
        options.power,
        compute_unobserved_distances(pairs, options),
    )
    g = effect_size_and_power.compute_hedges_g(first, second)
    theta = _compute_improvement_probability(pairs, first, second)
    theta_ends = effect_size_and_power.compute_improvement_interval(theta, first.n, second.n)
    matters = check_rounding_sensitivity(pairs, sizes, unseen, words, options.alpha)
    failures = compare_failures(pairs, options)
    tested = int(np.count_nonzero(~np.isnan(tests.p)))
    return [
        PairVerdict(
            cell=one.cell,
            first=one,
            second=two,
            verdict=words[i],
            detectable=detectable[i],
            difference=float(tests.contrast.difference[i]),
            low=float(low[i]),
            high=float(high[i]),
            p_welch=float(tests.p[i]),
            p_permutation=float(permutation[i]),
            p_holm=float(tests.p_holm[i]),
            p_tost=float(tests.p_tost[i]),
            p_unobserved_failures=float(unseen[i]),
            p_equivalence=float(tests.p_equivalence[i]),
            p_equivalence_holm=float(tests.p_equivalence_holm[i]),
            margin=margins[i],
            range=find_score_range(pairs[i], options),
            failures=failures[i],
            family=family,
            family_size=tested,
            seeds_needed=float(needed[i]),
            hedges_g=(float(g[0][i]), float(g[1][i]), float(g[2][i])),
            improvement=(float(theta[i]), float(theta_ends[0][i]), float(theta_ends[1][i])),
            is_rounding_sensitive=matters[i],
            caveats=find_caveats(one, two),
        )
        for i, (one, two) in enumerate(pairs)
    ]


def compute_holm_levels(items: Sequence[PairVerdict], alpha: float) -> list[float]:
    """Level that Holm's procedure would hold the next p-value of each one's family against."""
    undecided = collections.Counter(item.family for item in items if item.verdict == INCONCLUSIVE)
    return [alpha / max(1, undecided[item.family]) for item in items]


def estimate_pair_seed_range(
    item: PairVerdict, level: float, options: VerdictOptions
) -> tuple[float, float]:
    """Between which numbers of seeds `seeds_needed` lies in four cases of five.

    Args:
        item: A pair.
        level: Level of its tests.
        options: Power, ranges and the seed of the draws.
    """
    one, two = compute_unobserved_distances([(item.first, item.second)], options)
    return effect_size_and_power.estimate_seed_range(
        (item.first.moments, item.second.moments),
        level,
        item.margin.size,
        np.random.default_rng(options.seed),
        options.power,
        (float(one[0]), float(two[0])),
    )


def _compute_permutation_p(pair: tuple[ScoreGroup, ScoreGroup], options: VerdictOptions) -> float:
    first, second = pair[0].scores, pair[1].scores
    if first is None or second is None:
        return float("nan")
    return two_sample.compute_permutation_p(first, second, np.random.default_rng(options.seed))


def _compute_improvement_probability(
    pairs: Sequence[tuple[ScoreGroup, ScoreGroup]], first: SampleMoments, second: SampleMoments
) -> FloatArray:
    normal = effect_size_and_power.improvement_from_moments(first, second)
    for i, (one, two) in enumerate(pairs):
        if one.scores is not None and two.scores is not None:
            normal[i] = effect_size_and_power.improvement_from_samples(one.scores, two.scores)
    return normal


def judge_library_defaults(
    groups: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[PairVerdict, ...]:
    """A verdict for every pair of frameworks of which each was run under its own defaults.

    As `consistency`, corrected over families of their own: the question is another one.

    Args:
        groups: Final scores.
        options: Level, margins, family and the seed of the permutations.
    """
    own = {
        (to_library_defaults_cell(group.cell, group.framework), group.framework): group
        for group in groups
        if group.cell.hps == group.framework
    }
    together = [dataclasses.replace(group, cell=cell) for (cell, _), group in own.items()]
    return tuple(
        dataclasses.replace(
            item,
            first=own[item.cell, item.first.framework],
            second=own[item.cell, item.second.framework],
        )
        for item in judge_consistency(together, options)
    )
