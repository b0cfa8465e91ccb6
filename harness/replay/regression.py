"""Least squares for columns of different size, as sums of priorities and of time-stamps are."""

import numpy as np

from harness.replay.strategy import Floats


def fit(features: Floats, targets: Floats) -> Floats:
    """The coefficients of least squares with a constant: equations 7 and 8 of Imp-PER.

    Where the pairs do not determine them, they are the smallest ones, each column counted in
    units of its largest entry.

    Args:
        features: [pairs, k].
        targets: [pairs].

    Returns:
        W1 ... Wk and the constant, float64[k + 1].
    """
    columns = np.column_stack([features, np.ones(len(features))])
    scale = np.abs(columns).max(axis=0)
    scale[scale == 0] = 1.0
    found, *_ = np.linalg.lstsq(columns / scale, targets, rcond=None)
    return np.asarray(found / scale, np.float64)


def predict(coefficients: Floats, features: Floats) -> Floats:
    """What the model says of features [pairs, k]: [pairs]."""
    return np.asarray(features @ coefficients[:-1] + coefficients[-1], np.float64)
