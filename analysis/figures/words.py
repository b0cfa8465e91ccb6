"""Sentences that captions share."""

from collections.abc import Iterable, Sequence

from analysis.figures.parts import Line
from analysis.notes import FORMULAS


def usual_size(lines: Sequence[Line]) -> int:
    """The most frequent number of runs requested."""
    sizes = [line.size[1] for line in lines]
    return max(sorted(set(sizes), reverse=True), key=sizes.count) if sizes else 0


def interval_words(method: str) -> str:
    """Which interval is shown, for captions."""
    text = f"95% interval, method {method} ({FORMULAS[method]})"
    return text + ", which is narrower than 95%" * (method == "thesis")


def size_words(lines: Sequence[Line]) -> str:
    """How many runs are behind the panels, for captions."""
    usual = usual_size(lines)
    odd = any(line.size != (usual, usual) for line in lines)
    text = f"n = {usual} runs requested, completed and used"
    return text + ("; where it differs, a panel says used/requested" if odd else "")


def span(values: Iterable[int]) -> str:
    """The smallest and the largest of some numbers."""
    found = sorted(set(values))
    return " to ".join(map(str, dict.fromkeys((found[0], found[-1]))))
