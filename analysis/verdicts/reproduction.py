"""RQ1: worse, similar or better than what was published?"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from analysis.data.published import Published, split_version, targets
from analysis.stats import pairwise
from analysis.stats.moments import Moments, from_population_sd, from_thesis_interval
from analysis.verdicts.groups import Group
from analysis.verdicts.options import Options

WORSE, SIMILAR, BETTER = "worse", "similar", "better"


@dataclasses.dataclass(frozen=True, eq=False)
class ReproductionVerdict:
    """One framework against one published number.

    Attributes:
        group: Our scores, at the evaluation nearest to the published step count.
        published: The number.
        thesis_form: `worse` where the published mean is above the thesis' interval
            (mean +- 1.96 population sd / sqrt n) of our seeds, `better` where below it,
            otherwise `similar`. Empty with fewer than two seeds.
        two_sided: The same by a two-sided test at the level of the options: Welch's where the
            published spread and number of trials are given, otherwise a one-sample t test.
        test: `welch` or `one-sample t`.
        difference: Our mean less the published one, in units of return.
        low: Lower end of the 95% interval of the test.
        high: Upper end.
        p: p-value of the test.
        remarks: What makes the two numbers differ in kind, such as another task version.
    """

    group: Group
    published: Published
    thesis_form: str
    two_sided: str
    test: str
    difference: float
    low: float
    high: float
    p: float
    remarks: tuple[str, ...]

    @property
    def stops_early(self) -> bool:
        """Whether our runs took less than half of the published steps."""
        return bool(self.group.steps) and max(self.group.steps) < self.published.steps / 2


def published_moments(row: Published) -> Moments:
    """Moments of a published number; the deviation is NaN where spread or trials are not told."""
    mean, n = np.float64(row.mean), np.float64(row.trials or math.nan)
    if math.isnan(row.spread) or row.trials < 2:
        return Moments(mean, np.float64(math.nan), n)  # type: ignore[arg-type]
    spread = np.float64(row.spread)
    if row.spread_kind == "thesis interval":
        return from_thesis_interval(mean, spread, n)  # type: ignore[arg-type]
    if row.spread_kind == "population sd":
        return from_population_sd(mean, spread, n)  # type: ignore[arg-type]
    return Moments(mean, spread, n)  # type: ignore[arg-type]


def judge(group: Group, row: Published, options: Options) -> ReproductionVerdict:
    """Compares one framework's scores with one published number.

    Args:
        group: Scores at the evaluation nearest to `row.steps`.
        row: The published number.
        options: Holds the level.
    """
    ours, theirs = group.moments, published_moments(row)
    test = "one-sample t" if math.isnan(float(theirs.sd)) else "welch"
    if test == "one-sample t":
        # A mean without a spread is taken as exact: an infinite sample without deviation.
        theirs = Moments(theirs.mean, np.float64(0), np.float64(1e12))  # type: ignore[arg-type]
    item = pairwise.contrast([ours], [theirs])
    p = float(pairwise.two_sided_p(item))
    low, high = pairwise.limits(item, 1 - options.alpha)
    difference = float(item.difference)
    return ReproductionVerdict(
        group,
        row,
        _thesis_form(ours, row.mean),
        _word(difference, p, options.alpha),
        test,
        difference,
        float(low),
        float(high),
        p,
        remarks(group, row),
    )


def remarks(
    group: Group, row: Published, same_statistic: str = "last evaluation"
) -> tuple[str, ...]:
    """Why the two numbers are not of one kind; empty where they are."""
    found = []
    if row.statistic != same_statistic:
        found.append(f"published: {row.statistic or 'statistic not told'}; here: {same_statistic}")
    _, version = split_version(group.cell.env)
    if row.version != version:
        found.append(f"task {row.version or 'version not told'} against {version or 'unversioned'}")
    if group.steps and any(step != row.steps for step in group.steps):
        steps = " to ".join(f"{step:,}" for step in sorted({group.steps[0], group.steps[-1]}))
        found.append(f"published at {row.steps:,} steps; here at {steps}")
    return tuple(found)


def reproduction_of_groups(
    groups: Sequence[Group], options: Options
) -> tuple[ReproductionVerdict, ...]:
    """Every group against every published number under its hyperparameters."""
    return tuple(
        judge(group.nearest_to(row.steps), row, options)
        for group in groups
        if group.n
        for row in _targets(group)
        if row.table != group.cell.study
    )


def _targets(group: Group) -> tuple[Published, ...]:
    cell = group.cell
    return targets(cell.algorithm, cell.env, cell.hps, group.framework)


def _thesis_form(ours: Moments, target: float) -> str:
    n = float(ours.n)
    if n < 2:
        return ""
    half = 1.96 * float(ours.sd) * math.sqrt((n - 1) / n) / math.sqrt(n)
    if abs(float(ours.mean) - target) <= half:
        return SIMILAR
    return BETTER if float(ours.mean) > target else WORSE


def _word(difference: float, p: float, alpha: float) -> str:
    if math.isnan(p):
        return ""
    if p >= alpha:
        return SIMILAR
    return BETTER if difference > 0 else WORSE
