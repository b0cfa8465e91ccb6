"""One writer per run folder, on any file system that several machines share.

The writer of a run folder owns its lock, a folder `.lease/<token>` in it. Every file is created
in there and moved into place from there. A successor moves `<token>` away and deletes it, so
every later write of the former owner fails in the file system itself: there is no moment
between a check and a write in which a stale writer could succeed. This relies only on atomic
creation, renaming and deletion of folders, which NFS, Lustre and others guarantee. It does not rely
on `flock` or on clocks: an owner on another machine is alive if its heartbeat changes while it is
watched.
"""

import errno
import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import IO, Annotated, TypeVar

import msgspec

from parallax.harness.record.files import UnusableError, read_bounded, sync_folder, write_atomically
from parallax.harness.record.layout import PROGRESS_FILE
from parallax.harness.record.lock_owner import LockOwner

EXIT_LOCKED = 75
"""Exit code of a process whose run belongs to another."""

EXIT_COMPLETE = 76
"""Exit code of a process that found its run complete, and changed nothing."""

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors that a full disk, or a used-up quota, raises."""

EXIT_NO_SPACE = 77
"""Exit code of a process that could not write its final status: the disk is full."""

MAX_HEARTBEAT_PERIOD = 30.0
"""Most seconds between two heartbeats."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Seconds = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]  # later dates have no name
Duration = Annotated[float, msgspec.Meta(ge=0, le=1e10)]  # in seconds, as checkpoints count on

LOCK_FOLDER = ".lease"
_OWNER_FILE = "owner.json"
_MAX_FILE_BYTES = 2**16
_DELETE_ATTEMPTS = 20
_MISSING_ERRNOS = (errno.ENOENT, errno.ESTALE, errno.ENOTDIR)
_SLACK = 60.0  # seconds for which a network's file system may show an old heartbeat
_POLL_SECONDS = 0.5  # seconds between two checks of a heartbeat


T = TypeVar("T")


class LockHeldError(Exception):
    """Another living process owns this run folder."""


class LockLostError(Exception):
    """Another process has taken the folder over; this one must end."""


class FolderDeletedError(OSError):
    """The run folder was deleted or moved away while it was written."""


class Heartbeat(msgspec.Struct, frozen=True):
    """Progress that a running process publishes.

    Attributes:
        time: Time by its own clock, in seconds since 1970.
        period: Seconds until the next heartbeat.
        resumed_from: Step of the checkpoint that it resumed from; None if it began at step 0.
        resumptions: Number of attempts at the run that resumed from one, this one included.
    """

    step: Count
    time: Seconds
    period: Seconds
    resumed_from: Count | None = None
    resumptions: Count = 0

    @property
    def resumption(self) -> str:
        """Return a phrase on where and how often the run resumed; empty if it did not."""
        return describe_resumption(self.resumed_from, self.resumptions)


def describe_resumption(step: int | None, times: int) -> str:
    """Return from which step and how often a run resumed, in a few words; empty if it did not.

    Args:
        step: Step of the checkpoint that the last attempt resumed from; None if from none.
        times: Number of attempts that resumed from one.
    """
    if step is None:
        return ""
    often = f", {times} times so far" if times > 1 else ""
    return f"resumed from step {step:,}{often}"


# Made once: msgspec crashes where two threads decode a type for the first time at once.
_HEARTBEAT_DECODER = msgspec.json.Decoder(Heartbeat)
_OWNER_DECODER = msgspec.json.Decoder(LockOwner)


class RunLock:
    """The right to write one run folder."""

    def __init__(self, folder: Path, token: str) -> None:
        """Use `acquire`."""
        self.folder = folder
        self.staging = folder / LOCK_FOLDER / token

    @classmethod
    def acquire(cls, folder: Path, silent: Collection[str] | None = None) -> "RunLock":
        """Take the lock, if necessary from an owner that has died or been superseded.

        An owner on another machine is watched, which takes a minute or two.

        Args:
            folder: The run folder.
            silent: Tokens of owners elsewhere that were watched already and found silent;
                the others count as alive and are not watched. None watches them here.

        Raises:
            LockHeldError: Its owner is alive.
            OSError: The folder cannot be written.
        """
        while (holder := read_lock_owner(folder)) is not None:
            superseded = holder.is_superseded_by(LockOwner.of_this_process(""))
            if not superseded and _is_owner_alive(folder, holder, silent):
                raise LockHeldError(f"{holder.describe()} is running it")
            _remove_lock(folder, holder.token)
            if superseded:
                _wait_for_end(holder, folder)
        token = secrets.token_hex(8)
        if not _create_lock(folder, token):
            raise LockHeldError("another process has just started it")
        return cls(folder, token)

    def __enter__(self) -> "RunLock":
        """Return the lock itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the lock; do nothing if it was lost."""
        _remove_lock(self.folder, self.staging.name)

    def write(self, name: str, write: Callable[[IO[bytes]], object]) -> None:
        """Write a whole file to the run folder.

        Raises:
            LockLostError: The folder has another writer now; nothing was changed.
            OSError: For example a full disk; the file is unchanged.
        """
        self._guard(lambda: write_atomically(self.folder / name, write, self.staging))

    def open_append(self, name: str, begin: bytes) -> IO[bytes]:
        """Open a file of the run folder that others may read while it grows.

        A process that takes the run over replaces the file, so that nobody reads what a former
        owner still appends.

        Args:
            name: Name of the file, relative to the run folder; its folder exists.
            begin: Initial content.

        Returns:
            The file, open for appending.

        Raises:
            LockLostError: The folder has another writer now; nothing was changed.
            OSError: For example a full disk; the file is unchanged.
        """
        waypoint = self.staging / Path(name).name

        def put() -> IO[bytes]:
            file = waypoint.open("wb")
            try:
                file.write(begin)
                file.flush()
                waypoint.rename(self.folder / name)
            except BaseException:
                file.close()
                raise
            return file

        return self._guard(put)

    def move(self, name: str, new: str) -> None:
        """Rename a file in the run folder, if it exists."""
        waypoint = self.staging / new
        self._guard(lambda: _rename_if_present(self.folder / name, waypoint))
        self._guard(lambda: _rename_if_present(waypoint, self.folder / new))

    def remove(self, name: str) -> None:
        """Delete a file or a folder from the run folder, if it exists."""
        waypoint = self.staging / Path(name).name
        self._guard(lambda: _rename_if_present(self.folder / name, waypoint))
        _delete_path(waypoint)

    def make_folder(self, name: str) -> None:
        """Make a folder in the run folder, unless it exists; a link or file there is removed."""
        if (self.folder / name).is_symlink() or not (self.folder / name).is_dir():
            self.remove(name)
            waypoint = self.staging / name
            self._guard(lambda: waypoint.mkdir(exist_ok=True))
            self._guard(lambda: _rename_if_present(waypoint, self.folder / name))
            sync_folder(self.folder)  # files in a folder survive a crash only if its name does

    def _guard(self, change: Callable[[], T]) -> T:
        """Return the result of a change in the folder; name the reason if the lock is lost."""
        try:
            return change()
        except OSError as error:
            if error.errno in _MISSING_ERRNOS and not self.staging.exists():
                if not self.folder.is_dir():
                    raise FolderDeletedError(error.errno, "the run folder is gone") from error
                raise LockLostError("another process has taken this run over") from error
            raise


def read_lock_owner(folder: Path) -> LockOwner | None:
    """Return the owner of a run folder's lock; None where there is none."""
    try:
        if (folder / LOCK_FOLDER).is_symlink():
            return None  # not a lock: it points outside of the run
        tokens = sorted(path.name for path in (folder / LOCK_FOLDER).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        return LockOwner()  # an unknown owner: the system prevents reading the lock
    for token in tokens:
        try:
            content = read_bounded(folder / LOCK_FOLDER / token / _OWNER_FILE, _MAX_FILE_BYTES)
            holder = _OWNER_DECODER.decode(content)
        except (OSError, UnusableError, ValueError, RecursionError):
            if not os.path.lexists(folder / LOCK_FOLDER / token):
                continue  # it was just released
            holder = LockOwner()
        return msgspec.structs.replace(holder, token=token)
    return None


def read_heartbeat(folder: Path) -> Heartbeat | None:
    """Return the last heartbeat of a run; None if there is none that can be read."""
    try:
        return _HEARTBEAT_DECODER.decode(read_bounded(folder / PROGRESS_FILE, _MAX_FILE_BYTES))
    except (OSError, UnusableError, ValueError, RecursionError):
        return None


def watch_heartbeats(
    folders: Iterable[Path],
    say: Callable[[str], object] = lambda text: None,
    is_wanted: Callable[[Path], bool] = lambda folder: True,
) -> tuple[set[str], dict[Path, LockOwner]]:
    """Watch the heartbeats of owners on other machines, of all folders at once.

    Clocks are not compared: an owner is alive if its heartbeat changes while it is watched,
    for three of its periods and a minute.

    Args:
        folders: Run folders; those whose owner is on this machine are skipped.
        say: Called with a sentence before the wait.
        is_wanted: Called for folders locked elsewhere; those it rejects need no watching.

    Returns:
        Tokens of the owners that were silent, and the owners that were not.
    """
    holders = {folder: holder for folder in folders if (holder := read_lock_owner(folder))}
    remote = {f: holder for f, holder in holders.items() if not holder.is_local and is_wanted(f)}
    if not remote:
        return set(), {}
    longest = max(_compute_patience(folder) for folder in remote)
    first = next(iter(remote.values()))
    say(
        f"{len(remote)} run folders are locked from other machines, such as by "
        f"{first.describe()}: watching their heartbeats for up to {longest:.0f} s."
    )
    before = {folder: _read_pulse(folder) for folder in remote}
    alive: dict[Path, LockOwner] = {}
    started = time.monotonic()
    while len(alive) < len(remote) and time.monotonic() - started < longest:
        time.sleep(_POLL_SECONDS)
        for folder in remote.keys() - alive.keys():
            if _read_pulse(folder) != before[folder]:
                alive[folder] = remote[folder]
    return {holder.token for folder, holder in remote.items() if folder not in alive}, alive


def unlock_folder(folder: Path, holder: LockOwner) -> None:
    """Remove a lock, whether its owner is alive or not: the owner's later writes fail."""
    _remove_lock(folder, holder.token)


def _is_owner_alive(folder: Path, holder: LockOwner, silent: Collection[str] | None) -> bool:
    if holder.is_local:
        return holder.is_running()
    if silent is None:
        silent, _ = watch_heartbeats([folder])
        if read_lock_owner(folder) is None:
            return False  # released meanwhile
    return holder.token not in silent


def _read_pulse(folder: Path) -> tuple[str, bytes]:
    holder = read_lock_owner(folder)
    try:
        beat = read_bounded(folder / PROGRESS_FILE, _MAX_FILE_BYTES)
    except (OSError, UnusableError):
        beat = b""
    return (holder.token if holder else "", beat)


def _read_period(folder: Path) -> float:
    beat = read_heartbeat(folder)
    return min(max(beat.period, 0.0), MAX_HEARTBEAT_PERIOD) if beat else MAX_HEARTBEAT_PERIOD


def _wait_for_end(holder: LockOwner, folder: Path) -> None:
    """Wait until an owner that lost its lock can notice: it checks at every heartbeat."""
    deadline = time.monotonic() + 1.5 * _read_period(folder) + 2
    while time.monotonic() < deadline and (not holder.is_local or holder.is_running()):
        time.sleep(0.1)


def _compute_patience(folder: Path) -> float:
    return 3 * _read_period(folder) + _SLACK


def _create_lock(folder: Path, token: str) -> bool:
    """Create a lock under another name and move it into place, which fails if there is one."""
    aside = folder / f"{LOCK_FOLDER}-{token}"
    try:
        aside.mkdir()  # without parents: a run folder that was deleted stays so
        (aside / token).mkdir()
        (aside / token / _OWNER_FILE).write_bytes(
            msgspec.json.encode(LockOwner.of_this_process(token))
        )
        _remove_if_empty(folder / LOCK_FOLDER)
        aside.rename(folder / LOCK_FOLDER)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        if error.errno == errno.ENOENT and folder.is_dir():
            return False  # a faster process has removed it
        raise
    for left in folder.glob(f"{LOCK_FOLDER}-*"):  # left by killed processes
        _delete_path(left)
    return True


def _remove_lock(folder: Path, token: str) -> None:
    """Remove a lock; of several processes that try, exactly one succeeds."""
    aside = folder / f"{LOCK_FOLDER}-ended-{token}-{secrets.token_hex(4)}"
    if (folder / LOCK_FOLDER).is_symlink():
        return
    try:
        (folder / LOCK_FOLDER / token).rename(aside)
    except OSError as error:
        if error.errno in _MISSING_ERRNOS:
            return
        raise
    # Renaming is not enough: a machine that has cached the folder's handle must find it deleted,
    # even if it creates another file there just now.
    for _ in range(_DELETE_ATTEMPTS):
        _delete_path(aside)
        if not aside.exists():
            break
        time.sleep(0.05)
    _remove_if_empty(folder / LOCK_FOLDER)


def _delete_path(path: Path) -> None:
    """Delete a file, or a folder where a file should have been."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (*_MISSING_ERRNOS, errno.ENOTEMPTY, errno.EEXIST):
            raise


def _rename_if_present(old: Path, new: Path) -> None:
    # A missing file is not an error, but a missing lock is.
    if old.exists() or old.is_symlink() or not new.parent.exists():
        old.rename(new)
