"""Better than random actions, worse, or neither shown."""

import numpy as np
import pytest
from scipy import stats

from parallax.analysis.data.published import read_table
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.references import judge_vs_random

(RANDOM,) = [row for row in read_table("random") if (row.env, row.version) == ("Pendulum", "v1")]


def group(scores, env="Pendulum-v1"):
    scores = np.asarray(scores, dtype=np.float64)
    n = len(scores)
    cell = StudyCell("s", env, "ppo", "original", "")
    return ScoreGroup(cell, "sb3", compute_moments(scores), 0.0, scores, (), n, n, (100,))


@pytest.mark.parametrize(
    ("offsets", "verdict"),
    [
        ((900, 950, 1000), "better than random"),
        ((-100, 0, 100), "inconclusive"),
        ((-300, -305, -310), "worse than random"),
        ((1000,), "not tested"),  # one seed has no deviation
        ((400, 400, 400), "better than random"),  # nor have equal ones, but random actions do
    ],
)
def test_scores_are_held_against_random_actions(offsets, verdict):
    (item,) = judge_vs_random(
        [group(RANDOM.mean + np.array(offsets, dtype=float))], VerdictOptions()
    )
    assert item.verdict == verdict and item.random is RANDOM
    assert item.difference == pytest.approx(np.mean(offsets))


def test_the_interval_has_the_seeds_degrees_of_freedom():
    scores = np.array([-1000.0, -900.0, -1100.0, -1050.0])
    (item,) = judge_vs_random([group(scores)], VerdictOptions())
    error = np.sqrt(scores.var(ddof=1) / 4 + RANDOM.spread**2 / RANDOM.trials)
    half = stats.t.ppf(0.975, 3) * error
    gap = scores.mean() - RANDOM.mean
    assert (item.low, item.high) == pytest.approx((gap - half, gap + half))
    assert item.p == pytest.approx(2 * stats.t.sf(gap / error, 3))


def test_only_what_was_measured_on_this_version_of_the_task_counts():
    assert (
        judge_vs_random(
            [group([1.0, 2.0], "Pendulum-v0"), group([1.0], "Unknown-v1")], VerdictOptions()
        )
        == ()
    )
    assert judge_vs_random([group([])], VerdictOptions()) == ()
