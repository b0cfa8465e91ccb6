import numpy as np
import pytest
from scipy import stats

from parallax.analysis.stats.aggregates import compute_sample_efficiency, thin_evaluations


def curves(seed=0, sizes=(5, 5, 3), k=6):
    rng = np.random.default_rng(seed)
    return [rng.normal(np.linspace(0, 1, k), 0.2, size=(n, k)) for n in sizes]


def test_each_point_is_the_interquartile_mean_at_that_step():
    tasks = curves(sizes=(5, 5, 5))
    steps = np.arange(6.0)
    found = compute_sample_efficiency({"a": (steps, tasks)}, np.random.default_rng(0), 50).curves[
        "a"
    ]
    plain = stats.trim_mean(np.concatenate(tasks), 0.25, axis=0)
    np.testing.assert_allclose(found.point, plain)
    assert (found.low <= found.point).all() and (found.point <= found.high).all()


def test_intervals_agree_with_a_plain_bootstrap_of_whole_runs():
    tasks, rng = curves(1, (5, 5)), np.random.default_rng(5)
    drawn = []
    for _ in range(800):
        rows = [task[rng.integers(len(task), size=len(task))] for task in tasks]
        drawn.append(stats.trim_mean(np.concatenate(rows), 0.25, axis=0))
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    steps = np.arange(6.0)
    found = compute_sample_efficiency(
        {"a": (steps, tasks)}, np.random.default_rng(0), 5_000
    ).curves["a"]
    np.testing.assert_allclose(found.low, low, atol=0.035)
    np.testing.assert_allclose(found.high, high, atol=0.035)


def test_a_task_with_many_seeds_counts_no_more_than_one_with_few():
    low, high = np.zeros((2, 1)), np.ones((20, 1))
    found = compute_sample_efficiency(
        {"a": (np.ones(1), [low, high])}, np.random.default_rng(0), 10
    )
    assert found.curves["a"].point == pytest.approx([0.5])


@pytest.mark.parametrize(("count", "places"), [(3, [0, 1, 2]), (0, []), (300, None), (31, None)])
def test_few_evaluations_are_taken_the_last_among_them(count, places):
    found = thin_evaluations(count)
    assert found == (places if places is not None else sorted(set(found)))
    assert len(found) == min(count, 30) and found[-1:] == [count - 1][: len(found)]


def test_evaluations_are_taken_at_even_distances():
    assert thin_evaluations(300) == list(range(9, 300, 10))
    assert thin_evaluations(9, 3) == [2, 5, 8] and thin_evaluations(4, 4) == [0, 1, 2, 3]
    assert thin_evaluations(5, 4) == [0, 1, 3, 4]
