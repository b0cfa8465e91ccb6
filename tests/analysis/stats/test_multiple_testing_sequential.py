"""Group-sequential p-values at single checks and at the ends of their table."""

import numpy as np
import pytest

from parallax.analysis.stats.multiple_testing import (
    compute_nominal_levels,
    compute_one_sided_sequential_p,
    compute_sequential_p,
)


@pytest.mark.parametrize(
    ("p", "two_sided", "one_sided"),
    [
        (0.9, 1.0, 1.0),
        (0.4, 0.4, 1.0),
        (0.2, 0.2, 0.2),
        (0.01, 0.01, 0.01),
        (1e-12, 1e-10, 5e-11),
        (0.0, 1e-10, 5e-11),
    ],
)
def test_a_single_check_at_the_end_changes_nothing_within_the_table(p, two_sided, one_sided):
    assert compute_sequential_p([p], [5], 5) == pytest.approx(two_sided, rel=1e-3)
    assert compute_one_sided_sequential_p([p], [5], 5) == pytest.approx(one_sided, rel=1e-3)


def test_columns_are_judged_by_themselves():
    p = np.array([[0.2, np.nan, 0.001], [0.03, np.nan, np.nan]])
    found = compute_sequential_p(p, (5, 10), 10)
    assert found.shape == (3,) and np.isnan(found[1])
    single = [compute_sequential_p(p[:, k], (5, 10), 10) for k in (0, 2)]
    assert found[[0, 2]].tolist() == single
    assert found[2] == pytest.approx(0.002, rel=0.01)  # half of the level is spent at the first
    assert 0.03 < found[0] < 0.06


def test_levels_at_the_first_check_are_its_share_of_the_whole():
    levels = compute_nominal_levels([3, 6], 12, [0.04, 0.1])
    assert levels.shape == (2, 2) and levels[0] == pytest.approx([0.01, 0.025])
    assert (levels[1] > levels[0]).all() and (levels[1] < 2 * levels[0]).all()


def test_sizes_that_make_no_sense_are_named():
    with pytest.raises(ValueError, match="increase") as raised:
        compute_sequential_p([0.1, 0.2], [5, 5], 30)
    message = "Sizes of checks [5, 5] must increase and end at 30 at most."
    assert str(raised.value) == message
    assert compute_sequential_p([0.1, 0.2], [1, 2], 2) < 1  # one seed more is enough
