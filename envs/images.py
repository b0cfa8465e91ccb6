"""Observations that are images: of booleans, as networks take them, or frames of bytes."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray


def is_boolean_image(space: gymnasium.Space[Any]) -> bool:
    """Return whether observations are bool[height, width, channels]."""
    return (
        isinstance(space, gymnasium.spaces.Box)
        and space.dtype == np.bool_
        and len(space.shape) == 3
    )


def is_stack_of_frames(space: gymnasium.Space[Any]) -> bool:
    """Return whether observations are uint8[frames, height, width] of 0 to 255.

    There are fewer frames than rows and columns; a picture, whose colours come last, is none.
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

    Nothing is lost, and nothing is left to frameworks: torch's convolutions take channels first,
    and what is between 0 and 1 already needs no scaling by 255.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        """Wrap a task whose observations are images of booleans."""
        super().__init__(env)
        height, width, channels = env.observation_space.shape or ()
        self.shape = channels, height, width
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, self.shape, np.float32)

    def observation(self, observation: Any) -> NDArray[np.float32]:
        """Return an image as networks take it."""
        return np.ascontiguousarray(np.moveaxis(observation, -1, 0), np.float32)
