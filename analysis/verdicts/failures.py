"""Failed runs: a separate endpoint, and scored at the bottom of the range of returns."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from parallax.analysis.data.runs import CompletedRun, ExcludedRun
from parallax.analysis.labels import group_items
from parallax.analysis.stats import two_sample
from parallax.analysis.stats.learning_curves import FINAL
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.verdicts.groups import GroupPair, ScoreGroup
from parallax.analysis.verdicts.margins import compute_failure_threshold, find_score_range
from parallax.analysis.verdicts.options import VerdictOptions


@dataclasses.dataclass(frozen=True)
class FailureComparison:
    """Failed runs of two frameworks in one setting.

    Attributes:
        threshold: A run with a final score below this has failed; NaN if no scale is known.
        failed: Number of failed runs of each; empty if unknown.
        p: p-value of Fisher's exact test.
        difference: Failed share of the first - that of the second.
        low: Lower end of Newcombe's 95% interval for it.
    """

    threshold: float
    failed: tuple[int, ...]
    sizes: tuple[int, ...]
    p: float
    p_holm: float
    difference: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether the numbers of failed runs are known."""
        return bool(self.failed)

    @property
    def counts(self) -> tuple[str, ...]:
        """Failed and all runs of each framework, such as `1/5`; `-` if unknown."""
        if not self.known:
            return "-", "-"
        return tuple(f"{k}/{n}" for k, n in zip(self.failed, self.sizes, strict=True))


def compare_failures(
    pairs: Sequence[GroupPair], options: VerdictOptions
) -> list[FailureComparison]:
    """Compare the failed runs of the pairs of one family."""
    thresholds = [compute_failure_threshold(pair, options) for pair in pairs]
    counts = [_count_failures(pair, at) for pair, at in zip(pairs, thresholds, strict=True)]
    sizes = [tuple(group.n for group in pair) for pair in pairs]
    p = [
        two_sample.compute_fisher_p(k, n) if k else math.nan  # type: ignore[arg-type]
        for k, n in zip(counts, sizes, strict=True)
    ]
    corrected = adjust_holm(np.array(p))
    return [
        _make_comparison(*item)
        for item in zip(thresholds, counts, sizes, p, corrected, strict=True)
    ]


def count_failed_runs(group: ScoreGroup, threshold: float) -> int | None:
    """Count runs with a final score below a threshold; None if scores or threshold are unknown.

    The final score counts, whatever the endpoint of the study is.
    """
    scores = group.final_group.scores
    if scores is None or not group.n or math.isnan(threshold):
        return None
    return int((scores < threshold).sum())


def _count_failures(pair: GroupPair, threshold: float) -> tuple[int, ...]:
    found = [count_failed_runs(group, threshold) for group in pair]
    known = [count for count in found if count is not None]
    return tuple(known) if len(known) == len(found) else ()


def _make_comparison(
    threshold: float, failed: tuple[int, ...], sizes: tuple[int, ...], p: float, p_holm: float
) -> FailureComparison:
    low = high = difference = math.nan
    if failed:
        low, high = two_sample.compute_newcombe_interval(failed, sizes)  # type: ignore[arg-type]
        difference = failed[0] / sizes[0] - failed[1] / sizes[1]
    return FailureComparison(threshold, failed, sizes, p, float(p_holm), difference, low, high)


def find_bottom_score(groups: Sequence[ScoreGroup], options: VerdictOptions) -> float | None:
    """Return the score that is used for failed runs of a task; None if there is none.

    It is the lower end of the task's range; if that is unknown, the lowest score of the groups.
    """
    usable = [group for group in groups if group.scores is not None and group.n]
    if not usable:
        return None
    ends = find_score_range(usable, options)
    return ends.low if ends.known else min(float(group.scores.min()) for group in usable)  # type: ignore[union-attr]


def count_failed_as_bottom(
    groups: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[ScoreGroup, ...]:
    """Return groups in which every failed run has the lowest score of its task's range.

    It is the same for all recipes of an algorithm, so that library defaults can be compared. Groups
    without a failed run stay as they are, so that a setting without any has the same verdicts.
    """
    places = group_items(groups, _get_place)
    return tuple(
        _impute_failed_runs(group, places[_get_place(group)], options) if group.failed else group
        for group in groups
    )


def _get_place(group: ScoreGroup) -> tuple[str, ...]:
    """Return the setting without its recipe."""
    cell = group.cell
    return cell.study, cell.env, cell.algorithm, cell.variant


def _impute_failed_runs(
    group: ScoreGroup, members: Sequence[ScoreGroup], options: VerdictOptions
) -> ScoreGroup:
    finals = [one.final_group for one in members]
    bottom = find_bottom_score(members, options)
    final_bottom = find_bottom_score(finals, dataclasses.replace(options, endpoint=FINAL))
    own = group.final_group.scores
    if bottom is None or final_bottom is None or group.scores is None or own is None:
        return group
    scores = np.concatenate([group.scores, np.full(group.failed, bottom)])
    lengths = [one.censored.times.max() for one in members if one.censored and one.n]
    # Evaluations are those of a run that is as much like the failed one as possible.
    alike = sorted(members, key=lambda one: (one.key != group.key, one.cell != group.cell))
    runs = [run for one in alike for run in one.runs]
    return dataclasses.replace(
        group,
        scores=scores,
        moments=compute_moments(scores),
        runs=tuple(
            (*group.runs, *(_impute_run(item, runs, final_bottom) for item in group.failed_runs))
            if runs and group.failed_runs
            else ()
        ),
        # A failed run never reaches the threshold of an endpoint of steps.
        censored=group.censored
        and group.censored.add_censored(float(max(lengths, default=0)), group.failed),
        # Runs below a threshold are counted by their final returns, whatever the endpoint is.
        final_scores=np.concatenate([own, np.full(group.failed, final_bottom)]),
    )


def _impute_run(failed: ExcludedRun, runs: Sequence[CompletedRun], bottom: float) -> CompletedRun:
    """Return a substitute for a failed run: at the bottom, and never above another run.

    Evaluations are those of the first of some complete runs of the task.
    """
    like = runs[0]
    others = [run.results for run in runs if np.array_equal(run.timesteps, like.timesteps)]
    lowest = np.min([results.mean(axis=1) for results in others], axis=0)
    curve = np.minimum(bottom, lowest)[:, None]
    return dataclasses.replace(
        like,
        id=failed.id,
        path=failed.path,
        results=np.broadcast_to(curve, like.results.shape),
        seconds=math.nan,
        references={},
        is_imputed=True,
    )
