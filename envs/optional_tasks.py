"""Tasks from packages that not everybody has installed, and how their observations are shown."""

import contextlib
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation
from numpy.typing import NDArray

from parallax.envs.images import FloatImages, is_boolean_image


@contextlib.contextmanager
def explain_missing_extra(extra: str) -> Iterator[None]:
    """Turn a failed import into an error that names the extra to install.

    Args:
        extra: Of this project, which brings the package.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error}. pip install 'parallax-rl[{extra}]' brings it"
        ) from error


MINATAR_NAMESPACE, POPGYM_PREFIX, PARKING_ENV_ID = "MinAtar/", "popgym-", "parking-v0"
_PIXELS = 24  # per cell of a picture


def register_task(env_id: str) -> dict[str, Any]:
    """Register the tasks of a package, if `env_id` is one of them.

    Returns:
        Arguments that `gymnasium.make` needs besides those of the user.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """
    known = env_id in gymnasium.registry
    if is_minatar_game(env_id):
        if not known:
            with explain_missing_extra("minatar"):
                from minatar.gym import register_envs
            register_envs()
        # Gymnasium's checker finds fault with how games are drawn, which users can do nothing
        # about and which `UpscaledRendering` mends.
        return {"disable_env_checker": True}
    if env_id == PARKING_ENV_ID and not known:
        with explain_missing_extra("parking"):
            import highway_env  # noqa: F401  registers it
    if is_popgym(env_id) and not known:
        with explain_missing_extra("popgym"):
            import popgym  # noqa: F401  registers them
    return {}


def adapt_observations(env: gymnasium.Env[Any, Any], env_id: str) -> gymnasium.Env[Any, Any]:
    """Return a task that shows what networks take, and draws pictures as others do."""
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
    """Draws a game as other tasks are drawn: upstream gives one cell per pixel, from 0 to 1."""

    def render(self) -> NDArray[np.uint8] | None:
        """Return a picture, uint8[height, width, 3]; None where nothing is drawn."""
        cells: Any = self.env.render()
        if self.render_mode != "rgb_array":
            return None
        colours = np.round(255 * np.asarray(cells)).astype(np.uint8)
        return colours.repeat(_PIXELS, axis=0).repeat(_PIXELS, axis=1)


class ActionMemoryReset(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Starts every episode with no action before it.

    A game repeats the action before with probability 0.1, and upstream remembers it over the end
    of an episode: what an evaluation shows would depend on the one before.
    """

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        game: Any = self.unwrapped
        game.game.last_action = 0
        return self.env.reset(**arguments)


def has_categorical_observations(space: spaces.Space[Any]) -> bool:
    """Return whether observations are numbers of kinds: one, several, or several parts of such."""
    if isinstance(space, spaces.Tuple):
        return all(has_categorical_observations(part) for part in space.spaces)
    return isinstance(space, spaces.Discrete | spaces.MultiDiscrete)


class OneHotObservations(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows each number of a kind as zeros and a one, float32[all kinds together]."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        """Wrap a task whose observations are numbers of kinds."""
        super().__init__(env)
        self._kinds = env.observation_space
        self.observation_space = spaces.Box(0.0, 1.0, (spaces.flatdim(self._kinds),), np.float32)

    def observation(self, observation: Any) -> NDArray[np.float32]:
        """Return an observation as networks take it."""
        return np.asarray(spaces.flatten(self._kinds, observation), np.float32)
