"""skrl's wrapper of environments and its running scaler, for questions about environments."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray
from skrl.envs.wrappers.torch import wrap_env
from skrl.envs.wrappers.torch.gymnasium_envs import GymnasiumWrapper
from skrl.resources.preprocessors.torch import RunningStandardScaler

from parallax.harness.contract.probing.environments import (
    CALLER,
    EPISODES,
    NEXT_STEP,
    OBSERVATION_NORMALIZATION,
    SAME_STEP,
    EnvironmentDriver,
    EnvironmentImplementation,
    EnvironmentStep,
    EpisodeScript,
    make_env_makers,
)

Array = NDArray[Any]


class WrappedEnvDriver(EnvironmentDriver):
    """Driver of a wrapped environment; one copy is reset as skrl's trainers do."""

    def __init__(self, env: Any, autoreset: str) -> None:
        """Drive `env`."""
        self.env, self.autoreset = env, autoreset
        self.n_envs, self.observation_space = env.num_envs, env.observation_space

    def reset(self, seed: int | None = None) -> Array:
        """See `EnvironmentDriver.reset`."""
        return self._copy_array(self.env.reset()[0])

    def step(self, actions: Array) -> EnvironmentStep:
        """See `EnvironmentDriver.step`."""
        result = self.env.step(torch.as_tensor(actions))
        observations, rewards, terminated, truncated = map(self._copy_array, result[:4])
        infos, ended = result[4], (terminated | truncated)[:, 0]
        final: list[Array | None] = [None] * self.n_envs
        place = "the result of the step, the caller resets"
        if self.autoreset == CALLER and ended.any():
            final, observations = [observations[0]], self._copy_array(self.env.reset()[0])
        elif self.autoreset == SAME_STEP:
            place = "info['final_obs']"
            if "final_obs" in infos:
                final = [infos["final_obs"][i] if ended[i] else None for i in range(self.n_envs)]
        return EnvironmentStep(
            observations,
            rewards[:, 0],
            terminated[:, 0],
            truncated[:, 0],
            tuple(final),
            place,
            (None,) * self.n_envs,
        )

    @staticmethod
    def _copy_array(tensor: torch.Tensor) -> Array:
        return np.array(tensor.numpy())


class ScaledEnvDriver(EnvironmentDriver):
    """Driver that shows observations of a vectorized environment through a running scaler."""

    autoreset = SAME_STEP

    def __init__(self, envs: Any, scaler: RunningStandardScaler) -> None:
        self.env, self._scaler, self._trains = envs, scaler, True
        self.n_envs = envs.num_envs

    def reset(self, seed: int | None = None) -> Array:
        """See `EnvironmentDriver.reset`."""
        return self._scale(self.env.reset()[0])

    def step(self, actions: Array) -> EnvironmentStep:
        """See `EnvironmentDriver.step`."""
        observations, rewards, terminated, truncated, _ = self.env.step(actions)
        none = (None,) * self.n_envs
        shown = self._scale(observations)
        return EnvironmentStep(shown, rewards, terminated, truncated, none, "", none)

    def freeze(self) -> None:
        """See `EnvironmentDriver.freeze`."""
        self._trains = False

    def _scale(self, observations: Array) -> Array:
        scaled = self._scaler(torch.as_tensor(observations), train=self._trains)
        assert scaled is not None
        return np.array(scaled.numpy())


def make_single_driver(scripts: Sequence[EpisodeScript]) -> EnvironmentDriver:
    """Return a driver of one copy."""
    env = make_env_makers(scripts)[0]()
    return WrappedEnvDriver(wrap_env(env, wrapper="gymnasium", verbose=False), CALLER)


def make_vector_driver(
    scripts: Sequence[EpisodeScript], *, mode: AutoresetMode
) -> WrappedEnvDriver:
    """Return a driver of gymnasium's vectorized environment in a mode."""
    envs: Any = SyncVectorEnv(make_env_makers(scripts), autoreset_mode=mode)
    autoreset = {AutoresetMode.SAME_STEP: SAME_STEP, AutoresetMode.NEXT_STEP: NEXT_STEP}[mode]
    wrapped: gymnasium.vector.VectorEnv[Any, Any, Any] = envs
    return WrappedEnvDriver(wrap_env(wrapped, wrapper="gymnasium", verbose=False), autoreset)


def make_scaled_driver(scripts: Sequence[EpisodeScript]) -> EnvironmentDriver:
    """Return a driver that shows scaled observations."""
    envs: Any = SyncVectorEnv(make_env_makers(scripts), autoreset_mode=AutoresetMode.SAME_STEP)
    scaler = RunningStandardScaler(envs.single_observation_space, device="cpu")
    return ScaledEnvDriver(envs, scaler)


IMPLEMENTATIONS = (
    EnvironmentImplementation(
        "skrl wrap_env of one environment",
        (EPISODES,),
        make_single_driver,
        settings={"seeds": False},
        sources={EPISODES: (GymnasiumWrapper.step, "")},
    ),
    EnvironmentImplementation(
        "skrl wrap_env of SyncVectorEnv, next step resets",
        (EPISODES,),
        partial(make_vector_driver, mode=AutoresetMode.NEXT_STEP),
        n_envs=2,
        settings={"seeds": False},
        sources={EPISODES: (GymnasiumWrapper.reset, "_reset_once:")},
    ),
    EnvironmentImplementation(
        "skrl wrap_env of SyncVectorEnv, same step resets",
        (EPISODES,),
        partial(make_vector_driver, mode=AutoresetMode.SAME_STEP),
        n_envs=2,
        settings={"seeds": False},
        sources={EPISODES: (GymnasiumWrapper.reset, "_reset_once:")},
    ),
    EnvironmentImplementation(
        "skrl RunningStandardScaler",
        (OBSERVATION_NORMALIZATION,),
        make_scaled_driver,
        n_envs=2,
        sources={
            OBSERVATION_NORMALIZATION: (RunningStandardScaler._compute, "torch.var(x, dim=0)")
        },
    ),
)
