"""Records as values."""

from records import find_changeable, find_incomparable

import parallax.harness.record


def test_results_cannot_be_changed():
    assert find_changeable(parallax.harness.record) == set()


def test_results_with_arrays_can_be_looked_up():
    assert find_incomparable(parallax.harness.record) == set()
