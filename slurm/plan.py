"""Which runs share a job, and which jobs an array."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from slurm.settings import Settings

if TYPE_CHECKING:
    from harness.run_spec import RunSpec

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Resources:
    """What the jobs of one array ask for.

    Attributes:
        algorithm: Whose time limit it is.
        run_minutes: Time limit of one run.
        runs_per_job: Largest number of runs in one job.
        cpus: Processors.
        mem_gb: Memory in GB.
    """

    algorithm: str
    run_minutes: int
    runs_per_job: int
    cpus: int
    mem_gb: float

    @property
    def minutes(self) -> int:
        """Time limit of a job."""
        return self.run_minutes * self.runs_per_job


@dataclasses.dataclass(frozen=True)
class Array:
    """Jobs that are submitted together.

    Attributes:
        resources: What each asks for.
        elements: The run folders of each job.
        parallelism: How many may run at a time.
    """

    resources: Resources
    elements: tuple[tuple[Path, ...], ...]
    parallelism: int


def plan(
    runs: Sequence[tuple["RunSpec", Path]], settings: Settings, max_array_size: int
) -> list[Array]:
    """Splits runs into arrays by what they need and by the cluster's largest array.

    Args:
        runs: Runs with their folders; their order is kept within an array.
        settings: Limits and resources.
        max_array_size: Most jobs in an array.
    """
    groups: dict[Resources, list[Path]] = {}
    for spec, folder in runs:
        groups.setdefault(_resources(spec, settings), []).append(folder)
    parts = [
        (resources, part)
        for resources, folders in groups.items()
        for part in _batches(_batches(folders, resources.runs_per_job), max_array_size)
    ]
    shares = share(settings.parallelism, [len(part) for _, part in parts])
    return [
        Array(resources, part, limit)
        for (resources, part), limit in zip(parts, shares, strict=True)
    ]


def share(limit: int, sizes: Sequence[int]) -> list[int]:
    """Divides a number of jobs at a time among arrays, by their sizes.

    Slurm limits each array by itself, so the shares have to add up to the limit; only where
    there are more arrays than that does each get one.

    Args:
        limit: Jobs at a time in all; 0 is no limit.
        sizes: Jobs in each array.
    """
    if not limit or limit >= sum(sizes):
        return list(sizes)
    shares = [1] * len(sizes)
    for _ in range(limit - len(sizes)):
        unfilled = [i for i, size in enumerate(sizes) if shares[i] < size]
        shares[min(unfilled, key=lambda i: shares[i] / sizes[i])] += 1
    return shares


def _resources(spec: "RunSpec", settings: Settings) -> Resources:
    return Resources(
        algorithm=spec.algorithm,
        run_minutes=settings.minutes(spec.algorithm),
        runs_per_job=settings.runs_per_job,
        cpus=max(settings.cpus, spec.threads),
        mem_gb=settings.mem_gb,
    )


def _batches(items: Sequence[T], size: int) -> tuple[tuple[T, ...], ...]:
    return tuple(tuple(items[i : i + size]) for i in range(0, len(items), size))
