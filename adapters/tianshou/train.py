"""Training with Tianshou's collector, buffer and trainer.

After each collection, the trainer checks the buffer for NaN. Checking only new transitions gives
the same answer, and takes no longer when the buffer is full.
"""

from __future__ import annotations

from parallax.adapters.tianshou.versions import IS_BEFORE_2, create_trainer

# isort: split
import importlib
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
    SegmentTree,
    VectorReplayBuffer,
)
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams
from tianshou.utils import LazyLogger, MovAvg
from tianshou.utils.torch_utils import policy_within_training_step, torch_train_mode

import parallax.adapters.tianshou.train  # noqa: F401  # before anything calls what it compiles
from parallax.adapters.tianshou.algorithms import build_algorithm, make_training_fn
from parallax.adapters.torch_common.acceleration import accelerate_networks
from parallax.adapters.torch_common.state import (
    make_checkpointable,
    make_policy_io,
    record_envs,
    weights_from_parameters,
)
from parallax.adapters.torch_common.sum_tree import cache_compiled, make_tree_codec
from parallax.harness.contract.adapter import Checkpointable, MakeEnv, Monitor, RunContext, Weights
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.replay import PrioritizedReplay
from parallax.harness.contract.translation import NativeConfig, NativeSettings, select_options
from parallax.harness.replay.prioritized import anneal_linearly

_EPSILON = "_PrioritizedReplayBuffer__eps"
"""Attribute of the constant that the buffer adds to absolute errors; no argument sets it."""


class PrioritySchedule:
    """Settings of a prioritised buffer during a run: epsilon, and a beta that rises."""

    def __init__(
        self, replay: PrioritizedReplay, steps: int, buffer: PrioritizedReplayBuffer
    ) -> None:
        """Set epsilon.

        Raises:
            AttributeError: This version of Tianshou stores epsilon elsewhere.
        """
        getattr(buffer, _EPSILON)
        setattr(buffer, _EPSILON, replay.epsilon)
        self._replay, self._steps = replay, replay.beta_steps or steps
        self.anneal(buffer, 0)

    def anneal(self, buffer: PrioritizedReplayBuffer, taken: int) -> None:
        """Set beta to its value after `taken` environment transitions."""
        beta = anneal_linearly(self._replay.beta, self._replay.beta_final, taken / self._steps)
        # The buffer of several environments would set beta in its parts, but it reads its own.
        PrioritizedReplayBuffer.set_beta(buffer, beta)


def make_priority_arguments(replay: PrioritizedReplay) -> dict[str, Any]:
    """Return the arguments of Tianshou's constructor."""
    return {"alpha": replay.alpha, "beta": replay.beta, "weight_norm": True}


class _IncrementalNanCheck(ReplayBuffer):
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


class UniformBuffer(_IncrementalNanCheck, ReplayBuffer):
    """Transitions of one environment."""


class UniformVectorBuffer(_IncrementalNanCheck, VectorReplayBuffer):
    """Transitions of several environments, in one part each."""


class PriorityBuffer(_IncrementalNanCheck, PrioritizedReplayBuffer):
    """Transitions of one environment, drawn by priority."""


class PriorityVectorBuffer(_IncrementalNanCheck, PrioritizedVectorReplayBuffer):
    """Transitions of several environments, drawn by priority from all parts together."""


def make_buffer(
    size: int, random_seed: int, n_envs: int, replay: PrioritizedReplay | None = None
) -> ReplayBuffer:
    """Return a replay buffer for `n_envs` environments, uniform unless `replay` is given."""
    if replay is not None:
        arguments = {"random_seed": random_seed, **make_priority_arguments(replay)}
        if n_envs == 1:
            return PriorityBuffer(size, **arguments)
        return PriorityVectorBuffer(size, n_envs, **arguments)
    if n_envs == 1:
        return UniformBuffer(size, random_seed=random_seed)
    return UniformVectorBuffer(size, n_envs, random_seed=random_seed)


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
    """Logger that passes statistics of updates to the monitor and stores nothing."""

    def __init__(self, monitor: Monitor, every: int) -> None:
        """Pass on what every `every`-th training step reports."""
        super().__init__()
        self.update_interval = every
        self._monitor = monitor

    def write(self, step_type: str, step: int, data: dict[str, Any]) -> None:
        """Record the values that have a name in the trace."""
        if step_type.startswith("update"):
            self._monitor.record(rename_metrics(data))


def rename_metrics(data: dict[str, Any]) -> dict[str, float]:
    """Return values by their names in the trace; means of Tianshou's rollout statistics."""
    known = {
        METRICS[name]: _read_mean(value)
        for name, value in data.items()
        if name in METRICS and value is not None  # of SAC's temperature, which may be delayed
    }
    if "loss" in data and "vf_loss" not in data:  # of DQN
        known["loss/critic"] = _read_mean(data["loss"])
    if "critic1_loss" in data:
        known["loss/critic"] = data["critic1_loss"] + data["critic2_loss"]
    return known


def _read_mean(value: Any) -> float:
    return float(value["mean"] if isinstance(value, dict) else value)


TYPES = (Batch, MovAvg, UniformBuffer, UniformVectorBuffer, PriorityBuffer, PriorityVectorBuffer)
"""Types of objects that a checkpoint may contain before the trainer's set-up makes them."""

STEP_COUNT = "env_step" if IS_BEFORE_2 else "_env_step"
"""Attribute of trainers."""
RECORD_EVERY = 100
"""Training steps of algorithms with a replay buffer between records of the trace."""


def train(
    algorithm: str, native: NativeConfig, context: RunContext, make_env: MakeEnv, monitor: Monitor
) -> None:
    """Train to the end."""
    settings = native.settings
    make_env, made = record_envs(make_env)
    parts: dict[str, Any] = {}
    envs = DummyVectorEnv([make_env] * context.n_envs)
    envs.seed(settings["seed"])
    seed_generators(settings["seed"])
    model = build_algorithm(algorithm, settings, context.task)
    model.to(context.device)
    accelerate_networks(context.acceleration, model)
    monitor.attach(
        lambda observations: predict_actions(model, observations),
        lambda: copy_weights(model),
        make_policy_io(lambda: get_parameters(model), model.state_dict),
        make_trainer_checkpointable(parts, lambda: [monitor, *made]),
    )
    replay = context.replay if isinstance(context.replay, PrioritizedReplay) else None
    buffer = make_buffer(
        **select_options(settings, "ReplayBuffer"), n_envs=context.n_envs, replay=replay
    )
    priorities = PrioritySchedule(replay, context.steps, buffer) if replay else None
    collector = Collector(model, envs, buffer, exploration_noise=True)
    anneal = make_training_fn(algorithm, model, settings)

    def prepare_training_step(epoch: int, taken: int) -> None:
        monitor.safe_point()
        trained_steps = getattr(parts["trainer"], STEP_COUNT)  # which may just have been restored
        if anneal:
            anneal(trained_steps)
        if priorities:
            priorities.anneal(buffer, settings["Collector.collect.n_step"] + trained_steps)

    params = make_trainer_params(
        algorithm, settings, collector, monitor, training_fn=prepare_training_step
    )
    parts["trainer"] = create_trainer(model, params)
    if native.framework_steps or not IS_BEFORE_2:  # older trainers fail without a step
        parts["trainer"].run()


def make_trainer_params(
    algorithm: str, settings: NativeSettings, collector: Any, monitor: Monitor, **more: Any
) -> Any:
    """Return the parameters of the algorithm's trainer, after the random steps of a warm-up."""
    if ALGORITHMS[algorithm].family == "on-policy":
        make_params: Any = OnPolicyTrainerParams
        options, record_every = select_options(settings, "OnPolicyTrainerParams"), 1
    else:
        collector.reset()
        if steps := settings["Collector.collect.n_step"]:
            collector.collect(n_step=steps, random=True)
        make_params = OffPolicyTrainerParams
        options, record_every = select_options(settings, "OffPolicyTrainerParams"), RECORD_EVERY
    return make_params(
        training_collector=collector,
        logger=MonitorLogger(monitor, record_every),
        verbose=False,
        show_progress=False,
        **options,
        **more,
    )


def make_trainer_checkpointable(
    parts: Mapping[str, Any], external_objects: Callable[[], list[Any]]
) -> Checkpointable:
    """Return the interface that saves and restores the training of `parts["trainer"]`."""
    generic = make_checkpointable(
        parts, external_objects, make_tree_codec(SegmentTree), types=TYPES
    )

    def restore(state: Any) -> None:
        trainer = parts["trainer"]
        due = trainer.params.epoch_num_steps
        generic.load_state(state)
        # The restored trainer counts the steps of its only epoch from 0.
        trainer.params.epoch_num_steps = due - trainer._env_step

    return Checkpointable(generic.state, restore)


def seed_generators(seed: int) -> None:
    """Seed the two global generators that Tianshou draws from."""
    np.random.seed(seed)
    torch.manual_seed(seed)


def predict_actions(model: Algorithm[Any, Any], observations: NDArray[np.float32]) -> NDArray[Any]:
    """Return Tianshou's own actions outside of training, mapped to the environment's bounds."""
    policy = model.policy
    outside = policy_within_training_step(policy, enabled=False)
    with outside, torch_train_mode(policy, enabled=False), torch.no_grad():
        actions = policy(Batch(obs=observations, info={})).act
    actions = actions.cpu() if isinstance(actions, torch.Tensor) else actions
    is_discrete = isinstance(policy.action_space, Discrete)
    return np.asarray(policy.map_action(actions), dtype=np.int64 if is_discrete else np.float32)


def copy_weights(model: Algorithm[Any, Any]) -> Weights:
    """Return copies of all parameters; Tianshou's `_old` networks are the targets."""
    return weights_from_parameters(get_parameters(model))


def get_parameters(model: Algorithm[Any, Any]) -> dict[str, torch.Tensor]:
    """Return the parameters of `copy_weights` as the tensors that the model computes with."""
    return {
        name.replace("_old.module.", "_target."): value for name, value in model.named_parameters()
    }


_DOUBLES, _INDICES = np.zeros(2), np.zeros(2, dtype=np.int64)
_FLOATS, _FLAGS = _DOUBLES.astype(np.float32), np.zeros(2, dtype=bool)
_INDEX_ARGUMENTS = (_INDICES, np.array([0, 2]), _FLAGS, _INDICES[:1], np.array([2]))
_BUFFER_MODULE = "tianshou.data.buffer.manager"
_ALGORITHM_MODULE = "tianshou.policy.base" if IS_BEFORE_2 else "tianshou.algorithm.algorithm_base"
GAE = "_gae_return" if IS_BEFORE_2 else "_gae"
COMPILED_CALLS: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    (_BUFFER_MODULE, "_prev_index", _INDEX_ARGUMENTS),
    (_BUFFER_MODULE, "_next_index", _INDEX_ARGUMENTS),
    (_ALGORITHM_MODULE, GAE, (_FLOATS, _FLOATS, _DOUBLES, _FLAGS, 0.5, 0.5)),
    (_ALGORITHM_MODULE, GAE, (_DOUBLES, _DOUBLES, _DOUBLES, _FLAGS, 0.5, 0.5)),
    (
        _ALGORITHM_MODULE,
        "_nstep_return",
        (_DOUBLES, _FLAGS, _FLOATS[:, None], _INDICES[None], 0.5, 1),
    ),
)
"""Module, function, and arguments of the types that it is called with."""


def load_compiled_function(module: str, name: str) -> Callable[..., Any]:
    """Return the compiled function.

    Raises:
        ImportError: This version does not have it.
    """
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except AttributeError as error:
        raise ImportError(f"{module} has no {name}") from error
    return found


with cache_compiled(
    "tianshou", {load_compiled_function(module, name) for module, name, _ in COMPILED_CALLS}
):
    for _module, _name, _arguments in COMPILED_CALLS:
        load_compiled_function(_module, _name)(*_arguments)
