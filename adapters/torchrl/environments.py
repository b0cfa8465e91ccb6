"""TorchRL's environments and transforms, for questions about environments."""

from collections.abc import Callable, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torchrl.envs import (
    ActionScaling,
    CatFrames,
    Compose,
    GymWrapper,
    ParallelEnv,
    RewardClipping,
    RewardScaling,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    VecNorm,
    VecNormV2,
)
from torchrl.envs.common import EnvBase

from parallax.harness.contract.probing.environments import (
    ACTION_RESCALE,
    CALLER,
    EPISODE_STATISTICS,
    EPISODES,
    FRAME_STACK,
    OBSERVATION_NORMALIZATION,
    REWARD_FUNCTION,
    TIME_LIMIT,
    EnvironmentDriver,
    EnvironmentImplementation,
    EnvironmentStep,
    EnvMaker,
    EpisodeScript,
)

Array = NDArray[Any]
LIMIT, STACK = 5, 3
OBSERVATION = "observation"


class TorchRLEnvMaker(EnvMaker):
    """Makes a copy inside TorchRL's wrapper."""

    def __call__(self) -> Any:
        """Return a new copy."""
        return GymWrapper(super().__call__())


class TorchRLDriver(EnvironmentDriver):
    """Driver of an environment of TorchRL by `step_and_maybe_reset`.

    An episode's last observation is in `("next", "observation")`, that of the reset in the root of
    the next step; `step_and_maybe_reset` resets by a separate call.
    """

    autoreset = CALLER

    def __init__(self, env: EnvBase, n_envs: int, norm: Any = None) -> None:
        """Drive `env`, with a batch size of n_envs or none; `norm` has running statistics."""
        self.env, self.n_envs, self._norm = env, n_envs, norm
        self._state: Any = None

    def reset(self, seed: int | None = None) -> Array:
        """See `EnvironmentDriver.reset`."""
        if seed is not None:
            self.env.set_seed(seed)
        self._state = self.env.reset()
        return self._read(self._state, OBSERVATION)

    def step(self, actions: Array) -> EnvironmentStep:
        """See `EnvironmentDriver.step`."""
        shape = (*self.env.batch_size, 1)
        self._state.set("action", torch.as_tensor(np.array(actions)).reshape(shape))
        done, self._state = self.env.step_and_maybe_reset(self._state)
        after = done.get("next")
        terminated, truncated = (
            self._read(after, name).astype(bool)[:, 0] for name in ("terminated", "truncated")
        )
        ended, last = terminated | truncated, self._read(after, OBSERVATION)
        recorded = after.get("episode_reward", None), after.get("step_count", None)
        episodes: tuple[tuple[float, float] | None, ...] = (None,) * self.n_envs
        if recorded[0] is not None and recorded[1] is not None:
            returns, lengths = (np.array(value).reshape(self.n_envs) for value in recorded)
            episodes = tuple(
                (float(returns[i]), float(lengths[i])) if ended[i] else None
                for i in range(self.n_envs)
            )
        return EnvironmentStep(
            self._read(self._state, OBSERVATION),
            self._read(after, "reward")[:, 0],
            terminated,
            truncated,
            tuple(last[i] if ended[i] else None for i in range(self.n_envs)),
            "('next', 'observation'), the root of the next step holds that of the reset",
            episodes,
        )

    def freeze(self) -> None:
        """See `EnvironmentDriver.freeze`."""
        if self._norm is None:
            raise NotImplementedError("it has no running statistics")
        self._norm.freeze()

    def _read(self, data: Any, name: str) -> Array:
        value = np.array(data.get(name))
        return value if self.env.batch_size else value[np.newaxis]


def make_driver(
    scripts: Sequence[EpisodeScript],
    *,
    kind: Callable[..., EnvBase] | None = None,
    transforms: Callable[[], Sequence[Any]] = tuple,
    norm: Callable[[], Any] | None = None,
) -> EnvironmentDriver:
    """Return a driver.

    Args:
        scripts: One per copy.
        kind: `SerialEnv` or `ParallelEnv`; None for a single copy.
        transforms: Makes the transforms around the environment.
        norm: Makes the transform with running statistics.
    """
    makers = [TorchRLEnvMaker(script) for script in scripts]
    env: Any = makers[0]() if kind is None else kind(len(makers), makers)
    scaler = norm() if norm is not None else None
    chain = [*transforms(), *([scaler] if scaler is not None else [])]
    if chain:
        env = TransformedEnv(env, Compose(*chain) if len(chain) > 1 else chain[0])
    return TorchRLDriver(env, len(makers), scaler)


def clip_rewards(rewards: Array) -> Array:
    """Clip rewards to the range from 0.5 to 1.5."""
    return np.asarray(np.clip(rewards, 0.5, 1.5))


def scale_rewards(rewards: Array) -> Array:
    """Double rewards and add 3."""
    return rewards * 2.0 + 3.0


def _make_normalization(
    name: str, norm: Callable[[], Any], sources: Any = MappingProxyType({})
) -> EnvironmentImplementation:
    return EnvironmentImplementation(
        name, (OBSERVATION_NORMALIZATION,), partial(make_driver, norm=norm), sources=sources
    )


IMPLEMENTATIONS = (
    EnvironmentImplementation("torchrl GymWrapper", (EPISODES,), make_driver),
    EnvironmentImplementation(
        "torchrl SerialEnv", (EPISODES,), partial(make_driver, kind=SerialEnv), n_envs=2
    ),
    EnvironmentImplementation(
        "torchrl ParallelEnv",
        (EPISODES,),
        partial(make_driver, kind=partial(ParallelEnv, mp_start_method="fork")),
        n_envs=2,
    ),
    EnvironmentImplementation(
        "torchrl StepCounter",
        (TIME_LIMIT,),
        partial(make_driver, transforms=lambda: (StepCounter(LIMIT),)),
        settings={"limit": LIMIT},
    ),
    EnvironmentImplementation(
        "torchrl RewardSum and StepCounter",
        (EPISODES, EPISODE_STATISTICS),
        partial(make_driver, kind=SerialEnv, transforms=lambda: (RewardSum(), StepCounter())),
        n_envs=2,
        sources={EPISODE_STATISTICS: (RewardSum._step, "")},
    ),
    EnvironmentImplementation(
        "torchrl RewardScaling",
        (REWARD_FUNCTION,),
        partial(make_driver, transforms=lambda: (RewardScaling(loc=3.0, scale=2.0),)),
        reward_function=scale_rewards,
    ),
    EnvironmentImplementation(
        "torchrl RewardClipping",
        (REWARD_FUNCTION,),
        partial(make_driver, transforms=lambda: (RewardClipping(0.5, 1.5),)),
        reward_function=clip_rewards,
    ),
    EnvironmentImplementation(
        "torchrl ActionScaling",
        (ACTION_RESCALE,),
        partial(make_driver, transforms=lambda: (ActionScaling(),)),
        settings={"low": -1.0, "high": 1.0},
    ),
    EnvironmentImplementation(
        "torchrl CatFrames",
        (FRAME_STACK,),
        partial(
            make_driver,
            kind=SerialEnv,
            transforms=lambda: (CatFrames(STACK, dim=-1, in_keys=[OBSERVATION]),),
        ),
        n_envs=2,
        settings={"stack": STACK},
    ),
    _make_normalization(
        "torchrl VecNormV2",
        lambda: VecNormV2([OBSERVATION]),
        {OBSERVATION_NORMALIZATION: (VecNormV2._get_loc_scale, "loc.pow(2)")},
    ),
    _make_normalization("torchrl VecNormV2, decay=1", lambda: VecNormV2([OBSERVATION], decay=1.0)),
    _make_normalization(
        "torchrl VecNorm",
        lambda: VecNorm([OBSERVATION], new_api=False),
        {OBSERVATION_NORMALIZATION: (VecNorm._update, "")},
    ),
)
