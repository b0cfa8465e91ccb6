"""Errors of stored priorities and costs of replay, checked by hand."""

import numpy as np
import pytest
from loops import iterate_some

from parallax.harness.replay.replayer import (
    COMPARISONS_PER_RUN,
    ComparisonSchedule,
    ReplayTimers,
    compare_probabilities,
    make_replay_strategy,
)
from tests.harness.replay.plain_tree import PlainTree

REAL = np.array([2.0, 4.0, 6.0, 8.0])


def filled(name, **fields):
    usual = {"alpha": 1.0, "epsilon": 0.0}
    made = make_replay_strategy({"name": name, **usual, **fields}, 4, 100, PlainTree)
    made.add(4)
    made.update(np.arange(4), np.array([1.0, 2.0, 3.0, 4.0]))
    return made


def compared(made, real=REAL):
    return compare_probabilities(made, lambda places: real[places], np.random.default_rng(0))


def test_uniformly_scaled_priorities_have_no_error():
    assert compared(filled("per")).mean == pytest.approx(0.0)


def test_stored_priorities_have_the_error_of_the_change():
    # p = (1, 2, 3, 4) / 10 against q = (4, 3, 2, 1) / 10: errors 3/4, 1/3, 1/2, 3, drawn by p.
    found = compared(filled("per"), np.array([4.0, 3.0, 2.0, 1.0]))
    assert found.mean == pytest.approx(0.1 * 0.75 + 0.2 / 3 + 0.3 / 2 + 0.4 * 3, rel=0.15)
    assert 0.5 <= found.median <= 0.76


def test_imp_error_is_that_of_the_sum_only():
    made = filled("imp", sweep_every=4, predict_every=1)
    made.sum = 25.0
    real = np.array([8.0, 2.0, 9.0, 1.0])
    assert compared(made, real).mean == pytest.approx(abs(20 / 25 - 1))
    made.sum = None  # before the first sweep: what is stored
    assert compared(made).mean == pytest.approx(0.0)


def test_atdc_error_is_that_of_its_model():
    made = filled("atdc", sweep_every=4)
    made.sweep(lambda places: 2 * made.errors[places] + 1)  # it learns 3, 5, 7, 9
    assert compared(made, np.array([3.0, 5.0, 7.0, 9.0])).mean == pytest.approx(0.0, abs=1e-9)
    assert compared(made).mean > 0.01


def test_ranks_and_zero_priorities_are_not_compared():
    assert compared(filled("rank")) is None
    assert compared(filled("per"), np.zeros(4)) is None


def test_comparison_does_not_change_the_strategy():
    made = filled("imp", sweep_every=4)
    before = made.errors.copy(), made.compute_probabilities(np.arange(4)), made.added
    compared(made)
    after = made.errors, made.compute_probabilities(np.arange(4)), made.added
    for one, other in iterate_some(zip(before, after, strict=True)):
        np.testing.assert_array_equal(one, other)


def test_comparisons_are_in_the_middle_of_equal_intervals():
    looks, made = ComparisonSchedule(0, 3000), filled("per")
    at = []
    for added in range(0, 3001, 10):
        if looks.is_due(added):
            made.added = added
            looks.compare(made, lambda places: REAL[places])
            at.append(added)
    assert at == list(range(50, 3000, 100)) and len(at) == COMPARISONS_PER_RUN


class Ticking(ReplayTimers):
    """An account whose clock is set by hand."""

    now = 0.0

    def read_clock(self):
        return Ticking.now


def test_learning_is_from_the_minibatch_to_the_last_step_without_priorities():
    account = Ticking()
    Ticking.now = 10.0
    account.start_learning()
    Ticking.now = 12.0
    started = account.read_clock()
    Ticking.now = 15.0
    account.add_seconds("priorities", started)
    Ticking.now = 16.0
    account.add_learning()  # the critic's
    Ticking.now = 18.0
    account.add_learning()  # the policy's
    account.end_learning()
    Ticking.now = 50.0
    account.add_learning()  # of no minibatch
    content = account.to_dict()
    assert (
        content["learning"] == 5.0 and content["priorities"] == 3.0 and content["minibatches"] == 1
    )
