"""Pending run folders of a sweep: all of them are written, or none."""

import contextlib
import functools
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from harness.fields import SpecError
from harness.prepare import Prepared
from harness.record.files import Unusable, bytes_writer, read_bounded
from harness.record.layout import RUN_FILE
from harness.record.lease import Lease, LeaseHeld
from harness.record.reading import read_run
from harness.run import initialize

_MOST_BYTES = 2**24


def initialize_all(
    runs: Iterable[tuple[Path, Prepared]], silent: Collection[str] = ()
) -> tuple[dict[Path, Prepared], dict[Path, str | None]]:
    """Writes a pending folder for each run that is neither complete nor under way.

    Args:
        runs: Folder of each run, and what is to be run there.
        silent: Tokens of holders on other machines that were watched and found silent.

    Returns:
        The runs to execute; and the folders of the others, with who runs them, or None for
        those that are complete.

    Raises:
        SpecError: A folder cannot be written or belongs to another run; all are as they were.
    """
    pending: dict[Path, Prepared] = {}
    others: dict[Path, str | None] = {}
    undo: list[Callable[[], None]] = []
    try:
        for folder, run in runs:
            undo.append(functools.partial(_drop, _missing(folder)))
            before = _content(folder)
            try:
                if initialize(run, folder, silent):
                    pending[folder] = run
                    undo.append(functools.partial(_restore, folder, before))
                else:
                    others[folder] = None
            except LeaseHeld as error:
                others[folder] = str(error)
    except SpecError:
        for step in reversed(undo):
            step()
        raise
    return pending, others


def _content(folder: Path) -> bytes | None:
    try:
        return read_bounded(folder / RUN_FILE, _MOST_BYTES)
    except (OSError, Unusable):
        return None


def _missing(folder: Path) -> list[Path]:
    """The folders that making `folder` would make, innermost first."""
    missing = []
    for place in (folder, *folder.parents):
        # What cannot even be looked for, such as a name that is too long, will not be made.
        with contextlib.suppress(OSError):
            if place.exists():
                break
            missing.append(place)
    return missing


def _restore(folder: Path, before: bytes | None) -> None:
    """Puts back the `run.json` that was there, or none, unless the run was taken up since."""
    with contextlib.suppress(OSError, LeaseHeld), Lease.acquire(folder, ()) as lease:
        if read_run(folder).reason != "pending":
            return
        if before is None:
            lease.remove(RUN_FILE)
        else:
            lease.write(RUN_FILE, bytes_writer(before))


def _drop(made: list[Path]) -> None:
    for folder in made:
        with contextlib.suppress(OSError):
            folder.rmdir()
