"""What is kept of tensors, optimisers and generators of PyTorch, so that a training can go on."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import torch

from harness.contract.adapter import Resumable
from harness.contract.capture import Kind, NotLaidInError, Reader, State, Writer, fixed

Inner = Callable[[Any], State]
Outer = Callable[[Any, State], Any]

_BITS = {torch.bfloat16: torch.int16}
"""Types that numpy does not know, and those that carry their bits."""


def resumable(
    parts: Mapping[str, Any], outside: Callable[[], Collection[Any]] = tuple, *kinds: Kind
) -> Resumable:
    """How a training goes on whose state lies in objects that its set-up makes.

    Args:
        parts: The objects by name; those that others hold as well are known again.
        outside: Objects in them that somebody else keeps, such as the environments.
        kinds: What is told otherwise than by walking through it.
    """

    def state() -> State:
        reader = Reader((*kinds, *KINDS), outside())
        return {name: reader.read(part, name) for name, part in parts.items()}

    def lay_in(told: State) -> None:
        if told.keys() != parts.keys():
            raise NotLaidInError(f"the state has the parts {', '.join(told)}")
        writer = Writer((*kinds, *KINDS))
        for name, part in parts.items():
            writer.write(part, told[name], name)

    return Resumable(state, lay_in)


def _read_tensor(tensor: torch.Tensor, read: Inner) -> State:
    data = tensor.detach()
    return {
        "values": array(data),
        "type": str(tensor.dtype).removeprefix("torch."),
        "trained": tensor.requires_grad and tensor.is_leaf,
        "gradient": None if not tensor.is_leaf or tensor.grad is None else array(tensor.grad),
    }


def _write_tensor(live: Any, state: State, write: Outer) -> Any:
    values, kind = state["values"], getattr(torch, state["type"])
    fits = live is not None and live.dtype == kind and tuple(live.shape) == values.shape
    if fits:
        with torch.no_grad():
            live.detach().copy_(_tensor(values, kind))
    else:
        live = _tensor(values, kind)
        live.requires_grad_(state["trained"])
    if live.is_leaf:
        gradient = state["gradient"]
        live.grad = None if gradient is None else _tensor(gradient, kind)
    return live


def array(tensor: torch.Tensor) -> Any:
    """A tensor's numbers, as an array of the same memory where that can be."""
    data = tensor.detach()
    return data.view(_BITS[data.dtype]).numpy() if data.dtype in _BITS else data.numpy()


def _tensor(values: Any, kind: torch.dtype) -> torch.Tensor:
    made = torch.from_numpy(np.array(values))
    return made.view(kind) if kind in _BITS else made.to(kind)


def _read_optimizer(optimizer: torch.optim.Optimizer, read: Inner) -> State:
    groups = [
        {name: read(value) for name, value in group.items() if name != "params"}
        for group in optimizer.param_groups
    ]
    return {
        "groups": groups,
        "parameters": [
            read(dict(optimizer.state[parameter])) if parameter in optimizer.state else None
            for parameter in _parameters(optimizer)
        ],
    }


def _write_optimizer(live: Any, state: State, write: Outer) -> Any:
    if live is None or len(_parameters(live)) != len(state["parameters"]):
        raise NotLaidInError("an optimiser has other parameters than it had")
    for group, told in zip(live.param_groups, state["groups"], strict=True):
        for name, value in told.items():
            group[name] = write(group.get(name), value)
    for parameter, told in zip(_parameters(live), state["parameters"], strict=True):
        if told is None:
            live.state.pop(parameter, None)
        else:
            live.state[parameter] = write(dict(live.state.get(parameter, {})), told)
    return live


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _read_generator(generator: torch.Generator, read: Inner) -> State:
    return generator.get_state().numpy()


def _write_generator(live: Any, state: State, write: Outer) -> Any:
    live = torch.Generator() if live is None else live
    live.set_state(torch.from_numpy(state.copy()))
    return live


KINDS = (
    Kind(torch.Tensor, _read_tensor, _write_tensor),
    Kind(torch.optim.Optimizer, _read_optimizer, _write_optimizer),
    Kind(torch.Generator, _read_generator, _write_generator),
    *(fixed(kind) for kind in (torch.dtype, torch.device, torch.memory_format)),
)
"""How what PyTorch makes is told."""
