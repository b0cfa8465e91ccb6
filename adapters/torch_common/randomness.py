"""Torch's random numbers, dictated below Python.

So it does not matter which function a framework draws them with.
"""

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from adapters.torch_common.places import Scalars
from harness.probes.coins import COMPARISONS
from harness.probes.world import Rotations, World

RANDOM = frozenset(
    [
        "normal_",
        "uniform_",
        "randn",
        "randn_like",
        "normal",
        "rand",
        "rand_like",
        "randint",
        "randperm",
    ]
)
"""Operations that are dictated."""


class Dictated(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Takes torch's random numbers from the dictation; see `harness.probes.world.dictated`."""

    def __init__(self, world: World) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.scalars = Scalars()
        self._world, self._turns = world, Rotations(world)
        self._names: dict[Any, str] = {}
        self._backward: Any = None
        self._coins: Any = None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and the guard takes half of the time

    def __enter__(self) -> Self:
        """Dictates within; gradients are computed without, as they draw nothing."""
        self._backward = backward = torch.autograd.backward

        def plainly(*args: Any, **kwargs: Any) -> Any:
            with _disable_current_modes():
                return backward(*args, **kwargs)

        setattr(torch.autograd, "backward", plainly)  # noqa: B010
        return super().__enter__()  # type: ignore[no-any-return,no-untyped-call]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Puts everything back."""
        setattr(torch.autograd, "backward", self._backward)  # noqa: B010
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs one operation of torch, or what stands for it."""
        kwargs = kwargs or {}
        name = self._names.get(func)
        if name is None:
            name = self._names[func] = func.overloadpacket.__name__
        if self._coins is not None and name in COMPARISONS:
            self._compare(*args)
        if name not in RANDOM or not self._world.started:
            result = func(*args, **kwargs)
            self.scalars.note(result, args)
            return result
        if name in ("normal_", "uniform_"):
            first = args[1] if len(args) > 1 else 0.0
            second = args[2] if len(args) > 2 else 1.0
            numbers = self._numbers(name, args[0])
            scale = second if name == "normal_" else second - first
            return args[0].copy_(first + scale * numbers)
        result = func(*args, **kwargs)
        if name in ("randn", "randn_like"):
            result.copy_(self._numbers("normal_", result))
        elif name == "normal":
            mean, std = args[:2]
            result.copy_(mean + std * self._numbers("normal_", result))
        elif self._world.dictation.choices and name == "rand":
            result.fill_(self._world.dictation.coin)
            self._coins = result
        elif name in ("rand", "rand_like"):
            result.copy_(self._numbers("uniform_", result))
        elif name == "randint":
            low, high = (0, args[0]) if isinstance(args[1], list | tuple) else args[:2]
            drawn = self._world.whole_numbers(low, high, result.numel())
            result.copy_(torch.as_tensor(drawn).reshape(result.shape))
        elif name == "randperm":
            result.copy_(torch.as_tensor(self._turns.next(args[0])))
        return result

    def _compare(self, one: Any, other: Any) -> None:
        # Torch may hand on the coins as another tensor on the same numbers.
        if isinstance(one, torch.Tensor) and one.data_ptr() == self._coins.data_ptr():
            self._world.compared(float(other))

    def _numbers(self, kind: str, like: torch.Tensor) -> torch.Tensor:
        d, row = self._world.dictation, self._world.row
        size = len(d.low)
        if kind == "uniform_":
            numbers = np.resize(d.random_actions[row], like.numel())
        elif like.numel() == size:
            numbers = d.acting_noise[row]
        else:
            numbers = np.resize(d.noise(self._world.steps), like.numel())
        return torch.as_tensor(numbers, dtype=like.dtype).reshape(like.shape)


class Undisturbed:
    """Lets optimisers step without the dictation, which they do not need and which is slow."""

    def __init__(self) -> None:
        self._pause = contextlib.ExitStack()

    def begin(self, event: object) -> None:
        """An optimiser is about to step."""
        self._pause.enter_context(_disable_current_modes())

    def end(self, event: object) -> None:
        """It has."""
        self._pause.close()

    @contextlib.contextmanager
    def closing(self) -> Iterator[None]:
        """Dictates again at the end, whatever happened."""
        try:
            yield
        finally:
            self._pause.close()
