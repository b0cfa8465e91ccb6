"""Atari's games from the package `ale_py`, as agents of Mnih et al. (2015, Nature 518) see them.

Four frames of 84 by 84 in grey, by Gymnasium's own wrappers. They are registered with Gymnasium
when one is requested.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers

from parallax.envs.optional_tasks import explain_missing_extra

ATARI_NAMESPACE = "ALE/"
RAW_GAME_OPTIONS: Mapping[str, Any] = {"frameskip": 1, "repeat_action_probability": 0.0}
"""Arguments of a raw game: actions are changed outside of it, where that can be serialized."""
STACKED_FRAMES = 4
"""Frames that an action is repeated for, and number of frames that are stacked."""
MAX_NOOPS = 30
"""Most steps without an action at the beginning of an episode."""
STICKY_ACTION_PROBABILITY = 0.25
"""Probability that a frame has the action of the one before (Machado et al. 2018, section 5)."""
FRAME_SIZE = 84
"""Height and width of a frame."""


def is_atari_game(env_id: str) -> bool:
    """Return whether Gymnasium's name is that of a game of Atari's."""
    return env_id.startswith(ATARI_NAMESPACE)


def register_atari(env_id: str) -> None:
    """Register the games, of which `env_id` is one.

    Raises:
        ModuleNotFoundError: A package is not installed.
    """
    with explain_missing_extra("atari"):
        import ale_py
        import cv2  # noqa: F401  shrinks the frames
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # no notice of itself per game
    if env_id not in gymnasium.registry:
        gymnasium.register_envs(ale_py)


def wrap_game(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return the game as trained on and evaluated: uint8[4, 84, 84], its own rewards and ends.

    Args:
        env: A game that was made with `RAW_GAME_OPTIONS`.
    """
    # The emulator's own way keeps the last action where no checkpoint finds it.
    env = wrappers.StickyAction(env, STICKY_ACTION_PROBABILITY)
    env = wrappers.AtariPreprocessing(
        env, noop_max=MAX_NOOPS, frame_skip=STACKED_FRAMES, screen_size=FRAME_SIZE
    )
    return wrappers.FrameStackObservation(FireFirst(env), STACKED_FRAMES)


def wrap_for_training(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return the game with training-only wrappers: the sign of rewards, a life as an episode."""
    return wrappers.TransformReward(EpisodicLife(env), lambda reward: float(np.sign(float(reward))))


class FireFirst(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Presses FIRE at the beginning of a game that has it, since some wait for it."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        """Wrap a game."""
        super().__init__(env)
        emulator: Any = env.unwrapped
        meanings = list(emulator.get_action_meanings())
        self._fire = meanings.index("FIRE") if "FIRE" in meanings else None

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        started = self.env.reset(**arguments)
        if self._fire is None:
            return started
        fired, _, terminated, truncated, fired_info = self.env.step(self._fire)
        return self.env.reset() if terminated or truncated else (fired, fired_info)


class EpisodicLife(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Ends an episode with each life; the game goes on in the next one.

    No action is taken between two lives, so that every step is the agent's own.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        """Wrap a game."""
        super().__init__(env)
        self._lives = 0
        self._next: Any = None  # what the next life begins with, if one was just lost

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Start the next life, or another game after the last one or for a seed."""
        shown, self._next = self._next, None
        if shown is not None and arguments.get("seed") is None:
            return shown, {"lives": self._lives}
        found = self.env.reset(**arguments)
        self._lives = self._count_lives()
        return found

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step."""
        shown, reward, terminated, truncated, info = self.env.step(action)
        before, self._lives = self._lives, self._count_lives()
        lost = self._lives < before
        self._next = shown if lost and not (terminated or truncated) else None
        return shown, reward, terminated or lost, truncated, info

    def _count_lives(self) -> int:
        emulator: Any = self.unwrapped
        return int(emulator.ale.lives())
