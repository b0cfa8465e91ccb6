"""Loops that the recipes share: collecting, updates from a replay buffer, and resumable state."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import gymnasium
import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.data import TensorDictReplayBuffer
from torchrl.envs import Compose, EnvBase, GymWrapper, SerialEnv, Transform, TransformedEnv
from torchrl.objectives.utils import TargetNetUpdater

from parallax.adapters.torch_common.acceleration import compile_function
from parallax.adapters.torch_common.state import (
    ReadNested,
    WriteNested,
    make_checkpointable,
    restore_tensors,
)
from parallax.adapters.torchrl.networks import attach_monitor, make_greedy_policy
from parallax.adapters.torchrl.replay import (
    PrioritizedTensorDictBuffer,
    make_replay_buffer,
    record_buffer_cost,
)
from parallax.adapters.torchrl.versions import Collector
from parallax.envs.tasks import Task
from parallax.harness.contract.acceleration import COMPILE
from parallax.harness.contract.adapter import Checkpointable, MakeEnv, Monitor, RunContext
from parallax.harness.contract.state_codec import ObjectCodec, State
from parallax.harness.contract.translation import NativeConfig

_Components = TypeVar("_Components")


def seed_generators(seed: int) -> None:
    """Seed the two global generators that TorchRL draws from."""
    torch.manual_seed(seed)
    # NumPy takes seeds of 32 bits, torch of 64.
    np.random.seed(seed % 2**32)


def make_components(
    build: Callable[[Mapping[str, Any], Task], _Components],
    native: NativeConfig,
    context: RunContext,
) -> _Components:
    """Seed the generators, then build networks, losses and optimizers on the run's device."""
    seed_generators(native.settings["seed"])
    with torch.device(context.device):
        return build(native.settings, context.task)


def make_adam(
    parameters: Iterable[torch.Tensor], name: str, settings: Mapping[str, Any], **options: float
) -> torch.optim.Optimizer:
    """Return Adam for one network; options go before those of all networks."""
    shared = {"lr": settings[f"Adam({name}).lr"], "eps": settings["Adam.eps"]}
    return torch.optim.Adam(parameters, **(shared | options))


def make_collector(
    make_env: MakeEnv,
    n_envs: int,
    policy: TensorDictModuleBase,
    settings: Mapping[str, Any],
    *transforms: Transform,
    safe_point: Callable[[], None],
    device: str = "cpu",
) -> Collector:
    """Return a collector on `n_envs` new environments that calls `safe_point` each update cycle.

    The environment is seeded before the collector is made: the collector resets it at once
    and would not notice a later reset.
    """
    env = TransformedEnv(make_envs(make_env, n_envs), Compose(*transforms))
    env.set_seed(settings["seed"])
    has_hook = "pre_collect_hook" in inspect.signature(Collector.__init__).parameters
    hook = {"auto_register_policy_transforms": False, "pre_collect_hook": safe_point}
    collector = Collector(
        env,
        policy,
        frames_per_batch=settings["Collector.frames_per_batch"],
        total_frames=settings["Collector.total_frames"],
        init_random_frames=settings.get("Collector.init_random_frames"),
        env_device="cpu",
        policy_device=device,
        storing_device=device,
        **(hook if has_hook else {}),
    )
    if not has_hook:  # before 0.13
        _call_before_rollouts(collector, safe_point)
    return collector


def _call_before_rollouts(collector: Collector, hook: Callable[[], None]) -> None:
    rollout = collector.rollout

    def call_and_collect() -> Any:
        hook()
        return rollout()

    collector.rollout = call_and_collect


class _SpacesOnlyEnv(gymnasium.Env[Any, Any]):
    """The spaces of an environment and nothing else."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self.observation_space, self.action_space = env.observation_space, env.action_space

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:  # 0.6 looks at an observation
        return self.observation_space.sample(), {}


def make_envs(make_env: MakeEnv, n_envs: int) -> EnvBase:
    """Return `n_envs` new environments as one of TorchRL's, which steps them in this process."""
    envs = [make_env() for _ in range(n_envs)]
    if n_envs == 1:
        return GymWrapper(envs[0], device="cpu")
    # SerialEnv makes one more environment at first, to look at its spaces, and closes it.
    queue = iter([_SpacesOnlyEnv(envs[0]), *envs])
    return SerialEnv(n_envs, lambda: GymWrapper(next(queue), device="cpu"))


RECORD_EVERY = 100
"""Gradient steps between records of the trace, at least."""


@dataclasses.dataclass
class LoopProgress:
    """Progress of a recipe's loop."""

    collected: int = 0
    updates: int = 0


def mark_truncations(data: TensorDictBase, settings: Mapping[str, Any]) -> None:
    """Mark ends by a time limit as terminal ones, in place, if that is configured.

    Value estimators bootstrap everywhere except after a terminal state.
    """
    if not settings.get("loop.bootstrap_truncation", True):
        data["next", "terminated"] = data["next", "done"].clone()


def iterate_training_batches(
    collector: Collector,
    buffer: TensorDictReplayBuffer,
    progress: LoopProgress,
    settings: Mapping[str, Any],
    collected_frames: Callable[[int], None] = lambda frames: None,
) -> Iterator[tuple[int, TensorDictBase, bool]]:
    """Collect to the end, and yield the minibatches of the updates in between.

    The environment takes no step while the caller updates. A minibatch is drawn when it is
    requested, from all that was collected until then.

    Args:
        collector: Takes the environment steps.
        buffer: Is filled with them.
        progress: Is updated.
        settings: Native settings of the update cycles.
        collected_frames: Called with the steps of each batch, such as to lower exploration.

    Yields:
        Number of the update, from 1; a minibatch; whether it is the last before more steps.
    """
    updates_per_cycle = settings["script.num_updates"]
    for data in collector:
        collected_frames(data.numel())
        mark_truncations(data, settings)
        buffer.extend(data.reshape(-1))
        progress.collected += data.numel()
        if progress.collected < settings["Collector.init_random_frames"]:
            continue
        for index in range(updates_per_cycle):
            progress.updates += 1
            yield progress.updates, buffer.sample(), index == updates_per_cycle - 1


class MetricMeans:
    """Collects tensors without reading them, so that updates need not wait."""

    def __init__(self) -> None:
        self.updates = 0
        self._values: dict[str, list[torch.Tensor]] = {}

    def add(self, metrics: Mapping[str, torch.Tensor]) -> None:
        """Add what one update reports; a metric may be missing in some."""
        self.updates += 1
        for name, value in metrics.items():
            self._values.setdefault(name, []).append(value)

    def take(self) -> dict[str, float]:
        """Return the means since the last call."""
        means = {name: torch.stack(values).mean().item() for name, values in self._values.items()}
        self.updates, self._values = 0, {}
        return means


Update = Callable[[Any, TensorDictBase, int], dict[str, torch.Tensor]]


def compile_update(update: Update, context: RunContext) -> Update:
    """Compile an update if the run's acceleration asks for it, as upstream's scripts can.

    They compile the same as one function: losses, gradients, optimizer and target networks.
    """
    return compile_function(update) if context.acceleration == COMPILE else update


def train_off_policy(
    native: NativeConfig,
    context: RunContext,
    make_env: MakeEnv,
    monitor: Monitor,
    *,
    components: Any,
    explorer: TensorDictModuleBase,
    transforms: Sequence[Transform],
    networks: Sequence[str],
    update: Update,
    learning_rate: str,
    collected_frames: Callable[[int], None] = lambda frames: None,
    compute_extra_metrics: Callable[[TensorDictBase], dict[str, float]] = lambda batch: {},
) -> None:
    """Train an algorithm with a replay buffer to the end.

    This is the loop of upstream's `sota-implementations/{dqn,ddpg,td3,sac}`: collect, extend the
    buffer, make some updates.

    Args:
        native: Native settings.
        context: The run.
        make_env: Makes one environment.
        monitor: Follows the training.
        components: Networks, loss and optimizers of the algorithm; has an `actor` and a `loss`.
        explorer: Acts while collecting.
        transforms: Transforms of the environment, in upstream's order.
        networks: Names of the networks that the loss holds, target networks included.
        update: Makes one update from components, a minibatch and the number of the update.
        learning_rate: Setting with the learning rate to record.
        collected_frames: Called with the number of steps of each batch, such as to anneal
            exploration.
        compute_extra_metrics: Metrics of the last minibatch that the update does not report.
    """
    settings = native.settings
    update = compile_update(update, context)
    collector = make_collector(
        *(make_env, context.n_envs, explorer, settings, *transforms),
        safe_point=monitor.safe_point,
        device=context.device,
    )
    buffer = make_replay_buffer(settings, components.loss)
    progress, means = LoopProgress(), MetricMeans()
    state = make_loop_checkpointable(collector, components, buffer, progress, means)
    policy = make_greedy_policy(components.actor)
    attach_monitor(monitor, policy, components.loss, networks, state)
    with record_buffer_cost(buffer, monitor):
        for step, batch, is_last in iterate_training_batches(
            collector, buffer, progress, settings, collected_frames
        ):
            means.add(update(components, batch, step))
            if is_last and means.updates >= RECORD_EVERY:
                extra = compute_extra_metrics(batch)
                monitor.record(means.take() | extra | {"learning_rate": settings[learning_rate]})
    collector.shutdown()


def make_loop_checkpointable(
    collector: Collector, components: Any, buffer: TensorDictReplayBuffer, *counters: Any
) -> Checkpointable:
    """Return the interface that saves and restores a recipe between update cycles."""
    fields = {
        field.name: getattr(components, field.name) for field in dataclasses.fields(components)
    }
    learning = {name: part for name, part in fields.items() if isinstance(part, _TRAINED_TYPES)}
    if isinstance(buffer, PrioritizedTensorDictBuffer):
        counters = (*counters, buffer.replayer)  # after the buffer, whose filling changes it
    counted = {f"counter {number}": counter for number, counter in enumerate(counters)}
    parts = {**learning, "buffer": buffer, **counted, "collector": collector}
    return make_checkpointable(parts, tuple, *TORCHRL_CODECS)


_TRAINED_TYPES = (nn.Module, torch.optim.Optimizer, TargetNetUpdater)


def _read_module(module: nn.Module, read: ReadNested) -> State:
    return {name: read(tensor) for name, tensor in _list_module_tensors(module).items()}


def _write_module(live: Any, state: State, write: WriteNested) -> Any:
    restore_tensors(_list_module_tensors(live), state, write)
    return live


def _list_module_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {**dict(module.named_parameters())}
    found |= {f"{name} (buffer)": tensor for name, tensor in module.named_buffers()}
    for name, part in vars(module).items():
        if isinstance(part, TensorDictBase):  # such as targets, which are not parameters
            leaves = part.items(include_nested=True, leaves_only=True)
            found |= {f"{name} {key}": leaf for key, leaf in leaves}
    return found


def _read_updater(updater: TargetNetUpdater, read: ReadNested) -> State:
    return {n: v for n, v in vars(updater).items() if type(v) in (bool, int, float)}


def _write_updater(live: Any, state: State, write: WriteNested) -> Any:
    vars(live).update(state)
    return live


def _read_batch(batch: TensorDictBase, read: ReadNested) -> State:
    leaves = batch.items(include_nested=True, leaves_only=True)
    names = [(list(key) if isinstance(key, tuple) else [key], leaf) for key, leaf in leaves]
    return {"shape": list(batch.shape), "leaves": [[key, read(leaf)] for key, leaf in names]}


def _write_batch(live: Any, state: State, write: WriteNested) -> Any:
    live = TensorDict({}, batch_size=state["shape"]) if live is None else live
    there = {tuple(key) for key, _ in state["leaves"]}
    for key in list(live.keys(include_nested=True, leaves_only=True)):
        if (key if isinstance(key, tuple) else (key,)) not in there:
            live.del_(key)
    for key, leaf in state["leaves"]:
        live.set(tuple(key), write(None, leaf))
    return live


def _read_buffer(buffer: TensorDictReplayBuffer, read: ReadNested) -> State:
    rows = len(buffer)
    return {
        "rows": read(buffer._storage._storage[:rows]) if rows else None,
        "writer": read(dict(buffer._writer.state_dict())),
        "sampler": read(dict(buffer._sampler.state_dict())),
    }


def _write_buffer(live: Any, state: State, write: WriteNested) -> Any:
    if state["rows"] is not None:
        live.extend(write(None, state["rows"]))  # allocates storage as the first batch does
    live._writer.load_state_dict(write(None, state["writer"]))
    live._sampler.load_state_dict(write(None, state["sampler"]))
    return live


def _read_collector(collector: Collector, read: ReadNested) -> State:
    pool = getattr(collector, "_traj_pool", None)
    return {
        "frames": collector._frames,
        "rounds": collector._iter,
        "trajectories": read(pool._traj_id) if pool else None,
        "carrier": read(collector._carrier),
        "shared": {n: read(tensor) for n, tensor in _get_shared_tensors(collector).items()},
    }


def _write_collector(live: Any, state: State, write: WriteNested) -> Any:
    live._frames, live._iter = state["frames"], state["rounds"]
    if state["trajectories"] is not None:
        write(live._traj_pool._traj_id, state["trajectories"])
    write(live._carrier, state["carrier"])
    restore_tensors(_get_shared_tensors(live), state["shared"], write)
    return live


def _get_shared_tensors(collector: Collector) -> dict[str, torch.Tensor]:
    """Return the tensors that environments stepped together write into, by name."""
    shared = getattr(collector.env.base_env, "shared_tensordict_parent", None)
    if shared is None:
        return {}
    leaves = shared.items(include_nested=True, leaves_only=True)
    return {str(key): leaf for key, leaf in leaves}


TORCHRL_CODECS = (
    ObjectCodec(TensorDictReplayBuffer, _read_buffer, _write_buffer),
    ObjectCodec(Collector, _read_collector, _write_collector),
    ObjectCodec(TensorDictBase, _read_batch, _write_batch),
    ObjectCodec(nn.Module, _read_module, _write_module),
    ObjectCodec(TargetNetUpdater, _read_updater, _write_updater),
)
"""Serialization of TorchRL's objects."""
