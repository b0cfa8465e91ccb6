"""What Slurm knows of submitted jobs, from whichever of its commands answers."""

import dataclasses
import getpass
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from slurm.listings import Job, Jobs, parse_sacct, parse_scontrol, parse_squeue
from slurm.records import Record

_PATIENCE = 20  # seconds for a command of Slurm's to answer


@dataclasses.dataclass(frozen=True)
class Queue:
    """What Slurm knows.

    Attributes:
        jobs: The latest job of each run folder.
        asked: Which commands answered; empty where Slurm is not at hand.
    """

    jobs: Mapping[Path, Job]
    asked: tuple[str, ...]


def ask(records: Sequence[Record]) -> Queue:
    """Asks Slurm about everything that was submitted."""
    if not records:
        return Queue({}, ())
    found: Jobs = {}
    asked = []
    for name, source in (("squeue", _squeue), ("scontrol", _scontrol)):
        started = time.monotonic()
        answer = source()
        if answer is not None:
            found |= answer
            asked.append(name)
            break
        if time.monotonic() - started >= _PATIENCE:
            break  # scontrol would wait for the same controller
    known = {(record.name, str(i)) for record in records for i in range(len(record.elements))}
    if not known <= found.keys() and (answer := _sacct(records)) is not None:
        found = answer | found
        asked.append("sacct")
    jobs: dict[Path, Job] = {}
    for record in records:  # oldest first: the latest wins
        for index, element in enumerate(record.elements):
            job = found.get((record.name, str(index)))
            if job:
                jobs |= dict.fromkeys(element, job)
    return Queue(jobs, tuple(asked))


def _squeue() -> Jobs | None:
    # Slurm forgets jobs some minutes after their end; sacct knows the others.
    text = run_slurm(
        "squeue",
        "--array",
        "--noheader",
        "--states=all",
        f"--user={getpass.getuser()}",
        "--format=%F|%K|%T|%r|%j",
    )
    return None if text is None else parse_squeue(text)


def _scontrol() -> Jobs | None:
    text = run_slurm("scontrol", "--oneliner", "show", "job")
    return None if text is None else parse_scontrol(text)


def _sacct(records: Sequence[Record]) -> Jobs | None:
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(records[0].submitted - 60))
    text = run_slurm(
        "sacct",
        "--allocations",
        "--noheader",
        "--parsable2",
        f"--name={','.join(record.name for record in records)}",
        f"--starttime={since}",
        "--format=JobID,State,JobName",
    )
    return None if text is None else parse_sacct(text)


def run_slurm(*command: str) -> str | None:
    """What a command of Slurm's prints; None where it is missing, denied or does not answer."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if result.returncode else result.stdout
