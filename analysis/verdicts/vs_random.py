"""Verdicts against random actions: whether a trained framework has learned anything.

Frameworks that have learned nothing score alike, which must not be read as consistency.
"""

import dataclasses
import math
from collections.abc import Iterable

from parallax.analysis.data.published import PublishedScore, read_table, split_version
from parallax.analysis.stats.two_sample import (
    compute_contrast,
    compute_contrast_bounds,
    compute_two_sided_p,
    use_smallest_degrees_of_freedom,
)
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.reproduction import moments_from_published

BETTER_THAN_RANDOM, INCONCLUSIVE, WORSE_THAN_RANDOM = (
    "better than random",
    "inconclusive",
    "worse than random",
)
NOT_TESTED = "not tested"


@dataclasses.dataclass(frozen=True, eq=False)
class RandomVerdict:
    """Verdict on one framework in one setting against random actions.

    Attributes:
        group: The framework's final scores.
        random: Random actions on the same version of the task.
        verdict: `better than random` or `worse than random` if the difference is significant,
            `inconclusive` if not, `not tested` with one seed.
        difference: Mean score - mean of random actions, in units of return.
        low: Lower end of its 95% interval; NaN with one seed.
        high: Upper end.
        p: Uncorrected p-value of "no difference", by Welch's test with the degrees of freedom of
            the smaller sample.
    """

    group: ScoreGroup
    random: PublishedScore
    verdict: str
    difference: float
    low: float
    high: float
    p: float


def judge_vs_random(
    groups: Iterable[ScoreGroup], options: VerdictOptions
) -> tuple[RandomVerdict, ...]:
    """Judge every group with a run on a task for which random actions were measured.

    Args:
        groups: Final scores per setting and framework.
        options: Level of the tests.
    """
    known = {(row.env, row.version): row for row in read_table("random")}
    found = [(group, known.get(split_version(group.cell.env))) for group in groups if group.n]
    return tuple(
        _judge_group_vs_random(group, row, options) for group, row in found if row is not None
    )


def _judge_group_vs_random(
    group: ScoreGroup, random: PublishedScore, options: VerdictOptions
) -> RandomVerdict:
    samples = group.moments, moments_from_published(random)
    item = use_smallest_degrees_of_freedom(compute_contrast(samples[:1], samples[1:]), samples)
    low, high = map(float, compute_contrast_bounds(item))
    p, difference = float(compute_two_sided_p(item)), float(item.difference)
    verdict = NOT_TESTED if math.isnan(p) else INCONCLUSIVE
    if p < options.alpha:
        verdict = BETTER_THAN_RANDOM if difference > 0 else WORSE_THAN_RANDOM
    return RandomVerdict(group, random, verdict, difference, low, high, p)
