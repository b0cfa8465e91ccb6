"""Trains with Tianshou's collector, buffer and trainer.

After each collection the trainer asks the buffer whether any number in it is NaN. The answer is
the same if only what came since the last question is looked at, and takes no longer when the
buffer is full.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Discrete
from numpy.typing import NDArray
from tianshou.algorithm import Algorithm
from tianshou.data import (
    Batch,
    Collector,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams
from tianshou.utils import LazyLogger
from tianshou.utils.torch_utils import policy_within_training_step, torch_train_mode

import adapters.tianshou.compiled  # noqa: F401  # before anything calls what it compiles
from adapters.tianshou.build import build
from adapters.tianshou.components import options
from adapters.tianshou.replay import Priorities, arguments
from adapters.torch_common.parameters import copies, loadable
from adapters.torch_common.state import resumable
from harness.contract.adapter import Context, MakeEnv, Monitor, Native, Resumable, Weights
from harness.contract.algorithms import ALGORITHMS
from harness.contract.parts import load_part
from harness.contract.replay import Per


class _Newest(ReplayBuffer):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unseen: list[NDArray[Any]] = []

    def add(self, *args: Any, **kwargs: Any) -> Any:
        added = super().add(*args, **kwargs)
        self._unseen.append(added[0])
        return added

    def hasnull(self) -> bool:
        indices, self._unseen = self._unseen, []
        return bool(indices) and bool(self[np.concatenate(indices)].hasnull())


class Replay(_Newest, ReplayBuffer):
    """Transitions of one environment."""


class VectorReplay(_Newest, VectorReplayBuffer):
    """Transitions of several environments, each in a part of its own."""


class Prioritized(_Newest, PrioritizedReplayBuffer):
    """Transitions of one environment, drawn by priority."""


class VectorPrioritized(_Newest, PrioritizedVectorReplayBuffer):
    """Transitions of several environments, drawn by priority from all parts together."""


def make_buffer(
    size: int, random_seed: int, n_envs: int, replay: Per | None = None
) -> ReplayBuffer:
    """A buffer for the transitions of `n_envs` environments, uniform unless `replay` is given."""
    if replay is not None:
        asked = {"random_seed": random_seed, **arguments(replay)}
        if n_envs == 1:
            return Prioritized(size, **asked)
        return VectorPrioritized(size, n_envs, **asked)
    if n_envs == 1:
        return Replay(size, random_seed=random_seed)
    return VectorReplay(size, n_envs, random_seed=random_seed)


METRICS = {
    "actor_loss": "loss/policy",
    "vf_loss": "loss/value",
    "critic_loss": "loss/critic",
    "ent_loss": "policy/entropy",
    "alpha": "temperature",
    "alpha_loss": "loss/temperature",
}
"""Fields of Tianshou's statistics to names in the trace."""


class MonitorLogger(LazyLogger):
    """Hands statistics of updates to the monitor, and keeps nothing."""

    def __init__(self, monitor: Monitor, every: int) -> None:
        """Hands on what every `every`-th training step reports."""
        super().__init__()
        self.update_interval = every
        self._monitor = monitor

    def write(self, step_type: str, step: int, data: dict[str, Any]) -> None:
        """Records what has a name in the trace."""
        if step_type.startswith("update"):
            self._monitor.record(metrics(data))


def metrics(data: dict[str, Any]) -> dict[str, float]:
    """Values by their names in the trace; means where Tianshou has statistics of a rollout."""
    known = {METRICS[name]: _mean(value) for name, value in data.items() if name in METRICS}
    if "loss" in data and "vf_loss" not in data:  # of DQN
        known["loss/critic"] = _mean(data["loss"])
    if "critic1_loss" in data:
        known["loss/critic"] = data["critic1_loss"] + data["critic2_loss"]
    return known


def _mean(value: Any) -> float:
    return float(value["mean"] if isinstance(value, dict) else value)


RECORD_EVERY = 100
"""Training steps of algorithms with a replay buffer between records of the trace."""


def train(
    algorithm: str, native: Native, context: Context, make_env: MakeEnv, monitor: Monitor
) -> None:
    """Trains to the end."""
    settings = native.settings
    made: list[Any] = []
    parts: dict[str, Any] = {}

    def make() -> Any:
        made.append(make_env())
        return made[-1]

    envs = DummyVectorEnv([make] * context.n_envs)
    envs.seed(settings["seed"])
    seed_generators(settings["seed"])
    model = build(algorithm, settings, context.task)
    model.to(context.device)
    monitor.attach(
        lambda observations: greedy(model, observations),
        lambda: weights(model),
        loadable(lambda: parameters(model), model.state_dict),
        whole(parts, lambda: [monitor, *made]),
    )
    replay = context.replay if isinstance(context.replay, Per) else None
    buffer = make_buffer(**options(settings, "ReplayBuffer"), n_envs=context.n_envs, replay=replay)
    priorities = Priorities(replay, context.steps, buffer) if replay else None
    collector = Collector(model, envs, buffer, exploration_noise=True)
    common = {"training_collector": collector, "verbose": False, "show_progress": False}
    prepare = None
    if ALGORITHMS[algorithm].family == "on-policy":
        common |= options(settings, "OnPolicyTrainerParams")
        make_params: Any = OnPolicyTrainerParams
        every = 1
    else:
        warm_up(collector, settings["Collector.collect.n_step"])
        common |= options(settings, "OffPolicyTrainerParams")
        each_step = getattr(load_part("adapters.tianshou", algorithm), "each_step", None)
        prepare = each_step(model, settings) if each_step else None
        make_params, every = OffPolicyTrainerParams, RECORD_EVERY

    def head(epoch: int, taken: int) -> None:
        monitor.boundary()
        if prepare:
            prepare(epoch, parts["trainer"]._env_step)  # which may have been laid in just now
        if priorities:
            begun = settings["Collector.collect.n_step"]
            priorities.anneal(buffer, begun + parts["trainer"]._env_step)

    logger = MonitorLogger(monitor, every)
    parts["trainer"] = model.create_trainer(make_params(**common, training_fn=head, logger=logger))
    parts["trainer"].run()


def whole(parts: Mapping[str, Any], outside: Callable[[], list[Any]]) -> Resumable:
    """How a training goes on from its trainer, which holds everything else.

    Args:
        parts: Will hold the `trainer`.
        outside: What the trainer holds and others keep.
    """
    generic = resumable(parts, outside)

    def lay_in(state: Any) -> None:
        trainer = parts["trainer"]
        due = trainer.params.epoch_num_steps
        generic.lay_in(state)
        # The trainer counts the steps of the only epoch anew.
        trainer.params.epoch_num_steps = due - trainer._env_step

    return Resumable(generic.state, lay_in)


def seed_generators(seed: int) -> None:
    """Seeds the two global generators that Tianshou draws from."""
    np.random.seed(seed)
    torch.manual_seed(seed)


def warm_up(collector: Collector[Any], steps: int) -> None:
    """Collects with random actions."""
    collector.reset()
    if steps:
        collector.collect(n_step=steps, random=True)


def greedy(model: Algorithm[Any, Any], observations: NDArray[np.float32]) -> NDArray[Any]:
    """Tianshou's own actions outside of training, mapped to the environment's bounds."""
    policy = model.policy
    outside = policy_within_training_step(policy, enabled=False)
    with outside, torch_train_mode(policy, enabled=False), torch.no_grad():
        actions = policy(Batch(obs=observations, info={})).act
    choices = isinstance(policy.action_space, Discrete)
    actions = actions.cpu() if isinstance(actions, torch.Tensor) else actions
    return np.asarray(policy.map_action(actions), dtype=np.int64 if choices else np.float32)


def weights(model: Algorithm[Any, Any]) -> Weights:
    """Copies of all parameters; Tianshou's `_old` networks are the targets."""
    return copies(parameters(model))


def parameters(model: Algorithm[Any, Any]) -> dict[str, torch.Tensor]:
    """The same as the tensors that the model computes with."""
    return {
        name.replace("_old.module.", "_target."): value for name, value in model.named_parameters()
    }
