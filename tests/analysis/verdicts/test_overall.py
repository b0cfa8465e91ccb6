import numpy as np
import pytest

from parallax.analysis.data.load import load_runs
from parallax.analysis.verdicts.groups import group_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.overall import (
    compute_overall_scores,
    find_scales,
    get_reference_scale,
)

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
    scale = get_reference_scale(f"{task}-{version}")
    assert scale is not None
    assert scale.zero < scale.one


def test_random_scores_zero_and_the_best_paper_scores_one(results, make_run):
    scale = get_reference_scale("Hopper-v4")
    assert (scale.one, scale.zero) == (3300, 17.89)
    for env in ("Hopper-v4", "Swimmer-v4"):
        one = get_reference_scale(env).one
        make_run(env=env, timesteps=[1, 2], scheduled=2, returns=[[0, 0], [one, one]])
    (found,) = compute_overall_scores(groups(results), OPTIONS)
    assert found.aggregates.point[0] == pytest.approx([1, 1, 1, 0])
    assert found.tasks == ("Hopper-v4", "Swimmer-v4")


def test_tasks_that_cannot_go_in_are_named_with_the_reason(results, make_run):
    for framework in ("sb3", "cleanrl"):
        three_seeds(make_run, env="Hopper-v4", framework=framework)
        three_seeds(make_run, env="CartPole-v1", framework=framework)
    three_seeds(make_run, env="Ant-v4", framework="sb3")
    (found,) = compute_overall_scores(groups(results), OPTIONS)
    assert found.tasks == ("Hopper-v4",)
    assert found.left_out == ("CartPole-v1: no scale is known", "Ant-v4: no run of cleanrl")
    assert found.aggregates.names == ("cleanrl", "sb3")
    assert found.aggregates.seeds == ((3,), (3,))


def test_min_max_depends_on_the_runs_and_says_so(results, make_run):
    three_seeds(make_run, env="CartPole-v1", score=0)
    scale = find_scales(groups(results), "min-max")["CartPole-v1"]
    assert (scale.zero, scale.one) == pytest.approx((0, 200), abs=1e-3)
    assert "runs compared" in scale.source
    with pytest.raises(ValueError, match="Known: reference, min-max"):
        find_scales([], "z")


def test_equal_runs_give_equal_bits(results, make_run):
    for framework in ("sb3", "cleanrl"):
        three_seeds(make_run, env="Hopper-v4", framework=framework)
    first, second = (compute_overall_scores(groups(results), OPTIONS)[0] for _ in range(2))
    for name in ("aggregates", "profiles", "improvement"):
        one, two = getattr(first, name), getattr(second, name)
        assert np.array_equal(one.low, two.low)
        assert np.array_equal(one.high, two.high)
