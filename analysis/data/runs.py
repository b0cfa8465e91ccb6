"""What the analysis knows of runs: those it can use, and those it cannot with the reason.

Also those that left no folder, but that the other folders lead one to expect.
"""

import collections
import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.harness.record.run_json import RunProvenance


@dataclasses.dataclass(frozen=True, order=True)
class StudyCell:
    """What is held equal while frameworks are compared.

    Attributes:
        study: Name of the study.
        env: Environment.
        algorithm: Algorithm.
        hps: Name of the hyperparameter set.
        variant: What distinguishes otherwise equal settings, e.g. `steps=20480`.
    """

    study: str
    env: str
    algorithm: str
    hps: str
    variant: str


@dataclasses.dataclass(frozen=True)
class RunId:
    """Which run a folder stands for.

    Attributes:
        cell: The setting.
        framework: The framework that trained.
        seed: Training seed; None where neither run.json nor the folder's name tells it.
    """

    cell: StudyCell
    framework: str
    seed: int | None


@dataclasses.dataclass(frozen=True, eq=False)
class CompletedRun:
    """One complete run.

    Attributes:
        id: Which run it is.
        path: Its folder.
        timesteps: int64[E], environment steps at each evaluation, strictly increasing.
        results: float64[E, episodes], return of each evaluation episode.
        ep_lengths: int64[E, episodes], steps of each evaluation episode.
        spec: The specification in run.json.
        seconds: Wall-clock time from start to end; NaN where run.json does not tell.
        provenance: Where and with what it was made; None for runs of other projects.
        held: The hyperparameters that the framework was held to.
        has_conflicting_settings: Whether its place holds runs that were asked for other settings.
        record: The text of its `run.json`, where it came with others in one file.
    """

    id: RunId
    path: Path
    timesteps: NDArray[np.int64]
    results: NDArray[np.float64]
    ep_lengths: NDArray[np.int64]
    spec: Mapping[str, Any]
    seconds: float = math.nan
    provenance: RunProvenance | None = None
    effective_hyperparameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    has_conflicting_settings: bool = False
    record: str | None = None

    @property
    def final_score(self) -> float:
        """Mean return over the episodes of the last evaluation."""
        return float(self.results[-1].mean())


@dataclasses.dataclass(frozen=True)
class ExcludedRun:
    """A run folder that is not used.

    Attributes:
        id: Which run it is; from the path where run.json does not tell.
        path: The folder.
        reason: Why it is not used.
        completed: Whether the run itself is complete, as a second copy of a run is.
        failed: Whether it was trained and failed, by its own record.
        record: The text of its `run.json`, where it came with others in one file.
    """

    id: RunId
    path: Path
    reason: str
    completed: bool = False
    failed: bool = False
    record: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class RunCollection:
    """What was read of runs, one by one; `parallax.analysis.data.load.combine_runs` looks at them together.

    Attributes:
        root: A folder, or a file of packed runs.
        runs: Runs that can be used by themselves, ordered by path.
        excluded: The others.
        links: Links to folders below it, which are not followed.
    """

    root: Path
    runs: tuple[CompletedRun, ...]
    excluded: tuple[ExcludedRun, ...]
    links: tuple[Path, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedRuns:
    """Everything found under a folder, or in a file of packed runs.

    Attributes:
        root: The folder or file.
        runs: The runs that are used, ordered by path.
        excluded: The others, ordered by path.
        links: Links to folders below it, which are not followed.
        conflicts: Where runs of one name were asked for different settings, in sentences; their
            variants tell them apart.
    """

    root: Path
    runs: tuple[CompletedRun, ...]
    excluded: tuple[ExcludedRun, ...]
    links: tuple[Path, ...] = ()
    conflicts: tuple[str, ...] = ()

    @property
    def folders(self) -> tuple[CompletedRun | ExcludedRun, ...]:
        """Used and unused run folders."""
        return (*self.runs, *self.excluded)

    @property
    def requested(self) -> int:
        """Run folders found. A seed that was never started leaves none unless pending."""
        return len(self.folders)

    @property
    def completed(self) -> int:
        """Runs that meet the completeness rule."""
        return len(self.runs) + sum(item.completed for item in self.excluded)

    @property
    def used(self) -> int:
        """Runs that enter the statistics."""
        return len(self.runs)

    @property
    def cells(self) -> tuple[StudyCell, ...]:
        """Every setting with at least one folder, in order."""
        return tuple(sorted({item.id.cell for item in self.folders}))


@dataclasses.dataclass(frozen=True)
class MissingSeeds:
    """Seeds of a framework in a setting for which there is no folder.

    Attributes:
        cell: The setting.
        framework: The framework.
        seeds: Seeds that another framework has a folder of in this setting.
        whole: Whether the framework has no folder at all in this setting, but elsewhere in the
            study with the same algorithm.
    """

    cell: StudyCell
    framework: str
    seeds: tuple[int, ...]
    whole: bool

    def __str__(self) -> str:
        cell = self.cell
        place = "/".join(
            part
            for part in (cell.study, cell.env, cell.algorithm, cell.hps, self.framework)
            if part
        )
        word = "seed" if len(self.seeds) == 1 else "seeds"
        return f"{place}, {cell.variant}: {word} {', '.join(map(str, self.seeds))}"


def find_missing_seeds(loaded: LoadedRuns) -> tuple[MissingSeeds, ...]:
    """What is missing for all frameworks of a study to have the same seeds in each setting.

    A seed that no framework has in a setting is not expected, and folders that tell no seed
    are passed over.

    Args:
        loaded: What was found.
    """
    frameworks: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    seeds: dict[StudyCell, dict[str, set[int]]] = collections.defaultdict(
        lambda: collections.defaultdict(set)
    )
    for item in loaded.folders:
        cell = item.id.cell
        if item.id.seed is not None:
            frameworks[cell.study, cell.algorithm].add(item.id.framework)
            seeds[cell][item.id.framework].add(item.id.seed)
    return tuple(
        MissingSeeds(cell, name, tuple(sorted(lacking)), whole=name not in found)
        for cell, found in sorted(seeds.items())
        for name in sorted(frameworks[cell.study, cell.algorithm])
        if (lacking := set().union(*found.values()) - found.get(name, set()))
    )
