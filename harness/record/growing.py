"""A file of a run folder that others read while it grows, and that a resumed run goes on with."""

import contextlib
import time
from pathlib import Path
from typing import IO, Any

from harness.record.lease import Lease

_FLUSHED_EVERY = 5.0  # seconds


class GrowingFile:
    """Appends, and goes on behind what a checkpoint told of: nothing is lost and nothing twice."""

    def __init__(self, lease: Lease, name: str, resumes: bool) -> None:
        """Begins the file, or waits to be told by `lay_in` how much of it holds.

        Args:
            lease: Of the run folder.
            name: Relative to it, in a folder of its own.
            resumes: Whether what an earlier attempt wrote is gone on with.
        """
        self._lease, self._name = lease, name
        self._file: IO[bytes] | None = None
        self._earlier = lease.folder / name if resumes else None
        self._waiting = bytearray()
        self._flushed = time.monotonic()
        if not resumes:
            self._begin(b"")

    def write(self, content: bytes) -> None:
        """Appends; readers see it within seconds."""
        if self._file is None:
            self._waiting += content
            return
        self._file.write(content)
        if time.monotonic() - self._flushed >= _FLUSHED_EVERY:
            self.flush()

    def flush(self) -> None:
        """Lets readers see everything."""
        if self._file is not None:
            self._file.flush()
            self._flushed = time.monotonic()

    def state(self) -> int:
        """Bytes by now, which are on their way to the disk."""
        self.flush()
        return self._file.tell() if self._file is not None else 0

    def lay_in(self, state: int) -> None:
        """Goes on behind so many bytes of what was there."""
        self._waiting.clear()
        self._begin(_beginning(self._earlier, state))

    def close(self) -> None:
        """Ends the file; it begins here if nobody has told where to go on."""
        if self._file is None:
            self._begin(_beginning(self._earlier, None) + bytes(self._waiting))
        if self._file is not None:
            self._file.close()

    def _begin(self, content: bytes) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._lease.make_folder(str(Path(self._name).parent))
        self._file = self._lease.grow(self._name, content)


def _beginning(path: Path | None, size: int | None) -> bytes:
    if path is None or path.is_symlink() or not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read() if size is None else file.read(size)


class Together:
    """What more than the records goes into a checkpoint of a run, by name."""

    def __init__(self) -> None:
        """Knows of none."""
        self._parts: dict[str, Any] = {}

    def add(self, name: str, part: Any) -> None:
        """Adds something with `state` and `lay_in`; one of the same name is replaced."""
        self._parts[name] = part

    def state(self) -> dict[str, Any]:
        """Of all."""
        return {name: part.state() for name, part in self._parts.items()}

    def lay_in(self, state: dict[str, Any]) -> None:
        """To those that the checkpoint tells of."""
        for name, part in self._parts.items():
            if name in state:
                part.lay_in(state[name])
