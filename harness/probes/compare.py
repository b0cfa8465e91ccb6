"""How a measured answer relates to the expected one."""

import numpy as np

from harness.probes.results import AGREES, COUNT, FACTOR, FUNCTION, OFFSET, Array, Comparison


def compare(value: Array, expected: Array, tolerance: float, counts: bool = False) -> Comparison:
    """Names the simplest relation that explains `value`.

    Args:
        value: What was measured.
        expected: What the formula gives; same shape.
        tolerance: Largest difference that counts as rounding, as a share of the largest
            expected magnitude (at least 1e-6 of a unit).
        counts: Whether the numbers are whole counts.
    """
    if value.shape != expected.shape:
        return Comparison(COUNT if counts else FUNCTION, float(value.size - expected.size))
    difference = value - expected
    largest = float(np.max(np.abs(difference), initial=0.0))
    if counts:
        worst = difference.flat[int(np.argmax(np.abs(difference)))] if difference.size else 0.0
        return Comparison(AGREES) if largest == 0 else Comparison(COUNT, float(worst))
    if not np.isfinite(largest):
        return Comparison(FUNCTION, largest)
    room = tolerance * max(float(np.max(np.abs(expected), initial=0.0)), 1e-6)
    if largest <= room:
        return Comparison(AGREES)
    norm = float(np.sum(expected**2))
    factor = float(np.sum(value * expected)) / norm if norm > 0 else np.nan
    if np.max(np.abs(value - factor * expected)) <= room * max(1.0, abs(factor)):
        return Comparison(FACTOR, factor)
    offset = float(np.mean(difference))
    if np.max(np.abs(difference - offset)) <= room:
        return Comparison(OFFSET, offset)
    return Comparison(FUNCTION, largest)
