"""Better than random actions, worse, or neither shown."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from parallax.analysis.data.published import read_table
from parallax.analysis.data.runs import CompletedRun, RunId, StudyCell
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.references import find_references, judge_learning, judge_vs_random
from parallax.envs.tasks import REFERENCE_TASK_IDS
from parallax.harness.record.run_json import ReferenceReturns

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


@pytest.mark.parametrize("table", ["random", "do_nothing"])
def test_references_are_published_for_the_tasks_that_runs_do_not_measure(table):
    published = {f"{row.env}-{row.version}" for row in read_table(table)}
    assert published == set(REFERENCE_TASK_IDS)


def make_measured_group(scores, episodes):
    """Runs on an own task, each with the returns of random actions that it measured."""
    cell = StudyCell("s", "mine:Task", "ppo", "original", "")
    runs = tuple(
        CompletedRun(
            RunId(cell, "sb3", seed),
            Path(),
            np.array([100]),
            np.array([[score]]),
            np.array([[1]]),
            {},
            references={"random actions": ReferenceReturns(returns.mean(), returns.std(ddof=1), 4)},
        )
        for seed, (score, returns) in enumerate(zip(scores, episodes, strict=True))
    )
    scores = np.array(scores)
    return ScoreGroup(cell, "sb3", compute_moments(scores), 0.0, scores, runs, 5, 5, (100,))


def test_what_was_measured_with_runs_is_pooled_over_all_episodes():
    episodes = np.random.default_rng(0).normal(size=(5, 4))
    group = make_measured_group([10.0, 11, 12, 13, 14], episodes)
    (found,) = find_references(group.cell, group.runs)
    assert (found.name, float(found.moments.n)) == ("random actions", 20)
    assert found.mean == pytest.approx(episodes.mean())
    assert float(found.moments.sd) == pytest.approx(episodes.std(ddof=1))
    (verdict,) = judge_learning([group], VerdictOptions())
    assert verdict.is_learned
    (verdict,) = judge_learning([make_measured_group([0.1] * 5, episodes)], VerdictOptions())
    assert not verdict.is_learned and verdict.references


def test_published_references_come_before_measured_ones():
    group = make_measured_group([10.0] * 5, np.ones((5, 4)))
    names = {
        one.name: one.mean
        for one in find_references(StudyCell("s", "Pendulum-v1", "ppo", "original", ""), group.runs)
    }
    assert names["random actions"] == RANDOM.mean
