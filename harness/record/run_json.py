"""The content of `run.json`: its fields, defaults for older records, and its checksum."""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from parallax.harness.record.labels import LIBRARY_DEFAULTS
from parallax.harness.record.layout import (
    format_implementation,
    format_script_label,
    format_task_name,
)
from parallax.harness.record.lock import Count, Seconds

SCHEMA = 3
"""Version of `run.json`.

Fields that were added later have defaults that preserve the old behaviour; `old_names` translates
fields that were renamed. Schema 3 renamed fields and values.
"""

CHECKSUM_FIELD = "checksum"
"""Entry of `run.json` with the hash of the others; a record without it is used unchecked."""

Positive = Annotated[int, Meta(ge=1, le=2**53)]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
RecipeName = Annotated[Name, Meta(pattern=rf"^(?!{LIBRARY_DEFAULTS}\Z)")]
_ENDPOINTS = r"^(final|auc|last-[1-9][0-9]{0,3}|steps-([1-9][0-9]?|100))\Z"
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
    hps: RecipeName
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
    actors: Positive = 1
    replay: dict[str, Any] = msgspec.field(default_factory=lambda: {"name": "uniform"})
    python: str | None = None
    checkpoint_every: float = 20.0
    endpoint: Annotated[str, Meta(pattern=_ENDPOINTS)] = "final"
    evaluate_untrained: bool = False

    @property
    def task_name(self) -> str:
        """Return the task's name with the run's changes of the task."""
        return format_task_name(self.env, self.env_kwargs, self.env_wrappers)

    @property
    def implementation(self) -> str:
        """Return the name by which runs are compared: the framework, with an own script's name."""
        label = format_script_label(self.script.name, self.script.sha256) if self.script else ""
        return format_implementation(self.framework, label)


VARIANT_FIELDS = (
    *("alignment", "wrappers", "n_envs", "eval_every", "eval_episodes", "evaluation_seed"),
    *("threads", "device", "intervention", "save_policy", "acceleration", "actors"),
)
"""Settings of a run that its variant names where they are not the usual ones."""
_SHORTEST_HASHED = 100  # characters of a variant that a hash may replace, also in old names


def find_other_variant(variant: str, spec: RecordedSpec, *, states_all: bool = True) -> str:
    """Return the variant that a record means if it is another one, or an empty string.

    Without `states_all` another one has a setting that the record contradicts: names of folders may
    leave settings out.
    """
    usual = {field.name: field.default for field in msgspec.structs.fields(RecordedSpec)}
    names = [name for name in VARIANT_FIELDS if getattr(spec, name) != usual[name]]
    settings = [f"{name}={getattr(spec, name)}" for name in ("steps", *names)]
    replay = spec.replay.get("name", "uniform")
    settings += [] if replay == "uniform" else [f"replay={replay}"]
    values = spec.hyperparameters
    overrides = [f"{name}={_format_value(values.get(name))}" for name in spec.overridden]
    meant = ",".join([*settings, *overrides])
    hashed = re.fullmatch(rf"steps={spec.steps},overrides=[0-9a-f]{{12}}", variant)
    if (hashed and len(meant) > _SHORTEST_HASHED) or variant == meant:
        return ""
    # Changed values of a replay strategy stand between its name and the overrides.
    start, end = ",".join(settings), ",".join(["", *overrides])
    if replay != "uniform" and variant.startswith(start) and variant.endswith(end):
        return ""
    known = {name: str(getattr(spec, name)) for name in ("steps", *VARIANT_FIELDS)}
    known |= {name: _format_value(value) for name, value in values.items()}
    stated = (part.partition("=")[::2] for part in variant.split(","))
    is_other = states_all or any(known.get(name, value) != value for name, value in stated)
    return meant if is_other else ""


def _format_value(value: Any) -> str:
    """Return a hyperparameter as variants have it."""
    if value is None:
        return "null"
    text = str(value).replace(" ", "")
    return text.lower() if isinstance(value, bool) else text


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
    parts: dict[str, dict[str, Seconds]] = {}


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
    """Identity of the adapter's code; empty in older runs, which did not record it."""

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


_PYTHON = "Python"  # in lists of versions


def collect_versions(runs: Iterable[RunProvenance]) -> dict[str, set[str]]:
    """Return the known versions of Python and of each package that runs had, by name."""
    found: dict[str, set[str]] = {}
    for run in runs:
        for name, version in ((_PYTHON, (run.python or "").split(" ")[0]), *run.packages.items()):
            if version:
                found.setdefault(name, set()).add(version)
    return found


def describe_differing_versions(
    runs: Iterable[RunProvenance], packages: Collection[str] | None = None
) -> str:
    """Return a sentence on packages of which runs have several versions; empty if none.

    Args:
        runs: Provenance of the compared runs.
        packages: The only packages to name, besides Python.
    """
    parts = [
        f"{name} {' and '.join(sorted(versions))}"
        for name, versions in sorted(collect_versions(runs).items())
        if len(versions) > 1 and (packages is None or name == _PYTHON or name in packages)
    ]
    return f"Compared runs have different versions of {', '.join(parts)}." if parts else ""


class ReferenceReturns(Struct, frozen=True):
    """Returns of a policy without training on the run's task: mean, deviation, and episodes."""

    mean: Annotated[float, Meta(ge=-1e100, le=1e100)]  # its square must be finite
    sd: Annotated[float, Meta(ge=0, le=1e100)]
    episodes: Positive


class ImportSource(Struct, frozen=True):
    """Origin of a run that another tool made.

    Attributes:
        source: File, or folder of several files.
        files: SHA-256 of each file by its name.
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
    wrapper_sources: dict[str, str] = {}
    weights_sha256: str | None = None
    saved_evaluation: Count | None = None
    final_score: float | None = None
    references: dict[str, ReferenceReturns] = {}
    failure: str | None = None
    stopped_by: str | None = None
    attempts: list[RunAttempt] = []
    resumed_from: Count | None = None
    resume_notes: list[str] = []
    has_foreign_checkpoint: bool = False
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
    """Hash everything in `run.json` except the checksum, independently of order and spacing."""
    rest = {name: value for name, value in content.items() if name != CHECKSUM_FIELD}
    return hashlib.sha256(msgspec.json.encode(rest, order="sorted")).hexdigest()


def has_valid_checksum(content: Mapping[str, Any]) -> bool:
    """Return whether a record matches its checksum, if it has one."""
    return CHECKSUM_FIELD not in content or content[CHECKSUM_FIELD] == compute_checksum(content)
