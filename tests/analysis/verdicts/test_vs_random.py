"""Better than random actions, worse, or neither shown."""

import json
import types
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from parallax.analysis.data.load import load_runs
from parallax.analysis.data.published import get_do_nothing_score, read_table
from parallax.analysis.data.runs import CompletedRun, RunId, StudyCell
from parallax.analysis.figures import families
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.verdicts.endpoints import find_task_scale, pool_measured_references
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.references import find_references, judge_learning, judge_vs_random
from parallax.analysis.verdicts.study import judge_runs, judge_study
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
        ((400, 400, 400), "better than random"),  # equal returns have none, but random actions do
    ],
)
def test_scores_are_compared_with_random_actions(offsets, verdict):
    (item,) = judge_vs_random(
        [group(RANDOM.mean + np.array(offsets, dtype=float))], VerdictOptions()
    )
    assert item.verdict == verdict and item.random.source == RANDOM.source
    assert item.difference == pytest.approx(np.mean(offsets))


def test_the_interval_has_the_seeds_degrees_of_freedom():
    scores = np.array([-1000.0, -900.0, -1100.0, -1050.0])
    (item,) = judge_vs_random([group(scores)], VerdictOptions())
    error = np.sqrt(scores.var(ddof=1) / 4 + RANDOM.spread**2 / RANDOM.trials)
    half = stats.t.ppf(0.975, 3) * error
    gap = scores.mean() - RANDOM.mean
    assert (item.low, item.high) == pytest.approx((gap - half, gap + half))
    assert item.p == pytest.approx(2 * stats.t.sf(gap / error, 3))


def test_only_references_of_this_task_version_count():
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


def test_references_measured_by_runs_pool_all_episodes():
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


def measured_study(make_run, env, start=300.0):
    """Two frameworks whose runs measured doing nothing, random actions and untrained policies."""
    for framework, score in (("sb3", 800.0), ("cleanrl", 700.0)):
        for seed in range(4):
            returns = np.tile(np.linspace(start, score + seed, 11)[:, None], 4)
            folder = make_run(
                env=env,
                framework=framework,
                seed=seed,
                returns=returns,
                timesteps=np.arange(11) * 2048,
            )
            record = json.loads((folder / "run.json").read_text())
            record["references"] = {
                "do nothing": {"mean": 250.0 + seed, "sd": 1.0, "episodes": 4},
                "random actions": {"mean": 100.0, "sd": 1.0, "episodes": 4},
            }
            (folder / "run.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("start", "zero", "name"), [(300.0, 300.0, "untrained"), (0, 251.5, "doing")]
)
def test_scales_begin_at_what_was_measured_with_the_runs(results, make_run, start, zero, name):
    for env in ("mine:Task", "mine:Other"):
        measured_study(make_run, env, start)
    ranges = tuple((env, 0.0, 1000.0) for env in ("mine:Task", "mine:Other"))
    study_results = judge_study(load_runs(results), VerdictOptions(resamples=50, ranges=ranges))
    verdicts = study_results.verdicts
    scale = find_task_scale(verdicts.groups[0].cell, verdicts.options)
    assert (scale.zero, scale.one) == (zero, 1000)
    assert scale.source.startswith(f"0: {name}") and "measured with the runs; 1" in scale.source
    (aggregates,) = verdicts.overall
    assert aggregates.aggregates.point[1, 2] == pytest.approx((801.5 - zero) / (1000 - zero))
    (suite,) = verdicts.suites
    assert suite.difference == pytest.approx(-100 / (1000 - zero))
    (drawn, *_) = families.make_family_figure_specs(study_results, ["aggregates"])["aggregates"]
    assert "on mine:Other, mine:Task: or untrained policies, all as measured" in drawn.caption
    assert {item.random.mean for item in verdicts.vs_random} == {100.0}


def test_published_scales_are_used_where_a_version_is_published(results, make_run):
    for env in ("Hopper-v4", "Hopper-v3"):
        measured_study(make_run, env)
    options = judge_runs(load_runs(results), VerdictOptions(resamples=50)).options
    assert {task for task, *_ in options.references} == {"Hopper-v3"}
    zeros = [
        find_task_scale(StudyCell("s", env, "ppo", "original", ""), options).zero
        for env in ("Hopper-v4", "Hopper-v3")
    ]
    assert zeros == [get_do_nothing_score("Hopper-v4")[0], 300.0]


@pytest.mark.parametrize(("runs", "deviation"), [(1, np.nan), (2, np.sqrt(2)), (3, 2)])
def test_references_measured_with_runs_are_pooled_over_their_episodes(runs, deviation):
    found = [
        types.SimpleNamespace(references={"random actions": ReferenceReturns(2.0 * i, 0.0, 1)})
        for i in range(runs)
    ]
    (pooled,) = pool_measured_references([*found, types.SimpleNamespace(references={})])
    assert (pooled.name, pooled.mean, pooled.moments.n) == ("random actions", runs - 1, runs)
    assert float(pooled.moments.sd) == pytest.approx(deviation, nan_ok=True)
    assert pooled.source.startswith(f"{runs} episodes, with {runs} run")
