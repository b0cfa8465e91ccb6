"""Progress of a command on standard error, with an estimate of the remaining time."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Self, TextIO

_LINE_SECONDS = 10.0


class CommandProgress:
    """Progress as one line that a terminal overwrites; elsewhere a line every ten seconds.

    Work is counted in any unit. The remaining time assumes the speed since the first report,
    because imports and the start of workers delay the first one.
    """

    def __init__(
        self, total: float, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start at zero.

        Args:
            total: Total amount of work.
            out: Stream of the line; standard error if None.
            clock: Returns the time in seconds.
        """
        self._total, self._done = total, 0.0
        self._out = sys.stderr if out is None else out
        self._clock, self._printed = clock, clock()
        self._first: tuple[float, float] | None = None  # time and work of the first report
        self._lock = threading.Lock()

    def advance(self, name: str = "", amount: float = 1.0) -> None:
        """Count work that is done, and show its name."""
        with self._lock:
            self._done += amount
            now = self._clock()
            self._first = self._first or (now, self._done)
            if self._out.isatty():
                self._write(f"\r\x1b[K{self._describe(now, name)}")
            elif now - self._printed >= _LINE_SECONDS:
                self._printed = now
                self._write(f"{self._describe(now, name)}\n")

    def _describe(self, now: float, name: str) -> str:
        first, done = self._first or (now, self._done)
        remaining = ""
        if done < self._done < self._total:
            left = (self._total - self._done) * (now - first) / (self._done - done)
            remaining = f", about {format_seconds(left)} left"
        return f"{self._done:.0f}/{self._total:.0f}{remaining}{f'  {name}' if name else ''}"

    def __enter__(self) -> Self:
        """Show that the work has begun."""
        self._write("starting ..." if self._out.isatty() else "")
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the line from a terminal."""
        self._write("\r\x1b[K" if self._out.isatty() else "")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def format_seconds(seconds: float) -> str:
    """Return a duration in a readable unit: `40 s`, `5 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
