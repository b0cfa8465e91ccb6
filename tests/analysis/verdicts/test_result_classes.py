"""Verdicts as values."""

from records import find_changeable, find_incomparable

import parallax.analysis.verdicts


def test_results_cannot_be_changed():
    assert find_changeable(parallax.analysis.verdicts) == set()


def test_results_with_arrays_can_be_looked_up():
    assert find_incomparable(parallax.analysis.verdicts) == set()
