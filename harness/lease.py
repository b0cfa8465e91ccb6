"""One writer per run folder, on any file system that several machines share.

Whoever writes a run folder holds its lease, a folder `.lease/<token>` in it. Every file is made
in there and moved into place from there. A successor moves `<token>` away and deletes it, so
whatever its former holder still tries fails in the file system itself: there is no moment
between a check and a write in which a stale writer could slip through. Only that a folder is
made, renamed and deleted atomically is relied on, which NFS, Lustre and others keep; not
on `flock`, and not on clocks.
"""

import dataclasses
import errno
import json
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from harness.files import write_atomically
from harness.holder import Holder

_LEASE = ".lease"
_OWNER = "owner.json"
_ERASURES = 20
_GONE = (errno.ENOENT, errno.ESTALE, errno.ENOTDIR)


class LeaseHeld(Exception):  # noqa: N818
    """Another process, which is alive, runs this folder."""


class LeaseLost(Exception):  # noqa: N818
    """Another process has taken the folder over; this one must end."""


class Lease:
    """The right to write one run folder."""

    def __init__(self, folder: Path, token: str) -> None:
        """Use `acquire`."""
        self.folder = folder
        self._staging = folder / _LEASE / token

    @classmethod
    def acquire(cls, folder: Path) -> "Lease":
        """Takes the lease, if need be from a holder that has died or been superseded.

        Raises:
            LeaseHeld: Its holder is alive.
            OSError: The folder cannot be written.
        """
        holder = read_holder(folder)
        while holder is not None:
            me = Holder.here("")
            if not holder.is_superseded_by(me) and holder.is_alive(folder):
                raise LeaseHeld(f"{holder.describe()} is running it")
            _revoke(folder, holder.token)
            holder.wait_for_end(folder)
            holder = read_holder(folder)
        token = secrets.token_hex(8)
        if not _claim(folder, token):
            raise LeaseHeld("another process has just started it")
        return cls(folder, token)

    def __enter__(self) -> "Lease":
        """The lease itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Gives the lease back; one that was lost is left alone."""
        _revoke(self.folder, self._staging.name)

    def write(self, name: str, write: Callable[[IO[bytes]], object]) -> None:
        """Puts a whole file into the run folder.

        Raises:
            LeaseLost: The folder has another writer now; nothing was changed.
            OSError: For example a full disk; the file is as it was.
        """
        self._guard(lambda: write_atomically(self.folder / name, write, self._staging))

    def move(self, name: str, new: str) -> None:
        """Renames a file in the run folder, if it is there."""
        waypoint = self._staging / new
        self._guard(lambda: _rename(self.folder / name, waypoint))
        self._guard(lambda: _rename(waypoint, self.folder / new))

    def remove(self, name: str) -> None:
        """Deletes a file from the run folder, if it is there."""
        self._guard(lambda: _rename(self.folder / name, self._staging / name))
        (self._staging / name).unlink(missing_ok=True)

    def _guard(self, change: Callable[[], None]) -> None:
        try:
            change()
        except OSError as error:
            if error.errno in _GONE and not self._staging.exists():
                raise LeaseLost("another process has taken this run over") from error
            raise


def read_holder(folder: Path) -> Holder | None:
    """Who holds the lease of a run folder; None where nobody does."""
    try:
        tokens = [path.name for path in (folder / _LEASE).iterdir()]
    except FileNotFoundError:
        return None
    for token in tokens:
        try:
            content: dict[str, Any] = json.loads((folder / _LEASE / token / _OWNER).read_text())
        except (OSError, ValueError):
            content = {}  # it is being given back, or the disk was full when it was taken
        known = {field.name for field in dataclasses.fields(Holder)}
        return Holder(**{k: v for k, v in content.items() if k in known} | {"token": token})
    return None


def _claim(folder: Path, token: str) -> bool:
    """Makes a lease aside and moves it into place, which fails where there is one."""
    aside = folder / f"{_LEASE}-{token}"
    try:
        (aside / token).mkdir(parents=True)
        (aside / token / _OWNER).write_text(json.dumps(dataclasses.asdict(Holder.here(token))))
        _drop_empty(folder / _LEASE)
        aside.rename(folder / _LEASE)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _revoke(folder: Path, token: str) -> None:
    """Ends a lease; only one of several that try succeeds, the others change nothing."""
    aside = folder / f"{_LEASE}-ended-{token}-{secrets.token_hex(4)}"
    try:
        (folder / _LEASE / token).rename(aside)
    except OSError as error:
        if error.errno in _GONE:
            return
        raise
    # Not only renamed: a machine that remembers the folder's handle must find it gone, even
    # if it puts another file there just now.
    for _ in range(_ERASURES):
        shutil.rmtree(aside, ignore_errors=True)
        if not aside.exists():
            break
        time.sleep(0.05)
    _drop_empty(folder / _LEASE)


def _drop_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (*_GONE, errno.ENOTEMPTY, errno.EEXIST):
            raise


def _rename(old: Path, new: Path) -> None:
    # A missing file is no error, a missing lease is one.
    if old.exists() or not new.parent.exists():
        old.rename(new)
