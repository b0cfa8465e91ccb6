"""What critics can be drawn to: the papers' targets, and others."""

from collections.abc import Mapping

import numpy as np

from harness.probes import oracles
from harness.probes.lab import Run
from harness.probes.readings import batch
from harness.probes.results import Array
from harness.probes.world import TERMINATED

Targets = tuple[Array, Mapping[str, Array]]
"""The paper's, float[rows], and others by what they are."""
Terms = Mapping[str, tuple[Array, float]]
"""What targets are summed from: float[rows] and its weight, by name."""


def twin_values(first: Array, second: Array) -> dict[str, Array]:
    """What one can make of the two target critics but for the smaller value, by what it is."""
    return {
        "the first critic alone": first,
        "the second critic alone": second,
        "the larger of both critics": np.maximum(first, second),
        "the mean of both critics": (first + second) / 2,
    }


def with_ends(
    run: Run, paper: Array, others: Mapping[str, Array]
) -> tuple[Array, Mapping[str, Array]]:
    """Targets of next values: the paper's, those of other values, and with other masks.

    Args:
        run: Whose first update it is.
        paper: The paper's next values, float[rows].
        others: Other next values, by what they are.
    """
    data, gamma = batch(run), run.hyperparameters.gamma
    ended = (data.ends == TERMINATED).astype(float)

    def target(value: Array, mask: Array) -> Array:
        return oracles.td_target(data.rewards, mask, gamma, value)

    masks = {
        "bootstraps, although nothing follows": np.zeros_like(ended),
        "does not bootstrap: the target is the reward": np.ones_like(ended),
    }
    found = {f"target: {name}": target(value, ended) for name, value in others.items()}
    return target(paper, ended), found | {n: target(paper, m) for n, m in masks.items()}
