"""How large a difference still counts as none."""

import dataclasses
from collections.abc import Sequence

from analysis.groups import Group
from analysis.options import Options
from analysis.published import reference_score


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
