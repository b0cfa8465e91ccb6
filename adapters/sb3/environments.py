"""Stable-Baselines3's vectorized environments and wrappers, for questions about environments."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common import running_mean_std
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecEnv,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    stacked_observations,
)

from parallax.harness.contract.probing.environments import (
    EPISODE_STATISTICS,
    EPISODES,
    FRAME_STACK,
    OBSERVATION_NORMALIZATION,
    REWARD_NORMALIZATION,
    SAME_STEP,
    EnvironmentDriver,
    EnvironmentImplementation,
    EnvironmentStep,
    EnvMaker,
    EpisodeScript,
    make_env_makers,
    read_episode,
)

Array = NDArray[Any]
GAMMA, STACK = 0.97, 3


class VecEnvDriver(EnvironmentDriver):
    """Driver of a `VecEnv`, wrapped or not."""

    autoreset = SAME_STEP

    def __init__(self, envs: VecEnv) -> None:
        self.env = envs
        self.n_envs, self.observation_space = envs.num_envs, envs.observation_space

    def reset(self, seed: int | None = None) -> Array:
        """See `EnvironmentDriver.reset`."""
        if seed is not None:
            self.env.seed(seed)
        return np.asarray(self.env.reset())

    def step(self, actions: Array) -> EnvironmentStep:
        """See `EnvironmentDriver.step`."""
        observations, rewards, dones, infos = self.env.step(actions)
        truncated = np.array([bool(info["TimeLimit.truncated"]) for info in infos])
        final = tuple(info.get("terminal_observation") for info in infos)
        return EnvironmentStep(
            np.asarray(observations),
            rewards,
            dones & ~truncated,
            dones & truncated,
            final,
            "info['terminal_observation']",
            tuple(read_episode(info.get("episode")) for info in infos),
        )

    def freeze(self) -> None:
        """See `EnvironmentDriver.freeze`."""
        if not isinstance(self.env, VecNormalize):
            raise NotImplementedError("it has no running statistics")
        self.env.training = False


class MonitoredEnvMaker(EnvMaker):
    """Makes a copy inside `Monitor`."""

    def __call__(self) -> Any:
        """Return a new copy."""
        return Monitor(super().__call__())


def make_driver(
    scripts: Sequence[EpisodeScript],
    *,
    kind: Callable[..., VecEnv] = DummyVecEnv,
    wrap: Callable[[VecEnv], VecEnv] | None = None,
    monitors: bool = False,
) -> EnvironmentDriver:
    """Return a driver of a copy per script; `wrap` wraps all of them, `monitors` each one."""
    makers: list[Any] = list(make_env_makers(scripts))
    if monitors:
        makers = [MonitoredEnvMaker(script) for script in scripts]
    envs = kind(makers)
    return VecEnvDriver(envs if wrap is None else wrap(envs))


IMPLEMENTATIONS = (
    EnvironmentImplementation(
        "sb3 DummyVecEnv",
        (EPISODES,),
        make_driver,
        n_envs=2,
        sources={EPISODES: (DummyVecEnv.step_wait, "")},
    ),
    EnvironmentImplementation(
        "sb3 SubprocVecEnv",
        (EPISODES,),
        partial(make_driver, kind=partial(SubprocVecEnv, start_method="fork")),
        n_envs=2,
        sources={EPISODES: (SubprocVecEnv.step_wait, "")},
    ),
    EnvironmentImplementation(
        "sb3 Monitor",
        (EPISODES, EPISODE_STATISTICS),
        partial(make_driver, monitors=True),
        n_envs=2,
        sources={EPISODE_STATISTICS: (Monitor.step, "ep_rew")},
    ),
    EnvironmentImplementation(
        "sb3 VecMonitor",
        (EPISODES, EPISODE_STATISTICS),
        partial(make_driver, wrap=VecMonitor),
        n_envs=2,
        sources={EPISODE_STATISTICS: (VecMonitor.step_wait, "episode_returns")},
    ),
    EnvironmentImplementation(
        "sb3 VecNormalize of observations",
        (OBSERVATION_NORMALIZATION,),
        partial(make_driver, wrap=partial(VecNormalize, norm_reward=False)),
        n_envs=2,
        sources={OBSERVATION_NORMALIZATION: (running_mean_std.RunningMeanStd.update, "")},
    ),
    EnvironmentImplementation(
        "sb3 VecNormalize of rewards",
        (REWARD_NORMALIZATION,),
        partial(make_driver, wrap=partial(VecNormalize, norm_obs=False, gamma=GAMMA)),
        n_envs=2,
        settings={"gamma": GAMMA},
        sources={REWARD_NORMALIZATION: (VecNormalize._update_reward, "")},
    ),
    EnvironmentImplementation(
        "sb3 VecFrameStack",
        (FRAME_STACK,),
        partial(make_driver, wrap=partial(VecFrameStack, n_stack=STACK)),
        n_envs=2,
        settings={"stack": STACK},
        sources={FRAME_STACK: (stacked_observations.StackedObservations.update, "")},
    ),
)
