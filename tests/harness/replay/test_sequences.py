import numpy as np
import pytest

from parallax.harness.replay.sequences import (
    compute_actor_epsilons,
    compute_n_step_returns,
    compute_q_discrepancy,
    compute_sequence_errors,
)


def returns(ended, length=3, n=2):
    rewards = np.array([[1.0, 2.0, 4.0]])
    values = np.array([[100.0, 200.0, 300.0, 400.0]])
    return compute_n_step_returns(
        rewards, values, np.array([length]), np.array([ended]), gamma=0.5, n=n
    )[0]


def test_targets_by_hand():
    # 1 + 2/2 + 300/4; 2 + 4/2 + 400/4; only one reward is left: 4 + 400/2.
    assert returns(ended=False) == pytest.approx([77, 104, 204])
    # The end is worth nothing.
    assert returns(ended=True) == pytest.approx([77, 4, 4])


def test_targets_of_a_shorter_sequence_stop_at_its_end():
    # 1 + 2/2 + 300/4; 2 + 300/2; nothing behind.
    assert returns(ended=False, length=2) == pytest.approx([77, 152, 0])
    assert returns(ended=True, length=2) == pytest.approx([2, 2, 0])


def test_n_step_beyond_the_sequence_sums_all_rewards():
    # 1 + 2/2 + 4/4 + 400/8
    assert returns(ended=False, n=7) == pytest.approx([53, 104, 204])


def test_one_step_targets_equal_td_targets():
    assert returns(ended=False, n=1) == pytest.approx([101, 152, 204])


def test_priority_by_hand():
    errors = np.array([[1.0, -3.0, 2.0], [4.0, 0.0, 99.0]])
    # 0.9 * 3 + 0.1 * 2; the last error of the second is behind its end: 0.9 * 4 + 0.1 * 2.
    assert compute_sequence_errors(errors, np.array([3, 2]), 0.9) == pytest.approx([2.9, 3.8])
    assert compute_sequence_errors(errors, np.array([3, 2]), 0.0) == pytest.approx([2, 2])
    assert compute_sequence_errors(errors, np.array([3, 2]), 1.0) == pytest.approx([3, 4])


def test_discrepancy_by_hand():
    unrolled = np.array([[[1.0, 2.0], [3.0, -10.0], [1e9, 1e9]]])
    found = compute_q_discrepancy(unrolled, np.array([[0.0, -6.0]]), np.array([1]), np.array([2]))
    # Of (3, 4) by the largest value inside, 3; that of the padding and of -10 do not count.
    assert found == pytest.approx([5 / 3])


def test_discrepancy_of_equal_states_is_zero():
    unrolled = np.array([[[-1.0, -2.0]]])
    assert compute_q_discrepancy(unrolled, unrolled[:, 0], np.array([0]), np.array([1])) == [0]


def test_shares_of_random_actions():
    # Horgan et al. 2018: from base to base^8.
    assert compute_actor_epsilons(0.4, 7.0, 3) == pytest.approx([0.4, 0.4**4.5, 0.4**8])
    assert compute_actor_epsilons(0.4, 7.0, 1) == pytest.approx([0.4**4.5])
