"""Trainings in float64: what a framework makes in float32 becomes float64, in this process."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_SHORT, _LONG = torch.float32, torch.float64


class Doubled(TorchFunctionMode):
    """Takes every tensor of float32 for one of float64, and asks for float64 in its place.

    Numbers that a framework keeps in arrays of NumPy's stay as they are: stored rewards are rounded
    to float32 there, alike in all.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs one function of torch's."""
        if func is torch.Tensor.float:
            return args[0].double()
        given = {name: _longer(value) for name, value in (kwargs or {}).items()}
        result = func(*(_longer(value) for value in args), **given)
        if isinstance(result, torch.Tensor) and result.dtype is _SHORT:
            return result.double()
        return result


def _longer(value: Any) -> Any:
    if value is _SHORT:
        return _LONG
    if isinstance(value, torch.Tensor) and value.dtype is _SHORT:
        return value.double()
    if type(value) in (list, tuple):
        return type(value)(_longer(item) for item in value)
    return value


@contextlib.contextmanager
def doubled(wanted: bool) -> Iterator[None]:
    """Trains in float64 within, if wanted."""
    if not wanted:
        yield
        return
    before = torch.get_default_dtype()
    torch.set_default_dtype(_LONG)
    try:
        with Doubled():
            yield
    finally:
        torch.set_default_dtype(before)
