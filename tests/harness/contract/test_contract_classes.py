"""Specs, tasks and answers as values."""

from constants import compare_with_stored
from records import find_changeable

import parallax.harness.contract


def test_results_cannot_be_changed():
    assert find_changeable(parallax.harness.contract) == {
        "OffPolicy",
        "PeriodicTargetUpdates",
    }  # bases


def test_constants_and_defaults_change_on_purpose_only():
    assert compare_with_stored("harness.contract") == []
