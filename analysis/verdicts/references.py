"""Policies without training, which a framework must beat by a margin to have learned.

Random actions alone are the wrong standard: on Reacher a policy that does nothing scores -12 and
random actions -43, so that training can make a policy worse than nothing and still beat them.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence

from parallax.analysis.data.published import read_table, split_version
from parallax.analysis.data.runs import CompletedRun, StudyCell
from parallax.analysis.stats.two_sample import (
    compute_contrast,
    compute_contrast_bounds,
    compute_one_sided_p,
    compute_two_sided_p,
    use_smallest_degrees_of_freedom,
)
from parallax.analysis.verdicts.endpoints import (
    RANDOM,
    REFERENCE_TABLES,
    ReferenceScore,
    measure_untrained,
    pool_measured_references,
)
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.margins import compute_margin
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.reproduction import moments_from_published

LEARNED, NOT_SHOWN, NOT_TESTED = "learned", "not shown to have learned", "not tested"


@dataclasses.dataclass(frozen=True, eq=False)
class LearningVerdict:
    """Verdict on one framework in one setting: has it learned?

    Attributes:
        group: Its runs, with their final returns as scores.
        margin: Distance that it must be above each of them, in units of return.
        difference: Mean score - largest mean of the references.
        p: p-value of "not above all of them by the margin": the largest of the one-sided p-values
            (intersection-union), uncorrected.
        verdict: `learned`, `not shown to have learned`, or `not tested` with one seed or no
            reference.
    """

    group: ScoreGroup
    references: tuple[ReferenceScore, ...]
    margin: float
    difference: float
    p: float
    verdict: str

    @property
    def is_learned(self) -> bool:
        """Return whether it has learned."""
        return self.verdict == LEARNED


def find_references(
    cell: StudyCell, runs: Sequence[CompletedRun] = (), *, untrained: bool = True
) -> tuple[ReferenceScore, ...]:
    """Return the known scores of policies without training on a task.

    Evaluations of runs at step 0 are of untrained policies. Measured scores are used for tasks
    without published scores.
    """
    found = [
        ReferenceScore(name, moments_from_published(row), row.source)
        for name, table in REFERENCE_TABLES.items()
        for row in read_table(table)
        if (row.env, row.version) == split_version(cell.env)
    ]
    known = {one.name for one in found}
    found += [one for one in pool_measured_references(runs) if one.name not in known]
    own = measure_untrained(runs) if untrained else None
    return (*found, *([own] if own and own.moments.n > 1 else []))


def judge_learning(
    groups: Iterable[ScoreGroup], options: VerdictOptions
) -> tuple[LearningVerdict, ...]:
    """Judge for every group with a run whether it is above all references by the margin.

    The margin is that of equivalence, so that a framework that has learned nothing cannot be
    called equivalent to one that has. The untrained policies are a framework's own.
    """
    # Also where the study's endpoint is a number of steps: references have returns only.
    returns = dataclasses.replace(options, endpoint="")
    return tuple(_judge_group(group, returns) for group in groups if group.n)


def _judge_group(group: ScoreGroup, options: VerdictOptions) -> LearningVerdict:
    references = find_references(group.cell, group.runs)
    margin = compute_margin((group,), options).size
    tails = []
    for reference in references:
        samples = group.moments, reference.moments
        item = use_smallest_degrees_of_freedom(compute_contrast(samples[:1], samples[1:]), samples)
        tails.append(float(compute_one_sided_p(item, margin)))
    p = max(tails, default=math.nan)
    best = max((reference.mean for reference in references), default=math.nan)
    verdict = LEARNED if p < options.alpha else NOT_SHOWN
    if math.isnan(p):
        verdict = NOT_TESTED
    return LearningVerdict(group, references, margin, float(group.moments.mean) - best, p, verdict)


BETTER_THAN_RANDOM, WORSE_THAN_RANDOM = "better than random", "worse than random"
INCONCLUSIVE = "inconclusive"


@dataclasses.dataclass(frozen=True, eq=False)
class RandomVerdict:
    """Verdict on one framework in one setting against random actions.

    Attributes:
        random: Random actions on the same version of the task, published or measured with the runs.
        verdict: `better than random` or `worse than random` if the difference is significant,
            `inconclusive` if not, `not tested` with one seed.
        difference: Mean score - mean of random actions, in units of return.
        low: Lower end of its 95% interval; NaN with one seed.
        p: Uncorrected p-value of "no difference", by Welch's test with the degrees of freedom of
            the smaller sample.
    """

    group: ScoreGroup
    random: ReferenceScore
    verdict: str
    difference: float
    low: float
    high: float
    p: float


def judge_vs_random(
    groups: Iterable[ScoreGroup], options: VerdictOptions
) -> tuple[RandomVerdict, ...]:
    """Judge every group with a run on a task for which random actions were measured."""
    return tuple(
        _judge_group_vs_random(group, one, options)
        for group in groups
        for one in find_references(group.cell, group.runs, untrained=False)
        if group.n and one.name == RANDOM
    )


def _judge_group_vs_random(
    group: ScoreGroup, random: ReferenceScore, options: VerdictOptions
) -> RandomVerdict:
    samples = group.moments, random.moments
    item = use_smallest_degrees_of_freedom(compute_contrast(samples[:1], samples[1:]), samples)
    low, high = map(float, compute_contrast_bounds(item))
    p, difference = float(compute_two_sided_p(item)), float(item.difference)
    verdict = NOT_TESTED if math.isnan(p) else INCONCLUSIVE
    if p < options.alpha:
        verdict = BETTER_THAN_RANDOM if difference > 0 else WORSE_THAN_RANDOM
    return RandomVerdict(group, random, verdict, difference, low, high, p)
