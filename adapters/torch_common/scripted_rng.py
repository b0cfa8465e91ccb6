"""Scripted replacements of torch's random numbers, below Python.

Random numbers are therefore scripted for every function that draws them. There are two ways:
kernels that replace torch's own, which cost nothing if nothing is drawn; and a mode that sees each
operation and also records where losses were computed and which thresholds draws were compared with.
The mode takes a third of the time.
"""

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from parallax.harness.contract.probing.recorder import find_upstream_line
from parallax.harness.contract.probing.scripted_env import ScriptedWorld
from parallax.harness.contract.probing.scripted_rng import COMPARISONS, RotatingPermutations


class ScalarOrigins:
    """Source lines of the single numbers that losses are summed from."""

    def __init__(self) -> None:
        self._lines: dict[int, str] = {}

    def note(self, result: Any, arguments: tuple[Any, ...]) -> None:
        """Note the line that made `result`; sums outside frameworks get their parts' lines."""
        if not isinstance(result, torch.Tensor) or result.dim() != 0:
            return
        try:
            line = find_upstream_line() or "; ".join(
                dict.fromkeys(
                    self._lines[a.data_ptr()]
                    for a in arguments
                    if isinstance(a, torch.Tensor) and a.data_ptr() in self._lines
                )
            )
            if line:
                self._lines[result.data_ptr()] = line
        except RuntimeError:  # within vmap a tensor has no address
            return

    def line(self, place: int) -> str:
        """Return the source line of the number at an address; empty where it is not known."""
        return self._lines.get(place, "")


SCRIPTED_OPERATIONS = {
    *("normal_", "uniform_", "randn", "randn_like", "normal", "rand", "rand_like"),
    *("randint", "randperm"),
}
"""Operations whose random numbers are scripted."""


class ScriptedRngMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode in which torch takes its random numbers from a script."""

    def __init__(self, world: ScriptedWorld) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.scalars = ScalarOrigins()
        self.drawn: dict[str, str] = {}
        self._world, self._permutations = world, RotatingPermutations(world)
        self._names: dict[Any, str] = {}
        self._backward: Any = None
        self._exploration_draw: Any = None

    def start(self) -> None:
        """Do nothing: the scripted environment marks the start itself."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and the guard takes half of the time

    def __enter__(self) -> Self:
        """Script within the context; backward passes run without the mode, as they draw nothing."""
        self._backward = backward = torch.autograd.backward

        def run_without_modes(*args: Any, **kwargs: Any) -> Any:
            with _disable_current_modes():
                return backward(*args, **kwargs)

        setattr(torch.autograd, "backward", run_without_modes)  # noqa: B010
        return super().__enter__()  # type: ignore[no-any-return,no-untyped-call]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore everything."""
        setattr(torch.autograd, "backward", self._backward)  # noqa: B010
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation of torch, or its scripted replacement."""
        kwargs = kwargs or {}
        name = self._names.get(func)
        if name is None:
            name = self._names[func] = func.overloadpacket.__name__
        if self._exploration_draw is not None and name in COMPARISONS:
            self._record_threshold(*args)
        if name not in SCRIPTED_OPERATIONS or not self._world.started:
            result = func(*args, **kwargs)
            self.scalars.note(result, args)
            return result
        self._note_draw(name, args)
        if name in ("normal_", "uniform_"):
            return self._fill(name, *args)
        return self._overwrite(name, args, func(*args, **kwargs))

    def _fill(self, name: str, into: Any, first: float = 0.0, second: float = 1.0, *_: Any) -> Any:
        """Fill a tensor: with mean and deviation for `normal_`, bounds for `uniform_`."""
        scale = second if name == "normal_" else second - first
        return into.copy_(first + scale * _make_scripted_numbers(self._world, name, into))

    def _overwrite(self, name: str, args: Any, result: Any) -> Any:
        """Overwrite the numbers that torch has drawn by scripted ones."""
        data = self._world.scripted_data
        if name in ("randn", "randn_like"):
            result.copy_(_make_scripted_numbers(self._world, "normal_", result))
        elif name == "normal":
            mean, std = args[:2]
            result.copy_(mean + std * _make_scripted_numbers(self._world, "normal_", result))
        elif name == "rand" and data.n_discrete_actions:
            self._exploration_draw = result.fill_(data.exploration_draw)
        elif name in ("rand", "rand_like"):
            result.copy_(_make_scripted_numbers(self._world, "uniform_", result))
        elif name == "randint":
            low, high = (0, args[0]) if isinstance(args[1], list | tuple) else args[:2]
            drawn = self._world.draw_integers(low, high, result.numel())
            result.copy_(torch.as_tensor(drawn).reshape(result.shape))
        elif name == "randperm":
            result.copy_(torch.as_tensor(self._permutations.draw_permutation(args[0])))
        return result

    def _note_draw(self, name: str, args: Any) -> None:
        # Notes the lines that draw the noise of single actions, and minibatches.
        single = sum(
            a.numel() == len(self._world.scripted_data.low) for a in args[:1] if torch.is_tensor(a)
        )
        if name in ("randperm", "randint") or (name.startswith("normal") and single):
            what = "action drawn" if name.startswith("normal") else "minibatch drawn"
            self.drawn[what] = find_upstream_line()

    def _record_threshold(self, drawn: Any, threshold: Any) -> None:
        # Torch may pass on the drawn numbers as another tensor with the same memory.
        expected = self._exploration_draw.data_ptr()
        if isinstance(drawn, torch.Tensor) and drawn.data_ptr() == expected:
            # Several actors may have one threshold each.
            several = isinstance(threshold, torch.Tensor) and threshold.numel() > 1
            for number in threshold.reshape(-1).tolist() if several else [float(threshold)]:
                self._world.record_threshold(number)


def _make_scripted_numbers(world: ScriptedWorld, kind: str, like: torch.Tensor) -> torch.Tensor:
    # Scripted replacements of standard normal or uniform numbers, in the shape of a tensor.
    numbers = world.draw_numbers(kind.removesuffix("_"), like.numel())
    return torch.as_tensor(numbers, dtype=like.dtype, device=like.device).reshape(like.shape)


class ScriptedRngKernels:
    """Kernels that take torch's random numbers from a script, without discrete actions.

    Torch computes `randn` and the like with `normal_`, and `rand` with `uniform_`.
    """

    def __init__(self, world: ScriptedWorld) -> None:
        self.scalars = ScalarOrigins()
        self.drawn: dict[str, str] = {}
        self._world, self._permutations = world, RotatingPermutations(world)
        self._library: Any = None

    def start(self) -> None:
        """Script from here on; the networks' initial weights are upstream's own."""
        library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
        self._library = library
        kernels = {
            self._normal: ("normal_",),
            self._normal_around: (
                "normal.Tensor_Tensor",
                "normal.Tensor_float",
                "normal.float_Tensor",
            ),
            self._uniform: ("uniform_",),
            self._randint: ("randint", "randint.generator"),
            self._randint_from: ("randint.low", "randint.low_generator"),
            self._randperm: ("randperm", "randperm.generator"),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # replacing torch's kernels is intended
            for kernel, overloads in kernels.items():
                for overload in overloads:
                    for device in ("CPU", "CUDA"):
                        library.impl(overload, kernel, device)

    def __enter__(self) -> Self:
        """Return the kernels, which are removed on exit."""
        return self

    def __exit__(self, *_: object) -> None:
        """Restore torch's own kernels."""
        if self._library is not None:
            self._library._destroy()
            self._library = None

    def _normal(
        self, into: torch.Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None
    ) -> torch.Tensor:
        return into.copy_(mean + std * _make_scripted_numbers(self._world, "normal_", into))

    def _normal_around(self, mean: Any, std: Any, *, generator: Any = None) -> torch.Tensor:
        like: torch.Tensor = mean + 0 * std
        drawn: torch.Tensor = mean + std * _make_scripted_numbers(self._world, "normal_", like)
        return drawn

    def _uniform(
        self, into: torch.Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None
    ) -> torch.Tensor:
        return into.copy_(
            low + (high - low) * _make_scripted_numbers(self._world, "uniform_", into)
        )

    def _randint(self, high: int, size: Sequence[int], *rest: Any, **options: Any) -> torch.Tensor:
        return self._randint_from(0, high, size, *rest, **options)

    def _randint_from(
        self, low: int, high: int, size: Sequence[int], *rest: Any, **options: Any
    ) -> torch.Tensor:
        drawn = self._world.draw_integers(low, high, int(np.prod(size)))
        return _tensor_from_integers(drawn.reshape(tuple(size)), options)

    def _randperm(self, count: int, *rest: Any, **options: Any) -> torch.Tensor:
        return _tensor_from_integers(self._permutations.draw_permutation(count), options)


def _tensor_from_integers(numbers: NDArray[np.int64], options: Mapping[str, Any]) -> torch.Tensor:
    dtype = options.get("dtype") or torch.int64
    return torch.tensor(numbers, dtype=dtype, device=options.get("device"))


class ScriptedRngPause:
    """Pauses the scripting, which is slow, while optimizers step: they do not need it."""

    def __init__(self) -> None:
        self._pause = contextlib.ExitStack()

    def begin(self, event: object) -> None:
        """Pause before the step of an optimizer."""
        self._pause.enter_context(_disable_current_modes())

    def end(self, event: object) -> None:
        """Resume after the step."""
        self._pause.close()

    @contextlib.contextmanager
    def resume_on_exit(self) -> Iterator[None]:
        """Resume the scripting at the end, also after an error."""
        try:
            yield
        finally:
            self._pause.close()
