import numpy as np
import pytest
from loops import iterate_some
from scipy import stats

from parallax.analysis.stats import aggregates
from parallax.analysis.stats.aggregates import (
    AGGREGATE_NAMES,
    compute_aggregates,
    compute_improvement,
    compute_profiles,
    draw_resample_counts,
)
from parallax.analysis.stats.intervals import compute_percentile_bounds


def rng(seed=0):
    return np.random.default_rng(seed)


def tasks(seed=0, shape=(8, 5)):
    return list(rng(seed).normal(0.7, 0.4, size=shape))


def textbook(scores):
    flat = np.concatenate(scores)
    means = [task.mean() for task in scores]
    gap = 1 - np.minimum(flat, 1).mean()
    return [np.median(means), stats.trim_mean(flat, 0.25), flat.mean(), gap]


@pytest.mark.parametrize(
    "shape", [(8, 5), (1, 2), (3, 1), (5, 7), (2, 30), (1, 255), (1, 256), (1, 257), (2, 40_000)]
)
def test_points_are_the_textbook_formulas(shape):
    scores = tasks(shape=shape)
    found = compute_aggregates({"a": scores}, rng(), resamples=10)
    assert found.point[0] == pytest.approx(textbook(scores))
    assert AGGREGATE_NAMES == ("median", "iqm", "mean", "optimality_gap")


def test_intervals_agree_with_a_plain_stratified_bootstrap():
    scores, draws = tasks(1), rng(5)
    plain = np.array(
        [textbook([draws.choice(task, len(task)) for task in scores]) for _ in range(4_000)]
    )
    low, high = np.percentile(plain, [2.5, 97.5], axis=0)
    found = compute_aggregates({"a": scores}, rng(), resamples=20_000)
    np.testing.assert_allclose(found.low[0], low, atol=0.012)
    np.testing.assert_allclose(found.high[0], high, atol=0.012)


def test_the_mean_agrees_with_scipys_bootstrap_on_one_task():
    values = rng(3).normal(size=12)
    theirs = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=100_000, rng=rng(4)
    ).confidence_interval
    found = compute_aggregates({"a": [values]}, rng(), resamples=100_000)
    assert (found.low[0, 2], found.high[0, 2]) == pytest.approx(tuple(theirs), abs=0.02)


@pytest.mark.parametrize("sizes", [(5, 5, 5), (1, 40), (300,)])
def test_counts_are_multinomial_within_each_task(sizes):
    counts = np.concatenate(list(draw_resample_counts(sizes, 4_000, rng())), axis=1)
    starts = np.cumsum([0, *sizes])
    for size, start in iterate_some(zip(sizes, starts, strict=False)):
        block = counts[start : start + size].astype(float)
        assert (block.sum(axis=0) == size).all()
        variance = 1 - 1 / size
        assert abs(block.mean() - 1) < 1e-12
        assert block.var(axis=1).mean() == pytest.approx(variance, rel=0.1, abs=1e-12)


def test_equal_seeds_give_equal_bits_and_chunks_bound_memory(monkeypatch):
    scores = {"a": tasks(1), "b": tasks(2)}
    first, second = (compute_aggregates(scores, rng(9), resamples=25_000) for _ in range(2))
    assert first.low.tobytes() == second.low.tobytes()
    monkeypatch.setattr(aggregates, "CHUNK_SIZE", 100)
    sizes = [counts.shape for counts in draw_resample_counts([5, 5], 250, rng())]
    assert sizes == [(10, 100), (10, 100), (10, 50)]


def test_a_profile_is_the_share_of_runs_above_with_tasks_weighted_equally():
    scores = [np.array([0.0, 1.0]), np.array([0.2, 0.4, 0.6, 2.0])]
    found = compute_profiles(
        {"a": scores}, np.array([-1.0, 0.0, 0.5, 1.0, 3.0]), rng(), resamples=200
    )
    assert found.share[0] == pytest.approx([1, 0.75, 0.5, 0.125, 0])
    assert (found.low <= found.share + 1e-6).all()
    assert (found.high >= found.share - 1e-6).all()
    assert (np.diff(found.share[0]) <= 0).all()


def test_profile_intervals_agree_with_a_plain_stratified_bootstrap():
    scores, draws, at = tasks(1), rng(5), np.array([0.3, 0.7, 1.1])
    plain = [
        [np.mean([(task > t).mean() for task in drawn]) for t in at]
        for drawn in ([draws.choice(task, len(task)) for task in scores] for _ in range(3_000))
    ]
    low, high = np.percentile(plain, [2.5, 97.5], axis=0)
    found = compute_profiles({"a": scores}, at, rng(), resamples=20_000)
    np.testing.assert_allclose(found.low[0], low, atol=0.026)  # one run is worth 0.025
    np.testing.assert_allclose(found.high[0], high, atol=0.026)


def test_the_probability_of_improvement_is_mann_whitneys_statistic_over_tasks():
    scores = {"a": tasks(1), "b": [task[:4] + 0.3 for task in tasks(2)]}
    found = compute_improvement(scores, rng())
    expected = np.mean(
        [
            stats.mannwhitneyu(a, b).statistic / (len(a) * len(b))
            for a, b in zip(*scores.values(), strict=True)
        ]
    )
    assert found.pairs == (("a", "b"),)
    assert found.point[0] == pytest.approx(expected)
    assert found.low[0] < expected < found.high[0]


def test_equal_scores_improve_by_one_half():
    same = [np.full(5, 3.0)]
    found = compute_improvement({"a": same, "b": same}, rng(), resamples=50)
    assert (found.low[0], found.point[0], found.high[0]) == (0.5, 0.5, 0.5)


def test_tasks_have_equal_weight_for_any_number_of_seeds():
    """Every statistic is that of the same scores, each task's repeated to one number."""
    uneven = [rng(i).normal(i, 1, n) for i, n in enumerate((2, 3, 12))]
    even = [np.repeat(task, 12 // len(task)) for task in uneven]
    found = compute_aggregates({"a": uneven}, rng(), resamples=50).point[0]
    expected = compute_aggregates({"a": even}, rng(), resamples=50).point[0]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    flat = np.concatenate(even)
    assert found[1] == pytest.approx(stats.trim_mean(flat, 0.25))
    assert found[2] == pytest.approx(np.mean([task.mean() for task in uneven]))
    assert found[3] == pytest.approx(1 - np.mean([np.minimum(task, 1).mean() for task in uneven]))


def test_many_different_numbers_of_seeds_are_supported():
    scores = [rng(n).normal(size=n) for n in (7, 11, 13, 16, 17, 19, 23, 29, 30, 31, 37, 41, 43)]
    found = compute_aggregates({"a": scores}, rng(), resamples=20)
    assert np.isfinite(found.point).all()
    assert (found.low <= found.high).all()


def test_percentiles_leave_half_of_the_rest_on_each_side():
    values = np.stack([np.arange(101.0), 10 * np.arange(101.0)])
    low, high = compute_percentile_bounds(values, 0.9, -1)
    assert low == pytest.approx([5, 50]) and high == pytest.approx([95, 950])


def test_trimming_of_uneven_tasks_equals_that_of_repeated_values():
    scores = [rng(i).normal(i, 1, n) for i, n in enumerate((255, 256))]
    flat = np.concatenate([np.repeat(scores[0], 256), np.repeat(scores[1], 255)])
    found = compute_aggregates({"a": scores}, rng(), resamples=5).point[0]
    assert found[1] == pytest.approx(stats.trim_mean(flat, 0.25), rel=1e-9)


def test_improvement_intervals_agree_with_a_plain_stratified_bootstrap():
    draws = rng(5)
    scores = {
        "a": [rng(1).normal(0, 1, 6), rng(2).normal(0, 1, 4)],
        "b": [rng(3).normal(0.5, 1, 5), rng(4).normal(0.5, 1, 7)],
        "c": [np.full(3, 9.0), np.full(2, 9.0)],
    }

    def compare(a, b):
        return (
            np.sign(np.subtract.outer(draws.choice(a, len(a)), draws.choice(b, len(b)))) + 1
        ) / 2

    plain = [
        np.mean([compare(*both).mean() for both in zip(scores["a"], scores["b"], strict=True)])
        for _ in range(3000)
    ]
    found = compute_improvement(scores, rng(), resamples=20_000, level=0.8)
    assert found.pairs == (("a", "b"), ("a", "c"), ("b", "c")) and found.resamples == 20_000
    assert (found.low[0], found.high[0]) == pytest.approx(
        tuple(np.quantile(plain, [0.1, 0.9])), abs=0.03
    )
    assert found.point[1:].tolist() == found.high[1:].tolist() == [0.0, 0.0]
