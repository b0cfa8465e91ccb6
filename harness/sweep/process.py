"""A run's process, seen from the one that started it."""

import contextlib
import dataclasses
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.contract.interpreter import lend_project
from harness.contract.run_spec import RunSpec
from harness.record.files import Unusable, open_regular
from harness.record.folder import LOG_PREFIX, RunFolder
from harness.record.layout import LOG_FILE
from harness.record.lease import EXIT_COMPLETE, EXIT_NOT_MINE, Lease, LeaseHeld, LeaseLost
from harness.record.reading import Reading, read_run
from harness.record.run_json import holds
from harness.sweep.preloaded import EXIT_UNKNOWN, Fork, Preloaded
from harness.train.stopping import EXIT_INTERRUPTED, SIGNALS, interruption, reason_of

_LAST_BYTES = 4096
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How one run of a sweep ended.

    Attributes:
        spec: The run.
        folder: Its folder.
        status: Its final status; `skipped` where another process completed it, `running`
            where another process has it.
        failure: What went wrong, if anything.
    """

    spec: RunSpec
    folder: Path
    status: str
    failure: str | None = None


class RunProcess:
    """`harness.worker` on an initialised folder."""

    def __init__(
        self,
        spec: RunSpec,
        folder: Path,
        preloaded: Preloaded | None = None,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Starts it; what it prints becomes `log.txt` once the run is its own.

        Args:
            spec: The run.
            folder: Its initialised folder.
            preloaded: Starts it from a process that has imported what it needs, where that can be.
            variables: Added to its environment.
        """
        self._spec = spec
        self._folder = folder
        self._log = folder / f"{LOG_PREFIX}{secrets.token_hex(4)}"
        environment = os.environ | variables | dict.fromkeys(THREAD_VARIABLES, str(spec.threads))
        if spec.python:
            environment = lend_project(environment)
        arguments = [str(folder), self._log.name]
        self._process: Fork | subprocess.Popen[bytes]
        try:
            with self._log.open("wb") as log:
                fork = preloaded and preloaded.start(spec, environment, arguments, log)
                self._process = fork or subprocess.Popen(
                    [spec.python or sys.executable, "-m", "harness.worker", *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    # Ctrl-C reaches the sweep only, which then tells its workers, once.
                    start_new_session=True,
                )
        except OSError:
            self._drop_log()
            raise

    def wait(self, seconds: float) -> bool:
        """Waits at most so long; returns whether the process has ended."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Asks the process to end, by a signal that says why, and waits until it has."""
        self._process.send_signal(number)
        self._process.wait()

    def outcome(self) -> Outcome:
        """How the run ended; one that could not say so itself is marked here."""
        code = self._process.wait()
        reading = read_run(self._folder)
        if code in (EXIT_COMPLETE, EXIT_NOT_MINE):
            failure = self._last_line() or "another process runs it"
            self._drop_log()
            if reading.complete:
                return Outcome(self._spec, self._folder, "skipped")
            # Not marked where nobody holds it: a successor waits for this process before it does.
            return Outcome(self._spec, self._folder, "running", failure)
        if reading.complete:
            self._drop_log()  # still there where another process has completed the run
            return Outcome(self._spec, self._folder, "completed")
        record = reading.record
        if record and record.status in ("failed", "interrupted") and not self._log.exists():
            return Outcome(self._spec, self._folder, record.status, record.failure)
        changes = self._verdict(code, reading)
        try:
            mark(self._folder, changes, self._log.name)
        except (LeaseHeld, LeaseLost) as error:
            return Outcome(self._spec, self._folder, "running", str(error))
        return Outcome(self._spec, self._folder, changes["status"], changes["failure"])

    def _drop_log(self) -> None:
        with contextlib.suppress(OSError):
            self._log.unlink(missing_ok=True)

    def _verdict(self, code: int, reading: Reading) -> dict[str, str]:
        if not self._folder.is_dir():
            failure = f"{self._folder} is gone: it was deleted or moved while the run went on"
        elif -code in SIGNALS or code == EXIT_INTERRUPTED:
            return interruption(reason_of(-code if code < 0 else signal.SIGTERM))
        elif code == 0:
            failure = f"its process ended well, but the run is not complete: {reading.reason}"
        else:
            failure = self._describe_exit(code)
        return {"status": "failed", "failure": failure}

    def _describe_exit(self, code: int) -> str:
        if code == EXIT_UNKNOWN:
            return "the process ended, and the one that had started it was killed before"
        if code < 0:
            return f"the process was killed by {_name_of_signal(-code)}"
        last = self._last_line()
        return f"the process ended with exit code {code}" + (f": {last}" if last else "")

    def _last_line(self) -> str:
        for path in (self._log, self._folder / LOG_FILE):
            with contextlib.suppress(OSError, Unusable), open_regular(path) as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
                lines = file.read().decode(errors="replace").strip().splitlines()
                return lines[-1] if lines else ""
        return ""


def _name_of_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # real-time signals have no names


def mark(folder: Path, changes: Mapping[str, Any], log: str | None = None) -> None:
    """Writes how a run ended, where that can be written, unless it is complete.

    Args:
        folder: The run folder.
        changes: Entries of `run.json`.
        log: Name of the file in the folder that becomes the log, if it is there.

    Raises:
        LeaseHeld: Another process runs it.
        LeaseLost: Another process has taken it over meanwhile.
    """
    # In a folder that is gone, unreadable or full nothing can be told; the outcome still tells.
    with contextlib.suppress(OSError), Lease.acquire(folder) as lease:
        reading = read_run(folder)
        if reading.complete:
            return
        writer = RunFolder(lease, reading.content)
        writer.release_room()
        if log and (folder / log).exists():
            writer.begin_log(log)
        if reading.record is not None and holds(reading.content):
            writer.update_run(**changes)
        writer.stop_heartbeat()
