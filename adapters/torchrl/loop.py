"""What the recipes share: the environment as TorchRL sees it, collecting, replay, averages."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torchrl.collectors import Collector
from torchrl.data import Bounded, TensorDictReplayBuffer
from torchrl.envs import Compose, EnvBase, GymWrapper, SerialEnv, Transform, TransformedEnv

from adapters.torchrl.replay import buffer_of
from envs.tasks import Task
from harness.contract.adapter import MakeEnv


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
    boundary: Callable[[], None],
) -> Collector:
    """A collector in this process on `n_envs` new environments, which calls `boundary` each round.

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
        pre_collect_hook=boundary,
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


RECORD_EVERY = 100
"""Gradient steps between records of the trace, at least."""


@dataclasses.dataclass
class Progress:
    """How far a recipe's loop is.

    Attributes:
        collected: Environment steps that are in the buffer.
        updates: Updates that were made.
    """

    collected: int = 0
    updates: int = 0


make_buffer = buffer_of
"""Makes an empty replay buffer; see `adapters.torchrl.replay`."""


def minibatches(
    collector: Collector,
    buffer: TensorDictReplayBuffer,
    progress: Progress,
    settings: Mapping[str, Any],
    collected_frames: Callable[[int], None] = lambda frames: None,
) -> Iterator[tuple[int, TensorDictBase, bool]]:
    """Collects to the end, and yields what the updates in between shall learn from.

    The environment takes no step while the caller updates. A minibatch is drawn when it is
    asked for, from all that was collected until then.

    Args:
        collector: Takes the environment steps.
        buffer: Is filled with them.
        progress: Is kept up to date.
        settings: Of the rounds.
        collected_frames: Told how many steps each batch had, such as exploration that shrinks.

    Yields:
        Number of the update, from 1; a minibatch; whether it is the last before more steps.
    """
    per_round = settings["script.num_updates"]
    for data in collector:
        collected_frames(data.numel())
        buffer.extend(data.reshape(-1))
        progress.collected += data.numel()
        if progress.collected < settings["Collector.init_random_frames"]:
            continue
        for index in range(per_round):
            progress.updates += 1
            yield progress.updates, buffer.sample(), index == per_round - 1


class Means:
    """Collects tensors without reading them, so that updates need not wait."""

    def __init__(self) -> None:
        self.updates = 0
        self._values: dict[str, list[torch.Tensor]] = {}

    def add(self, metrics: Mapping[str, torch.Tensor]) -> None:
        """Adds what one update reports; a metric may be missing in some."""
        self.updates += 1
        for name, value in metrics.items():
            self._values.setdefault(name, []).append(value)

    def take(self) -> dict[str, float]:
        """The means since the last call."""
        means = {name: torch.stack(values).mean().item() for name, values in self._values.items()}
        self.updates, self._values = 0, {}
        return means
