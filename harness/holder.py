"""Who writes a run folder, and whether they are still alive."""

import dataclasses
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

_DEFAULT_PERIOD = 30.0  # seconds between heartbeats, where none has been seen
_SLACK = 30.0  # seconds that a heartbeat may be late, clocks included


@dataclasses.dataclass(frozen=True)
class Holder:
    """A process that holds a lease.

    Attributes:
        token: Name of the lease.
        host: Its machine, for people.
        machine: The same for programs: changes when the machine is started again.
        pid: Its process id.
        born: When the process started, in the machine's own count; tells reused ids apart.
        job: The batch system's name of its job; empty outside one.
        restart: How often the batch system had started the job again.
        time: When it took the lease, in seconds since 1970.
    """

    token: str
    host: str = "an unknown host"
    machine: str = ""
    pid: int = 0
    born: str = ""
    job: str = ""
    restart: int = 0
    time: float = 0.0

    @classmethod
    def here(cls, token: str) -> "Holder":
        """This process."""
        return cls(
            token=token,
            host=platform.node(),
            machine=_machine(),
            pid=os.getpid(),
            born=_born(os.getpid()) or "",
            job=os.environ.get("PARALLAX_JOB", ""),
            restart=int(os.environ.get("PARALLAX_RESTART", "0")),
            time=time.time(),
        )

    def describe(self) -> str:
        """One phrase for people."""
        job = f" in job {self.job}" if self.job else ""
        return f"process {self.pid} on {self.host}{job}"

    def is_superseded_by(self, other: "Holder") -> bool:
        """Whether the batch system has started `other` in this one's place."""
        return self.job != "" and self.job == other.job and self.restart < other.restart

    def is_alive(self, folder: Path) -> bool:
        """Whether the process exists or, on another machine, its heart beats."""
        if self._is_local():
            return self._is_running()
        beat, period = read_beat(folder)
        return time.time() - max(beat, self.time) < 3 * period + _SLACK

    def wait_for_end(self, folder: Path) -> None:
        """Gives one that has lost its lease the time to notice: it looks at every heartbeat."""
        if self._is_local():
            deadline = time.monotonic() + 1.5 * read_beat(folder)[1] + 2
            while self._is_running() and time.monotonic() < deadline:
                time.sleep(0.1)
        elif self.is_alive(folder):
            time.sleep(1.5 * read_beat(folder)[1] + 2)

    def _is_local(self) -> bool:
        return self.machine != "" and self.machine == _machine()

    def _is_running(self) -> bool:
        born = _born(self.pid)
        if born is not None or not Path("/proc/self/stat").exists():
            return born == self.born if born is not None else _answers(self.pid)
        return False


def read_beat(folder: Path) -> tuple[float, float]:
    """When a run last told of itself, and how often it does: both in seconds."""
    try:
        progress: dict[str, Any] = json.loads((folder / "progress.json").read_text())
        return float(progress["time"]), float(progress["period"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0, _DEFAULT_PERIOD


def _machine() -> str:
    """Name, start and process namespace: what process ids mean something in."""
    parts = [platform.node()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    except OSError:
        parts.append("")
    return " ".join(parts)


def _born(pid: int) -> str | None:
    """A process's start time; None where there is no such process, or none but a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
