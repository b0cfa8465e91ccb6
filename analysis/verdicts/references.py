"""Policies without training, which a framework must beat by a margin to have learned.

Random actions alone are the wrong standard: on Reacher a policy that does nothing scores -12 and
random actions -43, so that training can make a policy worse than nothing and still beat them.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np

from parallax.analysis.data.published import PublishedScore, read_table, split_version
from parallax.analysis.data.runs import CompletedRun, StudyCell
from parallax.analysis.labels import format_count
from parallax.analysis.stats.moments import FloatArray, SampleMoments, compute_moments
from parallax.analysis.stats.two_sample import (
    compute_contrast,
    compute_contrast_bounds,
    compute_one_sided_p,
    compute_two_sided_p,
    use_smallest_degrees_of_freedom,
)
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.margins import compute_margin
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.reproduction import moments_from_published

DO_NOTHING, RANDOM, UNTRAINED = "do nothing", "random actions", "untrained policy"
LEARNED, NOT_SHOWN, NOT_TESTED = "learned", "not shown to have learned", "not tested"
_TABLES = {DO_NOTHING: "do_nothing", RANDOM: "random"}


@dataclasses.dataclass(frozen=True, eq=False)
class ReferenceScore:
    """Score of a policy without training on a task.

    Attributes:
        name: One of the names above.
        moments: Over episodes; over runs for the untrained policy.
        source: Where it comes from.
    """

    name: str
    moments: SampleMoments
    source: str

    @property
    def mean(self) -> float:
        """Mean score, in units of return."""
        return float(self.moments.mean)


@dataclasses.dataclass(frozen=True, eq=False)
class LearningVerdict:
    """Verdict on one framework in one setting: has it learned?

    Attributes:
        group: Its runs, with their final returns as scores.
        references: The policies that it is compared with.
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
    """Return the scores of policies without training on a task, those that are known.

    Args:
        cell: The setting.
        runs: Runs whose evaluations at step 0, if there are some, are of untrained policies.
            For tasks without published scores, what was measured with the runs counts.
        untrained: Whether to return the untrained policy.
    """
    found = [
        ReferenceScore(name, moments_from_published(row), row.source)
        for name, table in _TABLES.items()
        for row in read_table(table)
        if (row.env, row.version) == split_version(cell.env)
    ]
    known = {one.name for one in found}
    found += [one for one in pool_measured_references(runs) if one.name not in known]
    scores = get_untrained_scores(runs if untrained else ())
    if len(scores) > 1:
        source = f"evaluations at step 0 of {len(scores)} runs"
        found.append(ReferenceScore(UNTRAINED, compute_moments(scores), source))
    return tuple(found)


def pool_measured_references(runs: Sequence[CompletedRun]) -> list[ReferenceScore]:
    """Return the references that were measured with runs, over all of their episodes."""
    pooled = []
    for name in (DO_NOTHING, RANDOM):
        items = [run.references[name] for run in runs if name in run.references]
        if not items:
            continue
        sizes = np.array([item.episodes for item in items], dtype=np.float64)
        means, sds = np.array([(item.mean, item.sd) for item in items]).T
        n, mean = sizes.sum(), np.average(means, weights=sizes)
        squares = (sizes - 1) @ sds**2 + sizes @ (means - mean) ** 2
        sd = np.sqrt(squares / (n - 1)) if n > 1 else np.float64(math.nan)
        source = f"{n:.0f} episodes, with {format_count(len(items), 'run')}"
        moments = SampleMoments(*(np.float64(value) for value in (mean, sd, n)))  # type: ignore[arg-type]
        pooled.append(ReferenceScore(name, moments, source))
    return pooled


def get_untrained_scores(runs: Iterable[CompletedRun]) -> FloatArray:
    """Return the mean return at step 0 of each run that was evaluated there."""
    found = (run for run in runs if not run.is_imputed)
    return np.array(
        [float(run.results[0].mean()) for run in found if run.timesteps[0] == 0], dtype=np.float64
    )


def judge_learning(
    groups: Iterable[ScoreGroup], options: VerdictOptions
) -> tuple[LearningVerdict, ...]:
    """Judge for every group with a run whether it is above all references by the margin.

    The margin is that of equivalence, so that a framework that has learned nothing cannot be
    called equivalent to one that has. The untrained policies are a framework's own.

    Args:
        groups: Runs with their final returns as scores.
        options: Level and margin.
    """
    returns = dataclasses.replace(options, endpoint="")
    return tuple(_judge_group(group, returns) for group in groups if group.n)


def _judge_group(group: ScoreGroup, options: VerdictOptions) -> LearningVerdict:
    references = find_references(group.cell, group.runs)
    margin = compute_margin((group,), options).size
    tails = []
    for reference in references:
        samples = group.moments, reference.moments
        contrast = compute_contrast(samples[:1], samples[1:])
        item = use_smallest_degrees_of_freedom(contrast, samples)
        tails.append(float(compute_one_sided_p(item, margin)))
    p = max(tails, default=math.nan)
    best = max((reference.mean for reference in references), default=math.nan)
    word = NOT_TESTED if math.isnan(p) else LEARNED if p < options.alpha else NOT_SHOWN
    return LearningVerdict(group, references, margin, float(group.moments.mean) - best, p, word)


BETTER_THAN_RANDOM, WORSE_THAN_RANDOM = "better than random", "worse than random"
INCONCLUSIVE = "inconclusive"


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
