"""One run in a process of its own: `python -m harness.worker RUN_FOLDER [LOG]`.

Standard output and error go to the file LOG in the folder, which the caller opened; it becomes
the run's log once the run is this process's.
"""

import dataclasses
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

from harness.adapter import ENTRY_POINT_GROUP, Adapter
from harness.heartbeat import EXIT_NOT_MINE
from harness.lease import Lease, LeaseHeld, LeaseLost
from harness.prepare import prepare
from harness.recording import RunFolder, read_run
from harness.run import execute
from harness.run_spec import spec_from_dict
from harness.stopping import stop_on_signals


def main(path: Path, log: str | None = None) -> int:
    """Executes the pending run in a folder.

    Returns:
        0 when it completed, 1 when it failed, 130 when it was interrupted, 75 when another
        process runs it or has taken it over.
    """
    stop_on_signals()
    try:
        with Lease.acquire(path) as lease:
            folder = RunFolder(lease)
            if log:
                folder.begin_log(log)
            return 0 if _run(folder) == "completed" else 1
    except KeyboardInterrupt:
        return 130
    except (LeaseHeld, LeaseLost) as error:
        print(f"Ended: {error}.", file=sys.stderr)
        return EXIT_NOT_MINE


def _run(folder: RunFolder) -> str:
    run = read_run(folder.path)
    # By its module and name: the project need not be installed where a framework is.
    entry = EntryPoint(name="adapter", value=run["adapter"], group=ENTRY_POINT_GROUP)
    adapter: Adapter = entry.load()()
    # Whichever interpreter was asked for, this is it.
    spec = dataclasses.replace(spec_from_dict(run["spec"]), python=None)
    return execute(prepare(spec, adapter), adapter, folder)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:3]))
