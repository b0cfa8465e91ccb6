"""Parking of highway-env (Leurent 2018), its dictionary of observations as one flat array.

It needs the package `highway_env`, which registers its tasks with Gymnasium when it is imported.
"""

from typing import Any

import gymnasium
from gymnasium.wrappers import FlattenObservation

from envs.extras import brought_by

PARKING = "parking-v0"


def prepare(env_id: str) -> None:
    """Registers the task, if `env_id` is it.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """
    if env_id != PARKING or env_id in gymnasium.registry:
        return
    with brought_by("parking"):
        import highway_env  # noqa: F401


def flat(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Shows goal achieved, goal desired and observation side by side, float64[18]."""
    return FlattenObservation(env)
