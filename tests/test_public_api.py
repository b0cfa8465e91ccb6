"""The public interface: small, documented, and cheap to import."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

import parallax

HEAVY = {"torch", "numpy", "gymnasium", "hydra", "pandas", "stable_baselines3", "jax", "scipy"}


def test_importing_loads_nothing_heavy():
    code = "import sys, parallax; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert not HEAVY & {name.partition(".")[0] for name in loaded}
    assert [name for name in loaded if name.startswith("parallax.")] == []


def test_every_public_name_has_a_docstring():
    for name in parallax.__all__:
        assert inspect.getdoc(getattr(parallax, name)), name
    with pytest.raises(AttributeError):
        _ = parallax.nothing_of_the_kind


def test_statistics_take_plain_arrays_and_dicts_of_arrays():
    interval = parallax.compute_interval([1.0, 2.0, 3.0])
    assert interval.low < interval.mean == 2.0 < interval.high
    difference = parallax.compute_difference([3.0, 4.0, 5.0], [1.0, 2.0])
    assert difference.mean == 2.5
    rng = np.random.default_rng(0)
    scores = {"a": rng.normal(1.0, 0.1, (5, 3)), "b": [rng.normal(0.0, 0.1, 4) for _ in range(3)]}
    aggregates = parallax.compute_aggregates(scores, resamples=200)
    assert set(aggregates["a"]) == {"median", "iqm", "mean", "optimality_gap"}
    assert aggregates["a"]["iqm"].low > aggregates["b"]["iqm"].high
    ((_, chance),) = parallax.compute_improvement(scores, resamples=200).items()
    assert chance.mean in (0.0, 1.0)


@pytest.mark.parametrize("scores", [[1.0, float("nan")], [[1.0], [2.0]]])
def test_scores_that_cannot_be_used_are_refused(scores):
    with pytest.raises(ValueError, match="one finite score per seed"):
        parallax.compute_interval(scores)


def test_run_is_trained_loaded_and_evaluated(tmp_path):
    options = {"steps": 256, "eval_every": 128, "eval_episodes": 2}
    folder = parallax.train(
        *("sb3", "ppo", "CartPole-v1"),
        results_dir=tmp_path,
        hyperparameters={"rollout_steps": 128},
        **options,
    )
    frame = parallax.load_study(tmp_path)
    assert list(frame.step) == [0, 128, 256] and list(frame.is_final) == [False, False, True]
    assert frame.attrs["excluded"] == {}
    assert parallax.load_policy(folder)(np.zeros((3, 4), np.float32)).shape == (3,)
    with pytest.raises(ValueError, match="step is not an option"):
        parallax.train("sb3", "ppo", "CartPole-v1", step=3)
