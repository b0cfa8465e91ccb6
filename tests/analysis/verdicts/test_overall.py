import dataclasses

import numpy as np
import pytest
from score_groups import make_curve_run, make_score_group

from parallax.analysis.data.load import load_runs
from parallax.analysis.data.published import get_reference_score
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.report.sections.overall import make_overall_table
from parallax.analysis.report.tables import list_csv_values
from parallax.analysis.stats.aggregates import compute_aggregates
from parallax.analysis.verdicts.endpoints import ScoreScale, find_task_scale
from parallax.analysis.verdicts.groups import group_runs, make_group
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.overall import (
    _normalize_curves,
    compute_overall_scores,
    select_failed_parts,
)
from parallax.analysis.verdicts.study import judge_runs

OPTIONS = VerdictOptions(resamples=200)


def groups(results):
    return group_runs(load_runs(results))


def three_seeds(make_run, **options):
    score = options.pop("score", 1000.0)
    for seed in range(3):
        make_run(seed=seed, score=score + 100 * seed, **options)


@pytest.mark.parametrize(
    "task",
    [
        *("HalfCheetah", "Ant", "Hopper", "Walker2d", "Swimmer", "Reacher"),
        *("InvertedPendulum", "InvertedDoublePendulum"),
    ],
)
@pytest.mark.parametrize("version", ["v4", "v5"])
def test_every_task_of_the_thesis_has_a_scale_that_rises(task, version):
    cell = StudyCell("s", f"{task}-{version}", "ppo", "original", "")
    scale = find_task_scale(cell, OPTIONS)
    assert scale is not None
    assert scale.zero < scale.one


def test_the_scale_is_that_of_verdicts_over_tasks(results, make_run):
    scale = find_task_scale(StudyCell("s", "Hopper-v4", "ppo", "original", ""), OPTIONS)
    assert scale.zero == 148.5 and scale.one == get_reference_score("ppo", "Hopper-v4")[0]
    for env in ("Hopper-v4", "Swimmer-v4"):
        one = get_reference_score("ppo", env)[0]
        make_run(env=env, timesteps=[1, 2], scheduled=2, returns=[[0, 0], [one, one]])
    (found,) = compute_overall_scores(groups(results), OPTIONS)
    assert found.aggregates.point[0] == pytest.approx([1, 1, 1, 0])
    assert found.tasks == ("Hopper-v4", "Swimmer-v4")
    # Sample efficiency is of returns, also where the score is a share of the steps.
    (by_steps,) = compute_overall_scores(
        groups(results), dataclasses.replace(OPTIONS, endpoint="steps-90")
    )
    for name, curve in found.efficiency.curves.items():
        assert by_steps.efficiency.curves[name].point == pytest.approx(curve.point)


def test_excluded_tasks_are_named_with_the_reason(results, make_run):
    for framework in ("sb3", "cleanrl"):
        three_seeds(make_run, env="Hopper-v4", framework=framework)
        three_seeds(make_run, env="Unknown-v1", framework=framework)
    three_seeds(make_run, env="Ant-v4", framework="sb3")
    (found,) = compute_overall_scores(groups(results), OPTIONS)
    assert found.tasks == ("Hopper-v4",)
    assert found.left_out == ("Unknown-v1: no scale is known", "Ant-v4: no run of cleanrl")
    assert found.aggregates.names == ("cleanrl", "sb3")
    assert found.aggregates.seeds == ((3,), (3,))
    table = make_overall_table(judge_runs(load_runs(results), OPTIONS))
    rows = [list_csv_values(table, item) for item in table.items]
    assert {row["left_out"] for row in rows} == {"; ".join(found.left_out)}


def test_equal_runs_give_equal_bits(results, make_run):
    for framework in ("sb3", "cleanrl"):
        three_seeds(make_run, env="Hopper-v4", framework=framework)
    first, second = (compute_overall_scores(groups(results), OPTIONS)[0] for _ in range(2))
    for name in ("aggregates", "profiles", "improvement"):
        one, two = getattr(first, name), getattr(second, name)
        assert np.array_equal(one.low, two.low)
        assert np.array_equal(one.high, two.high)


def test_curves_of_a_task_are_on_its_scale():
    cell = StudyCell("s", "A-v1", "ppo", "original", "")
    group = make_score_group(cell, "sb3", np.zeros(2), {})
    steps, (scores,) = _normalize_curves([group], {"A-v1": ScoreScale(-300.0, 100.0, "given")})
    assert steps.tolist() == [1000] and scores.tolist() == [[0.75], [0.75]]


RANGES = (("A-v1", 0.0, 10.0), ("B-v1", -100.0, 100.0), ("C-v1", 0.0, 1.0))


def make_task_group(env, framework, ends, steps=(100, 200), hps="original"):
    cell = StudyCell("s", env, "ppo", hps, "v")
    runs = [
        make_curve_run(cell, framework, seed, steps, [[0.0, 0.0], [end, end + 2]])
        for seed, end in enumerate(ends)
    ]
    return make_group(cell, framework, runs)


def test_every_part_of_an_aggregate_is_of_the_same_normalized_scores():
    groups = [
        make_task_group("A-v1", "sb3", [4.0, 6.0]),
        make_task_group("B-v1", "sb3", [-1.0, 49.0, 99.0]),
        make_task_group("A-v1", "cleanrl", [9.0, 9.0]),
        make_task_group("B-v1", "cleanrl", [-101.0, -101.0], steps=(100, 150)),
        make_task_group("C-v1", "sb3", [1.0]),
        make_task_group("D-v1", "sb3", [1.0]),
        make_task_group("D-v1", "cleanrl", [1.0]),
    ]
    options = VerdictOptions(ranges=RANGES, resamples=300, seed=4)
    (found,) = compute_overall_scores([*groups, make_task_group("E-v1", "skrl", [])], options)
    assert (found.study, found.algorithm, found.hps, found.variant) == ("s", "ppo", "original", "v")
    assert found.tasks == ("A-v1", "B-v1") == tuple(found.scales)
    assert found.left_out == (
        "skrl: no run",
        *("D-v1: no scale is known", "E-v1: no scale is known"),
        "C-v1: no run of cleanrl",
    )
    scores = {
        "cleanrl": [np.array([1.0, 1.0]), np.array([0.0, 0.0])],
        "sb3": [np.array([0.5, 0.7]), np.array([0.5, 0.75, 1.0])],
    }
    expected = compute_aggregates(scores, np.random.default_rng(4), 300)
    assert found.aggregates.names == ("cleanrl", "sb3")
    for name in ("point", "low", "high"):
        np.testing.assert_allclose(getattr(found.aggregates, name), getattr(expected, name))
    assert found.profiles.thresholds.tolist() == pytest.approx(np.arange(81) / 40)
    assert found.profiles.share[0, [0, 20, 40]].tolist() == pytest.approx([0.5, 0.5, 0.0])
    assert found.improvement.pairs == (("cleanrl", "sb3"),)
    assert found.improvement.point[0] == pytest.approx(0.5)
    assert {found.aggregates.resamples, found.profiles.resamples, found.improvement.resamples} == {
        300
    }
    curves = found.efficiency.curves
    assert list(curves) == ["cleanrl", "sb3"] and found.efficiency.resamples == 300
    assert curves["cleanrl"].steps.tolist() == [100.0]  # all that its runs share
    assert curves["sb3"].steps.tolist() == [100.0, 200.0]
    assert curves["cleanrl"].point == pytest.approx([0.25])  # 0 is half of the way in B
    alone = compute_overall_scores(groups[4:], options)
    assert alone == () and compute_overall_scores([], options) == ()


def test_frameworks_whose_runs_share_no_evaluation_have_no_curve():
    groups = [
        make_task_group("A-v1", "sb3", [4.0]),
        make_task_group("B-v1", "sb3", [4.0], steps=(150, 250)),
        make_task_group("A-v1", "cleanrl", [4.0]),
        make_task_group("B-v1", "cleanrl", [4.0]),
    ]
    options = VerdictOptions(ranges=RANGES, resamples=5_000)
    (found,) = compute_overall_scores(groups, options)
    assert list(found.efficiency.curves) == ["cleanrl"]
    assert found.efficiency.resamples == 2_000 and found.aggregates.resamples == 5_000


def test_recipes_with_a_failed_run_are_selected_with_all_tasks():
    groups = [make_task_group(env, "sb3", [1.0]) for env in ("A-v1", "B-v1")]
    groups += [make_task_group("A-v1", "cleanrl", [1.0])]
    groups += [make_task_group("A-v1", "sb3", [1.0], hps="sb3")]
    groups[1] = dataclasses.replace(groups[1], failed=1)
    assert select_failed_parts(groups) == groups[:3]
    assert select_failed_parts(groups[:1]) == []


def test_frameworks_and_tasks_without_any_run_are_named():
    groups = [make_task_group("A-v1", name, [1.0]) for name in ("sb3", "cleanrl")]
    empty = [make_task_group("A-v1", "skrl", []), make_task_group("B-v1", "sb3", [])]
    (found,) = compute_overall_scores([*groups, *empty], VerdictOptions(ranges=RANGES))
    assert (found.tasks, list(found.aggregates.names)) == (("A-v1",), ["cleanrl", "sb3"])
    assert found.left_out == ("skrl: no run", "B-v1: no run of cleanrl, sb3")
    assert compute_overall_scores(empty, VerdictOptions(ranges=RANGES)) == ()
