"""Runs as the analysis reads them: complete ones, excluded ones with a reason, missing seeds."""

import collections
import dataclasses
import functools
import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from parallax.harness.record.completeness import RunReading
from parallax.harness.record.files import escape_unprintable
from parallax.harness.record.run_json import ImportSource, ReferenceReturns, RunProvenance

VariantKey = tuple[str, str, str]  # study, algorithm, variant
SuiteKey = tuple[str, str, str, str]  # study, algorithm, recipe, variant
CELL_FIELDS = ("study", "env", "algorithm", "hps", "variant")
"""Names of the parts of a setting, as columns of files have them."""


@dataclasses.dataclass(frozen=True, order=True)
class StudyCell:
    """One setting of a study: everything that is equal while frameworks are compared.

    Attributes:
        hps: Name of the hyperparameter set.
        variant: Options that differ from the defaults, such as `steps=20480`.
    """

    study: str
    env: str
    algorithm: str
    hps: str
    variant: str

    @property
    def variant_key(self) -> VariantKey:
        """Study, algorithm and variant."""
        return self.study, self.algorithm, self.variant

    @property
    def suite_key(self) -> SuiteKey:
        """Study, algorithm, recipe and variant."""
        return self.study, self.algorithm, self.hps, self.variant


@dataclasses.dataclass(frozen=True)
class RunId:
    """Identity of a run: setting, framework and seed.

    Attributes:
        seed: Training seed; None if neither run.json nor the folder's name has it.
    """

    cell: StudyCell
    framework: str
    seed: int | None


@dataclasses.dataclass(frozen=True, eq=False)
class CompletedRun:
    """One complete run.

    Attributes:
        timesteps: int64[E], environment steps at each evaluation, strictly increasing.
        results: float64[E, episodes], return of each evaluation episode.
        ep_lengths: int64[E, episodes], steps of each evaluation episode.
        seconds: Wall-clock time from start to end; NaN if run.json has none.
        evaluation_seconds: Part of it that evaluations took; NaN if run.json has none.
        training_cpu_seconds: Of all cores, without evaluations; NaN if run.json has none.
        provenance: Machine, packages and code version; None for runs of other projects.
        has_conflicting_settings: Whether another run of the same path was made with different
            settings, so that `variant` had to be extended.
        record: Text of its `run.json`, if it was read from a packed file.
        imported: Origin of a run that another tool made.
        interventions: Names of all changes that were applied, patches included.
        references: Returns of policies without training that were measured with the run.
        weights: SHA-256 of the stored policy's weights; empty if run.json has none.
        has_foreign_checkpoint: Whether another user may have changed a checkpoint it continues.
        is_imputed: Whether it takes the place of a failed run, with equal returns throughout.
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
    evaluation_seconds: float = math.nan
    training_cpu_seconds: float = math.nan
    imported: ImportSource | None = None
    interventions: frozenset[str] = frozenset()
    references: Mapping[str, ReferenceReturns] = dataclasses.field(default_factory=dict)
    weights: str = ""
    has_foreign_checkpoint: bool = False
    is_imputed: bool = False

    @functools.cached_property
    def final_score(self) -> float:
        """Mean return over the episodes of the last evaluation."""
        return float(self.results[-1].mean())


@dataclasses.dataclass(frozen=True)
class ExcludedRun:
    """A run folder that does not enter the statistics.

    Attributes:
        id: Its identity; from the path if run.json cannot be read.
        completed: Whether the run itself is complete, such as a second copy of a run.
        failed: Whether training failed, by its record, or diverged, by returns that are not finite.
        record: Text of its `run.json`, if it was read from a packed file.
        spec: The specification in run.json; empty if it cannot be read.
    """

    id: RunId
    path: Path
    reason: str
    completed: bool = False
    failed: bool = False
    record: str | None = None
    spec: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)


@dataclasses.dataclass(frozen=True, eq=False)
class RunCollection:
    """Runs as read, each by itself; `load.combine_runs` compares them with each other.

    Attributes:
        runs: Complete runs, ordered by path.
        links: Symbolic links to folders below `root`, which are not followed.
        foreign: Folders with evaluations of another tool, which are read only once imported.
    """

    root: Path
    runs: tuple[CompletedRun, ...]
    excluded: tuple[ExcludedRun, ...]
    links: tuple[Path, ...] = ()
    foreign: tuple[Path, ...] = ()

    @property
    def folders(self) -> tuple[CompletedRun | ExcludedRun, ...]:
        """All of them, complete ones first."""
        return (*self.runs, *self.excluded)


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedRuns:
    """Everything found under a folder, or in a file of packed runs.

    Attributes:
        root: The folder or file.
        runs: Runs that enter the statistics, ordered by path.
        excluded: The others, ordered by path.
        links: Symbolic links to folders below `root`, which are not followed.
        conflicts: One sentence per place where runs of the same path have different settings, and
            so got separate variants, or where several runs have equal evaluations or weights.
    """

    root: Path
    runs: tuple[CompletedRun, ...]
    excluded: tuple[ExcludedRun, ...]
    links: tuple[Path, ...] = ()
    conflicts: tuple[str, ...] = ()

    @functools.cached_property
    def folders(self) -> tuple[CompletedRun | ExcludedRun, ...]:
        """Used and unused run folders."""
        return (*self.runs, *self.excluded)

    @property
    def requested(self) -> int:
        """Number of run folders. A seed that was never started has none, unless it is pending."""
        return len(self.folders)

    @property
    def completed(self) -> int:
        """Number of runs that meet the completeness rule."""
        return self.used + sum(item.completed for item in self.excluded)

    @property
    def used(self) -> int:
        """Number of runs that enter the statistics."""
        return len(self.runs)

    @functools.cached_property
    def cells(self) -> tuple[StudyCell, ...]:
        """Every setting with at least one folder, in order."""
        return tuple(sorted({item.id.cell for item in self.folders}))

    @functools.cached_property
    def missing_seeds(self) -> tuple["MissingSeeds", ...]:
        """Seeds without a folder that another framework has in the same setting."""
        return find_missing_seeds(self.folders)


@dataclasses.dataclass(frozen=True)
class MissingSeeds:
    """Seeds of a framework in a setting that have no run folder.

    Attributes:
        seeds: Seeds that another framework has in this setting.
        whole: Whether the framework has no folder at all in this setting, though it has some
            with the same algorithm elsewhere in the study.
    """

    cell: StudyCell
    framework: str
    seeds: tuple[int, ...]
    whole: bool

    def __str__(self) -> str:
        cell = self.cell
        names = cell.study, cell.env, cell.algorithm, cell.hps, self.framework
        place = "/".join(filter(None, names))
        word = "seed" if len(self.seeds) == 1 else "seeds"
        return f"{place}, {cell.variant}: {word} {', '.join(map(str, self.seeds))}"


def find_missing_seeds(folders: Sequence[CompletedRun | ExcludedRun]) -> tuple[MissingSeeds, ...]:
    """Find the seeds that a framework lacks although another one has them in the same setting.

    Folders without a known seed are ignored.
    """
    frameworks: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    seeds: dict[StudyCell, dict[str, set[int]]] = collections.defaultdict(
        lambda: collections.defaultdict(set)
    )
    for item in folders:
        cell = item.id.cell
        if item.id.seed is not None:
            frameworks[cell.study, cell.algorithm].add(item.id.framework)
            seeds[cell][item.id.framework].add(item.id.seed)
    missing = []
    for cell, seeds_by_framework in sorted(seeds.items()):
        every = set().union(*seeds_by_framework.values())
        for name in sorted(frameworks[cell.study, cell.algorithm]):
            lacking = tuple(sorted(every - seeds_by_framework.get(name, set())))
            if lacking:
                missing.append(MissingSeeds(cell, name, lacking, name not in seeds_by_framework))
    return tuple(missing)


def get_duration(seconds: float | None) -> float:
    """Return a recorded duration in seconds; NaN if there is none or it is below 0."""
    return math.nan if seconds is None or seconds < 0 else seconds


def hash_evaluations(run: CompletedRun) -> str:
    """Return a key that copies share; the folder if returns never vary, as on a solved task."""
    if np.ptp(run.results) == 0:
        return str(run.path)
    parts = (run.id.cell, run.timesteps.tobytes(), run.results.tobytes(), run.ep_lengths.tobytes())
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def make_loaded_run(
    run_id: RunId, folder: Path, reading: RunReading, text: str | None = None
) -> CompletedRun | ExcludedRun:
    """Return a run as it was read; `text` is its `run.json` if it was packed."""
    evaluations, record = reading.evaluations, reading.record
    if not reading.complete or evaluations is None or record is None:
        why, failed = reading.reason, reading.failed
        return ExcludedRun(run_id, folder, why, failed=failed, record=text, spec=reading.spec)
    return CompletedRun(
        run_id,
        folder,
        evaluations.timesteps,
        evaluations.results,
        evaluations.ep_lengths,
        reading.spec,
        get_duration(record.timings.seconds),
        msgspec.convert(_escape_texts(msgspec.to_builtins(record.provenance)), RunProvenance),
        _escape_texts(record.hyperparameters),
        record=text,
        evaluation_seconds=get_duration(record.timings.evaluation_seconds),
        training_cpu_seconds=get_duration(record.timings.training_cpu_seconds),
        imported=record.imported,
        interventions=frozenset(record.interventions),
        references=record.references,
        weights=record.weights_sha256 or "",
        has_foreign_checkpoint=record.has_foreign_checkpoint,
    )


def _escape_texts(value: Any) -> Any:
    """Return nested plain values whose texts have no control characters or ends of lines."""
    if isinstance(value, dict):
        return {_escape_texts(name): _escape_texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_escape_texts(item) for item in value]
    return escape_unprintable(value) if isinstance(value, str) else value
