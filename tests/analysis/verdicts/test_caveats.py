"""What is said of runs that differ in more than their framework."""

import pytest

from parallax.analysis.verdicts import caveats

MOST = caveats._MAX_NAMED_VALUES


@pytest.mark.parametrize("surplus", [0, 1, 3])
def test_only_values_that_are_not_named_are_counted_as_more(surplus):
    values = {f"package{i}": {"1.0", "2.0"} for i in range(MOST + surplus)}
    said = caveats._format_differing("versions differ", values)
    assert said.startswith("versions differ: package0 1.0 and 2.0")
    assert said.count("1.0 and 2.0") == MOST
    assert said.endswith(f" and {surplus} more") == (surplus > 0)
    assert ("more" in said) == (surplus > 0)


def test_values_that_are_all_equal_are_not_mentioned():
    assert caveats._format_differing("versions differ", {"numpy": {"2.0"}}) == ""
