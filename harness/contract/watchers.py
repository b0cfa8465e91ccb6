"""Watchers of events inside a numerical library, and of target network updates.

A watcher hooks into one library what somebody has subscribed to, and nothing else. It is found as
adapters are: by an entry point, whose name is the library's import name.
"""

import contextlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from parallax.harness.contract.adapter import Weights
from parallax.harness.contract.events import (
    AfterOptimizerStep,
    BeforeOptimizerStep,
    LayerForward,
    LossBackward,
    TargetNetworkUpdate,
    TrainingEvents,
)
from parallax.harness.contract.installed import find_entry_points

WATCHER_ENTRY_POINT_GROUP = "parallax.watchers"

LibraryWatcher = Callable[[TrainingEvents], contextlib.AbstractContextManager[None]]
"""Publishes events of layers, losses and optimizer steps while its context is entered."""


class NoWatcherError(RuntimeError):
    """No library is installed that could be watched."""


def find_watcher_entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    """Entry points of all watchers on this machine, by library; nothing is imported."""
    return {entry.name: entry for entry in find_entry_points(WATCHER_ENTRY_POINT_GROUP)}


@contextlib.contextmanager
def watch_libraries(
    events: TrainingEvents, watchers: Sequence[LibraryWatcher] | None = None
) -> Iterator[None]:
    """Runs all watchers that have subscribers within the context; leaves nothing behind.

    Args:
        events: The subscribers.
        watchers: Those of `load_watchers`, for who watches again and again: looking for
            them reads the lists of all installed packages. None looks for them.

    Raises:
        NoWatcherError: None of the libraries that have a watcher is installed.
        LookupError: No watcher is registered: the installation is older than the code.
    """
    with contextlib.ExitStack() as stack:
        if events.has_subscriber(
            LayerForward, LossBackward, BeforeOptimizerStep, AfterOptimizerStep
        ):
            for watcher in load_watchers() if watchers is None else watchers:
                stack.enter_context(watcher(events))
        yield


def load_watchers(libraries: Collection[str] | None = None) -> list[LibraryWatcher]:
    """Load the watchers of installed libraries that are needed: a watcher imports its library.

    Args:
        libraries: What will be trained with. None is what this process has imported by now, or
            everything where that is nothing.

    Raises:
        NoWatcherError: None of the libraries that have a watcher is installed.
        LookupError: No watcher is registered: the installation is older than the code.
    """
    registered = find_watcher_entry_points()
    if not registered:
        raise LookupError(
            f"no entry point of the group {WATCHER_ENTRY_POINT_GROUP} is installed, so nobody can "
            f"count optimiser "
            "steps: install this project again (make install, or "
            "python -m pip install --no-deps --editable .)"
        )
    able = [name for name in registered if importlib.util.find_spec(name)]
    if libraries is None:
        able = [name for name in able if name in sys.modules] or able
    else:
        able = [name for name in able if name in libraries]
    if not able:
        known = ", ".join(sorted(registered))
        raise NoWatcherError(f"only what trains with {known} can be counted from outside")
    return [registered[name].load() for name in able]


class TargetUpdateDetector:
    """Detects target networks that have moved since the last check."""

    def __init__(self, events: TrainingEvents, read: Callable[[], Weights]) -> None:
        """Does not look yet.

        Args:
            events: The subscribers.
            read: Copies of weights as they are now; names of targets contain `target`.
        """
        self._events, self._read = events, read
        self._last: Weights = {}

    def look(self, event: object = None) -> None:
        """Compares with the last look; `event` is what made somebody look."""
        before, now = self._last, self._read()
        self._last = now
        targets = [name for name in now if "target" in name and name in before]
        moved = tuple(name for name in targets if not np.array_equal(before[name], now[name]))
        if moved:
            self._events.tell(TargetNetworkUpdate(before, now, moved))
