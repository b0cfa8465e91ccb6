"""Serialization of tensors, optimizers and generators of PyTorch, so that trainings can resume."""

import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch.distributions import Categorical, Normal

from parallax.adapters.torch_common.acceleration import AcceleratedForward
from parallax.adapters.torch_common.sum_tree import CompiledSumTree, make_tree_codec
from parallax.harness.contract.adapter import (
    Checkpointable,
    MakeEnv,
    PolicyIO,
    Weights,
    check_weights_fit,
)
from parallax.harness.contract.state_codec import (
    ObjectCodec,
    State,
    StateMismatchError,
    StateReader,
    StateWriter,
    check_torch_position,
    make_stateless_codec,
)

ReadNested = Callable[[Any], State]
WriteNested = Callable[[Any, State], Any]

_BIT_DTYPES = {torch.bfloat16: torch.int16}
"""Types that numpy does not know, and those that carry their bits."""

_DTYPES = {
    str(kind).removeprefix("torch."): kind
    for kind in vars(torch).values()
    if isinstance(kind, torch.dtype)
}

TYPES: tuple[type[Any], ...] = (torch.Size, Normal, Categorical)
"""Types of objects that a checkpoint may contain before a training's set-up makes them."""


def record_envs(make_env: MakeEnv) -> tuple[MakeEnv, list[Any]]:
    """Return `make_env` with a list to which it appends the environments that it makes."""
    envs: list[Any] = []

    def make_and_record() -> Any:
        envs.append(make_env())
        return envs[-1]

    return make_and_record, envs


def make_checkpointable(
    parts: Mapping[str, Any],
    external_objects: Callable[[], Collection[Any]] = tuple,
    *kinds: ObjectCodec,
    types: Collection[type[Any]] = (),
) -> Checkpointable:
    """Return the interface that saves and restores a training through the objects of its set-up.

    Args:
        parts: The objects by name; repeated references to one object are recognised.
        external_objects: Objects in them that are saved elsewhere, such as the environments.
        kinds: Types that are not serialized by walking through their attributes.
        types: Types of the framework, besides `TYPES`, whose objects may be made from a
            checkpoint if the set-up has not made any yet.
    """

    def state() -> State:
        reader = StateReader((*kinds, *TORCH_CODECS), external_objects())
        return {name: reader.read(part, name) for name, part in parts.items()}

    def restore(states: State) -> None:
        if states.keys() != parts.keys():
            raise StateMismatchError(f"the state has the parts {', '.join(states)}")
        writer = StateWriter((*kinds, *TORCH_CODECS), (*types, *TYPES))
        for name, part in parts.items():
            writer.restore(part, states[name], name)

    return Checkpointable(state, restore)


def _read_tensor(tensor: torch.Tensor, read: ReadNested) -> State:
    # Only leaves have gradients; torch warns if the attribute of another tensor is read.
    gradient = tensor.grad if tensor.is_leaf else None
    return {
        "values": view_as_array(tensor),
        "type": str(tensor.dtype).removeprefix("torch."),
        "device": tensor.device.type,
        "trained": tensor.requires_grad and tensor.is_leaf,
        "gradient": None if gradient is None else view_as_array(gradient),
    }


def _write_tensor(live: Any, state: State, write: WriteNested) -> Any:
    values, kind = state["values"], _find_dtype(state["type"])
    fits = live is not None and live.dtype == kind and tuple(live.shape) == values.shape
    if fits:
        with torch.no_grad():
            live.detach().copy_(_tensor_from_array(values, kind))
    else:
        # Those of old checkpoints are all on the CPU.
        live = _tensor_from_array(values, kind).to(state.get("device", "cpu"))
        live.requires_grad_(state["trained"])
    if live.is_leaf:
        gradient = state["gradient"]
        live.grad = None if gradient is None else _tensor_from_array(gradient, kind).to(live.device)
    return live


def restore_tensors(
    live: Mapping[str, torch.Tensor], states: Mapping[str, State], write: WriteNested
) -> None:
    """Load states into tensors that other objects refer to.

    Raises:
        StateMismatchError: Names, shapes or types differ.
    """
    if live.keys() != states.keys():
        raise StateMismatchError(f"tensors are named {', '.join(live)}, and were not")
    for name, tensor in live.items():
        if write(tensor, states[name]) is not tensor:
            raise StateMismatchError(f"{name} has a different shape or type from the saved one")


def _find_dtype(name: str) -> torch.dtype:
    if name not in _DTYPES:
        raise StateMismatchError(f"{name!r} is not a numeric type of PyTorch")
    return _DTYPES[name]


def view_as_array(tensor: torch.Tensor) -> Any:
    """Return a tensor's numbers as an array; of the same memory if that is the CPU's."""
    data = tensor.detach().cpu()
    return data.view(_BIT_DTYPES[data.dtype]).numpy() if data.dtype in _BIT_DTYPES else data.numpy()


def _tensor_from_array(values: Any, kind: torch.dtype) -> torch.Tensor:
    made = torch.from_numpy(np.array(values))
    return made.view(kind) if kind in _BIT_DTYPES else made.to(kind)


def _read_optimizer(optimizer: torch.optim.Optimizer, read: ReadNested) -> State:
    groups = [
        {name: read(value) for name, value in group.items() if name != "params"}
        for group in optimizer.param_groups
    ]
    return {
        "groups": groups,
        "parameters": [
            read(dict(optimizer.state[parameter])) if parameter in optimizer.state else None
            for parameter in _list_optimizer_parameters(optimizer)
        ],
    }


def _write_optimizer(live: Any, state: State, write: WriteNested) -> Any:
    if live is None or len(_list_optimizer_parameters(live)) != len(state["parameters"]):
        raise StateMismatchError("an optimizer has other parameters than it had")
    for group, group_state in zip(live.param_groups, state["groups"], strict=True):
        if group_state.keys() != group.keys() - {"params"}:
            raise StateMismatchError("an optimizer has other settings than it had")
        for name, value in group_state.items():
            before, group[name] = group[name], write(group[name], value)
            if type(before) in (bool, type(None)) and group[name] is not before:
                raise StateMismatchError(f"{name} of an optimizer was {group[name]}")
    for parameter, parameter_state in zip(
        _list_optimizer_parameters(live), state["parameters"], strict=True
    ):
        if parameter_state is None:
            live.state.pop(parameter, None)
        else:
            found = write(dict(live.state.get(parameter, {})), parameter_state)
            # Compiled updates do not check that moments are those of the parameter.
            moments = [value for value in found.values() if getattr(value, "ndim", 0)]
            if any((m.shape, m.dtype) != (parameter.shape, parameter.dtype) for m in moments):
                raise StateMismatchError("an optimizer has other moments than its parameter")
            live.state[parameter] = found
    return live


def _list_optimizer_parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _read_generator(generator: torch.Generator, read: ReadNested) -> State:
    return {"device": generator.device.type, "state": generator.get_state().numpy()}


def _write_generator(live: Any, state: State, write: WriteNested) -> Any:
    if not isinstance(state, Mapping):  # of an old checkpoint
        state = {"device": "cpu", "state": state}
    live = torch.Generator(state["device"]) if live is None else live
    if live.device.type == "cpu":
        check_torch_position(state["state"])
    live.set_state(torch.from_numpy(state["state"].copy()))
    return live


def fork_rng() -> contextlib.AbstractContextManager[None]:
    """Return a context that restores torch's generators at its end, those of a used GPU too."""
    cuda: Any = torch.cuda
    devices = list(range(cuda.device_count())) if cuda.is_initialized() else []
    return torch.random.fork_rng(devices=devices)


TORCH_CODECS = (
    ObjectCodec(torch.Tensor, _read_tensor, _write_tensor),
    ObjectCodec(torch.optim.Optimizer, _read_optimizer, _write_optimizer),
    ObjectCodec(torch.Generator, _read_generator, _write_generator),
    *(make_stateless_codec(kind) for kind in (torch.dtype, torch.device, torch.memory_format)),
    make_stateless_codec(AcceleratedForward),
    make_tree_codec(CompiledSumTree, lambda tree: tree._tree),
)
"""Serialization of PyTorch's objects."""

NamedTensors = Mapping[str, torch.Tensor]
"""Every parameter by its name, as the tensor that the model computes with."""


def make_policy_io(parameters: Callable[[], NamedTensors], state: Callable[[], Any]) -> PolicyIO:
    """Return functions that load a model and save it in PyTorch's usual format."""
    return PolicyIO(
        restore=lambda weights: load_weights(parameters(), weights),
        save=lambda path: torch.save(state(), path),
        suffix=".pt",
    )


def select_distinct(parameters: NamedTensors) -> dict[str, torch.Tensor]:
    """Return the parameters in order, without those that share memory with an earlier one.

    Networks that share layers name the same tensor twice.
    """
    found: dict[tuple[int, torch.Size], str] = {}
    for name, value in parameters.items():
        found.setdefault((value.data_ptr(), value.shape), name)
    return {name: parameters[name] for name in found.values()}


def weights_from_parameters(parameters: NamedTensors) -> Weights:
    """Return copies of the current parameters as arrays."""
    return {name: value.detach().cpu().numpy().copy() for name, value in parameters.items()}


def load_weights(parameters: NamedTensors, weights: Weights) -> None:
    """Copy into every parameter, in place, the array of its name.

    Args:
        parameters: Tensors that the model computes with.
        weights: Arrays as returned by `weights_from_parameters`.

    Raises:
        SpecError: Names or shapes differ; nothing is changed then.
    """
    check_weights_fit(weights, parameters)
    with torch.no_grad():
        for name, tensor in parameters.items():
            tensor.copy_(torch.tensor(weights[name]))
