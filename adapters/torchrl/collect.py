"""The training environment as TorchRL sees it, and who collects in it."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from tensordict.nn import TensorDictModuleBase
from torchrl.collectors import Collector
from torchrl.data import Bounded
from torchrl.envs import Compose, EnvBase, GymWrapper, SerialEnv, Transform, TransformedEnv

from envs.tasks import Task
from harness.adapter import MakeEnv


def seed_generators(seed: int) -> None:
    """Seeds the two global generators that TorchRL draws from."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)


def make_collector(
    make_env: MakeEnv,
    n_envs: int,
    policy: TensorDictModuleBase,
    settings: Mapping[str, Any],
    *transforms: Transform,
) -> Collector:
    """A collector in this process on `n_envs` new environments.

    The environment is seeded before the collector is made: the collector resets it at once
    and would not notice a later reset.
    """
    env = TransformedEnv(_copies(make_env, n_envs), Compose(*transforms))
    env.set_seed(settings["seed"])
    return Collector(
        env,
        policy,
        frames_per_batch=settings["Collector.frames_per_batch"],
        total_frames=settings["Collector.total_frames"],
        init_random_frames=settings.get("Collector.init_random_frames"),
        auto_register_policy_transforms=False,
        device="cpu",
    )


def action_spec(task: Task) -> Bounded:
    """Bounds of an action, in action units."""
    low, high = torch.tensor(task.action_low), torch.tensor(task.action_high)
    return Bounded(low, high, shape=low.shape, dtype=torch.float32)


class _Spaces(gymnasium.Env[Any, Any]):
    """The spaces of an environment and nothing else."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self.observation_space, self.action_space = env.observation_space, env.action_space


def _copies(make_env: MakeEnv, n_envs: int) -> EnvBase:
    envs = [make_env() for _ in range(n_envs)]
    if n_envs == 1:
        return GymWrapper(envs[0], device="cpu")
    # SerialEnv makes one more environment at first, to look at its spaces, and closes it.
    queue = iter([_Spaces(envs[0]), *envs])
    return SerialEnv(n_envs, lambda: GymWrapper(next(queue), device="cpu"))
