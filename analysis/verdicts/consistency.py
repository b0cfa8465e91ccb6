"""RQ2: do two frameworks give the same under equal settings? Different, equivalent, undecided."""

import collections
import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from analysis.data.runs import Cell
from analysis.stats import effects, pairwise
from analysis.stats.moments import Floats, Moments, stack
from analysis.verdicts.equivalence import Margin, Range, margin_of, range_of, rooms, unseen_p
from analysis.verdicts.failures import Failures, failures_of_pairs
from analysis.verdicts.groups import Group, by_cell
from analysis.verdicts.minding import remarks_on
from analysis.verdicts.options import Options
from analysis.words import OWN

DIFFERENT, EQUIVALENT, UNDECIDED = "different", "equivalent", "undecided"


@dataclasses.dataclass(frozen=True, eq=False)
class PairVerdict:
    """Two frameworks in one setting.

    Attributes:
        cell: The setting.
        first: A framework.
        second: The other; differences are first less second.
        verdict: `different`, `equivalent` or `undecided`.
        detectable: A difference is significant, be it within the margin or not.
        difference: Of the means, in units of return.
        low: Lower end of Welch's 95% interval; NaN where either has fewer than two seeds.
        high: Upper end.
        p_welch: Welch's test.
        p_permutation: Permutation test; NaN for published numbers.
        p_holm: Welch's p-value after Holm's correction over the family.
        p_tost: Two one-sided tests of "differs by the margin or more".
        p_unseen: The same without an assumption on returns but their range: what runs that were
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
        rounding_matters: Other digits behind the printed ones could change the verdict.
        remarks: In what the runs differ although they were asked for the same: seeds, versions.
    """

    cell: Cell
    first: Group
    second: Group
    verdict: str
    detectable: bool
    difference: float
    low: float
    high: float
    p_welch: float
    p_permutation: float
    p_holm: float
    p_tost: float
    p_unseen: float
    p_equivalence: float
    p_equivalence_holm: float
    margin: Margin
    range: Range
    failures: Failures
    family: str
    family_size: int
    seeds_needed: float
    hedges_g: tuple[float, float, float]
    improvement: tuple[float, float, float]
    rounding_matters: bool
    remarks: tuple[str, ...] = ()

    @property
    def alike_so_far(self) -> bool:
        """Whether only runs that were not seen keep the two from being equivalent, by one test."""
        return self.verdict == UNDECIDED and self.p_tost < 0.05 <= self.p_unseen


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

    contrast: pairwise.Contrast
    p: Floats
    p_holm: Floats
    p_tost: Floats
    p_equivalence: Floats
    p_equivalence_holm: Floats

    def verdicts(self, permutation: Floats, alpha: float) -> tuple[list[str], list[bool]]:
        """Words, and whether a difference is significant, for each pair.

        Args:
            permutation: float[pairs], p-values of permutation tests; NaN where unknown.
            alpha: Level.
        """
        with np.errstate(invalid="ignore"):
            agrees = np.isnan(permutation) | (permutation < alpha)
            detectable = (self.p_holm < alpha) & agrees
            equivalent = self.p_equivalence_holm < alpha
        words = np.where(equivalent, EQUIVALENT, np.where(detectable, DIFFERENT, UNDECIDED))
        return [str(word) for word in words], [bool(flag) for flag in detectable]


def run_tests(first: Moments, second: Moments, margins: Floats, unseen: Floats) -> PairTests:
    """Tests the pairs of one family.

    Args:
        first: Moments with float[pairs] arrays.
        second: The same for the others of the pairs.
        margins: float[pairs], margins of equivalence.
        unseen: float[pairs], p-values of "differs by the margin" whatever the runs not seen are.
    """
    item = pairwise.contrast([first], [second])
    p, p_tost = pairwise.two_sided_p(item), pairwise.equivalence_p(item, margins)
    both = np.maximum(p_tost, unseen)
    return PairTests(item, p, pairwise.holm(p), p_tost, both, pairwise.holm(both))


def rounding_matters(
    pairs: Sequence[tuple[Group, Group]],
    margins: Floats,
    unseen: Floats,
    words: list[str],
    alpha: float,
) -> list[bool]:
    """Whether means and intervals at the ends of their rounding give another verdict."""
    if not any(group.rounding for pair in pairs for group in pair):
        return [False] * len(pairs)
    changed = np.zeros(len(pairs), dtype=bool)
    none = np.full(len(pairs), np.nan)
    for apart, wider in itertools.product((-1, 1), (-1, 1)):
        moved = [_moved(pair, apart, wider) for pair in pairs]
        first, second = (stack([pair[side] for pair in moved]) for side in (0, 1))
        other, _ = run_tests(first, second, margins, unseen).verdicts(none, alpha)
        changed |= np.array([a != b for a, b in zip(words, other, strict=True)])
    return [bool(flag) for flag in changed]


def _moved(pair: tuple[Group, Group], apart: int, wider: int) -> tuple[Moments, Moments]:
    sign = 1.0 if pair[0].moments.mean >= pair[1].moments.mean else -1.0
    moved = []
    for group, side in zip(pair, (1, -1), strict=True):
        n, shift = group.moments.n, side * sign * apart * group.rounding
        # The interval is 1.96 d / sqrt(n) with d = s sqrt((n - 1) / n).
        extra = wider * group.rounding * n / (1.96 * np.sqrt(np.maximum(n - 1, 1)))
        sd = np.maximum(0.0, group.moments.sd + extra)
        moved.append(Moments(group.moments.mean + shift, sd, n))
    return moved[0], moved[1]


__all__ = ["DIFFERENT", "EQUIVALENT", "UNDECIDED", "PairVerdict", "consistency", "judge_family"]


def consistency(groups: Sequence[Group], options: Options) -> tuple[PairVerdict, ...]:
    """A verdict for every pair of frameworks in every setting that has two with a run.

    `different`: Welch's test is significant after Holm's correction over the family, and the
    permutation test is significant by itself where seeds are known (five seeds each cannot
    give less than 0.008, which no correction survives). `equivalent`: two one-sided tests are
    significant after the correction, and so is the bound on what runs that were not seen could
    make of the means; this goes before `different`, since a difference can be certain and still
    be within the margin. Otherwise `undecided`.

    Args:
        groups: Final scores.
        options: Level, share that makes the margin, family, seed of the permutations.
    """
    pairs = [
        pair
        for members in by_cell(groups).values()
        for pair in itertools.combinations([item for item in members if item.n], 2)
    ]
    if not pairs:
        return ()
    families = [family_of(first.cell, options.family) for first, _ in pairs]
    verdicts: dict[int, PairVerdict] = {}
    for name in sorted(set(families)):
        members = [i for i, family in enumerate(families) if family == name]
        found = judge_family([pairs[i] for i in members], name, options)
        verdicts.update(zip(members, found, strict=True))
    return tuple(verdicts[i] for i in range(len(pairs)))


def family_of(cell: Cell, kind: str) -> str:
    """Name of the family that a pair in this setting is corrected over.

    Variants stand apart, and so do frameworks that are each under their own defaults.
    """
    under = f" under {cell.variant}" if cell.variant else ""
    own = f" ({OWN})" if cell.hps == OWN else ""
    if kind == "all":
        return f"all pairs{own}{under}"
    if kind == "algorithm":
        return f"all pairs of {cell.algorithm}{own} in study {cell.study}{under}"
    return f"pairs of {cell.algorithm}, {cell.hps}, {cell.env} in study {cell.study}{under}"


def judge_family(
    pairs: Sequence[tuple[Group, Group]], family: str, options: Options
) -> list[PairVerdict]:
    """Verdicts on pairs, in their order, corrected over all of them.

    Args:
        pairs: At least one; each group has a score.
        family: What they are called together.
        options: Level, margins, ranges and the seed of the permutations.
    """
    first, second = (stack([pair[side].moments for pair in pairs]) for side in (0, 1))
    margins = [margin_of(pair, options) for pair in pairs]
    sizes = np.array([margin.size for margin in margins])
    unseen = np.array([unseen_p(pair, options) for pair in pairs])
    tests = run_tests(first, second, sizes, unseen)
    permutation = np.array([_permutation(pair, options) for pair in pairs])
    words, detectable = tests.verdicts(permutation, options.alpha)
    low, high = pairwise.limits(tests.contrast)
    decided = sum(word != UNDECIDED for word in words)
    # Level that Holm's procedure would hold the next p-value of the family against.
    level = np.full(len(pairs), options.alpha / max(1, len(pairs) - decided))
    needed = effects.seeds_to_decide(
        tests.contrast.difference,
        (first.sd, second.sd),
        level,
        sizes,
        options.power,
        rooms(pairs, options),
    )
    g = effects.hedges_g(first, second)
    theta = _improvement(pairs, first, second)
    theta_ends = effects.improvement_interval(theta, first.n, second.n)
    matters = rounding_matters(pairs, sizes, unseen, words, options.alpha)
    failures = failures_of_pairs(pairs, options)
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
            p_unseen=float(unseen[i]),
            p_equivalence=float(tests.p_equivalence[i]),
            p_equivalence_holm=float(tests.p_equivalence_holm[i]),
            margin=margins[i],
            range=range_of(pairs[i], options),
            failures=failures[i],
            family=family,
            family_size=tested,
            seeds_needed=float(needed[i]),
            hedges_g=(float(g[0][i]), float(g[1][i]), float(g[2][i])),
            improvement=(float(theta[i]), float(theta_ends[0][i]), float(theta_ends[1][i])),
            rounding_matters=matters[i],
            remarks=remarks_on(one, two),
        )
        for i, (one, two) in enumerate(pairs)
    ]


def holm_levels(items: Sequence[PairVerdict], alpha: float) -> list[float]:
    """Level that Holm's procedure would hold the next p-value of each one's family against."""
    undecided = collections.Counter(item.family for item in items if item.verdict == UNDECIDED)
    return [alpha / max(1, undecided[item.family]) for item in items]


def plausible_seeds(item: PairVerdict, level: float, options: Options) -> tuple[float, float]:
    """Between which numbers of seeds `seeds_needed` lies in four cases of five.

    Args:
        item: A pair.
        level: Level of its tests.
        options: Power, ranges and the seed of the draws.
    """
    one, two = rooms([(item.first, item.second)], options)
    return effects.plausible_seeds(
        (item.first.moments, item.second.moments),
        level,
        item.margin.size,
        np.random.default_rng(options.seed),
        options.power,
        (float(one[0]), float(two[0])),
    )


def _permutation(pair: tuple[Group, Group], options: Options) -> float:
    first, second = pair[0].scores, pair[1].scores
    if first is None or second is None:
        return float("nan")
    return pairwise.permutation_p(first, second, np.random.default_rng(options.seed))


def _improvement(pairs: Sequence[tuple[Group, Group]], first: Moments, second: Moments) -> Floats:
    normal = effects.improvement_of_moments(first, second)
    for i, (one, two) in enumerate(pairs):
        if one.scores is not None and two.scores is not None:
            normal[i] = effects.improvement_of_samples(one.scores, two.scores)
    return normal
