"""Reads what Slurm's commands print about jobs."""

import dataclasses
import re
from collections.abc import Iterable

from submitit.slurm.slurm import read_job_id

_OVER = {
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
}

Jobs = dict[tuple[str, str], "Job"]
"""Jobs by the name of their array and the index in it, which is 0 outside arrays."""


@dataclasses.dataclass(frozen=True)
class Job:
    """One job as Slurm sees it.

    Attributes:
        job_id: Its number, with the index in the array.
        state: Slurm's word, such as PENDING.
        reason: Why it is pending or ended, in Slurm's words.
    """

    job_id: str
    state: str
    reason: str = ""

    @property
    def is_alive(self) -> bool:
        """Whether it will still do something."""
        return self.state not in _OVER


def parse_squeue(text: str) -> Jobs:
    """Jobs by name and index, from lines `id|index|state|reason|name`."""
    jobs: Jobs = {}
    for line in text.splitlines():
        job_id, index, state, reason, name = line.split("|", 4)
        if index in ("N/A", ""):
            jobs[name, "0"] = Job(job_id, state, reason)
        else:
            jobs[name, index] = Job(f"{job_id}_{index}", state, reason)
    return jobs


def parse_scontrol(text: str) -> Jobs:
    """Jobs by name and index, from lines of `Name=value` pairs."""
    jobs: Jobs = {}
    for line in text.splitlines():
        pairs: dict[str, str] = dict(re.findall(r"(\w+)=(\S*)", line))
        if "JobState" not in pairs:
            continue
        base = pairs.get("ArrayJobId", pairs["JobId"])
        for index in _indices(pairs.get("ArrayTaskId", "")):
            job_id = f"{base}_{index}" if "ArrayJobId" in pairs else base
            jobs[pairs["JobName"], index] = Job(job_id, pairs["JobState"], pairs.get("Reason", ""))
    return jobs


def _indices(text: str) -> Iterable[str]:
    """The indices in `0-3,7%2`; just 0 where there is no array."""
    for part in text.partition("%")[0].split(","):
        first, _, last = part.partition("-")
        yield from map(str, range(int(first or 0), int(last or first or 0) + 1))


def parse_sacct(text: str) -> Jobs:
    """Jobs by name and index, from lines `id|state|name`."""
    jobs: Jobs = {}
    for line in text.splitlines():
        ids, state, name = line.split("|", 2)
        for parts in read_job_id(ids):
            first, last = (parts[1], parts[-1]) if len(parts) > 1 else ("0", "0")
            for index in range(int(first), int(last) + 1):
                job_id = "_".join([parts[0], str(index)][: len(parts)])
                # "CANCELLED by 1000"
                jobs[name, str(index)] = Job(job_id, state.split()[0])
    return jobs
