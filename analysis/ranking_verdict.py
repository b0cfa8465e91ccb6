"""The verdict on the rankings that frameworks give the algorithms."""

import dataclasses

from analysis.groups import Group
from analysis.stats.moments import Floats, Moments, stack

PRESERVED, MAGNITUDE, NOT_PRESERVED, UNDECIDED = (
    "preserved",
    "magnitude changed",
    "not preserved",
    "undecided",
)
OWN = "own defaults"

# From the worst finding to the best, for several frameworks at once.
WORST_FIRST = (NOT_PRESERVED, MAGNITUDE, UNDECIDED, PRESERVED)


@dataclasses.dataclass(frozen=True, eq=False)
class Ranked:
    """The algorithms of one framework in one task.

    Attributes:
        framework: Its name.
        groups: One per algorithm, in the order of `RankingVerdict.algorithms`.
        ranks: float[k], 1 is best; ties share the mean of their ranks.
        signs: float[k, k], 1 where the row's algorithm is separated above the column's.
    """

    framework: str
    groups: tuple[Group, ...]
    ranks: Floats
    signs: Floats

    @property
    def moments(self) -> Moments:
        """Moments with float[k] arrays."""
        return stack([group.moments for group in self.groups])


@dataclasses.dataclass(frozen=True)
class RankPair:
    """Two frameworks' rankings of the same algorithms.

    Attributes:
        first: A framework.
        second: The other.
        verdict: `preserved`, `magnitude changed`, `not preserved` or `undecided`.
        tau_b: Kendall's tau-b of the rankings with ties; NaN where one is all ties.
        tau_b_means: Kendall's tau-b of the bare means.
        same_order: Bootstrap probability that no two algorithms' means are in opposite orders.
        reversed_pairs: Pairs of algorithms separated in opposite directions.
        changed_gaps: Pairs of algorithms whose gap differs significantly.
    """

    first: str
    second: str
    verdict: str
    tau_b: float
    tau_b_means: float
    same_order: float
    reversed_pairs: tuple[tuple[str, str], ...]
    changed_gaps: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, eq=False)
class RankingVerdict:
    """All frameworks' rankings in one task under one configuration.

    Attributes:
        study: Name of the study.
        env: Task.
        hps: Hyperparameters that all algorithms had, or `own defaults`.
        variant: What else is held equal.
        algorithms: At least two, ranked by every framework listed.
        rankings: One per framework, by name.
        pairs: One per pair of frameworks.
        verdict: The worst over the pairs, `not preserved` being the worst.
        same_order: The same for all frameworks at once.
        left_out: Frameworks without a run of some algorithm, with what they lack.
    """

    study: str
    env: str
    hps: str
    variant: str
    algorithms: tuple[str, ...]
    rankings: tuple[Ranked, ...]
    pairs: tuple[RankPair, ...]
    verdict: str
    same_order: float
    left_out: tuple[str, ...]
