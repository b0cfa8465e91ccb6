"""Specs, tasks and answers as values."""

from records import find_changeable, find_incomparable

import parallax.harness.contract


def test_results_cannot_be_changed():
    assert find_changeable(parallax.harness.contract) == {
        "OffPolicy",
        "PeriodicTargetUpdates",
    }  # bases


def test_results_with_arrays_can_be_looked_up():
    assert find_incomparable(parallax.harness.contract) == set()
