"""Clocks around functions, which measure their share of a training's time.

A script lists the functions that it times in a table `TIMED_CALLS`;
`tests/test_benchmark_scripts.py` checks that all of them exist.
"""

import collections
import contextlib
import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Clock = Callable[[], int]
"""Returns nanoseconds, such as `time.thread_time_ns`."""

_CALIBRATION_CALLS = 20_000


@dataclasses.dataclass(frozen=True)
class TimedCall:
    """A function or method that is timed.

    Attributes:
        module: Module that has the function or its class.
        name: Name in the module, such as `StepHook.step`.
        label: Calls with the same label are added up.
    """

    module: str
    name: str
    label: str

    def find_owner(self) -> tuple[Any, str]:
        """Return the module or class that has the function, and the function's name in it.

        Raises:
            AttributeError: There is no such function.
        """
        path, _, name = self.name.rpartition(".")
        owner: Any = importlib.import_module(self.module)
        for part in filter(None, path.split(".")):
            owner = getattr(owner, part)
        getattr(owner, name)
        return owner, name


class CallTimer:
    """Nanoseconds of each timed call, without those of timed calls within it.

    One instance per thread and clock.

    Attributes:
        calls: Nanoseconds of each call, by label.
    """

    def __init__(self, clock: Clock) -> None:
        """Start without any call."""
        self.calls: dict[str, list[int]] = collections.defaultdict(list)
        self._clock = clock
        self._nested = [0]

    def wrap_function(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a clock around it."""
        clock, nested, calls = self._clock, self._nested, self.calls[label]

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            nested.append(0)
            started = clock()
            try:
                return function(*args, **kwargs)
            finally:
                elapsed = clock() - started
                calls.append(elapsed - nested.pop())
                nested[-1] += elapsed

        return call

    @contextlib.contextmanager
    def time_calls(self, timed: Iterable[TimedCall]) -> Iterator[None]:
        """Time functions within the context.

        Raises:
            AttributeError: One of the functions does not exist.
        """
        with contextlib.ExitStack() as stack:
            for call in timed:
                owner, name = call.find_owner()
                before = getattr(owner, name)
                setattr(owner, name, self.wrap_function(call.label, before))
                stack.callback(setattr, owner, name, before)
            yield

    def compute_seconds(self, label: str) -> float:
        """Return the seconds of all calls; the longest hundredth counts as the others' mean."""
        calls = sorted(self.calls[label])
        shorter = calls[: len(calls) - len(calls) // 100]
        return sum(shorter) / max(len(shorter), 1) * len(calls) / 1e9

    def compute_mean_seconds(self, label: str) -> float:
        """Return the mean seconds of a call."""
        return self.compute_seconds(label) / max(len(self.calls[label]), 1)


def measure_clock_cost(clock: Clock) -> float:
    """Return the seconds that a clock around a call takes, measured with empty nested calls."""
    timer = CallTimer(clock)
    inner = timer.wrap_function("inner", lambda: None)
    outer = timer.wrap_function("outer", inner)
    for _ in range(_CALIBRATION_CALLS):
        outer()
    return timer.compute_mean_seconds("outer")
