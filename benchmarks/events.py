"""Cost of events, by their subscribers.

    python benchmarks/events.py

One environment step of a task that does nothing, and one step of Adam on a small network, in one
process: instructions of Python's virtual machine, which are counted and the same each time, and
nanoseconds of processor time, the minimum of `--repeats` loops. The cases take turns, so that other
work on the machine affects all equally.
"""

import argparse
import functools
import sys
import time
import timeit
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import gymnasium
import torch

from parallax.adapters.torch_common.watch import watch_training
from parallax.envs.make import StepHook
from parallax.harness.contract.events import (
    AfterOptimizerStep,
    BeforeOptimizerStep,
    EnvStep,
    LayerForward,
    TrainingEvents,
)

SECONDS = 0.02  # approximate time of one loop
Context = Callable[[], AbstractContextManager[None]]
Case = tuple[str, Callable[[], object], Context]
"""Name, what is measured, and the context in which it is."""


class IdleTask(gymnasium.Env[Any, Any]):
    """A task that does nothing."""

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Return the same each time."""
        return 0, 0.0, False, False, {}


class StepCounter:
    """Minimal counter of steps."""

    steps = 0

    def count(self) -> None:
        """Count one step."""
        self.steps += 1


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=100)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    print_table("one environment step", list_environment_cases(), repeats)
    print_table("one optimizer step", list_optimizer_cases(), repeats)


def list_environment_cases() -> list[Case]:
    """Return the measured cases; the others are compared with the first."""
    measured = [("hook that counts, no events", StepHook(IdleTask(), StepCounter().count))]
    for subscribers in (0, 1, 3):
        events = make_events(subscribers, EnvStep)
        measured.append(
            (f"events, {subscribers} subscribers", StepHook(IdleTask(), **events.make_env_hooks()))
        )
    return [
        (name, lambda env=env: env.step(0), nullcontext)  # type: ignore[misc]
        for name, env in measured
    ]


def list_optimizer_cases() -> list[Case]:
    """Return the same for events of torch."""
    layer = torch.nn.Linear(8, 8)
    adam = torch.optim.Adam(layer.parameters())
    inputs = torch.ones(16, 8)

    def train() -> None:
        adam.zero_grad()
        layer(inputs).sum().backward()
        adam.step()

    kinds: dict[str, tuple[type[Any], ...]] = {
        "none": (),
        "steps": (BeforeOptimizerStep, AfterOptimizerStep),
        "layers": (LayerForward,),
    }
    measured: list[Case] = [("no watcher", train, nullcontext)]
    for name, wanted in kinds.items():
        watcher = functools.partial(watch_training, make_events(1, *wanted))
        measured.append((f"watcher, subscribed: {name}", train, watcher))
    return measured


def make_events(count: int, *kinds: type) -> TrainingEvents:
    """Return events with `count` subscribers for each kind, which do nothing."""
    events = TrainingEvents()
    for kind in kinds * count:
        events.subscribe(kind, lambda event: None)
    return events


def print_table(title: str, cases: list[Case], repeats: int) -> None:
    """Print one row per case."""
    print(f"{title:34}{'instructions':>13}{'ratio':>8}{'ns':>9}{'ratio':>8}{'more ns':>9}")
    for _, call, _ in cases:
        call()  # one-off work is not a cost per step
    counted = [
        measure_in_context(context, functools.partial(count_instructions, call))
        for _, call, context in cases
    ]
    number = round(SECONDS / measure_seconds(cases[0][1], 10))
    rounds = [
        [
            measure_in_context(context, functools.partial(measure_seconds, call, number))
            for _, call, context in cases
        ]
        for _ in range(repeats)
    ]
    least = [1e9 * min(times) for times in zip(*rounds, strict=True)]
    for (name, *_), count, time_taken in zip(cases, counted, least, strict=True):
        print(
            f"  {name:32}{count:>13}{count / counted[0]:>8.3f}{time_taken:>9.0f}"
            f"{time_taken / least[0]:>8.3f}{time_taken - least[0]:>9.0f}"
        )


def measure_in_context(context: Context, work: Callable[[], float]) -> float:
    """Return the result of `work` within a new context."""
    with context():
        return work()


def measure_seconds(call: Callable[[], object], number: int) -> float:
    """Return the processor time of one call."""
    return timeit.timeit(call, number=number, timer=time.thread_time) / number


def count_instructions(call: Callable[[], object]) -> int:
    """Count the instructions of Python's virtual machine in one call."""
    count = 0

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return count


if __name__ == "__main__":
    main()
