"""A verdict of the stopping rule as a row of plain values."""

from analysis.stopping import StoppingVerdict
from analysis.verdict_tables import Row, setting_row, size_row


def stopping_row(item: StoppingVerdict) -> Row:
    """One pair of frameworks in one setting, after the looks so far."""
    return {
        **setting_row(item.first.cell),
        "first": item.first.framework,
        "second": item.second.framework,
        "verdict": item.verdict,
        **size_row("first", item.first),
        **size_row("second", item.second),
        "looks": " ".join(map(str, item.sizes)),
        "next_look": item.next_size or "",
        "p_holm": item.p,
        "p_permutation": item.p_permutation,
        "p_equivalence_holm": item.p_equivalence,
        "family": item.family,
    }
