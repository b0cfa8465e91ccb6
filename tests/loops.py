"""Loops of assertions that fail where there is nothing to loop over."""


def iterate_some(items):
    """Return the items as a list; a test whose loop has none would pass without a check."""
    found = list(items)
    assert found, "no items: the assertions in this loop check nothing"
    return found
