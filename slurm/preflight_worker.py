"""Takes one step of each of several runs, in one process: `... preflight_worker FOLDER...`.

Tells the outcome of each in a line of JSON as soon as it is known.
"""

import contextlib
import io
import json
import sys
from pathlib import Path

from harness import worker
from harness.record.reading import read_run


def main(folders: list[str]) -> None:
    """Executes the pending runs; nothing of theirs reaches standard output."""
    for name in folders:
        failure = None
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                worker.main(Path(name))
            reading = read_run(Path(name))
            if not reading.complete:
                failure = reading.reason.removeprefix("failed: ")
        except Exception as error:  # whatever it is, the next run is to be tried
            failure = f"{type(error).__name__}: {error}"
        print(json.dumps({"folder": name, "failure": failure}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
