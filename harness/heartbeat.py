"""Tells others that a run is alive and how far it is, and ends it once others have it."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

from harness.lease import LeaseLost
from harness.recording import RunFolder

EXIT_NOT_MINE = 75
"""Exit code of a process whose run belongs to another."""

_SHARE = 0.02  # of the time since the start: dense at first, sparse in long runs
_RANGE = (1.0, 30.0)  # seconds


class Heartbeat:
    """Writes `progress.json` from a thread of its own, whatever the training does."""

    def __init__(self, folder: RunFolder, steps: Callable[[], int]) -> None:
        """Does not start yet.

        Args:
            folder: The run folder.
            steps: Environment steps so far.
        """
        self._folder = folder
        self._steps = steps
        self._begun = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_over, daemon=True)

    def __enter__(self) -> "Heartbeat":
        """Beats once, then regularly."""
        self._beat()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops."""
        self._over.set()
        self._thread.join()
        with contextlib.suppress(OSError, LeaseLost):
            self._folder.stop_heartbeat()

    def _beat_until_over(self) -> None:
        while not self._over.wait(self._period()):
            try:
                self._beat()
            except LeaseLost as error:
                # The training may be deep in code that knows nothing of this. It can write no
                # more, so there is nothing to tidy up.
                print(f"Ended: {error}.", file=sys.stderr, flush=True)
                os._exit(EXIT_NOT_MINE)

    def _beat(self) -> None:
        with contextlib.suppress(OSError):  # a full disk: the evaluations will tell
            self._folder.heartbeat(self._steps(), self._period())

    def _period(self) -> float:
        shortest, longest = _RANGE
        return min(max((time.monotonic() - self._begun) * _SHARE, shortest), longest)
