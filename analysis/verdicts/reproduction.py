"""Reproduction verdicts (RQ1): worse, similar or better than a published score."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from parallax.analysis.data.published import (
    PublishedScore,
    find_reproduction_targets,
    split_version,
)
from parallax.analysis.labels import format_range, format_steps
from parallax.analysis.stats import two_sample
from parallax.analysis.stats.moments import (
    SampleMoments,
    moments_from_population_sd,
    moments_from_thesis_interval,
)
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions

_OUR_STATISTIC = "last evaluation"
VERDICTS = WORSE, SIMILAR, BETTER = "worse", "similar", "better"
TARGETS_TABLE = "thesis_targets"  # scores of the original papers, read off by the thesis


@dataclasses.dataclass(frozen=True, eq=False)
class ReproductionVerdict:
    """Verdict on one framework against one published number.

    Attributes:
        group: Our scores, at the evaluation nearest to the published step count.
        verdict_thesis_interval: `worse` if the published mean lies above the thesis' interval
            (mean +- 1.96 population sd / sqrt n) of our seeds, `better` if below, otherwise
            `similar`; empty with fewer than two seeds.
        verdict_two_sided_test: Verdict by a two-sided test: Welch's if spread and number of trials
            are published, otherwise a one-sample t test.
        test: `welch` or `one-sample t`.
        difference: Our mean - the published one, in units of return.
        low: Lower end of the 95% interval of the test.
        caveats: Why the two numbers are not comparable, such as another task version.
    """

    group: ScoreGroup
    published: PublishedScore
    verdict_thesis_interval: str
    verdict_two_sided_test: str
    test: str
    difference: float
    low: float
    high: float
    p: float
    caveats: tuple[str, ...]

    @property
    def has_stopped_early(self) -> bool:
        """Return whether our runs ended before half of the published steps."""
        return bool(self.group.steps) and max(self.group.steps) < self.published.steps / 2


def moments_from_published(row: PublishedScore) -> SampleMoments:
    """Return the moments of a published number; the deviation is NaN without spread or trials."""
    mean, n = np.float64(row.mean), np.float64(row.trials or math.nan)
    if math.isnan(row.spread) or row.trials < 2:
        return SampleMoments(mean, np.float64(math.nan), n)  # type: ignore[arg-type]
    spread = np.float64(row.spread)
    if row.spread_kind == "thesis interval":
        return moments_from_thesis_interval(mean, spread, n)  # type: ignore[arg-type]
    if row.spread_kind == "population sd":
        return moments_from_population_sd(mean, spread, n)  # type: ignore[arg-type]
    return SampleMoments(mean, spread, n)  # type: ignore[arg-type]


def judge_reproduction(
    group: ScoreGroup, row: PublishedScore, options: VerdictOptions
) -> ReproductionVerdict:
    """Compare scores at the evaluation nearest to `row.steps` with one published number."""
    ours, theirs = group.moments, moments_from_published(row)
    test = "one-sample t" if math.isnan(float(theirs.sd)) else "welch"
    if test == "one-sample t":
        # A mean without a spread is taken as exact: an infinite sample without deviation.
        theirs = SampleMoments(theirs.mean, np.float64(0), np.float64(1e12))  # type: ignore[arg-type]
    item = two_sample.compute_contrast([ours], [theirs])
    p = float(two_sample.compute_two_sided_p(item))
    low, high = two_sample.compute_contrast_bounds(item, 1 - options.alpha)
    difference = float(item.difference)
    return ReproductionVerdict(
        group,
        row,
        _judge_by_thesis_interval(ours, row.mean),
        _classify_difference(difference, p, options.alpha),
        test,
        difference,
        float(low),
        float(high),
        p,
        find_reproduction_caveats(group, row),
    )


def find_reproduction_caveats(group: ScoreGroup, row: PublishedScore) -> tuple[str, ...]:
    """Return reasons why our scores and a published number are not comparable, if there are any."""
    found = []
    if row.statistic != _OUR_STATISTIC:
        found.append(f"published: {row.statistic or 'unknown statistic'}; here: {_OUR_STATISTIC}")
    _, version = split_version(group.cell.env)
    if row.version != version:
        found.append(f"task {row.version or 'unknown version'} against {version or 'unversioned'}")
    if group.steps and any(step != row.steps for step in group.steps):
        steps = format_range(group.steps, format_steps)
        found.append(f"published at {row.steps:,} steps; here at {steps}")
    if changed := describe_changed_settings(group):
        found.append(f"here with {changed}")
    return tuple(found)


def describe_changed_settings(group: ScoreGroup) -> str:
    """Describe the settings of runs that neither a recipe nor a published number has."""
    found = set()
    for run in group.runs:
        spec, values = run.spec, run.spec.get("hyperparameters") or {}
        found |= {f"{name}={values.get(name)}" for name in spec.get("overridden") or ()}
        found |= {
            f"{name}={spec[name]}"
            for name in ("intervention", "wrappers")
            if spec.get(name, "none") != "none"
        }
        replay = (spec.get("replay") or {}).get("name", "uniform")
        found |= {f"replay={replay}"} if replay != "uniform" else set()
    return ", ".join(sorted(found))


def judge_group_reproductions(
    groups: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[ReproductionVerdict, ...]:
    """Compare every group with every published number under its hyperparameters."""
    return tuple(
        judge_reproduction(group.score_at_step(row.steps), row, options)
        for group in groups
        if group.n
        for row in _find_targets(group)
        if row.table != group.cell.study
    )


def _find_targets(group: ScoreGroup) -> tuple[PublishedScore, ...]:
    cell = group.cell
    return find_reproduction_targets(cell.algorithm, cell.env, cell.hps, group.framework)


def _judge_by_thesis_interval(ours: SampleMoments, target: float) -> str:
    n = float(ours.n)
    if n < 2:
        return ""
    # The thesis divides by n in the deviation; `sd` is that of a sample, with n - 1.
    half = 1.96 * float(ours.sd) * math.sqrt((n - 1) / n) / math.sqrt(n)
    if abs(float(ours.mean) - target) <= half:
        return SIMILAR
    return BETTER if float(ours.mean) > target else WORSE


def _classify_difference(difference: float, p: float, alpha: float) -> str:
    if math.isnan(p):
        return ""
    if p >= alpha:
        return SIMILAR
    return BETTER if difference > 0 else WORSE
