"""States of submitted jobs according to Slurm, from whichever of its commands answers."""

import dataclasses
import os
import re
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from parallax.slurm.arrays import SubmissionRecord

_ENDED_STATES = {
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
}
_INDEX_RANGE = re.compile(r"(?<!\d)(\d{1,7})(?:-(\d{1,7}))?(?!\d)")
_MAX_INDEX = 250_000  # of an array; a study's records name no more runs
# 12, 12_3 or 12_[4-7,9%2], then "COMPLETED" or "CANCELLED by 1000", then the name
_SACCT_LINE = re.compile(r"(\d+)(?:_\[([^]|]*)\]|_(\d+))?\|(\w+)[^|]*\|(.*)")

JobsByIndex = dict[tuple[str, str], "SlurmJob"]
"""Jobs by the name of their array and the index in it, which is 0 outside arrays."""


@dataclasses.dataclass(frozen=True)
class SlurmJob:
    """One job as Slurm sees it."""

    job_id: str
    state: str
    reason: str = ""

    @property
    def is_alive(self) -> bool:
        """Return whether it has not ended."""
        return self.state not in _ENDED_STATES


def parse_squeue(text: str) -> JobsByIndex:
    """Return jobs by name and index, from lines `id|index|state|reason|name`."""
    jobs: JobsByIndex = {}
    for line in text.splitlines():
        fields = line.split("|", 4)
        if len(fields) < 5:
            continue  # other output of the site, such as a notice of maintenance
        job_id, index, state, reason, name = fields
        if index in ("N/A", ""):
            jobs[name, "0"] = SlurmJob(job_id, state, reason)
        else:
            jobs[name, index] = SlurmJob(f"{job_id}_{index}", state, reason)
    return jobs


def parse_scontrol(text: str, names: Collection[str]) -> JobsByIndex:
    """Return jobs with some names by name and index, from lines of `Name=value` pairs."""
    jobs: JobsByIndex = {}
    for line in text.splitlines():
        # The first pair of a name is Slurm's; users' names and comments may hold others.
        pairs: dict[str, str] = dict(reversed(re.findall(r"(?<!\S)(\w+)=(\S*)", line)))
        if not {"JobState", "JobId", "JobName"} <= pairs.keys() or pairs["JobName"] not in names:
            continue
        base = pairs.get("ArrayJobId", pairs["JobId"])
        for index in _parse_indices(pairs.get("ArrayTaskId", "0")):
            job_id = f"{base}_{index}" if "ArrayJobId" in pairs else base
            jobs[pairs["JobName"], index] = SlurmJob(
                job_id, pairs["JobState"], pairs.get("Reason", "")
            )
    return jobs


def _parse_indices(text: str) -> Iterable[str]:
    """Return the indices in `0-3,7%2`; none where they are something else."""
    for match in _INDEX_RANGE.finditer(text.partition("%")[0]):
        yield from map(str, range(int(match[1]), min(int(match[2] or match[1]), _MAX_INDEX) + 1))


def parse_sacct(text: str) -> JobsByIndex:
    """Return jobs by name and index, from lines `id|state|name`."""
    jobs: JobsByIndex = {}
    for line in text.splitlines():
        match = _SACCT_LINE.fullmatch(line)
        if match is None:
            continue
        base, several, one, state, name = match.groups()
        indices = several or one
        for index in _parse_indices(indices or "0"):
            job_id = f"{base}_{index}" if indices else base
            jobs[name, index] = SlurmJob(job_id, state)
    return jobs


_TIMEOUT = 20  # seconds for a command of Slurm's to answer
_NAMES_PER_COMMAND = 100  # of arrays on a command line
# Arrays are queried by unique names, so that no clock has to agree with Slurm's.
_SACCT_START_TIME = "2000-01-01"
# Users set these to filter what the commands show them, for example only their own jobs.
_FILTER_VARIABLES = ("SQUEUE_", "SACCT_", "SCANCEL_")


@dataclasses.dataclass(frozen=True)
class SlurmQueue:
    """Jobs of run folders according to Slurm.

    Attributes:
        jobs: The relevant job of each run folder: the last one that has not ended, or else the
            last one.
        answered: Commands that answered; empty where Slurm is not available.
        alive: All jobs of each run folder that have not ended; more than one only if a run
            was submitted again while Slurm did not know, or hid, the job that had it.
        over: Numbers of the jobs of each run folder that have ended: Slurm says so, or it
            answered and did not name the job with that number.
    """

    jobs: Mapping[Path, SlurmJob]
    answered: tuple[str, ...]
    alive: Mapping[Path, tuple[SlurmJob, ...]] = dataclasses.field(default_factory=dict)
    over: Mapping[Path, frozenset[str]] = dataclasses.field(default_factory=dict)


def query_slurm(records: Sequence[SubmissionRecord]) -> SlurmQueue:
    """Query Slurm about all recorded submissions, by any user."""
    if not records:
        return SlurmQueue({}, ())
    found: JobsByIndex = {}
    answered = []
    names = [record.name for record in records]
    for name, source in (("squeue", _query_squeue), ("scontrol", _query_scontrol)):
        started = time.monotonic()
        answer = source(names)
        if answer is not None:
            found |= answer
            answered.append(name)
            break
        if time.monotonic() - started >= _TIMEOUT:
            break  # scontrol would wait for the same controller
    forgotten = [record.name for record in records if not _is_known(record, found)]
    if forgotten and (answer := _query_sacct(forgotten)) is not None:
        found = answer | found
        answered.append("sacct")
    return _index_by_folder(records, found, tuple(answered))


def _is_known(record: SubmissionRecord, found: JobsByIndex) -> bool:
    return all((record.name, str(index)) in found for index in range(len(record.elements)))


def _index_by_folder(
    records: Sequence[SubmissionRecord], found: JobsByIndex, answered: tuple[str, ...]
) -> SlurmQueue:
    """Return jobs by run folder."""
    jobs: dict[Path, list[SlurmJob]] = {}
    over: dict[Path, frozenset[str]] = {}
    for record in records:  # oldest first
        for index, element in enumerate(record.elements):
            job = found.get((record.name, str(index)))
            ended = frozenset[str]()
            if job is not None and not job.is_alive:
                ended = frozenset([job.job_id])
            elif job is None and answered:
                ended = _get_job_numbers(record, index)
            for folder in element:
                over[folder] = over.get(folder, frozenset()) | ended
                if job is not None:
                    jobs.setdefault(folder, []).append(job)
    alive = {
        folder: tuple(job for job in several if job.is_alive) for folder, several in jobs.items()
    }
    return SlurmQueue(
        {folder: (alive[folder] or several)[-1] for folder, several in jobs.items()},
        answered,
        {folder: several for folder, several in alive.items() if several},
        over,
    )


def _get_job_numbers(record: SubmissionRecord, index: int) -> frozenset[str]:
    """Return Slurm's numbers of a job of an array, as far as they are known."""
    if record.job_id is None:
        return frozenset()
    alone = [record.job_id] if len(record.elements) == 1 else []  # then it is not an array
    return frozenset([f"{record.job_id}_{index}", *alone])


def _query_squeue(names: Sequence[str]) -> JobsByIndex | None:
    # Slurm forgets jobs some minutes after their end; sacct knows the others.
    command = ("squeue", "--array", "--noheader", "--states=all", "--format=%F|%K|%T|%r|%j")
    return _query_in_batches(command, names, parse_squeue)


def _query_scontrol(names: Sequence[str]) -> JobsByIndex | None:
    text = run_slurm("scontrol", "--oneliner", "show", "job")
    return None if text is None else parse_scontrol(text, names)


def _query_sacct(names: Sequence[str]) -> JobsByIndex | None:
    command = (
        *("sacct", "--allusers", "--allocations", "--noheader", "--parsable2"),
        f"--starttime={_SACCT_START_TIME}",
        "--format=JobID,State,JobName",
    )
    return _query_in_batches(command, names, parse_sacct)


def _query_in_batches(
    command: Sequence[str], names: Sequence[str], parse: Callable[[str], JobsByIndex]
) -> JobsByIndex | None:
    """Query arrays by name in batches; return None where a batch is not answered."""
    found: JobsByIndex = {}
    names = sorted(set(names))
    for start in range(0, len(names), _NAMES_PER_COMMAND):
        part = names[start : start + _NAMES_PER_COMMAND]
        text = run_slurm(*command, f"--name={','.join(part)}")
        if text is None:
            return None
        found |= parse(text)
    return found


def run_slurm(*command: str) -> str | None:
    """Return the output of a Slurm command; None if it is missing, denied or does not answer."""
    try:
        result = call_slurm(*command)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if result.returncode else result.stdout


def call_slurm(*command: str, seconds: float = _TIMEOUT) -> subprocess.CompletedProcess[str]:
    """Run a Slurm command; raises `OSError` or `subprocess.TimeoutExpired`."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        env=make_slurm_environment(),
    )


def make_slurm_environment() -> dict[str, str]:
    """Return the environment for Slurm's commands, without variables that filter their output."""
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(_FILTER_VARIABLES)
    }
    # Otherwise the indices of an array are cut off after 64 characters.
    return variables | {"SLURM_BITSTR_LEN": "0"}
