"""Targets, priorities and state staleness of R2D2's sequences.

Formulas of Kapturowski et al., Recurrent Experience Replay in Distributed Reinforcement Learning,
ICLR 2019. B sequences of up to m steps; steps after a sequence's end are ignored.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.harness.replay.prioritized import Floats

Array = NDArray[Any]


def compute_n_step_returns(
    rewards: Array, values: Array, lengths: Array, ended: Array, gamma: float, n: int
) -> Floats:
    """Return targets: sum of gamma^k r(t + k) for k < K, plus gamma^K v(t + K).

    K is n; if fewer rewards are left in a sequence, the sum ends with its last one and the value
    after it bootstraps, unless the episode ended there.

    Args:
        rewards: Reward of each step, [B, m].
        values: Values of the states before each step, and of the one after the last, [B, m + 1],
            in units of return.
        lengths: Steps of each sequence, [B], from 1 to m.
        ended: Whether the last of them ended the episode in a terminal state, [B].
        gamma: Discount factor.
        n: Maximum number of summed rewards.

    Returns:
        float64[B, m]; 0 after a sequence's end.
    """
    steps = np.arange(rewards.shape[1])
    last = np.asarray(lengths)[:, None]
    inside = steps < last
    total = np.zeros(rewards.shape)
    # Zeros after the sequence, so that sums of n rewards end with its last one.
    padded = np.pad(np.where(inside, rewards, 0.0), ((0, 0), (0, n)))
    for k in range(n):
        total += gamma**k * padded[:, k : k + rewards.shape[1]]
    ends = np.minimum(steps + n, last)
    next_values = np.take_along_axis(np.asarray(values, np.float64), ends, axis=1)
    bootstraps = ~((ends == last) & np.asarray(ended)[:, None])
    # After the sequence, `ends` is before the step: gamma=0 to a negative power is infinite.
    total += np.where(bootstraps, gamma ** (ends - steps).clip(min=0) * next_values, 0.0)
    return np.where(inside, total, 0.0)


def compute_sequence_errors(errors: Array, lengths: Array, max_share: float) -> Floats:
    """Return errors for priorities: eta max |delta| + (1 - eta) mean |delta|, float64[B].

    Args:
        errors: Error of each step, [B, m].
        lengths: Steps of each sequence, [B].
        max_share: Eta.
    """
    # Padding has no errors; the mean is over the sequence's own steps.
    inside = np.arange(errors.shape[1]) < np.asarray(lengths)[:, None]
    absolute = np.where(inside, np.abs(np.asarray(errors, np.float64)), 0.0)
    mean = absolute.sum(axis=1) / lengths
    return np.asarray(max_share * absolute.max(axis=1) + (1 - max_share) * mean)


def compute_q_discrepancy(unrolled: Array, stored: Array, step: Array, lengths: Array) -> Floats:
    """Return Q-value discrepancies ||q(h^) - q(h)||_2 / |max q(h^)| of sequences at a step, [B].

    Both values are of the current network: h^ is the state that it was trained from, unrolled
    through the sequence, and h the actor's state at that step. The maximum is over all actions
    and steps.

    Args:
        unrolled: q(h^) at all steps, [B, m, actions].
        stored: q(h) at one step, [B, actions].
        step: Index of that step, [B].
        lengths: Steps of each sequence, [B].
    """
    q = np.asarray(unrolled, np.float64)
    inside = np.arange(q.shape[1]) < np.asarray(lengths)[:, None]
    largest = np.where(inside, q.max(axis=2), -np.inf).max(axis=1)
    distance = np.linalg.norm(q[np.arange(len(q)), step] - np.asarray(stored, np.float64), axis=1)
    # A network whose values are all 0 gives a large number instead of an error.
    return np.asarray(distance / np.maximum(np.abs(largest), np.finfo(np.float64).tiny))


def compute_actor_epsilons(base: float, exponent: float, actors: int) -> Floats:
    """Return epsilons base^(1 + exponent i / (N - 1)), float64[N]; i / (N - 1) is 1/2 if N is 1."""
    places = np.linspace(0, 1, actors) if actors > 1 else np.array([0.5])
    return np.asarray(base ** (1 + exponent * places))
