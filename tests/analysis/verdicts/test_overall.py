import dataclasses

import numpy as np
import pytest
from score_groups import make_score_group

from parallax.analysis.data.load import load_runs
from parallax.analysis.data.published import get_reference_score
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.verdicts.endpoints import ScoreScale, find_task_scale
from parallax.analysis.verdicts.groups import group_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.overall import _normalize_curves, compute_overall_scores

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


def test_tasks_that_cannot_go_in_are_named_with_the_reason(results, make_run):
    for framework in ("sb3", "cleanrl"):
        three_seeds(make_run, env="Hopper-v4", framework=framework)
        three_seeds(make_run, env="Unknown-v1", framework=framework)
    three_seeds(make_run, env="Ant-v4", framework="sb3")
    (found,) = compute_overall_scores(groups(results), OPTIONS)
    assert found.tasks == ("Hopper-v4",)
    assert found.left_out == ("Unknown-v1: no scale is known", "Ant-v4: no run of cleanrl")
    assert found.aggregates.names == ("cleanrl", "sb3")
    assert found.aggregates.seeds == ((3,), (3,))


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
