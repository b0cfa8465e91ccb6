"""Is what was trained better than random actions?

Frameworks that have all learned nothing score alike, which says nothing of how they learn.
"""

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from analysis.data.published import Published, read_table, split_version
from analysis.stats.moments import Moments
from analysis.stats.pairwise import contrast, limits, two_sided_p, with_least_freedom
from analysis.verdicts.groups import Group
from analysis.verdicts.options import Options

ABOVE, NOT_SHOWN, BELOW = "above random", "not shown", "below random"
UNTESTED = "not tested"


@dataclasses.dataclass(frozen=True, eq=False)
class Learning:
    """One framework in one setting against random actions.

    Attributes:
        group: The framework's final scores.
        random: Random actions on the same version of the task.
        verdict: `above random` or `below random` where the difference is significant, otherwise
            `not shown`; `not tested` with one seed.
        difference: Mean of the scores less that of random actions, in units of return.
        low: Lower end of its 95% interval; NaN with one seed.
        high: Upper end.
        p: p-value of "no difference", one by one, by Welch's test with the degrees of freedom of
            the smaller sample.
    """

    group: Group
    random: Published
    verdict: str
    difference: float
    low: float
    high: float
    p: float


def learning(groups: Iterable[Group], options: Options) -> tuple[Learning, ...]:
    """A verdict on every group with a run, where random actions were measured on its task.

    Args:
        groups: Final scores per setting and framework.
        options: Level of the tests.
    """
    known = {(row.env, row.version): row for row in read_table("random")}
    found = [(group, known.get(split_version(group.cell.env))) for group in groups if group.n]
    return tuple(_learning(group, row, options) for group, row in found if row is not None)


def _learning(group: Group, random: Published, options: Options) -> Learning:
    values = (np.float64(value) for value in (random.mean, random.spread, random.trials))
    samples = group.moments, Moments(*values)  # type: ignore[arg-type]
    item = with_least_freedom(contrast(samples[:1], samples[1:]), samples)
    low, high = map(float, limits(item))
    p, difference = float(two_sided_p(item)), float(item.difference)
    verdict = UNTESTED if math.isnan(p) else NOT_SHOWN
    if p < options.alpha:
        verdict = ABOVE if difference > 0 else BELOW
    return Learning(group, random, verdict, difference, low, high, p)
