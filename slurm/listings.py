"""Reads what Slurm's commands print about jobs."""

import dataclasses
import re
from collections.abc import Iterable

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
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
# 12, 12_3 or 12_[4-7,9%2], then "COMPLETED" or "CANCELLED by 1000", then the name
_ACCOUNTED = re.compile(r"(\d+)(?:_\[([^]|]*)\]|_(\d+))?\|(\w+)[^|]*\|(.*)")

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
        fields = line.split("|", 4)
        if len(fields) < 5:
            continue  # a word of the site's own, such as a notice of maintenance
        job_id, index, state, reason, name = fields
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
        if not {"JobState", "JobId", "JobName"} <= pairs.keys():
            continue
        base = pairs.get("ArrayJobId", pairs["JobId"])
        for index in _indices(pairs.get("ArrayTaskId", "0")):
            job_id = f"{base}_{index}" if "ArrayJobId" in pairs else base
            jobs[pairs["JobName"], index] = Job(job_id, pairs["JobState"], pairs.get("Reason", ""))
    return jobs


def _indices(text: str) -> Iterable[str]:
    """The indices in `0-3,7%2`; none where they are something else."""
    for match in _RANGE.finditer(text.partition("%")[0]):
        yield from map(str, range(int(match[1]), int(match[2] or match[1]) + 1))


def parse_sacct(text: str) -> Jobs:
    """Jobs by name and index, from lines `id|state|name`."""
    jobs: Jobs = {}
    for line in text.splitlines():
        match = _ACCOUNTED.fullmatch(line)
        if match is None:
            continue
        base, several, one, state, name = match.groups()
        indices = several or one
        for index in _indices(indices or "0"):
            job_id = f"{base}_{index}" if indices else base
            jobs[name, index] = Job(job_id, state)
    return jobs
