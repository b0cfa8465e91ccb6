"""The papers' formulas in NumPy float64, each written once.

Shapes: `rows` transitions, `actions` action dimensions. Frameworks are not known here.
"""

from collections.abc import Mapping

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


def td_target(reward: Array, terminated: Array, gamma: float, next_value: Array) -> Array:
    """Reward plus discounted value of what follows, which is nothing where the task ended.

    Args:
        reward: float[rows].
        terminated: 1 where the task ended, else 0 (time limits included); float[rows].
        gamma: Discount factor.
        next_value: float[rows].
    """
    return np.asarray(reward + gamma * (1 - terminated) * next_value)


def soft_value(next_values: Array, next_log_prob: Array, temperature: float) -> Array:
    """Value of a state under entropy regularisation (Haarnoja et al. 2018b, eq. 3).

    Args:
        next_values: Both target critics at the next action, float[2, rows].
        next_log_prob: Of the next action, float[rows].
        temperature: Weight of the entropy.
    """
    return np.asarray(next_values.min(axis=0) - temperature * next_log_prob)


def smoothed_action(
    mean: Array, noise: Array, std: float, clip: float, low: Array, high: Array
) -> Array:
    """TD3's target action (Fujimoto et al. 2018, eq. 14 and authors' code).

    Args:
        mean: Of the target policy in action units, float[rows, actions].
        noise: Standard normal.
        std: Of the noise, as a share of half the action range.
        clip: Bound of the noise, same unit.
        low: Smallest action.
        high: Largest action.
    """
    return np.asarray(np.clip(mean + smoothing_noise(noise, std, clip, low, high), low, high))


def smoothing_noise(noise: Array, std: float, clip: float, low: Array, high: Array) -> Array:
    """What is added to TD3's target action, in action units; see `smoothed_action`."""
    return np.asarray((high - low) / 2 * np.clip(noise * std, -clip, clip))


def gae(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    ended: Array,
    gamma: float,
    lam: float,
) -> Array:
    """Generalised advantage estimates (Schulman et al. 2016, eq. 16), float[steps].

    Args:
        rewards: float[steps].
        values: Of the state before each step.
        next_values: Of the state after each step, before any reset.
        terminated: 1 where the task ended: nothing follows.
        ended: 1 where the episode ended in any way: the sum stops.
        gamma: Discount factor.
        lam: Weight of longer sums.
    """
    deltas = td_target(rewards, terminated, gamma, next_values) - values
    advantages, following = np.zeros_like(deltas), 0.0
    for t in reversed(range(len(deltas))):
        following = deltas[t] + gamma * lam * (1 - ended[t]) * following
        advantages[t] = following
    return advantages


def standardised(advantages: Array) -> Array:
    """Zero mean and unit deviation, as in the code of PPO's authors (numpy's std)."""
    return np.asarray((advantages - advantages.mean()) / (advantages.std() + 1e-8))


def surrogate_slope(advantages: Array, ratio: Array, clip: float) -> Array:
    """Derivative of PPO's clipped objective (Schulman et al. 2017, eq. 7) by the log ratio."""
    raised = (advantages > 0) & (ratio > 1 + clip)
    lowered = (advantages < 0) & (ratio < 1 - clip)
    return np.asarray(np.where(raised | lowered, 0.0, advantages * ratio))


def clipped_value_slope(values: Array, old: Array, returns: Array, clip: float) -> Array:
    """Derivative of max((V - R)^2, (V_clipped - R)^2) by V, as in the code of PPO's authors."""
    clipped = old + np.clip(values - old, -clip, clip)
    inside = np.abs(values - old) < clip
    plain = (values - returns) ** 2 >= (clipped - returns) ** 2
    return np.asarray(np.where(plain | inside, 2 * (values - returns), 0.0))


def gaussian_entropy(log_std: Array) -> float:
    """Entropy of a diagonal Gaussian, nats."""
    return float(np.sum(log_std + 0.5 * np.log(2 * np.pi * np.e)))


def kl_estimate(log_ratio: Array) -> float:
    """Mean of (r - 1) - log r, an estimate of KL(old, new) that is never negative."""
    return float(np.mean(np.expm1(log_ratio) - log_ratio))


class Adam:
    """Adam's steps (Kingma & Ba 2015, algorithm 1), with moments that are kept by name."""

    def __init__(self) -> None:
        self._moments: dict[str, tuple[int, Array, Array]] = {}

    def step(self, name: str, gradient: Array, settings: Mapping[str, float]) -> Array:
        """How far parameters go with this gradient.

        Args:
            name: Of the parameters; their earlier gradients count.
            gradient: Any shape.
            settings: `lr`, `eps`, `beta1`, `beta2`.
        """
        one, two = settings.get("beta1", 0.9), settings.get("beta2", 0.999)
        nothing = np.zeros_like(gradient)
        count, mean, square = self._moments.get(name, (0, nothing, nothing))
        mean, square = one * mean + (1 - one) * gradient, two * square + (1 - two) * gradient**2
        self._moments[name] = (count := count + 1), mean, square
        deviation = np.sqrt(square / (1 - two**count)) + settings["eps"]
        return np.asarray(-settings["lr"] * mean / (1 - one**count) / deviation)
