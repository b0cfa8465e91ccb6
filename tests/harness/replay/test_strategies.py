"""Frequencies and weights of draws, and the states of a buffer in edge cases."""

import numpy as np
import pytest
from scipy.stats import chisquare

from parallax.harness.contract.events import TrainingError
from parallax.harness.contract.replay import REPLAY_CONFIGS, make_replay_config
from parallax.harness.replay import replayer as making
from parallax.harness.replay.prioritized import compute_importance_weights, compute_ranks
from parallax.harness.replay.replayer import make_replay_strategy, reduce_critic_errors
from tests.harness.replay.plain_tree import PlainTree

NAMES = [name for name in REPLAY_CONFIGS if name != "uniform"]
DRAWS = 60_000
ERRORS = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 4.0, 8.0])


def strategy(name="per", capacity=8, steps=1000, **fields):
    return make_replay_strategy({"name": name, **fields}, capacity, steps, PlainTree)


def filled(name="per", errors=ERRORS, **fields):
    made = strategy(name, len(errors), **fields)
    made.add(len(errors))
    made.update(np.arange(len(errors)), errors)
    return made


def draw(made, n=DRAWS):
    return made.sample(np.random.default_rng(7), n)


@pytest.mark.parametrize("draws", ["independent", "stratified"])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_proportional_frequencies_follow_alpha(alpha, draws):
    made = filled(alpha=alpha, epsilon=0.05, draws=draws)
    powers = (ERRORS + 0.05) ** alpha
    expected = powers / powers.sum() * DRAWS
    counts = np.bincount(draw(made)[0], minlength=8)
    assert chisquare(counts, expected).pvalue > 1e-3
    # And the test would have seen another exponent.
    other = (ERRORS + 0.05) ** (alpha + 0.05)
    if draws == "independent":
        assert chisquare(counts, other / other.sum() * DRAWS).pvalue < 1e-3


def test_rank_frequencies_follow_alpha():
    made = filled("rank", errors=ERRORS + np.arange(8) * 1e-3, alpha=0.7)
    powers = np.arange(8, 0, -1.0) ** -0.7  # ascending errors have ranks 8 to 1
    counts = np.bincount(draw(made)[0], minlength=8)
    assert chisquare(counts, powers / powers.sum() * DRAWS).pvalue > 1e-3


def test_rank_between_sorts_is_that_of_the_new_error():
    np.testing.assert_array_equal(
        compute_ranks(np.array([9.0, 4.0, 3.0, -1.0]), np.array([0.0, 2.0, 4.0, 8.0])), [1, 2, 3, 5]
    )
    made = filled("rank", sort_every=2, alpha=1.0)
    draw(made, 1)
    made.update(np.array([0]), np.array([100.0]))
    found = made.compute_probabilities(np.arange(8))
    assert found[0] == found.max()


@pytest.mark.parametrize("normalize", ["batch", "none"])
def test_importance_weights_follow_the_formula(normalize):
    made = filled(beta=0.4, beta_final=0.4, alpha=0.6, normalize=normalize, epsilon=0.05)
    indices, weights = draw(made, 64)
    powers = (ERRORS + 0.05) ** 0.6
    expected = (1 / (8 * (powers / powers.sum())[indices])) ** 0.4
    expected /= expected.max() if normalize == "batch" else 1.0
    np.testing.assert_allclose(weights, expected, rtol=1e-12)


def test_full_correction_makes_the_mean_unbiased():
    made = filled(beta=1.0, normalize="none", alpha=1.0, epsilon=0.5)
    values = np.linspace(-1, 3, 8)
    indices, weights = draw(made)
    assert np.mean(weights * values[indices]) == pytest.approx(values.mean(), abs=0.05)


def test_beta_rises_linearly_and_stays():
    made = strategy(capacity=4, beta=0.4, beta_final=1.0, beta_steps=100)
    rising = []
    for _ in range(3):
        made.add(50)
        rising.append(made.beta)
    np.testing.assert_allclose(rising, [0.7, 1.0, 1.0])
    assert strategy(steps=400).replay.beta_steps is None
    whole = strategy(steps=400)
    whole.add(200)
    assert whole.beta == pytest.approx(0.7)


def test_new_transitions_have_the_maximum_priority_until_updated():
    made = strategy(alpha=1.0, epsilon=0.5, capacity=4)
    made.add(2)
    np.testing.assert_allclose(made.compute_probabilities(np.arange(2)), [0.5, 0.5])
    made.update(np.array([0, 1]), np.array([-3.0, 0.5]))
    np.testing.assert_allclose(made.compute_probabilities(np.arange(2)), [3.5 / 4.5, 1 / 4.5])
    made.add(1)  # as large as the largest so far
    np.testing.assert_allclose(made.compute_probabilities(np.arange(3)), [3.5 / 8, 1 / 8, 3.5 / 8])
    made.update(np.array([1, 1]), np.array([9.0, 1.5]))  # of the same one twice, the last counts
    np.testing.assert_allclose(made.compute_probabilities(np.arange(3)), [3.5 / 9, 2 / 9, 3.5 / 9])


@pytest.mark.parametrize("name", NAMES)
def test_buffer_wraps_around_and_stays_full(name):
    made = strategy(name, capacity=4)
    assert made.add(3).tolist() == [0, 1, 2]
    made.update(np.array([0, 1, 2]), np.array([5.0, 0.0, 0.0]))
    assert made.add(3).tolist() == [3, 0, 1]
    assert made.size == 4
    assert made.add(1).tolist() == [2]
    indices, weights = draw(made, 400)
    assert set(indices.tolist()) == {0, 1, 2, 3}
    assert np.isfinite(weights).all() and (weights > 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_single_transition_is_drawn_with_weight_1(name):
    made = strategy(name, capacity=100)
    made.add(1)
    indices, weights = draw(made, 5)
    assert indices.tolist() == [0] * 5
    np.testing.assert_allclose(weights, 1.0)
    made.update(indices, np.zeros(5))
    assert draw(made, 5)[0].tolist() == [0] * 5


@pytest.mark.parametrize("name", NAMES)
def test_zero_priorities_give_finite_weights(name):
    made = filled(name, errors=np.zeros(8), epsilon=0.0)
    indices, weights = draw(made)
    assert np.isfinite(weights).all()
    if name != "rank":  # whose ranks are not equal where errors are
        assert chisquare(np.bincount(indices, minlength=8)).pvalue > 1e-3
        np.testing.assert_array_equal(weights, 1.0)
    corrected = made.correct_weights(indices, weights, np.zeros(len(indices)))
    assert np.isfinite(corrected).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", NAMES)
def test_nan_errors_are_refused(name, bad):
    made = filled(name)
    before = made.compute_probabilities(np.arange(8))
    with pytest.raises(TrainingError, match=f"replay={name}: 1 of 2 .* the critic has diverged"):
        made.update(np.array([0, 1]), np.array([1.0, bad]))
    np.testing.assert_array_equal(made.compute_probabilities(np.arange(8)), before)


def test_empty_buffer_cannot_be_sampled():
    with pytest.raises(ValueError, match="4 of 0 stored transitions cannot be drawn"):
        draw(strategy(), 4)
    with pytest.raises(ValueError, match="0 of 8 stored transitions"):
        draw(filled(), 0)


def test_same_random_numbers_give_the_same_draws():
    first, second = draw(filled(), 50), draw(filled(), 50)
    np.testing.assert_array_equal(first[0], second[0])
    assert making.make_sampling_generator(3).random() == making.make_sampling_generator(3).random()
    assert making.make_sampling_generator(3).random() != making.make_sampling_generator(4).random()


def test_errors_of_several_critics_are_combined():
    errors = np.array([[1.0, -4.0], [-3.0, 2.0]])
    assert reduce_critic_errors(errors, "mean").tolist() == [2.0, 3.0]
    assert reduce_critic_errors(errors, "max").tolist() == [3.0, 4.0]
    assert reduce_critic_errors(errors, "first").tolist() == [1.0, 4.0]
    assert reduce_critic_errors(errors, "net").tolist() == [1.0, 1.0]


def test_weights_of_equal_probabilities_are_one():
    assert compute_importance_weights(np.full(3, 0.25), 4, 0.7, "none").tolist() == [1.0] * 3


def test_uniform_needs_no_strategy():
    with pytest.raises(ValueError, match="replay=uniform needs no strategy"):
        make_replay_strategy(make_replay_config("uniform"), 8, 1, PlainTree)
