"""Progress on standard error."""

import sys
import threading
from types import TracebackType
from typing import Self, TextIO


class Progress:
    """One line that is written over on a terminal; elsewhere a line for every tenth part."""

    def __init__(self, total: int, out: TextIO | None = None) -> None:
        self._total, self._done = total, 0
        self._out = sys.stderr if out is None else out
        self._lock = threading.Lock()

    def tell(self, what: str) -> None:
        """Counts one answer."""
        with self._lock:
            self._done += 1
            tenth = max(self._total // 10, 1)
            if self._out.isatty():
                self._write(f"\r\x1b[K{self._done}/{self._total} {what}")
            elif self._done % tenth == 0 or self._done == self._total:
                self._write(f"{self._done}/{self._total} {what}\n")

    def __enter__(self) -> Self:
        self._write("starting ..." if self._out.isatty() else "")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write("\r\x1b[K" if self._out.isatty() else "")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
