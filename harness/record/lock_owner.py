"""Owner process of a run folder's lock, and a check that it still exists.

Process ids are reused, and are valid on one machine and in one namespace only: an owner is
identified by all of these and by the start time of the process.
"""

import dataclasses
import math
import os
import platform
import time
from pathlib import Path

import msgspec

_ID_VARIABLE, _RESTART_VARIABLE = "PARALLAX_JOB", "PARALLAX_RESTART"
_LIMIT_VARIABLE, _NOTICE_VARIABLE = "PARALLAX_LIMIT", "PARALLAX_NOTICE"


@dataclasses.dataclass(frozen=True)
class BatchJob:
    """A running job.

    Attributes:
        id: The batch system's name of it, such as `77_3`.
        restart: Number of times that the batch system had restarted it.
        limit_from: Earliest time of a warning about its time limit, in seconds of the machine's
            monotonic clock, which no correction of the date changes and all its processes share;
            an earlier warning is about a preemption.
        notice: Seconds from a warning to the end.
    """

    id: str
    restart: int = 0
    limit_from: float = math.inf
    notice: float = 60.0

    @classmethod
    def from_environment(cls) -> "BatchJob | None":
        """Return the job that this process is part of; None outside a job."""
        if _ID_VARIABLE not in os.environ:
            return None
        return cls(
            id=os.environ[_ID_VARIABLE],
            restart=int(os.environ.get(_RESTART_VARIABLE, "0")),
            limit_from=float(os.environ.get(_LIMIT_VARIABLE, "inf")),
            notice=float(os.environ.get(_NOTICE_VARIABLE, "60")),
        )

    def export_to_environment(self) -> None:
        """Identify this process, and those that it starts from now on, as part of the job."""
        os.environ[_ID_VARIABLE] = self.id
        os.environ[_RESTART_VARIABLE] = str(self.restart)
        os.environ[_LIMIT_VARIABLE] = str(self.limit_from)
        os.environ[_NOTICE_VARIABLE] = str(self.notice)


class LockOwner(msgspec.Struct, frozen=True):
    """A process that owns a lock.

    Attributes:
        token: Name of the lock.
        host: Readable name of its machine.
        machine: Identifier of its machine, which changes when the machine is rebooted.
        pid: Its process id.
        born: Start time of the process as the machine counts it; distinguishes reused ids.
        job: The batch system's name of its job; empty outside one.
        restart: Number of times that the batch system had restarted the job.
        time: Time when it took the lock, by its own clock, in seconds since 1970.
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
    def of_this_process(cls, token: str) -> "LockOwner":
        """Return this process."""
        job = BatchJob.from_environment()
        return cls(
            token=token,
            host=platform.node(),
            machine=_identify_machine(),
            pid=os.getpid(),
            born=_read_start_time(os.getpid()) or "",
            job=job.id if job else "",
            restart=job.restart if job else 0,
            time=time.time(),
        )

    def describe(self) -> str:
        """Return a readable phrase."""
        if not self.machine:
            return "a process that left no readable name"
        job = f" in job {self.job}" if self.job else ""
        return f"process {self.pid} on {self.host}{job}"

    @property
    def is_local(self) -> bool:
        """Return whether its process can be checked: it is on this machine, and not hidden."""
        return (
            self.machine != "" and self.machine == _identify_machine() and not _is_hidden(self.pid)
        )

    def is_superseded_by(self, other: "LockOwner") -> bool:
        """Return whether the batch system has restarted this job as `other`."""
        return self.job != "" and self.job == other.job and self.restart < other.restart

    def is_running(self) -> bool:
        """Return whether the process of a local owner exists."""
        born = _read_start_time(self.pid)
        if born is None:
            return not Path("/proc/self/stat").exists() and _is_signalable(self.pid)
        return born == self.born


def _identify_machine() -> str:
    """Return the machine's name, its boot and the process namespace: the scope of process ids."""
    parts = [platform.node()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    except OSError:
        parts.append("")
    return " ".join(parts)


def _read_start_time(pid: int) -> str | None:
    """Return a process's start time; None if there is no such process, or only a zombie."""
    try:
        content = Path(f"/proc/{pid}/stat").read_bytes()  # a name need not be text
    except OSError:
        return None
    # The name of a process may contain brackets and spaces.
    fields = content.rpartition(b")")[2].decode().split()
    # proc(5): the state is field 3, the first after the name, and `starttime` is field 22.
    return None if fields[0] in ("Z", "X") else fields[19]


def _is_hidden(pid: int) -> bool:
    """Return whether the system hides the process, which is another user's."""
    if pid <= 0 or os.access(f"/proc/{pid}/stat", os.F_OK):  # False where it is not allowed
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _is_signalable(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
