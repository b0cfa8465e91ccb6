"""The process of a run, as its sweep or job starts and stops it, and its memory allocator."""

import contextlib
import dataclasses
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.interpreter import add_project_to_path, leave_out_folder
from parallax.harness.contract.run_spec import RunSpec
from parallax.harness.record.completeness import RunReading
from parallax.harness.record.files import UnusableError, open_regular_file
from parallax.harness.record.folder import LOG_PREFIX, RunFolder
from parallax.harness.record.layout import LOG_FILE
from parallax.harness.record.lock import (
    EXIT_COMPLETE,
    EXIT_LOCKED,
    EXIT_NO_SPACE,
    LockHeldError,
    LockLostError,
    RunLock,
)
from parallax.harness.record.lock_owner import BatchJob
from parallax.harness.record.reading import read_run
from parallax.harness.record.run_json import has_valid_checksum
from parallax.harness.sweep.forked_process import EXIT_UNKNOWN, ForkedProcess, ForkServerPool
from parallax.harness.train.stop_signals import (
    EXIT_INTERRUPTED,
    STOP_SIGNALS,
    describe_interruption,
    get_stop_reason,
    hold_stop_signals,
)

_LOG_TAIL_BYTES = 4096
_LITTLE_ROOM = 2**18
"""Free bytes on a disk below which a run can fail because the disk is full."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


_lifelines: dict[int, int] = {}  # by process id: a fork is another sweep


def _get_lifeline() -> int | None:
    """Return the reading end of a pipe that closes when this process ends in any way.

    None in a job of a batch system, which ends all processes of a job itself and may start it
    again: its runs react to the job's signals only.
    """
    if BatchJob.from_environment() is not None:
        return None
    if os.getpid() not in _lifelines:
        _lifelines[os.getpid()], _ = os.pipe()  # no child inherits the other end, which stays open
    return _lifelines[os.getpid()]


@dataclasses.dataclass(frozen=True)
class RunOutcome:
    """Outcome of one run of a sweep.

    Attributes:
        status: Its final status; `skipped` if another process completed it, `running`
            if another process runs it.
    """

    spec: RunSpec
    folder: Path
    status: str
    failure: str | None = None


def make_run_environment(
    threads: int | str, variables: Mapping[str, str], adds_project: bool = False
) -> dict[str, str]:
    """Return the environment variables of a run's process.

    Args:
        threads: CPU threads of the run.
        variables: Further variables, such as those of a memory allocator.
        adds_project: Whether another interpreter must find this project.
    """
    change = add_project_to_path if adds_project else leave_out_folder
    return change(os.environ | variables | dict.fromkeys(THREAD_VARIABLES, str(threads)))


class RunProcess:
    """Process that executes `parallax.harness.worker` on an initialised folder."""

    def __init__(
        self,
        spec: RunSpec,
        folder: Path,
        fork_servers: ForkServerPool | None = None,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Start the process; its output becomes `log.txt` once it owns the run."""
        self._spec = spec
        self._folder = folder
        self._log = folder / f"{LOG_PREFIX}{secrets.token_hex(4)}"
        environment = make_run_environment(spec.threads, variables, spec.python is not None)
        arguments, lifeline = [str(folder), self._log.name], _get_lifeline()
        fork: ForkedProcess | None = None
        try:
            with self._log.open("wb") as log:
                if fork_servers:
                    fork = fork_servers.start(spec, environment, arguments, log, lifeline)
                self._process = fork or self._start(environment, arguments, log, lifeline)
        except OSError:
            self._remove_log()
            raise

    def _start(
        self,
        environment: dict[str, str],
        arguments: list[str],
        log: IO[bytes],
        lifeline: int | None,
    ) -> subprocess.Popen[bytes]:
        files = [] if lifeline is None else [lifeline]
        python = self._spec.python or sys.executable
        # A script in place of an interpreter, such as one of conda, would hold the signals until
        # its Python has ended.
        with contextlib.nullcontext() if self._spec.python else hold_stop_signals():
            return subprocess.Popen(
                [python, "-m", "parallax.harness.worker", *arguments, *map(str, files)],
                pass_fds=files,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                # Ctrl-C reaches the sweep only, which then signals its workers, once.
                start_new_session=True,
            )

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds`; return whether the process has ended."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Signal the process to end, with the reason, and wait until it has."""
        self._process.send_signal(number)
        self._process.wait()

    def outcome(self) -> RunOutcome:
        """Return the outcome of the run; records it if the run could not do so itself."""
        code = self._process.wait()
        reading = read_run(self._folder)
        if code in (EXIT_COMPLETE, EXIT_LOCKED):
            failure = self._read_last_log_line() or "another process runs it"
            self._remove_log()
            if reading.complete:
                return RunOutcome(self._spec, self._folder, "skipped")
            # Not recorded, even if unlocked: a successor waits for this process before it locks.
            return RunOutcome(self._spec, self._folder, "running", failure)
        if reading.complete:
            self._remove_log()  # it exists if another process has completed the run
            return RunOutcome(self._spec, self._folder, "completed")
        record = reading.record
        if record and record.status in ("failed", "interrupted") and not self._log.exists():
            return RunOutcome(self._spec, self._folder, record.status, record.failure)
        changes = self._make_end_status(code, reading)
        try:
            mark_run_ended(self._folder, changes, self._log.name)
        except (LockHeldError, LockLostError) as error:
            return RunOutcome(self._spec, self._folder, "running", str(error))
        return RunOutcome(self._spec, self._folder, changes["status"], changes["failure"])

    def _remove_log(self) -> None:
        with contextlib.suppress(OSError):
            self._log.unlink()

    def _make_end_status(self, code: int, reading: RunReading) -> dict[str, str]:
        if not self._folder.is_dir():
            failure = f"{self._folder} is gone: it was deleted or moved during the run"
        elif (number := -code if code < 0 else code - EXIT_INTERRUPTED) in STOP_SIGNALS:
            return describe_interruption(get_stop_reason(number))
        elif code == 0:
            failure = f"its process exited with 0, but the run is not complete: {reading.reason}"
        else:
            failure = self._describe_exit(code)
        return {"status": "failed", "failure": failure}

    def _describe_exit(self, code: int) -> str:
        if code == EXIT_UNKNOWN:
            return "the process ended after the process that started it was killed"
        if code < 0:
            return f"the process was killed by {format_signal_name(-code)}"
        last = self._read_last_log_line()
        if (full := self._describe_full_disk(code)) and "No space left" not in last:
            return f"{full}{f'; its last output was: {last}' if last else ''}"
        return f"the process ended with exit code {code}" + (f": {last}" if last else "")

    def _describe_full_disk(self, code: int) -> str:
        """Return a message if the run's disk is full: the run itself cannot write one."""
        try:
            free = shutil.disk_usage(self._folder).free
        except OSError:
            free = 0 if code == EXIT_NO_SPACE else _LITTLE_ROOM
        if code != EXIT_NO_SPACE and free >= _LITTLE_ROOM:
            return ""
        return (
            f"No space left on device: the disk of {self._folder} has {free // 1024:,} KiB left. "
            "Free some space, and run the same command again"
        )

    def _read_last_log_line(self) -> str:
        for path in (self._log, self._folder / LOG_FILE):
            with contextlib.suppress(OSError, UnusableError), open_regular_file(path) as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
                lines = file.read().decode(errors="replace").strip().splitlines()
                return lines[-1] if lines else ""
        return ""


def format_signal_name(number: int) -> str:
    """Return the name of a signal that ended a process."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # real-time signals have no names


def mark_run_ended(folder: Path, changes: Mapping[str, Any], log: str | None = None) -> None:
    """Record how a run ended, if its folder can be written and the run is not complete.

    Raises:
        LockHeldError: Another process runs it.
        LockLostError: Another process has taken it over meanwhile.
    """
    # A folder that is gone, unreadable or full cannot be written; the outcome still reports it.
    with contextlib.suppress(OSError), RunLock.acquire(folder) as lock:
        reading = read_run(folder)
        if reading.complete:
            return
        writer = RunFolder(lock, reading.content)
        writer.release_space()
        if log and (folder / log).exists():
            writer.begin_log(log)
        if reading.record is not None and has_valid_checksum(reading.content):
            writer.update_run(**changes)
        writer.remove_heartbeat()


SYSTEM_ALLOCATOR = "none"
# Names in the packages of Linux distributions and of conda; the first that exists is used.
_LIBRARY_NAMES = {"tcmalloc": ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libtcmalloc.so")}
_PRELOAD_VARIABLE = "LD_PRELOAD"
_LOAD_TIMEOUT_SECONDS = 30.0
_REMEDY = (
    "Install it (apt-get install libtcmalloc-minimal4, or conda install -c conda-forge "
    "gperftools), give the path of a library, or use none."
)


def get_allocator_variables(setting: str, value: str) -> Mapping[str, str]:
    """Return the environment variables of runs with an allocator; none for the system's own.

    Args:
        setting: Name of the setting in messages.
        value: `none`, `tcmalloc`, or the path of a library.

    Raises:
        SpecError: It is none of these, or cannot be loaded here.
    """
    if value == SYSTEM_ALLOCATOR:
        return {}
    if value not in _LIBRARY_NAMES and "/" not in value:
        raise SpecError(
            f"{setting}={value!r} is not an allocator: use none, tcmalloc or the path of a library."
        )
    if sys.platform != "linux":
        raise SpecError(f"{setting}={value}: allocators can be chosen on Linux only; use none.")
    others = os.environ.get(_PRELOAD_VARIABLE, "")
    for name in _LIBRARY_NAMES.get(value, (value,)):
        variables = {_PRELOAD_VARIABLE: f"{name}:{others}".rstrip(":")}
        problem = _find_load_error(variables)
        if not problem:
            return variables
    raise SpecError(f"{setting}={value} cannot be loaded on this machine ({problem}). {_REMEDY}")


def _find_load_error(variables: Mapping[str, str]) -> str:
    """Return the loader's message on a library that it cannot load; it goes on without it."""
    before = os.environ.get(_PRELOAD_VARIABLE, "")
    plain, loaded = (
        subprocess.run(
            ["/bin/sh", "-c", ":"],
            env=os.environ | {_PRELOAD_VARIABLE: value},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_LOAD_TIMEOUT_SECONDS,
        ).stderr.decode(errors="replace")
        for value in (before, variables[_PRELOAD_VARIABLE])
    )
    new = [line for line in loaded.splitlines() if line not in plain.splitlines()]
    return new[0].removeprefix("ERROR: ").removesuffix(": ignored.") if new else ""
