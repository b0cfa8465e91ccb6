"""Models of priorities by hand-computed cases: Imp-PER's sums and weights, ATDC-PER's errors."""

import numpy as np
import pytest

from parallax.harness.replay.corrected_priorities import (
    compute_corrected_weights,
    fit_least_squares,
    predict_linear,
    smooth_prediction,
)
from parallax.harness.replay.replayer import make_replay_strategy
from tests.harness.replay.plain_tree import PlainTree

CLOSE = {"rtol": 1e-9}


def imp(capacity=4, **fields):
    usual = {"alpha": 1.0, "epsilon": 0.0, "sweep_every": 4, "predict_every": 4, "fragments": 1}
    return make_replay_strategy({"name": "imp", **usual, **fields}, capacity, 100, PlainTree)


def test_least_squares_by_hand():
    # z = 2 x1 - 3 x2 + 5, on four points that determine it, at very different sizes.
    features = np.array([[1.0, 1e6], [2.0, 3e6], [4.0, 2e6], [3.0, 7e6]])
    targets = 2 * features[:, 0] - 3e-6 * features[:, 1] + 5
    found = fit_least_squares(features, targets)
    np.testing.assert_allclose(found, [2, -3e-6, 5], **CLOSE)
    np.testing.assert_allclose(predict_linear(found, np.array([[10.0, 1e6]])), [22], **CLOSE)


def test_least_squares_of_points_that_do_not_agree_by_hand():
    # One feature that varies: y = 1, 2, 4 at x = 0, 1, 2 gives slope 3/2 and constant 5/6.
    features = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    np.testing.assert_allclose(
        fit_least_squares(features, np.array([1.0, 2.0, 4.0])), [1.5, 0, 5 / 6], atol=1e-12
    )


def test_fewer_points_than_coefficients_are_interpolated():
    features = np.array([[3.0, 10.0]])
    found = fit_least_squares(features, np.array([6.0]))
    np.testing.assert_allclose(predict_linear(found, features), [6.0], **CLOSE)


def test_pairs_of_a_sweep_and_of_its_fragments_by_hand():
    made = imp(fragments=2, fragment_sweeps=1)
    made.add(4)
    made.update(np.arange(4), np.array([1.0, 2.0, 3.0, 4.0]))
    made.sweep(lambda places: np.array([2.0, 1.0, 5.0, 7.0])[places])
    # x1 of stored priorities, x2 of time-stamps 1 to 4, sum and minimum of the real ones.
    assert made.pairs == [[3.0, 3.0, 3.0, 1.0], [7.0, 7.0, 12.0, 5.0]]
    made.add(4)
    made.update(np.arange(4), np.array([1.0, 1.0, 1.0, 1.0]))
    made.sweep(lambda places: np.full(4, 0.5)[places])
    assert made.pairs[2:] == [[4.0, 5.0 + 6 + 7 + 8, 2.0, 0.5]]


def test_prediction_smoothing_and_weights_by_hand():
    made = imp(rho_sum=0.25, rho_minimum=0.5, beta=0.5, beta_final=0.5, weight_high=1.5)
    made.add(4)
    made.update(np.arange(4), np.array([1.0, 2.0, 3.0, 4.0]))
    assert made.is_due()
    made.sweep(lambda places: np.array([2.0, 4.0, 6.0, 8.0])[places])
    # One pair: the model says at the same features what it has seen.
    assert made.sum == pytest.approx(20.0)
    assert made.minimum == pytest.approx(2.0 / 20.0)
    assert not made.is_due()
    # q = errors / 20; p = (1, 2, 3, 4) / 10; w = q / p cut to 1.5; v = (0.1 / q) ** 0.5, at most 1.
    corrected = made.correct_weights(np.array([0, 3]), np.ones(2), np.array([4.0, -1.0]))
    np.testing.assert_allclose(corrected, [1.5 * np.sqrt(0.1 / 0.2), 0.05 / 0.4], **CLOSE)
    made.add(4)
    made.update(np.arange(4), np.array([1.0, 2.0, 3.0, 4.0]))
    made.pairs = [[10.0, 26.0, 40.0, 4.0]]
    made.update_predictions()
    assert made.sum == pytest.approx(0.25 * 20 + 0.75 * 40)
    assert made.minimum == pytest.approx(0.5 * 0.1 + 0.5 * 4 / made.sum)


def test_first_smoothed_value_is_the_prediction():
    assert smooth_prediction(None, 3.0, 0.3) == 3.0
    assert smooth_prediction(1.0, 3.0, 0.3) == pytest.approx(0.3 + 2.1)


def test_weights_are_clipped_at_the_root_of_the_minibatch_size():
    made = imp()
    made.add(4)
    made.update(np.arange(4), np.array([1.0, 1.0, 1.0, 1.0]))
    made.sweep(lambda places: np.ones(4)[places])
    corrected = made.correct_weights(np.arange(4), np.ones(4), np.array([100.0, 1.0, 1.0, 1.0]))
    beta = made.beta
    assert corrected[0] == pytest.approx(2.0 * (1 / 100) ** beta)  # sqrt(4)


def test_weights_can_be_divided_by_those_of_the_minibatch():
    made = imp(beta=1.0, smallest="batch", weight_high=100.0)
    made.add(4)
    made.update(np.arange(4), np.array([1.0, 1.0, 1.0, 1.0]))
    made.sweep(lambda places: np.array([1e-6, 1.0, 2.0, 4.0])[places])
    errors = np.array([2.0, 4.0])
    corrected = made.correct_weights(np.array([2, 3]), np.ones(2), errors)
    # v = 2 / 2 and 2 / 4, and w = q / p rises with the error: both have q of the smaller error.
    np.testing.assert_allclose(corrected, made.compute_powers(np.full(2, 2.0)) / made.sum * 4)


def test_correction_estimates_what_real_priorities_would_give():
    stored, real = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 1.0, 4.0, 3.0])
    p, q = stored / stored.sum(), real / real.sum()
    weights = compute_corrected_weights(q, p, 1.0, 0.0, (0.0, np.inf))
    values = np.array([1.0, -1.0, 2.0, 5.0])
    assert (p * weights * values).sum() == pytest.approx((q * values).sum())


def test_before_the_first_sweep_weights_are_those_of_per():
    made = imp(sweep_every=100)
    made.add(4)
    weights = np.array([0.5, 1.0])
    assert made.correct_weights(np.array([0, 1]), weights, np.ones(2)) is weights


def test_negative_predicted_sums_are_replaced_by_stored_ones():
    made = imp()
    made.add(4)
    made.update(np.arange(4), np.array([1.0, 2.0, 3.0, 4.0]))
    made.pairs = [[10.0, 10.0, -5.0, -1.0]]
    made.update_predictions()
    assert made.sum == pytest.approx(10.0)
    assert made.minimum == 0.0  # epsilon is


def test_atdc_corrects_all_priorities_by_error_and_age():
    made = make_replay_strategy(
        {"name": "atdc", "alpha": 1.0, "epsilon": 0.0, "sweep_every": 4}, 4, 100, PlainTree
    )
    made.add(4)
    made.update(np.arange(4), np.array([1.0, 2.0, 5.0, 4.0]))
    made.sweep(lambda places: 2 * made.errors[places] + 1)
    np.testing.assert_allclose(made.predict_errors(), [3, 5, 11, 9], **CLOSE)
    made.sample(np.random.default_rng(0), 2)
    np.testing.assert_allclose(
        made.compute_probabilities(np.arange(4)), np.array([3, 5, 11, 9]) / 28
    )
    # The last error that was measured stays what predictions are made from.
    np.testing.assert_array_equal(made.errors, [1, 2, 5, 4])
