"""Greedy evaluation: complete episodes side by side, one forward pass per step for all."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from envs.lockstep import Lockstep

Array = NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """One evaluation.

    Attributes:
        returns: Undiscounted sum of the task's own rewards per episode, float64[N]; NaN where
            an episode met a number that is not finite.
        lengths: Steps taken per episode, int64[N].
    """

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]

    @property
    def is_finite(self) -> bool:
        """Whether every return is a number."""
        # They are recorded as float32: what it cannot hold is not a return.
        return bool((np.abs(self.returns) <= np.finfo(np.float32).max).all())


def evaluate(
    policy: Callable[[NDArray[np.float32]], Array],
    env: "Lockstep",
    seeds: Sequence[int],
    normalize: Callable[[Array], Array] = lambda observations: observations,
) -> Evaluation:
    """Plays one complete episode per copy of the task; draws no random number.

    The policy sees the rows of finished episodes as well, because the last digits of a matrix
    product depend on the number of rows. An observation, raw or normalised, action or reward
    that is not finite ends its episode with return NaN; such an action is not taken.

    Args:
        policy: Observations float32[N, observations] to actions [N, actions], used as returned.
        env: N copies of the task.
        seeds: One reset seed per copy.
        normalize: Frozen normalisation of observations [N, observations].
    """
    observations = env.reset(seeds)
    lengths = np.zeros(len(seeds), np.int64)
    active = _finite(observations)
    returns = np.where(active, 0.0, np.nan)
    while active.any():
        shown, sound = _shown(normalize(observations))
        actions = np.asarray(policy(shown))
        playing = active & sound & _finite(actions)
        observations, rewards, terminated, truncated = env.step(actions, playing)
        returns += rewards
        lengths += playing
        healthy = playing & np.isfinite(rewards) & _finite(observations)
        returns[active & ~healthy] = np.nan
        active = healthy & ~(terminated | truncated)
    return Evaluation(returns, lengths)


def _shown(observations: Array) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    # Rows that are not finite become zeros, for policies that refuse them.
    shown = np.array(observations, np.float32, order="C")
    sound = _finite(shown)
    if not sound.all():
        shown[~sound] = 0
    return shown, sound


def _finite(rows: Array) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = np.isfinite(rows).reshape(len(rows), -1)
    finite: NDArray[np.bool_] = np.logical_and.reduce(flags, axis=1)
    return finite
