"""Corrections of p-values for the number of tests."""

import numpy as np
from numpy.typing import ArrayLike

from parallax.analysis.stats.moments import FloatArray


def adjust_holm(p_values: ArrayLike) -> FloatArray:
    """Adjust the p-values of one family after Holm (1979).

    The i-th smallest of m p-values becomes max over j <= i of (m - j + 1) p_(j), at most 1.

    Args:
        p_values: float[m]; NaN marks missing tests, which do not count in m.
    """
    p = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * factors))
    return adjusted


def adjust_holm_rows(p: FloatArray) -> FloatArray:
    """Adjust the p-values of many families after Holm, none of them missing.

    Args:
        p: float[..., m], one family along the last axis.
    """
    order = np.argsort(p, axis=-1)
    factors = np.arange(p.shape[-1], 0, -1)
    adjusted = np.maximum.accumulate(np.take_along_axis(p, order, -1) * factors, axis=-1)
    found = np.empty_like(p)
    np.put_along_axis(found, order, adjusted, -1)
    return np.minimum(found, 1)
