"""One run in its own process: `python -m parallax.harness.worker RUN_FOLDER [LOG [LIFELINE]]`.

Standard output and error go to the file LOG in the folder, which the caller opened; it becomes
the run's log once this process owns the run. LIFELINE is a file descriptor that signals the end of
the process that started this one, which then stops as well. Whether there is anything to do is
checked under the lock, right before anything is changed.
"""

import contextlib
import dataclasses
import os
import signal
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.adapter_discovery import ENTRY_POINT_GROUP
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.interpreter import end_process, forbid_imports_from
from parallax.harness.contract.run_spec import spec_from_dict
from parallax.harness.record.completeness import RunReading
from parallax.harness.record.folder import HeartbeatWriter, RunFolder
from parallax.harness.record.lock import (
    EXIT_COMPLETE,
    EXIT_LOCKED,
    EXIT_NO_SPACE,
    NO_SPACE,
    LockHeldError,
    LockLostError,
    RunLock,
)
from parallax.harness.record.lock_owner import LockOwner
from parallax.harness.record.reading import read_run
from parallax.harness.record.run_json import has_valid_checksum
from parallax.harness.train.prepare import check_translation, prepare_run
from parallax.harness.train.run import execute_run
from parallax.harness.train.stop_signals import (
    EXIT_INTERRUPTED,
    describe_interruption,
    stop_on_signals,
    stop_without_parent,
)


def main(
    path: Path, log: str | None = None, lifeline: str | None = None, *, parent: int | None = None
) -> int:
    """Execute the pending run in a folder.

    Args:
        path: The run folder.
        log: Name of the file in it that becomes the run's log.
        lifeline: As for `stop_without_parent`.
        parent: As for `stop_without_parent`.

    Returns:
        0 when it completed, 1 when it failed, 128 and the number of the signal when it was
        interrupted, 75 when another process runs it or has taken it over, 76 when it was complete
        already, 77 when the disk is full and the reason can be written nowhere.
    """
    try:
        stop_on_signals()
        if lifeline:
            stop_without_parent(int(lifeline), parent)
        with RunLock.acquire(path) as lock:
            return _run_locked(lock, log)
    except KeyboardInterrupt as error:
        return EXIT_INTERRUPTED + getattr(error, "number", signal.SIGINT)
    except (LockHeldError, LockLostError) as error:
        print(f"Ended: {error}.", file=sys.stderr)
        return EXIT_LOCKED
    except OSError as error:
        with contextlib.suppress(OSError):  # the log is on the same disk
            print(f"Ended: {path} cannot be written: {error.strerror}.", file=sys.stderr)
        return EXIT_NO_SPACE if error.errno in NO_SPACE else 1


def _run_locked(lock: RunLock, log: str | None) -> int:
    forbid_imports_from([lock.folder])
    reading = read_run(lock.folder)
    if reading.complete:
        if log:  # its launcher may be gone
            lock.remove(log)
        return EXIT_COMPLETE
    if reading.record is None or not has_valid_checksum(reading.content):
        reason = reading.reason if reading.record is None else "run.json was changed by another"
        print(f"Ended: {reason}. Start the sweep again.", file=sys.stderr)
        return 1
    folder = RunFolder(lock, reading.content)
    if log:
        folder.begin_log(log)
    try:
        return 0 if _prepare_and_execute(folder, reading) == "completed" else 1
    except KeyboardInterrupt as error:
        if folder.content["status"] in ("pending", "running"):
            folder.update_run(**describe_interruption(getattr(error, "by", "user")))
        raise


def _prepare_and_execute(folder: RunFolder, reading: RunReading) -> str:
    try:
        # Loading a framework may take long: others must see which process runs the run.
        me = LockOwner.of_this_process("")
        folder.update_run(pid=me.pid, host=me.host, job=me.job or None)
        with HeartbeatWriter(folder, lambda: 0):
            # Loaded by module and name: the project need not be installed beside the framework.
            if not (name := folder.content.get("adapter")):
                raise SpecError("run.json does not name the adapter: train the run again")
            adapter: Adapter = EntryPoint("adapter", name, ENTRY_POINT_GROUP).load()()
            # The interpreter that was requested is the present one.
            spec = dataclasses.replace(spec_from_dict(reading.spec), python=None)
            # The process that started it has checked whether it can learn.
            prepared = prepare_run(spec, adapter, must_learn=False)
            check_translation(prepared, folder.content)
    except SpecError as error:
        print(f"Ended: {error}", file=sys.stderr)
        folder.update_run(status="failed", failure=str(error))
        return "failed"
    return execute_run(prepared, adapter, folder)


if __name__ == "__main__":
    end_process(main(Path(sys.argv[1]), *sys.argv[2:4], parent=os.getppid()))
