"""One run in a process of its own: `python -m harness.worker RUN_FOLDER`.

Standard output and error belong to the run's log; the caller redirects them.
"""

import dataclasses
import signal
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import FrameType

from harness.adapter import ENTRY_POINT_GROUP, Adapter
from harness.prepare import prepare
from harness.recording import read_run
from harness.run import execute
from harness.run_spec import spec_from_dict


def main(folder: Path) -> int:
    """Executes the pending run in `folder`.

    Returns:
        0 when it completed, 1 when it failed, 130 when it was interrupted.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    run = read_run(folder)
    # By its module and name: the project need not be installed where a framework is.
    entry = EntryPoint(name="adapter", value=run["adapter"], group=ENTRY_POINT_GROUP)
    adapter: Adapter = entry.load()()
    # Whichever interpreter was asked for, this is it.
    spec = dataclasses.replace(spec_from_dict(run["spec"]), python=None)
    prepared = prepare(spec, adapter)
    try:
        return 0 if execute(prepared, adapter, folder) == "completed" else 1
    except KeyboardInterrupt:
        return 130


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Once only: a second signal must not cut off the writing of the status.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
