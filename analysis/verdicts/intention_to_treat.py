"""Intention to treat: runs that failed or diverged count at the bottom of the task's range.

Left out, they improve the mean of the framework whose runs diverge. Means of complete runs stand
beside these; the truth lies between the two where failures have to do with the machine alone.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.verdicts.equivalence import find_score_range
from parallax.analysis.verdicts.groups import ScoreGroup, group_by_cell
from parallax.analysis.verdicts.options import VerdictOptions


def find_bottom_score(groups: Sequence[ScoreGroup], options: VerdictOptions) -> float | None:
    """Return the score that a failed run of a setting counts as; None if nothing is known of it.

    It is the lower end of the task's range, without a known range the lowest score of the setting.

    Args:
        groups: All groups of one setting.
        options: Given ranges.
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

    Groups without a failed run stay as they are, so that a setting without any has the same
    verdicts.

    Args:
        groups: Scores of complete runs.
        options: Given ranges.
    """
    bottoms = {
        cell: find_bottom_score(members, options)
        for cell, members in group_by_cell(groups).items()
        if any(group.failed for group in members)
    }
    return tuple(_impute_failed_runs(group, bottoms.get(group.cell)) for group in groups)


def _impute_failed_runs(group: ScoreGroup, bottom: float | None) -> ScoreGroup:
    if not group.failed or bottom is None or group.scores is None:
        return group
    scores = np.concatenate([group.scores, np.full(group.failed, bottom)])
    return dataclasses.replace(
        group, scores=scores, moments=compute_moments(scores), runs=(), censored=None
    )
