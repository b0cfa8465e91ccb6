"""A sum tree in the most obvious way, for tests."""

import numpy as np


class PlainTree:
    """See `parallax.harness.replay.prioritized.SumTree`."""

    def __init__(self, capacity):
        self.values = np.zeros(capacity)

    def get(self, indices):
        return self.values[indices]

    def set(self, indices, values):
        self.values[indices] = values

    def total(self):
        return float(self.values.sum())

    def find(self, points):
        return np.searchsorted(np.cumsum(self.values), points)
