"""The task table: what the harness and its translations need to know of an environment."""

import dataclasses
import functools
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import gymnasium

# The eight tasks of the thesis, Humanoid, and their successors.
_MUJOCO = [
    "Ant",
    "HalfCheetah",
    "Hopper",
    "Humanoid",
    "InvertedDoublePendulum",
    "InvertedPendulum",
    "Reacher",
    "Swimmer",
    "Walker2d",
]
TASK_IDS: tuple[str, ...] = tuple(
    f"{name}-{version}" for name in _MUJOCO for version in ("v4", "v5")
)


class TaskError(ValueError):
    """An environment that does not exist or that continuous-control training cannot use."""


@dataclasses.dataclass(frozen=True)
class Task:
    """Sizes and bounds of one environment.

    Attributes:
        env_id: Gymnasium's name.
        observation_size: Number of observation dimensions.
        action_low: Smallest action per dimension, in action units.
        action_high: Largest action per dimension, in action units.
        max_episode_steps: Time limit in steps; 0 is none.
    """

    env_id: str
    observation_size: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    max_episode_steps: int

    @property
    def action_size(self) -> int:
        """Number of action dimensions."""
        return len(self.action_low)


def make(env_id: str, **kwargs: Any) -> "gymnasium.Env[Any, Any]":
    """`gymnasium.make` without the notices that v4 tasks are out of date.

    Raises:
        TaskError: The environment does not exist or cannot be made.
    """
    import gymnasium  # the table of tasks is wanted where none is made, as in help

    silence_mujoco()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is out of date.*")
        try:
            return gymnasium.make(env_id, **kwargs)
        except Exception as error:  # whatever the code of the task raises
            reason = str(error) or type(error).__name__
            raise TaskError(f"env={env_id} cannot be made: {reason}") from error


@functools.lru_cache
def load_task(env_id: str) -> Task:
    """Makes the environment once and reads its sizes.

    Raises:
        TaskError: The environment is unknown, or its spaces are not flat boxes.
    """
    from gymnasium.spaces import Box

    env = make(env_id)
    try:
        observations, actions = env.observation_space, env.action_space
        if not isinstance(observations, Box) or len(observations.shape) != 1:
            raise TaskError(f"env={env_id} has observations {observations}; a flat Box is needed.")
        if not isinstance(actions, Box) or len(actions.shape) != 1:
            raise TaskError(f"env={env_id} has actions {actions}; a flat Box is needed.")
        if not actions.is_bounded():
            raise TaskError(f"env={env_id} has unbounded actions {actions}; give them bounds.")
        limit = env.spec.max_episode_steps if env.spec else None
        return Task(
            env_id=env_id,
            observation_size=int(np.prod(observations.shape)),
            action_low=tuple(map(float, actions.low)),
            action_high=tuple(map(float, actions.high)),
            max_episode_steps=limit or 0,
        )
    finally:
        env.close()


def silence_mujoco() -> None:
    """Sends MuJoCo's warnings through Python's, so that no MUJOCO_LOG.TXT is left behind."""
    try:
        import mujoco
    except ModuleNotFoundError:
        return
    mujoco.set_mju_user_warning(_warn)


def _warn(message: str) -> None:
    # Gymnasium's own model files cause this one; users can do nothing about it.
    if "settotalmass" not in message:
        warnings.warn(f"MuJoCo: {message}", RuntimeWarning, stacklevel=2)
