"""Stratified bootstrap: seeds are drawn anew within each task, for many resamples at once."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

# Resamples drawn at a time: it bounds memory, and is part of what a seed stands for.
CHUNK = 10_000

Counts = NDArray[np.uint8] | NDArray[np.uint16]


def resample_counts(
    sizes: Sequence[int], resamples: int, rng: np.random.Generator
) -> Iterator[Counts]:
    """How often each value occurs in each resample.

    Counts take the place of the resamples themselves: means are products with them, and
    sorting is done once for all resamples.

    Args:
        sizes: Values per task, at least 1 each.
        resamples: How many.
        rng: Source of the draws.

    Yields:
        int[sum(sizes), up to CHUNK]; the rows of a task add up to its size.
    """
    for start in range(0, resamples, CHUNK):
        columns = min(CHUNK, resamples - start)
        yield np.concatenate([_counts(size, columns, rng) for size in sizes])


def _counts(size: int, columns: int, rng: np.random.Generator) -> Counts:
    kind = np.uint8 if size < 256 else np.uint16
    counts = np.zeros((size, columns), dtype=kind)
    if size > 16:  # comparing every draw with every value would cost more than sorting out
        drawn = rng.multinomial(size, np.full(size, 1 / size), size=columns)
        return np.ascontiguousarray(drawn.T.astype(kind))
    drawn = rng.integers(size, size=(size, columns), dtype=kind)
    for value in range(size):
        for draw in drawn:
            counts[value] += draw == value
    return counts
