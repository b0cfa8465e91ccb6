"""Meanings that many probes share."""

from collections.abc import Callable, Sequence

import numpy as np

from harness.probes.probe import Measurement
from harness.probes.results import FACTOR, OFFSET, Comparison

Words = Callable[[Comparison, Measurement], str]


def relation(subject: str) -> Words:
    """`<subject>` with how it relates to the paper's."""

    def words(comparison: Comparison, measurement: Measurement) -> str:
        if comparison.kind == FACTOR:
            return f"{subject}: {comparison.size:.4g} times the paper's"
        if comparison.kind == OFFSET:
            return f"{subject}: the paper's {comparison.size:+.4g}"
        return f"{subject}: another function of its inputs, up to {comparison.size:.3g} away"

    return words


def listed(names: Sequence[str]) -> Words:
    """Every entry that differs, with its name: `name is 2, not 1`."""

    def words(comparison: Comparison, measurement: Measurement) -> str:
        value, expected = np.ravel(measurement.value), np.ravel(measurement.expected)
        if len(value) != len(expected) or len(value) != len(names):
            return f"{_short(value)}, not {_short(expected)}"
        parts = [
            f"{name} is {v:.4g}, not {e:.4g}"
            for name, v, e in zip(names, value, expected, strict=True)
            if not np.isclose(v, e, rtol=1e-4, atol=1e-12)
        ]
        return "; ".join(parts)

    return words


def _short(array: np.ndarray) -> str:
    return "[" + ", ".join(f"{x:.4g}" for x in array[:8]) + (", ...]" if len(array) > 8 else "]")
