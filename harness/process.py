"""A run's process, seen from the one that started it."""

import contextlib
import dataclasses
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

from harness.heartbeat import EXIT_NOT_MINE
from harness.interpreter import lend_project
from harness.lease import Lease, LeaseHeld, LeaseLost
from harness.recording import RunFolder, read_run
from harness.run import interruption
from harness.run_spec import RunSpec
from harness.stopping import SIGNALS, reason_of

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How one run of a sweep ended.

    Attributes:
        spec: The run.
        folder: Its folder.
        status: Its final status; `skipped` where it was complete before, `running` where
            another process has it.
        failure: What went wrong, if anything.
    """

    spec: RunSpec
    folder: Path
    status: str
    failure: str | None = None


class RunProcess:
    """`harness.worker` on an initialised folder."""

    def __init__(self, spec: RunSpec, folder: Path) -> None:
        """Starts it; what it prints becomes `log.txt` once the run is its own."""
        self._spec = spec
        self._folder = folder
        self._log = folder / f".log-{secrets.token_hex(4)}"
        environment = os.environ | {name: str(spec.threads) for name in THREAD_VARIABLES}
        if spec.python:
            environment = lend_project(environment)
        command = [spec.python or sys.executable, "-m", "harness.worker", str(folder)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, self._log.name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                # Ctrl-C reaches the sweep only, which then tells its workers, once.
                start_new_session=True,
            )

    def wait(self, seconds: float) -> bool:
        """Waits at most so long; returns whether the process has ended."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """Asks the process to end and waits until it has."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()

    def outcome(self) -> Outcome:
        """How the run ended; one that could not say so itself is marked here."""
        code = self._process.wait()
        if code == EXIT_NOT_MINE:
            failure = self._last_line() or "another process runs it"
            self._log.unlink(missing_ok=True)
            return Outcome(self._spec, self._folder, "running", failure)
        run = read_run(self._folder)
        if run["status"] in ("pending", "running") or self._log.exists():
            try:
                run |= self._mark(code)
            except (LeaseHeld, LeaseLost) as error:
                return Outcome(self._spec, self._folder, "running", str(error))
        return Outcome(self._spec, self._folder, run["status"], run["failure"])

    def _mark(self, code: int) -> dict[str, str]:
        if -code in SIGNALS:
            changes = interruption(reason_of(-code))
        else:
            changes = {"status": "failed", "failure": self._describe_exit(code)}
        with contextlib.suppress(OSError), Lease.acquire(self._folder) as lease:
            # On a full disk neither may succeed; the outcome still tells.
            folder = RunFolder(lease)
            if self._log.exists():
                folder.begin_log(self._log.name)
            folder.update_run(**changes)
            folder.stop_heartbeat()
        return changes

    def _describe_exit(self, code: int) -> str:
        if code < 0:
            return f"the process was killed by {signal.Signals(-code).name}"
        last = self._last_line()
        return f"the process ended with exit code {code}" + (f": {last}" if last else "")

    def _last_line(self) -> str:
        for name in (self._log, self._folder / "log.txt"):
            with contextlib.suppress(OSError):
                lines = name.read_text(errors="replace").strip().splitlines()
                return lines[-1] if lines else ""
        return ""
