"""Tells of what PyTorch does in a training, through its own global hooks.

Nothing of a framework is named here, and nothing is hooked in that nobody wants to know of.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parameter import is_lazy
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from adapters.torch_common.fitting import fitted
from adapters.torch_common.graph import compared
from harness.contract.events import (
    Backward,
    Events,
    Forward,
    Group,
    OptimizerStep,
    OptimizerStepped,
    Parameter,
)

_LINEAR = ("AddmmBackward", "MmBackward", "LinearBackward", "ConvolutionBackward")
_SHAPES = (
    *("View", "UnsafeView", "Reshape", "_Reshape", "Squeeze", "Unsqueeze", "Transpose"),
    *("Permute", "Clone", "TBackward", "Alias"),
)
"""How autograd calls what computes and what only gives numbers another shape."""

_HOPS = 6


@contextlib.contextmanager
def watching(events: Events) -> Iterator[None]:
    """Tells within; leaves nothing behind."""
    step, stepped = events.teller(OptimizerStep), events.teller(OptimizerStepped)
    forward, backward = events.teller(Forward), events.teller(Backward)
    with contextlib.ExitStack() as hooks:
        if step:
            before = register_optimizer_step_pre_hook(lambda it, *_: step(_step(it)))
            hooks.callback(before.remove)
        if stepped:
            happened = OptimizerStepped()
            after = register_optimizer_step_post_hook(lambda *_: stepped(happened))
            hooks.callback(after.remove)
        if forward:
            told = register_module_forward_pre_hook(lambda *called: forward(_forward(*called)))
            hooks.callback(told.remove)
        if backward:
            hooks.enter_context(_differentiating(backward))
        yield


def _forward(layer: torch.nn.Module, inputs: tuple[Any, ...]) -> Forward:
    # What `parameters(recurse=False)` goes through, at a tenth of its time.
    own = [p for p in layer._parameters.values() if p is not None and not is_lazy(p)]
    places = tuple(p.data_ptr() for p in own)
    return Forward(
        *(layer, inputs, places, lambda: _directly(inputs), lambda: fitted(layer, inputs))
    )


def _directly(inputs: tuple[Any, ...]) -> bool | None:
    made_by = getattr(inputs[0], "grad_fn", None) if inputs else None
    if made_by is None:
        return None
    for _ in range(_HOPS):
        name = made_by.name()
        if name.startswith(_LINEAR):
            return True
        if not name.startswith(_SHAPES) or not made_by.next_functions:
            return False
        made_by = made_by.next_functions[0][0]
        if made_by is None:
            return None
    return False


def _step(optimizer: torch.optim.Optimizer) -> OptimizerStep:
    groups = [Group(group, _numbers(group), _parameters(group)) for group in optimizer.param_groups]
    return OptimizerStep(type(optimizer).__name__, tuple(groups))


def _parameters(group: Mapping[str, Any]) -> tuple[Parameter, ...]:
    # Parameters of lazy layers have no numbers before the layer is used for the first time.
    return tuple(_parameter(tensor) for tensor in group["params"] if not is_lazy(tensor))


def _parameter(tensor: torch.Tensor) -> Parameter:
    gradient = tensor.grad
    read = None if gradient is None else lambda: gradient.detach().cpu().numpy()
    return Parameter(tensor.data_ptr(), tensor.numel(), read)


def _numbers(group: Mapping[str, Any]) -> dict[str, float]:
    numbers = {name: float(group[name]) for name in ("lr", "eps", "weight_decay") if name in group}
    if "betas" in group:
        numbers["beta1"], numbers["beta2"] = (float(beta) for beta in group["betas"])
    return numbers


@contextlib.contextmanager
def _differentiating(tell: Callable[[Backward], None]) -> Iterator[None]:
    # The only one of the four that torch has no hook for.
    tensor_class: Any = torch.Tensor
    backward = tensor_class.backward

    def told(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if tensor.numel() == 1:
            place = tensor.data_ptr()
            tell(Backward(float(tensor.detach()), place, lambda: compared(tensor)))
        return backward(tensor, *args, **kwargs)

    tensor_class.backward = told
    try:
        yield
    finally:
        tensor_class.backward = backward
