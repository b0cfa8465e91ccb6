"""Tianshou's vectorized environments and wrappers, for questions about environments."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tianshou.env import DummyVectorEnv, SubprocVectorEnv, VectorEnvNormObs
from tianshou.utils.statistics import RunningMeanStd

from parallax.harness.contract.probing.environments import (
    CALLER,
    EPISODES,
    OBSERVATION_NORMALIZATION,
    EnvironmentDriver,
    EnvironmentImplementation,
    EnvironmentStep,
    EpisodeScript,
    make_env_makers,
)

Array = NDArray[Any]


class VectorEnvDriver(EnvironmentDriver):
    """Driver of a vectorized environment, which this driver resets as the collector does."""

    autoreset = CALLER

    def __init__(self, envs: Any, seeds_reset: bool = False) -> None:
        """Drive `envs`; a seed is passed to `seed`, or with `seeds_reset` to `reset`."""
        self.env, self._seeds_reset = envs, seeds_reset
        self.n_envs = len(envs)
        self.observation_space = envs.observation_space[0]

    def reset(self, seed: int | None = None) -> Array:
        """See `EnvironmentDriver.reset`."""
        if seed is None:
            return np.array(self.env.reset()[0])
        if self._seeds_reset:
            return np.array(self.env.reset(seed=seed)[0])
        self.env.seed(seed)  # each copy is reset with its seed
        return np.array(self.env.reset()[0])

    def step(self, actions: Array) -> EnvironmentStep:
        """See `EnvironmentDriver.step`."""
        observations, rewards, terminated, truncated, _ = self.env.step(actions)
        ended = np.flatnonzero(terminated | truncated)
        final: list[Array | None] = [None] * self.n_envs
        if len(ended):
            observations = np.array(observations)
            for i in ended:
                final[i] = observations[i].copy()
            observations[ended] = self.env.reset(ended)[0]
        return EnvironmentStep(
            observations,
            np.asarray(rewards),
            terminated,
            truncated,
            tuple(final),
            "the result of the step, the caller resets",
            (None,) * self.n_envs,
        )

    def freeze(self) -> None:
        """See `EnvironmentDriver.freeze`."""
        self.env.update_obs_rms = False


def make_driver(
    scripts: Sequence[EpisodeScript],
    *,
    kind: Callable[..., Any] = DummyVectorEnv,
    wrap: Callable[[Any], Any] | None = None,
    seeds_reset: bool = False,
) -> EnvironmentDriver:
    """Return a driver of a copy per script; `wrap` wraps all of them."""
    envs = kind(make_env_makers(scripts))
    return VectorEnvDriver(envs if wrap is None else wrap(envs), seeds_reset)


IMPLEMENTATIONS = (
    EnvironmentImplementation(
        "tianshou DummyVectorEnv",
        (EPISODES,),
        make_driver,
        n_envs=2,
        sources={EPISODES: (DummyVectorEnv.step, "")},
    ),
    EnvironmentImplementation(
        "tianshou DummyVectorEnv, seeds in reset",
        (EPISODES,),
        partial(make_driver, seeds_reset=True),
        n_envs=2,
        sources={EPISODES: (DummyVectorEnv.reset, "send(None")},
    ),
    EnvironmentImplementation(
        "tianshou SubprocVectorEnv",
        (EPISODES,),
        partial(make_driver, kind=partial(SubprocVectorEnv, context="fork")),
        n_envs=2,
        sources={EPISODES: (SubprocVectorEnv.step, "")},
    ),
    EnvironmentImplementation(
        "tianshou VectorEnvNormObs",
        (OBSERVATION_NORMALIZATION,),
        partial(make_driver, wrap=VectorEnvNormObs),
        n_envs=2,
        sources={OBSERVATION_NORMALIZATION: (RunningMeanStd.update, "")},
    ),
)
