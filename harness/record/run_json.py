"""The content of `run.json`: its fields, what older records leave out, and what guards it.

Provenance (machine, code, package versions) is collected here, too.
"""

import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType
from numpy.typing import NDArray

from parallax.harness.record.layout import (
    format_implementation,
    format_script_label,
    format_task_name,
)
from parallax.harness.record.lock import Count, Seconds

SCHEMA = 3
"""Version of `run.json`.

Fields that were added later have defaults that mean "as before the field existed"; fields that were
renamed are translated by `old_names`. Schema 3 renamed fields and values.
"""

CHECKSUM_FIELD = "checksum"
"""Entry of `run.json` that guards the others; the record counts without it, unguarded."""

Positive = Annotated[int, Meta(ge=1, le=2**53)]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
RecordedValue = bool | int | float | str | list[bool | int | float | str | None] | None


class RecordedScript(Struct, frozen=True):
    """A user's own script; `harness.contract.own_script.OwnScript` explains each field."""

    name: Name
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    source: str


class RecordedSpec(Struct, frozen=True):
    """The requested run; `harness.contract.run_spec.RunSpec` explains each field."""

    study: Name
    framework: Name
    algorithm: Name
    env: Name
    hps: Name
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None  # None: imported, and not known
    steps: Positive
    hyperparameters: dict[str, RecordedValue] = {}
    overridden: list[str] = []
    alignment: str = "common"
    eval_every: Positive = 10_000
    eval_episodes: Positive = 30
    evaluation_seed: Count = 0
    env_kwargs: dict[str, Any] = {}
    env_wrappers: list[str] = []
    script: RecordedScript | None = None
    wrappers: str = "none"
    n_envs: Positive = 1
    threads: Positive = 1
    device: str = "cpu"
    intervention: str = "none"
    save_policy: str = "last"
    acceleration: str = "none"
    replay: dict[str, Any] = msgspec.field(default_factory=lambda: {"name": "uniform"})
    python: str | None = None
    checkpoint_every: float = 20.0
    endpoint: str = "final"
    evaluate_untrained: bool = False

    @property
    def task_name(self) -> str:
        """Return the task's name with what the run changes of it."""
        return format_task_name(self.env, self.env_kwargs, self.env_wrappers)

    @property
    def implementation(self) -> str:
        """Return the name by which runs are compared: the framework, with an own script's name."""
        label = format_script_label(self.script.name, self.script.sha256) if self.script else ""
        return format_implementation(self.framework, label)


class StepCounts(Struct, frozen=True):
    """Environment steps: due, requested, on the framework's own counter, and taken."""

    scheduled: Count
    requested: Count = 0
    framework: Count = 0
    taken: Count = 0


class RunTimings(Struct, frozen=True):
    """Start and end of the run in seconds since 1970, its duration, and the cost of its parts."""

    started: Seconds | None = None
    ended: Seconds | None = None
    seconds: Seconds | None = None
    evaluation_seconds: Seconds | None = None
    training_cpu_seconds: Seconds | None = None
    parts: dict[str, dict[str, float]] = {}


class RunAttempt(Struct, frozen=True):
    """Outcome of an earlier attempt."""

    status: str
    failure: str | None = None
    steps: Count = 0
    started: Seconds | None = None
    ended: Seconds | None = None
    host: str | None = None
    job: str | None = None
    stopped_by: str | None = None
    resumed_from: Count | None = None


class AdapterCode(Struct, frozen=True):
    """Identity of the adapter's code; empty in runs of before it was recorded."""

    distribution: str | None = None
    version: str | None = None
    requires: list[str] = []
    files: dict[str, str] = {}


class RunProvenance(Struct, frozen=True):
    """Provenance of the run; empty before its end."""

    packages: dict[str, str] = {}
    threads: dict[str, str] = {}
    sources: dict[str, str] = {}
    adapter: AdapterCode = AdapterCode()
    commit: dict[str, str | bool | None] = {}
    python: str | None = None
    executable: str | None = None
    platform: str | None = None
    host: str | None = None
    processor: str | None = None
    cores: int | None = None
    command: list[str] = []
    preloaded: list[str] = []


class ImportSource(Struct, frozen=True):
    """Origin of a run that another tool made.

    Attributes:
        source: File, or folder of several files.
        files: SHA-256 of each file by its name.
        format: Kind of file.
        returns: `evaluation`, `training` for episodes of the training itself, or `unknown`.
        are_means: Whether each recorded return is a mean over an unknown number of episodes.
        stated_by: `option`, `pattern` or `file` for each part of the run's name that is known.
        unknown: Parts of the name that nothing states.
    """

    source: str
    files: dict[str, str] = {}
    format: str = ""
    returns: str = "unknown"
    are_means: bool = False
    stated_by: dict[str, str] = {}
    unknown: list[str] = []


class RunRecord(Struct, frozen=True):
    """The content of `run.json`; docs/reference/run-folder.md says what each field means."""

    schema: Annotated[int, Meta(ge=1, le=SCHEMA)]
    status: Literal["pending", "running", "completed", "failed", "interrupted"]
    spec: RecordedSpec
    steps: StepCounts
    adapter: str = ""
    hyperparameters: dict[str, RecordedValue] = {}
    native: dict[str, Any] = {}
    alignment: list[dict[str, Any]] = []
    update_schedule: dict[str, Count] = {}
    interventions: dict[str, Any] = {}
    weights_sha256: str | None = None
    saved_evaluation: Count | None = None
    final_score: float | None = None
    failure: str | None = None
    stopped_by: str | None = None
    attempts: list[RunAttempt] = []
    resumed_from: Count | None = None
    resume_notes: list[str] = []
    timings: RunTimings = RunTimings()
    provenance: RunProvenance = RunProvenance()
    files: dict[str, str] = {}
    sizes: dict[str, Count] = {}
    pid: Count | None = None
    host: str | None = None
    job: str | None = None
    imported: ImportSource | None = None
    checksum: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse a run of this project without a seed."""
        if self.spec.seed is None and self.imported is None:
            raise ValueError("Expected `int`, got `null` - at `$.spec.seed`")

    @property
    def resumptions(self) -> int:
        """Return the number of attempts that resumed from a checkpoint, the last one included."""
        steps = [*(attempt.resumed_from for attempt in self.attempts), self.resumed_from]
        return sum(step is not None for step in steps)


def compute_checksum(content: Mapping[str, Any]) -> str:
    """Hash of everything in `run.json` but the checksum, whatever its order and spacing.

    Args:
        content: As it was decoded from JSON.
    """
    rest = {name: value for name, value in content.items() if name != CHECKSUM_FIELD}
    return hashlib.sha256(msgspec.json.encode(rest, order="sorted")).hexdigest()


def has_valid_checksum(content: Mapping[str, Any]) -> bool:
    """Return whether a record is as it was written, as far as it shows."""
    return CHECKSUM_FIELD not in content or content[CHECKSUM_FIELD] == compute_checksum(content)


def collect_provenance() -> dict[str, Any]:
    """Software, host, threads and command of this process."""
    return {
        "packages": list_imported_packages(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "host": platform.node(),
        "processor": read_processor_model(),
        "cores": os.cpu_count(),
        "threads": {
            name: value for name, value in sorted(os.environ.items()) if name.endswith("_THREADS")
        },
        "preloaded": list_preloaded_libraries(),
        "commit": read_project_commit(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


def list_imported_packages() -> dict[str, str]:
    """Version of every installed distribution of which a module is imported."""
    modules = {name.partition(".")[0] for name in sys.modules}
    names = {owner for module in modules for owner in _map_package_owners().get(module, [])}
    return {name: _read_version(name) for name in sorted(names, key=str.lower)}


def read_processor_model() -> str:
    """The processor's name, as far as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def list_preloaded_libraries() -> list[str]:
    """Paths of what `LD_PRELOAD` put before all other libraries, such as a memory allocator."""
    entries = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    # A file's full name goes on after the name that programs request: libx.so.4.5.10.
    names = tuple(Path(entry).resolve().name for entry in entries)
    try:
        lines = Path("/proc/self/maps").read_text().splitlines() if names else []
    except OSError:
        return []
    paths = {line.split(maxsplit=5)[5] for line in lines if "/" in line}
    return sorted(path for path in paths if Path(path).name.startswith(names))


def read_project_commit() -> dict[str, Any]:
    """This project's git commit and whether files differed from it; None outside a checkout."""
    folder = Path(__file__).parent
    try:
        commit = _run_git(folder, "rev-parse", "HEAD")
        dirty = bool(_run_git(folder, "status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}
    return {"commit": commit, "dirty": dirty}


def hash_weights(weights: Mapping[str, NDArray[Any]]) -> str:
    """Hash of all parameters, names and shapes included."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        array = np.ascontiguousarray(weights[name])
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


# Cached: they take longer than a short run, and stay as they are while a process lives.
@functools.cache
def _map_package_owners() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


@functools.cache
def _read_version(name: str) -> str:
    return importlib.metadata.version(name)


def _run_git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    return result.stdout.strip()
