"""Pending run folders of a sweep: all of them are written, or none."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from harness.contract.adapter import find_adapter
from harness.contract.fields import SpecError
from harness.contract.run_spec import RunSpec, spec_from_dict, spec_to_dict
from harness.record.files import Unusable, bytes_writer, read_bounded
from harness.record.folder import RunFolder, leftovers, past_attempts
from harness.record.layout import RUN_FILE
from harness.record.lease import Lease, LeaseHeld, LeaseLost
from harness.record.reading import Reading, read_run
from harness.record.run_json import holds
from harness.train.prepare import Prepared, translated

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


def initialize(prepared: Prepared, path: Path, silent: Collection[str] | None = None) -> bool:
    """Writes a pending run folder, unless a complete run is there.

    Args:
        prepared: The run.
        path: Its folder.
        silent: As for `Lease.acquire`.

    Returns:
        Whether there is anything to run.

    Raises:
        SpecError: The folder cannot be written or belongs to another run.
        LeaseHeld: The run is going on in another process.
    """
    _check_no_link(prepared.spec, path)
    reading = read_run(path)
    _check_same(prepared.spec, reading)
    if reading.complete:
        _tidy(path, silent)
        return False
    try:
        path.mkdir(parents=True, exist_ok=True)
        with Lease.acquire(path, silent) as lease:
            # Asked again: another sweep may have completed it since.
            reading = read_run(path)
            _check_same(prepared.spec, reading)
            if reading.complete:
                return False
            folder = RunFolder(lease, {})
            if reading.damaged or not holds(reading.content):
                folder.set_aside()
            folder.update_run(**_pending(prepared, reading))
    except OSError as error:
        raise SpecError(
            f"results_dir: {path} cannot be written ({error.strerror}). Choose another folder."
        ) from error
    return True


def _tidy(folder: Path, silent: Collection[str] | None) -> None:
    """Removes what killed processes left in the folder of a complete run, if nobody holds it."""
    if leftovers(folder):
        unless_held = contextlib.suppress(OSError, LeaseHeld, LeaseLost)
        with unless_held, Lease.acquire(folder, silent or ()) as lease:
            RunFolder(lease, {}).tidy()


def _pending(prepared: Prepared, before: Reading) -> dict[str, Any]:
    """What `run.json` says of a run that is set up."""
    return {
        "status": "pending",
        "spec": spec_to_dict(prepared.spec),
        "adapter": find_adapter(prepared.spec.framework).value,
        "alignment": [dataclasses.asdict(row) for row in prepared.native.alignment],
        **translated(prepared),
        "steps": {
            "requested": prepared.spec.steps,
            "scheduled": prepared.native.total_steps,
            "framework": prepared.native.framework_steps,
            "taken": 0,
        },
        "weights_sha256": None,
        "failure": None,
        "stopped_by": None,
        "attempts": past_attempts(before),
        "timings": {},
        "provenance": {},
    }


def _check_no_link(spec: RunSpec, path: Path) -> None:
    """Makes sure that whoever looks for runs finds this one: they follow no links."""
    own = len(spec.folder(Path()).parts)
    for folder in (path, *path.parents)[:own]:
        if os.path.islink(folder):  # noqa: PTH114  # no error where a name is too long
            raise SpecError(
                f"results_dir: {folder} is a link, and links below a results folder are not "
                "followed where runs are looked for. Put the folder itself there, or choose "
                "another results_dir."
            )


def _check_same(spec: RunSpec, reading: Reading) -> None:
    if reading.newer:
        raise SpecError(f"{reading.folder}: {reading.reason}, or choose another results_dir.")
    if reading.unreadable:
        raise SpecError(f"{reading.folder}: {reading.reason}. Let it be read, or move it away.")
    if reading.record is None:
        return
    try:
        # A study may have been renamed, and an interpreter moved.
        recorded = spec_from_dict(reading.spec)
        same = dataclasses.replace(recorded, study=spec.study, python=spec.python) == spec
    except SpecError:
        same = False
    if not same:
        changed = "" if holds(reading.content) else " (its run.json was changed or is damaged)"
        raise SpecError(
            f"{reading.folder} holds a run with other settings{changed}. Choose another study.name "
            "or results_dir."
        )
