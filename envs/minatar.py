"""The games of MinAtar (Young and Tian 2019, arXiv:1903.03176), from the package `minatar`.

They are registered with Gymnasium when one is asked for: importing them takes a second.
"""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.extras import brought_by

NAMESPACE = "MinAtar/"
_PIXELS = 24  # per cell of a picture


def prepare(env_id: str) -> None:
    """Registers the games, if `env_id` is one.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """
    if not is_game(env_id) or env_id in gymnasium.registry:
        return
    with brought_by("minatar"):
        from minatar.gym import register_envs
    register_envs()


def is_game(env_id: str) -> bool:
    """Whether Gymnasium's name is that of a game of MinAtar."""
    return env_id.startswith(NAMESPACE)


class Drawn(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Draws a game as other tasks are drawn: upstream gives one cell per pixel, from 0 to 1."""

    def render(self) -> NDArray[np.uint8] | None:
        """A picture, uint8[height, width, 3]; None where nothing is drawn."""
        cells: Any = self.env.render()
        if self.render_mode != "rgb_array":
            return None
        colours = np.round(255 * np.asarray(cells)).astype(np.uint8)
        return colours.repeat(_PIXELS, axis=0).repeat(_PIXELS, axis=1)


class Independent(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Starts every episode with no action before it.

    A game repeats the action before with probability 0.1, and upstream remembers it over the end
    of an episode: what an evaluation shows would depend on the one before.
    """

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Starts an episode."""
        game: Any = self.unwrapped
        game.game.last_action = 0
        return self.env.reset(**arguments)
