"""Accelerations of trainings in PyTorch, by its public options.

Some apply to the whole process (`apply_torch_acceleration`): options of Adam, which are set in the
parameter groups before an optimizer's first step, and the precision of matrix products. Others
change how networks are called (`accelerate_networks`). No framework is named here.
"""

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode

from parallax.harness.contract.acceleration import (
    BFLOAT16,
    COMPILE,
    FOREACH_ADAM,
    FUSED_ADAM,
    MATMUL_MEDIUM,
)

_ADAM_OPTIONS = {
    FUSED_ADAM: {"fused": True, "foreach": False},
    FOREACH_ADAM: {"fused": False, "foreach": True},
}


@contextlib.contextmanager
def apply_torch_acceleration(acceleration: str) -> Iterator[None]:
    """Accelerate all trainings in this process within the context; other names change nothing."""
    if acceleration in _ADAM_OPTIONS:
        hook = register_optimizer_step_pre_hook(_make_group_setter(_ADAM_OPTIONS[acceleration]))
        try:
            yield
        finally:
            hook.remove()
    elif acceleration == MATMUL_MEDIUM:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("medium")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
    else:
        if acceleration == COMPILE:  # forgets the recompilations of earlier trainings
            torch.compiler.reset()
        yield


def _make_group_setter(options: dict[str, bool]) -> Callable[..., None]:
    # Some optimizers cannot be reached by a framework's arguments, such as that of SAC's
    # temperature in Stable-Baselines3; the parameter groups of all are available before a step.
    def set_options(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if isinstance(optimizer, torch.optim.Adam):  # AdamW is one, too
            for group in optimizer.param_groups:
                group.update(options)

    return set_options


def compile_function(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function with torch.compile."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    # PyTorch counts recompilations by code object, and runs plain code once there are too many:
    # without copies, all networks of one class would share a count.
    own = _copy_function(plain if _is_of_script(plain) else call)
    # By default, compiled code draws other random numbers than eager PyTorch.
    compiled = torch.compile(own, options={"fallback_random": True})

    @functools.wraps(plain)
    def call_compiled(*args: Any, **kwargs: Any) -> Any:
        if _get_current_dispatch_mode() is None:
            return compiled(*args, **kwargs)
        # Modes that watch single operations would make PyTorch run the plain code instead.
        with _disable_current_modes():
            return compiled(*args, **kwargs)

    return call_compiled


def _is_of_script(function: Any) -> bool:
    # True for a script that is executed as __main__ without being that module: PyTorch looks up the
    # global names of functions that it inlines in the module, which does not have them.
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    return vars(module) is not getattr(function, "__globals__", None) if module else True


def _copy_function(function: Any) -> Callable[..., Any]:
    inner = getattr(function, "__func__", function)
    copied = types.FunctionType(
        *(inner.__code__.replace(), inner.__globals__, inner.__name__),
        *(inner.__defaults__, inner.__closure__),
    )
    owner = getattr(function, "__self__", None)
    return copied if owner is None else types.MethodType(copied, owner)


class AcceleratedForward:
    """A network's `forward` that is compiled, or computes in bfloat16.

    It replaces the network's attribute `forward`, so that hooks of the network itself are still
    called. A compiled network is one call: hooks of the layers in it are not called.
    """

    def __init__(self, network: torch.nn.Module, acceleration: str) -> None:
        """Compile the network's `forward` at the first call, or let it compute in bfloat16."""
        plain = type(network).forward.__get__(network)
        self.is_compiled = acceleration == COMPILE
        self._network = network
        self._call = compile_function(plain) if self.is_compiled else _compute_in_bfloat16(plain)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the network's output."""
        return self._call(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return the plain `forward` of a network's copy: this one has the original's weights."""
        copied = memo[id(self._network)]
        return type(copied).forward.__get__(copied)


def _compute_in_bfloat16(plain: Callable[..., Any]) -> Callable[..., Any]:
    def compute(*args: Any, **kwargs: Any) -> Any:
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        device = tensors[0].device.type if tensors else "cpu"
        with torch.autocast(device, dtype=torch.bfloat16):
            return _to_float32(plain(*args, **kwargs))

    return compute


def _to_float32(output: Any) -> Any:
    if isinstance(output, torch.Tensor):
        return output.float() if output.dtype == torch.bfloat16 else output
    if type(output) in (tuple, list):
        return type(output)(_to_float32(item) for item in output)
    return output


def accelerate_networks(acceleration: str, *roots: torch.nn.Module) -> None:
    """Compile the networks in modules, or let them compute in bfloat16; in place.

    Args:
        acceleration: Other names than `compile` and `bfloat16` change nothing.
        roots: Modules that hold the networks: see `list_networks`.
    """
    if acceleration not in (COMPILE, BFLOAT16):
        return
    for root in roots:
        for network in list_networks(root):
            setattr(network, "forward", AcceleratedForward(network, acceleration))  # noqa: B010


def list_networks(root: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the outermost sequences of layers in a module; the module itself if it has none.

    Frameworks call their modules through several methods, which all use the same sequences.
    """
    found: dict[torch.nn.Module, None] = {}

    def visit(module: torch.nn.Module) -> None:
        if not any(True for _ in module.parameters()):
            return
        if isinstance(module, torch.nn.Sequential):
            found[module] = None
            return
        for child in module.children():
            visit(child)

    visit(root)
    return list(found) or [root]


def get_accelerated_forward(network: Any) -> AcceleratedForward | None:
    """Return the accelerated `forward` of a network, or None if it has none."""
    forward = vars(network).get("forward")
    return forward if isinstance(forward, AcceleratedForward) else None
