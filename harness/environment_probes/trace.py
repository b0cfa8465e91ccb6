"""Recorded calls of an implementation, with the episode and step of the script for each."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.probing.environments import (
    BOTH,
    NEXT_STEP,
    TERMINATED,
    TRUNCATED,
    EnvironmentDriver,
    EnvironmentImplementation,
    EnvironmentStep,
    EpisodeScript,
    SingleEnvDriver,
    make_single_env,
)

Array = NDArray[Any]
Place = tuple[int, int]
"""Episode and step of a copy."""

MIXED_ENDS = (
    ((3, TERMINATED), (2, TRUNCATED), (4, BOTH), (5, TRUNCATED), (3, TERMINATED)),
    ((4, TRUNCATED), (3, BOTH), (2, TERMINATED), (5, TERMINATED), (4, TRUNCATED)),
)
"""Ends of two copies: each kind of end, at different times."""
ACTION = 0.5
"""Action of every step."""


@dataclasses.dataclass(frozen=True)
class TraceEvent:
    """One call.

    Attributes:
        observations: Observations that the call returned to act on.
        places: Episode and step after the call and before a reset, by copy.
        starts: Whether the observation starts an episode in this call, by copy; for a step, only
            if it is a reset that takes a whole step.
        ended: Whether the call ended an episode, by copy.
        step: Result of a step; None for an explicit reset.
        frozen: Whether running statistics were frozen.
    """

    observations: Array
    places: tuple[Place, ...]
    starts: tuple[bool, ...]
    ended: tuple[bool, ...]
    step: EnvironmentStep | None
    frozen: bool


@dataclasses.dataclass(frozen=True)
class Trace:
    """Sequence of recorded calls.

    Attributes:
        autoreset: Who resets, and in which step.
        ignores_reset: Whether an explicit reset returned the last observation and did not reset;
            the trace ends before it.
    """

    scripts: tuple[EpisodeScript, ...]
    autoreset: str
    events: tuple[TraceEvent, ...]
    ignores_reset: bool = False

    def get_next_place(self, event: TraceEvent, copy: int) -> Place:
        """Return the place of the observation that a call returns to act on."""
        episode, step = event.places[copy]
        reset_now = event.step is not None and event.ended[copy] and self.autoreset != NEXT_STEP
        return (episode + 1, 0) if reset_now else (episode, step)

    def compute_observation(self, copy: int, place: Place) -> Array:
        """Return the observation at a place, by the script."""
        received = ACTION if place[1] else 0.0
        return self.scripts[copy].compute_observation(*place, received)


def make_scripts(
    implementation: EnvironmentImplementation,
    ends: Sequence[tuple[tuple[int, str], ...]] = MIXED_ENDS,
    **options: Any,
) -> tuple[EpisodeScript, ...]:
    """Return one script per copy of an implementation."""
    return tuple(
        EpisodeScript(copy, ends[copy % len(ends)], **options)
        for copy in range(implementation.n_envs)
    )


def find_freeze_switch(env: Any) -> Callable[[], None] | None:
    """Return a function that freezes running statistics, or None if there is no such switch."""
    if not hasattr(type(env), "update_running_mean"):
        return None
    return functools.partial(setattr, env, "update_running_mean", False)


def make_wrapped_driver(
    scripts: Sequence[EpisodeScript], *, wrap: Callable[[Any], Any]
) -> EnvironmentDriver:
    """Return a driver of one wrapped copy."""
    env = wrap(make_single_env(scripts[0]))
    return SingleEnvDriver(env, find_freeze_switch(env))


def collect_trace(
    implementation: EnvironmentImplementation,
    scripts: Sequence[EpisodeScript],
    n_steps: int,
    *,
    reset_after: Collection[int] = (),
    freeze_after: int | None = None,
) -> Trace:
    """Reset, take steps and record them.

    Args:
        implementation: Implementation to run.
        scripts: One per copy.
        n_steps: Number of steps.
        reset_after: Numbers of steps after which all copies are reset explicitly.
        freeze_after: Number of steps after which running statistics are frozen; None for never.

    Raises:
        NotImplementedError: Statistics cannot be frozen.
    """
    driver = implementation.make(scripts)
    try:
        events = list(_drive(driver, scripts, n_steps, set(reset_after), freeze_after))
    finally:
        driver.close()
    return cut_at_ignored_reset(Trace(tuple(scripts), driver.autoreset, tuple(events)))


def cut_at_ignored_reset(trace: Trace) -> Trace:
    """Return the trace up to an explicit reset that only returned the last observation again."""
    events = trace.events
    for i in range(1, len(events)):
        same = np.array_equal(events[i].observations, events[i - 1].observations)
        if events[i].step is None and same:
            return dataclasses.replace(trace, events=events[:i], ignores_reset=True)
    return trace


def _drive(
    driver: EnvironmentDriver,
    scripts: Sequence[EpisodeScript],
    n_steps: int,
    reset_after: set[int],
    freeze_after: int | None,
) -> Any:
    copies = range(len(scripts))
    places: list[Place] = [(-1, 0) for _ in copies]
    waiting = [False for _ in copies]
    frozen = False
    actions = np.full((len(scripts), 1), ACTION, np.float32)
    for number in range(n_steps + 1):
        if number == 0 or number in reset_after:
            places = [(episode + 1, 0) for episode, _ in places]
            waiting = [False for _ in copies]
            observations = np.array(driver.reset())
            yes, no = tuple(True for _ in copies), tuple(False for _ in copies)
            yield TraceEvent(observations, tuple(places), yes, no, None, frozen)
        if number == freeze_after:
            driver.freeze()
            frozen = True
        if number == n_steps:
            return
        result = driver.step(actions)
        starts = tuple(waiting)
        reached = [
            (episode + 1, 0) if starts[i] else (episode, step + 1)
            for i, (episode, step) in enumerate(places)
        ]
        ended = tuple(not starts[i] and any(scripts[i].compute_flags(*reached[i])) for i in copies)
        observations = np.array(result.observations)
        yield TraceEvent(observations, tuple(reached), starts, ended, result, frozen)
        if driver.autoreset == NEXT_STEP:
            places, waiting = reached, list(ended)
        else:
            places = [(place[0] + 1, 0) if ended[i] else place for i, place in enumerate(reached)]
