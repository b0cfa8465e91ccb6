"""The environments of CleanRL's scripts, as `make_env` of the wheel's script builds them."""

import importlib
from collections.abc import Sequence
from typing import Any, cast

import gymnasium

from parallax.harness.contract.probing.environments import (
    EPISODE_STATISTICS,
    OBSERVATION_NORMALIZATION,
    REWARD_NORMALIZATION,
    EnvironmentDriver,
    EnvironmentImplementation,
    EpisodeScript,
    ScriptedEpisodesEnv,
    SingleEnvDriver,
    make_missing_implementation,
)

GAMMA = 0.97
_ROLES = (EPISODE_STATISTICS, OBSERVATION_NORMALIZATION, REWARD_NORMALIZATION)
_NAME = "cleanrl make_env of ppo_continuous_action.py"
_SCRIPTED_ID = "ParallaxScriptedEpisodes-v0"


def make_driver(scripts: Sequence[EpisodeScript]) -> EnvironmentDriver:
    """Return a driver of one copy inside the script's wrappers."""
    script: Any = importlib.import_module("cleanrl.ppo_continuous_action")

    registry = gymnasium.envs.registration.registry
    registry.pop(_SCRIPTED_ID, None)
    gymnasium.register(
        _SCRIPTED_ID,
        entry_point=cast("Any", ScriptedEpisodesEnv),
        kwargs={"script": scripts[0]},
        disable_env_checker=True,
    )
    env: Any = script.make_env(_SCRIPTED_ID, 0, False, "", GAMMA)()
    return SingleEnvDriver(env)


def _list_implementations() -> tuple[EnvironmentImplementation, ...]:
    try:
        make_driver([EpisodeScript()]).close()
    except (TypeError, AttributeError, ImportError) as error:
        reason = f"the script does not run with gymnasium {gymnasium.__version__}: {error}"
        return (make_missing_implementation(_NAME, _ROLES, reason),)
    settings = {"gamma": GAMMA}
    return (EnvironmentImplementation(_NAME, _ROLES, make_driver, settings=settings),)


IMPLEMENTATIONS = _list_implementations()
