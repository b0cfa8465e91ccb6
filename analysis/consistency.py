"""RQ2: do two frameworks give the same under equal settings? Different, equivalent, undecided."""

import itertools
from collections.abc import Sequence

import numpy as np

from analysis.groups import Group, by_cell
from analysis.margins import margin_of
from analysis.options import Options
from analysis.pair_tests import rounding_matters, run_tests
from analysis.pair_verdict import DIFFERENT, EQUIVALENT, UNDECIDED, PairVerdict
from analysis.runs import Cell
from analysis.stats import effects, pairwise, power
from analysis.stats.moments import Floats, Moments, stack

__all__ = ["DIFFERENT", "EQUIVALENT", "UNDECIDED", "PairVerdict", "consistency"]


def consistency(groups: Sequence[Group], options: Options) -> tuple[PairVerdict, ...]:
    """A verdict for every pair of frameworks in every setting that has two with a run.

    `different`: Welch's test is significant after Holm's correction over the family, and the
    permutation test is significant by itself where seeds are known (five seeds each cannot
    give less than 0.008, which no correction survives). `equivalent`: two one-sided tests
    are significant after the correction; this goes before `different`, since a difference
    can be certain and still be within the margin. Otherwise `undecided`.

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
        found = _family_verdicts([pairs[i] for i in members], name, options)
        verdicts.update(zip(members, found, strict=True))
    return tuple(verdicts[i] for i in range(len(pairs)))


def family_of(cell: Cell, kind: str) -> str:
    """Name of the family that a pair in this setting is corrected over."""
    if kind == "all":
        return "all pairs"
    if kind == "algorithm":
        return f"all pairs of {cell.algorithm} in study {cell.study}"
    return f"pairs of {cell.algorithm}, {cell.hps}, {cell.env} in study {cell.study}"


def _family_verdicts(
    pairs: Sequence[tuple[Group, Group]], family: str, options: Options
) -> list[PairVerdict]:
    first, second = (stack([pair[side].moments for pair in pairs]) for side in (0, 1))
    margins = [margin_of(pair, options) for pair in pairs]
    sizes = np.array([margin.size for margin in margins])
    tests = run_tests(first, second, sizes)
    permutation = np.array([_permutation(pair, options) for pair in pairs])
    words, detectable = tests.verdicts(permutation, options.alpha)
    low, high = pairwise.limits(tests.contrast)
    decided = sum(word != UNDECIDED for word in words)
    # Level that Holm's procedure would hold the next p-value of the family against.
    level = np.full(len(pairs), options.alpha / max(1, len(pairs) - decided))
    needed = power.seeds_to_decide(
        tests.contrast.difference, (first.sd, second.sd), level, sizes, options.power
    )
    g = effects.hedges_g(first, second)
    theta = _improvement(pairs, first, second)
    theta_ends = effects.improvement_interval(theta, first.n, second.n)
    matters = rounding_matters(pairs, sizes, words, options.alpha)
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
            p_equivalence=float(tests.p_equivalence[i]),
            p_equivalence_holm=float(tests.p_equivalence_holm[i]),
            margin=margins[i],
            family=family,
            family_size=tested,
            seeds_needed=float(needed[i]),
            hedges_g=(float(g[0][i]), float(g[1][i]), float(g[2][i])),
            improvement=(float(theta[i]), float(theta_ends[0][i]), float(theta_ends[1][i])),
            rounding_matters=matters[i],
        )
        for i, (one, two) in enumerate(pairs)
    ]


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
