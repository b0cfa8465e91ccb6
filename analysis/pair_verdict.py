"""The verdict on two frameworks in one setting."""

import dataclasses

from analysis.groups import Group
from analysis.margins import Margin
from analysis.runs import Cell

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
        p_equivalence: Two one-sided tests.
        p_equivalence_holm: The same after Holm's correction over the family.
        margin: What counts as no difference, and why.
        family: Name of the family that was corrected over.
        family_size: Number of tests in it.
        seeds_needed: Seeds per framework that decide at 80% power if the measured values are
            the true ones; infinite above 1,000; NaN where unknown.
        hedges_g: Difference in pooled standard deviations, with low and high end.
        improvement: Chance that a seed of the first beats one of the second, with ends.
        rounding_matters: Other digits behind the printed ones could change the verdict.
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
    p_equivalence: float
    p_equivalence_holm: float
    margin: Margin
    family: str
    family_size: int
    seeds_needed: float
    hedges_g: tuple[float, float, float]
    improvement: tuple[float, float, float]
    rounding_matters: bool
