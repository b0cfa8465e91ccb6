"""What a training with TorchRL's components goes on from."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import TensorDictReplayBuffer
from torchrl.objectives import TargetNetUpdater

from adapters.torch_common.state import resumable
from adapters.torchrl.replay import StrategicBuffer
from harness.contract.adapter import Resumable
from harness.contract.capture import Kind, State

Inner = Callable[[Any], State]
Outer = Callable[[Any, State], Any]


def going_on(
    collector: Collector, components: Any, buffer: TensorDictReplayBuffer, *counters: Any
) -> Resumable:
    """How a recipe goes on, at the head of a round of its collector.

    Args:
        collector: Takes the environment steps.
        components: What the recipe learns with: networks, losses, optimisers, targets.
        buffer: What it learns from.
        counters: Objects of its loop that hold what it counts and has not told yet.
    """
    fields = {
        field.name: getattr(components, field.name) for field in dataclasses.fields(components)
    }
    learning = {name: part for name, part in fields.items() if isinstance(part, _CHANGING)}
    if isinstance(buffer, StrategicBuffer):  # laid in after the buffer, which fills it anew
        counters = (*counters, buffer.replayer)
    parts = {"components": learning, "buffer": buffer, "counters": counters, "collector": collector}
    return resumable(parts, tuple, *KINDS)


_CHANGING = (nn.Module, torch.optim.Optimizer, TargetNetUpdater)


def _read_module(module: nn.Module, read: Inner) -> State:
    return {name: read(tensor) for name, tensor in _tensors(module).items()}


def _write_module(live: Any, state: State, write: Outer) -> Any:
    for name, tensor in _tensors(live).items():
        write(tensor, state[name])
    return live


def _tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {**dict(module.named_parameters())}
    found |= {f"{name} (buffer)": tensor for name, tensor in module.named_buffers()}
    for name, part in vars(module).items():
        if isinstance(part, TensorDictBase):  # such as targets, which are no parameters
            leaves = part.items(include_nested=True, leaves_only=True)
            found |= {f"{name} {key}": leaf for key, leaf in leaves}
    return found


def _read_updater(updater: TargetNetUpdater, read: Inner) -> State:
    return {n: v for n, v in vars(updater).items() if type(v) in (bool, int, float)}


def _write_updater(live: Any, state: State, write: Outer) -> Any:
    vars(live).update(state)
    return live


def _read_batch(batch: TensorDictBase, read: Inner) -> State:
    leaves = batch.items(include_nested=True, leaves_only=True)
    names = [(list(key) if isinstance(key, tuple) else [key], leaf) for key, leaf in leaves]
    return {"shape": list(batch.shape), "leaves": [[key, read(leaf)] for key, leaf in names]}


def _write_batch(live: Any, state: State, write: Outer) -> Any:
    live = TensorDict({}, batch_size=state["shape"]) if live is None else live
    there = {tuple(key) for key, _ in state["leaves"]}
    for key in list(live.keys(include_nested=True, leaves_only=True)):
        if (key if isinstance(key, tuple) else (key,)) not in there:
            live.del_(key)
    for key, told in state["leaves"]:
        live.set(tuple(key), write(None, told))
    return live


def _read_buffer(buffer: TensorDictReplayBuffer, read: Inner) -> State:
    rows = len(buffer)
    return {
        "rows": read(buffer._storage._storage[:rows]) if rows else None,
        "writer": read(dict(buffer._writer.state_dict())),
        "sampler": read(dict(buffer._sampler.state_dict())),
    }


def _write_buffer(live: Any, state: State, write: Outer) -> Any:
    if state["rows"] is not None:
        live.extend(write(None, state["rows"]))  # which makes room as the first batch does
    live._writer.load_state_dict(write(None, state["writer"]))
    live._sampler.load_state_dict(write(None, state["sampler"]))
    return live


def _read_collector(collector: Collector, read: Inner) -> State:
    pool = getattr(collector, "_traj_pool", None)
    return {
        "frames": collector._frames,
        "rounds": collector._iter,
        "trajectories": read(pool._traj_id) if pool else None,
        "carrier": read(collector._carrier),
        "shared": read(_shared(collector)),
    }


def _write_collector(live: Any, state: State, write: Outer) -> Any:
    live._frames, live._iter = state["frames"], state["rounds"]
    if state["trajectories"] is not None:
        write(live._traj_pool._traj_id, state["trajectories"])
    write(live._carrier, state["carrier"])
    write(_shared(live), state["shared"])
    return live


def _shared(collector: Collector) -> dict[str, torch.Tensor]:
    """What several environments that are stepped together write into, by name."""
    shared = getattr(collector.env.base_env, "shared_tensordict_parent", None)
    if shared is None:
        return {}
    leaves = shared.items(include_nested=True, leaves_only=True)
    return {str(key): leaf for key, leaf in leaves}


KINDS = (
    Kind(TensorDictReplayBuffer, _read_buffer, _write_buffer),
    Kind(Collector, _read_collector, _write_collector),
    Kind(TensorDictBase, _read_batch, _write_batch),
    Kind(nn.Module, _read_module, _write_module),
    Kind(TargetNetUpdater, _read_updater, _write_updater),
)
"""How TorchRL's objects are told."""
