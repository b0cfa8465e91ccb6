"""Specs, tasks and answers as values."""

from records import find_changeable

import parallax.harness.contract


def test_results_cannot_be_changed():
    assert find_changeable(parallax.harness.contract) == {
        "OffPolicy",
        "PeriodicTargetUpdates",
    }  # bases
