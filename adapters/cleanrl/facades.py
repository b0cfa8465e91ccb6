"""Interfaces of gym 0.23 and gymnasium 0.28, for CleanRL's scripts on the current gymnasium.

gym 0.23 (TD3 and SAC; in cleanrl 1.1.0 DDPG and DQN too): one call per step, a 4-tuple, a list of
infos, the last observation of an episode in `terminal_observation`, and a reset in the same step.
gymnasium 0.28: the others.
"""

import copy
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector import SyncVectorEnv as ModernSyncVectorEnv
from numpy.typing import NDArray

from parallax.harness.contract.adapter import MakeEnv


class SeedableEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds `seed`, which takes effect at the first reset, as in gym 0.23."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._seed: int | None = None

    def seed(self, seed: int) -> None:
        """Seed the next reset."""
        self._seed = seed

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, with the seed if one is waiting."""
        seed, self._seed = self._seed, None
        return self.env.reset(seed=seed)


class RecordEpisodeStatistics(gymnasium.wrappers.RecordEpisodeStatistics):
    """Gymnasium's wrapper; lets `seed` through to the environment."""

    def seed(self, seed: int) -> None:
        """Seed the next reset."""
        self.env.seed(seed)  # type: ignore[attr-defined]


class GymSyncVectorEnv:
    """Steps environments one after another, resetting each in the step that ends its episode."""

    def __init__(self, makers: list[Any]) -> None:
        self.envs: list[gymnasium.Env[Any, Any]] = [maker() for maker in makers]
        self.num_envs = len(self.envs)
        # The scripts overwrite the dtype of this space: give them a copy.
        self.single_observation_space = copy.deepcopy(self.envs[0].observation_space)
        self.single_action_space = self.envs[0].action_space
        self.action_space = gymnasium.vector.utils.batch_space(
            self.single_action_space, self.num_envs
        )

    def reset(self) -> NDArray[Any]:
        """Return first observations, shape [num_envs, observations]."""
        return np.stack([env.reset()[0] for env in self.envs])

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], list[dict[str, Any]]]:
        """Return observations, rewards, dones and infos, one per environment."""
        columns = zip(
            *(_step_and_reset(env, action) for env, action in zip(self.envs, actions, strict=True)),
            strict=True,
        )
        observations, rewards, dones, infos = columns
        return np.stack(observations), np.array(rewards), np.array(dones), list(infos)

    def close(self) -> None:
        """Close the environments."""
        for env in self.envs:
            env.close()


def make_gym_facade(make_env: MakeEnv) -> SimpleNamespace:
    """Return a stand-in for the module `gym` in the script."""
    return SimpleNamespace(
        make=lambda env_id, **options: GameFacade(SeedableEnv(_cast_to_float32(make_env()))),
        spaces=gymnasium.spaces,
        wrappers=SimpleNamespace(
            RecordEpisodeStatistics=RecordEpisodeStatistics,
            ResizeObservation=_return_unchanged,
            GrayScaleObservation=_return_unchanged,
            FrameStack=_return_unchanged,
        ),
        vector=SimpleNamespace(SyncVectorEnv=GymSyncVectorEnv),
    )


class GameFacade(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Wrapper with the method that ppo_atari.py calls on a game: the names of its actions."""

    @property
    def unwrapped(self) -> Any:
        """Return this wrapper, since tasks need not be games."""
        return self

    def get_action_meanings(self) -> tuple[str, ...]:
        """Return no names, so that the script presses no button at first."""
        return ()

    def seed(self, seed: int) -> None:
        """Seed the next reset."""
        self.env.seed(seed)  # type: ignore[attr-defined]


def make_atari_facade() -> SimpleNamespace:
    """Return a stand-in for Stable-Baselines3's Atari wrappers in the script.

    They are identities: `make_env` already adds what games need, the same for every framework.
    """
    return SimpleNamespace(
        NoopResetEnv=_return_unchanged,
        MaxAndSkipEnv=_return_unchanged,
        EpisodicLifeEnv=_return_unchanged,
        FireResetEnv=_return_unchanged,
        ClipRewardEnv=_return_unchanged,
    )


def _step_and_reset(
    env: gymnasium.Env[Any, Any], action: Any
) -> tuple[NDArray[Any], float, bool, dict[str, Any]]:
    observation, reward, terminated, truncated, info = env.step(action)
    done = terminated or truncated
    if done:
        info["TimeLimit.truncated"] = truncated and not terminated
        info["terminal_observation"] = observation
        observation, _ = env.reset()
    return observation, float(reward), done, info


class GymnasiumSyncVectorEnv(ModernSyncVectorEnv):
    """Resets in the step that ends an episode and lists final infos, as gymnasium 0.28 did."""

    def __init__(self, makers: list[Any]) -> None:
        super().__init__(makers, autoreset_mode=AutoresetMode.SAME_STEP)
        # The scripts overwrite the dtype of this space: give them a copy.
        self.single_observation_space = copy.deepcopy(self.single_observation_space)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments."""
        *result, infos = super().step(actions)
        if "final_info" in infos:
            infos["final_info"] = _list_final_infos(infos["final_info"], infos["_final_info"])
            infos["final_observation"] = infos["final_obs"]
        observations, rewards, terminated, truncated = result
        return observations, rewards, terminated, truncated, infos


def make_gymnasium_facade(make_env: MakeEnv) -> SimpleNamespace:
    """Return a stand-in for the module `gymnasium` in the script.

    The four feedback-altering wrappers are identities: `make_env` already adds them where the
    run needs them, the same for every framework.
    """
    wrappers = gymnasium.wrappers
    return SimpleNamespace(
        make=lambda env_id, **options: _cast_to_float32(make_env()),
        spaces=gymnasium.spaces,
        vector=SimpleNamespace(SyncVectorEnv=GymnasiumSyncVectorEnv),
        wrappers=SimpleNamespace(
            FlattenObservation=wrappers.FlattenObservation,
            RecordEpisodeStatistics=wrappers.RecordEpisodeStatistics,
            ClipAction=wrappers.ClipAction,
            NormalizeObservation=_return_unchanged,
            TransformObservation=_return_unchanged,
            NormalizeReward=_return_unchanged,
            TransformReward=_return_unchanged,
        ),
    )


def _cast_to_float32(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return observations as float32; DQN's script cannot learn from other types."""
    space = env.observation_space
    discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)
    if not discrete or not isinstance(space, gymnasium.spaces.Box) or space.dtype == np.float32:
        return env
    low, high = space.low.astype(np.float32), space.high.astype(np.float32)
    single = gymnasium.spaces.Box(low, high, dtype=np.float32)
    return gymnasium.wrappers.TransformObservation(
        env, lambda seen: seen.astype(np.float32), single
    )


def _return_unchanged(
    env: gymnasium.Env[Any, Any], *args: Any, **kwargs: Any
) -> gymnasium.Env[Any, Any]:
    return env


def _list_final_infos(final: dict[str, Any], done: Any) -> list[dict[str, Any] | None]:
    """Return one info per environment that ended, None for the others."""
    episode = final["episode"]
    return [
        {"episode": {key: episode[key][i] for key in ("r", "l")}} if ended else None
        for i, ended in enumerate(done)
    ]
