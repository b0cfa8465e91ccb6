"""The papers' formulas in NumPy float64, each written once.

Shapes: `rows` transitions, `actions` action dimensions. Frameworks are not known here.
"""

import numpy as np

from harness.probes.results import Array


def normal_log_prob(x: Array, mean: Array, std: Array) -> Array:
    """Log-density of a diagonal Gaussian, float[rows]."""
    z = (x - mean) / std
    return np.asarray(-(0.5 * z**2 + np.log(std) + 0.5 * np.log(2 * np.pi)).sum(axis=-1))


def squashed_log_prob(x: Array, mean: Array, std: Array, half_range: Array | float = 1.0) -> Array:
    """Log-density of the action h tanh(x), x Gaussian (Haarnoja et al. 2018, appendix C, eq. 21).

    Args:
        x: Before squashing, float[rows, actions].
        mean: Of x.
        std: Of x.
        half_range: h, half the action range.
    """
    # log(1 - tanh(x)^2) without cancellation.
    log_slope = 2 * (np.log(2.0) - x - np.logaddexp(0.0, -2 * x))
    correction = (log_slope + np.log(half_range * np.ones_like(x))).sum(axis=-1)
    return np.asarray(normal_log_prob(x, mean, std) - correction)


def soft_target(
    reward: Array,
    terminated: Array,
    gamma: float,
    next_values: Array,
    next_log_prob: Array,
    temperature: float,
) -> Array:
    """Target of SAC's critics (Haarnoja et al. 2018b, eq. 3 and 5, with the smaller critic).

    Args:
        reward: float[rows].
        terminated: 1 where the task ended, else 0; float[rows].
        gamma: Discount factor.
        next_values: Both target critics at the next action, float[2, rows].
        next_log_prob: Of the next action.
        temperature: Weight of the entropy.
    """
    soft = next_values.min(axis=0) - temperature * next_log_prob
    return np.asarray(reward + gamma * (1 - terminated) * soft)
