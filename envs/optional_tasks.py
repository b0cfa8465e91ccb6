"""Tasks from optional packages, and the form of their observations.

MinAtar games show images of booleans. Atari games from the package `ale_py` look as in Mnih et al.
(2015, Nature 518): four grey frames of 84 by 84, by Gymnasium's own wrappers.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces, wrappers
from gymnasium.wrappers import FlattenObservation
from numpy.typing import NDArray


@contextlib.contextmanager
def explain_missing_extra(extra: str) -> Iterator[None]:
    """Turn a failed import into an error that names the extra to install.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error}. Install it with: pip install 'parallax-drl[{extra}]'"
        ) from error


MINATAR_NAMESPACE, POPGYM_PREFIX, PARKING_ENV_ID = "MinAtar/", "popgym-", "parking-v0"
_PIXELS = 24  # per cell of a picture


def register_task(env_id: str) -> dict[str, Any]:
    """Register the tasks of a package, if `env_id` is one of them.

    Returns:
        Arguments that `gymnasium.make` needs in addition to the user's.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """
    known = env_id in gymnasium.registry
    if is_minatar_game(env_id):
        if not known:
            with explain_missing_extra("minatar"):
                from minatar.gym import register_envs
            register_envs()
        # Gymnasium's checker warns about the games' rendering, which users cannot change and
        # which `UpscaledRendering` fixes.
        return {"disable_env_checker": True}
    if env_id == PARKING_ENV_ID and not known:
        with explain_missing_extra("parking"):
            import highway_env  # noqa: F401  registers it
    if is_popgym(env_id) and not known:
        with explain_missing_extra("popgym"):
            import popgym  # noqa: F401  registers them
    if is_atari_game(env_id):
        register_atari(env_id)
        return dict(RAW_GAME_OPTIONS)
    return {}


def adapt_observations(env: gymnasium.Env[Any, Any], env_id: str) -> gymnasium.Env[Any, Any]:
    """Wrap a task so that networks can read its observations and it renders like other tasks."""
    if is_minatar_game(env_id):
        env = UpscaledRendering(env)
    if env_id == PARKING_ENV_ID:  # goal achieved, goal desired and observation, float64[18]
        env = FlattenObservation(env)
    if is_popgym(env_id) and has_categorical_observations(env.observation_space):
        return OneHotObservations(env)
    return FloatImages(env) if is_boolean_image(env.observation_space) else env


def is_minatar_game(env_id: str) -> bool:
    """Return whether Gymnasium's name is that of a game of MinAtar."""
    return env_id.startswith(MINATAR_NAMESPACE)


def is_popgym(env_id: str) -> bool:
    """Return whether Gymnasium's name is that of a task of POPGym."""
    return env_id.startswith(POPGYM_PREFIX)


class UpscaledRendering(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Renders a game like other tasks: upstream draws one pixel per cell, from 0 to 1."""

    def render(self) -> NDArray[np.uint8] | None:
        """Return a picture, uint8[height, width, 3]; None if nothing is rendered."""
        cells: Any = self.env.render()
        if self.render_mode != "rgb_array":
            return None
        colours = np.round(255 * np.asarray(cells)).astype(np.uint8)
        return colours.repeat(_PIXELS, axis=0).repeat(_PIXELS, axis=1)


class ActionMemoryReset(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Forgets the last action at the start of every episode.

    A game repeats its last action with probability 0.1, and upstream remembers it across
    episodes, so that an evaluation would depend on the previous one.
    """

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        game: Any = self.unwrapped
        game.game.last_action = 0
        return self.env.reset(**arguments)


def has_categorical_observations(space: spaces.Space[Any]) -> bool:
    """Return whether observations are categorical: discrete, multi-discrete, or tuples of these."""
    if isinstance(space, spaces.Tuple):
        return all(has_categorical_observations(part) for part in space.spaces)
    return isinstance(space, spaces.Discrete | spaces.MultiDiscrete)


class OneHotObservations(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Encodes categorical observations one-hot, as one vector float32[all categories]."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        """Wrap a task with categorical observations."""
        super().__init__(env)
        self._kinds = env.observation_space
        self.observation_space = spaces.Box(0.0, 1.0, (spaces.flatdim(self._kinds),), np.float32)

    def observation(self, observation: Any) -> NDArray[np.float32]:
        """Return an observation as one vector."""
        return np.asarray(spaces.flatten(self._kinds, observation), np.float32)


def is_boolean_image(space: gymnasium.Space[Any]) -> bool:
    """Return whether observations are bool[height, width, channels]."""
    return (
        isinstance(space, gymnasium.spaces.Box)
        and space.dtype == np.bool_
        and len(space.shape) == 3
    )


def is_stack_of_frames(space: gymnasium.Space[Any]) -> bool:
    """Return whether observations are uint8[frames, height, width] of 0 to 255.

    There are fewer frames than rows and columns; pictures with colours last do not count.
    """
    return (
        isinstance(space, gymnasium.spaces.Box)
        and space.dtype == np.uint8
        and len(space.shape) == 3
        and space.shape[0] < min(space.shape[1:])
        and bool((space.low == 0).all() and (space.high == 255).all())
    )


class FloatImages(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows bool[height, width, channels] as float32[channels, height, width] of 0 and 1.

    No information is lost, and frameworks need not convert: torch's convolutions take channels
    first, and values between 0 and 1 need no scaling by 255.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        """Wrap a task whose observations are images of booleans."""
        super().__init__(env)
        height, width, channels = env.observation_space.shape or ()
        self.shape = channels, height, width
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, self.shape, np.float32)

    def observation(self, observation: Any) -> NDArray[np.float32]:
        """Return an image as float32[channels, height, width]."""
        return np.ascontiguousarray(np.moveaxis(observation, -1, 0), np.float32)


ATARI_NAMESPACE = "ALE/"
RAW_GAME_OPTIONS: Mapping[str, Any] = {"frameskip": 1, "repeat_action_probability": 0.0}
"""Arguments of a raw game: wrappers repeat actions, since their state can be serialized."""
STACKED_FRAMES = 4
"""Frames that an action is repeated for, and frames that are stacked."""
MAX_NOOPS = 30
"""Maximum of steps without an action at the beginning of an episode."""
STICKY_ACTION_PROBABILITY = 0.25
"""Probability that a frame repeats the last action (Machado et al. 2018, section 5)."""
FRAME_SIZE = 84
"""Height and width of a frame."""


def is_atari_game(env_id: str) -> bool:
    """Return whether Gymnasium's name is that of an Atari game."""
    return env_id.startswith(ATARI_NAMESPACE)


def register_atari(env_id: str) -> None:
    """Register the games, of which `env_id` is one.

    Raises:
        ModuleNotFoundError: A package is not installed.
    """
    with explain_missing_extra("atari"):
        import ale_py
        import cv2  # noqa: F401  shrinks the frames
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # no banner per game
    if env_id not in gymnasium.registry:
        gymnasium.register_envs(ale_py)


def wrap_game(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return a game of `RAW_GAME_OPTIONS` as trained on: uint8[4, 84, 84], its own rewards."""
    # The emulator's own sticky actions store the last action where no checkpoint finds it.
    env = wrappers.StickyAction(env, STICKY_ACTION_PROBABILITY)
    # StickyAction is inside it, so each of the skipped frames may repeat the last action, as in the
    # emulator (Machado et al. 2018, arXiv:1709.06009).
    env = wrappers.AtariPreprocessing(
        env, noop_max=MAX_NOOPS, frame_skip=STACKED_FRAMES, screen_size=FRAME_SIZE
    )
    # FIRE comes before stacking: a reset fills the stack with the observation that follows it.
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
        self._next: Any = None  # first observation of the next life, if one was just lost

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Start the next life, or a new game after the last life or for a seed."""
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
