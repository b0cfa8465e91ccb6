"""Which process holds a run folder, and whether it still exists.

Process ids are used again, and mean something on one machine and in one namespace only: a holder
is told apart by all of these and by the start of the process.
"""

import os
import platform
import time
from pathlib import Path

import msgspec

from harness.record.batch_job import BatchJob


class Holder(msgspec.Struct, frozen=True):
    """A process that holds a lease.

    Attributes:
        token: Name of the lease.
        host: Its machine, for people.
        machine: The same for programs: changes when the machine is started again.
        pid: Its process id.
        born: When the process started, in the machine's own count; tells reused ids apart.
        job: The batch system's name of its job; empty outside one.
        restart: How often the batch system had started the job again.
        time: When it took the lease by its own clock, in seconds since 1970.
    """

    token: str = ""
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
        job = BatchJob.current()
        return cls(
            token=token,
            host=platform.node(),
            machine=_machine(),
            pid=os.getpid(),
            born=_born(os.getpid()) or "",
            job=job.id if job else "",
            restart=job.restart if job else 0,
            time=time.time(),
        )

    def describe(self) -> str:
        """One phrase for people."""
        if not self.machine:
            return "a process that left no readable name"
        job = f" in job {self.job}" if self.job else ""
        return f"process {self.pid} on {self.host}{job}"

    @property
    def is_local(self) -> bool:
        """Whether its process can be looked for: it is on this machine, and not hidden."""
        return self.machine != "" and self.machine == _machine() and not _is_hidden(self.pid)

    def is_superseded_by(self, other: "Holder") -> bool:
        """Whether the batch system has started `other` in this one's place."""
        return self.job != "" and self.job == other.job and self.restart < other.restart

    def is_running(self) -> bool:
        """Whether the process of a local holder exists."""
        born = _born(self.pid)
        if born is None:
            return not Path("/proc/self/stat").exists() and _answers(self.pid)
        return born == self.born


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
        content = Path(f"/proc/{pid}/stat").read_bytes()  # a name need not be text
    except OSError:
        return None
    fields = content.rpartition(b")")[2].decode().split()
    return None if fields[0] in ("Z", "X") else fields[19]


def _is_hidden(pid: int) -> bool:
    """Whether the system keeps the process, which is another user's, from being looked at."""
    if pid <= 0 or Path(f"/proc/{pid}/stat").exists():
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _answers(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
