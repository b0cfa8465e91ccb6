"""One run in a process of its own: `python -m harness.worker RUN_FOLDER [LOG]`.

Standard output and error go to the file LOG in the folder, which the caller opened; it becomes
the run's log once the run is this process's. Whether there is anything to do is asked under the
lease, right before anything is touched.
"""

import dataclasses
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

from harness.contract.adapter import ENTRY_POINT_GROUP, Adapter
from harness.contract.fields import SpecError
from harness.contract.run_spec import spec_from_dict
from harness.record.folder import Heartbeat, RunFolder
from harness.record.holder import Holder
from harness.record.lease import EXIT_COMPLETE, EXIT_NOT_MINE, Lease, LeaseHeld, LeaseLost
from harness.record.reading import Reading, read_run
from harness.record.run_json import holds
from harness.train.prepare import check_translation, prepare
from harness.train.run import execute
from harness.train.stopping import EXIT_INTERRUPTED, interruption, stop_on_signals


def main(path: Path, log: str | None = None) -> int:
    """Executes the pending run in a folder.

    Returns:
        0 when it completed, 1 when it failed, 130 when it was interrupted, 75 when another
        process runs it or has taken it over, 76 when it was complete already.
    """
    stop_on_signals()
    try:
        with Lease.acquire(path) as lease:
            return _run_leased(lease, log)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except (LeaseHeld, LeaseLost) as error:
        print(f"Ended: {error}.", file=sys.stderr)
        return EXIT_NOT_MINE
    except OSError as error:
        print(f"Ended: {path} cannot be written: {error.strerror}.", file=sys.stderr)
        return 1


def _run_leased(lease: Lease, log: str | None) -> int:
    reading = read_run(lease.folder)
    if reading.complete:
        if log:  # its launcher may be gone
            lease.remove(log)
        return EXIT_COMPLETE
    if reading.record is None or not holds(reading.content):
        reason = reading.reason if reading.record is None else "run.json was changed by another"
        print(f"Ended: {reason}. Start the sweep again.", file=sys.stderr)
        return 1
    folder = RunFolder(lease, reading.content)
    if log:
        folder.begin_log(log)
    try:
        return 0 if _run(folder, reading) == "completed" else 1
    except KeyboardInterrupt as error:
        if folder.content["status"] in ("pending", "running"):
            folder.update_run(**interruption(getattr(error, "by", "user")))
        raise


def _run(folder: RunFolder, reading: Reading) -> str:
    try:
        # Loading a framework may take long: others must see that somebody is at it, and who.
        me = Holder.here("")
        folder.update_run(pid=me.pid, host=me.host, job=me.job or None)
        with Heartbeat(folder, lambda: 0):
            # By its module and name: the project need not be installed where a framework is.
            entry = EntryPoint("adapter", folder.content["adapter"], ENTRY_POINT_GROUP)
            adapter: Adapter = entry.load()()
            # Whichever interpreter was asked for, this is it.
            spec = dataclasses.replace(spec_from_dict(reading.spec), python=None)
            prepared = prepare(spec, adapter)
            check_translation(prepared, folder.content)
    except SpecError as error:
        print(f"Ended: {error}", file=sys.stderr)
        folder.update_run(status="failed", failure=str(error))
        return "failed"
    return execute(prepared, adapter, folder)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:3]))
