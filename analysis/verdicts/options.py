"""What a reader may set about the verdicts, and how large a difference still counts as none."""

import dataclasses
from collections.abc import Sequence

from analysis.data.published import reference_score
from analysis.verdicts.groups import Group

FAMILIES = ("algorithm", "setting", "all")


@dataclasses.dataclass(frozen=True)
class Options:
    """Settings of the verdicts, stated beside them.

    Attributes:
        alpha: Level of all tests, corrected within families.
        margin_share: Margin of equivalence as a share of the reference score's size.
        family: What Holm's correction runs over: all pairs of an `algorithm` in a study, the
            pairs of one `setting`, or `all` pairs.
        power: Power asked for when seeds are planned.
        resamples: Bootstrap resamples for the ranking.
        seed: Seed of resamples and permutations: equal inputs give equal results.
    """

    alpha: float = 0.05
    margin_share: float = 0.1
    family: str = "algorithm"
    power: float = 0.8
    resamples: int = 10_000
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Margin:
    """A margin of equivalence.

    Attributes:
        size: In units of return.
        reference: The score that it is a share of.
        source: Where that score stands; `compared runs` where none is published.
    """

    size: float
    reference: float
    source: str


def margin_of(groups: Sequence[Group], options: Options) -> Margin:
    """The margin for groups of one setting.

    Args:
        groups: At least one group with a run, all of one setting.
        options: Holds the share.
    """
    cell = groups[0].cell
    found = reference_score(cell.algorithm, cell.env)
    if found is None:
        mean = sum(abs(float(group.moments.mean)) for group in groups) / len(groups)
        return Margin(options.margin_share * mean, mean, "compared runs")
    score, source = found
    return Margin(options.margin_share * abs(score), score, source)
