"""Import of runs: finds, reads and names their files, compares the runs, and writes them."""

import collections
import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parallax.harness.contract.adapter import find_adapter_entry_points
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.fields import SpecError, build_dataclass
from parallax.harness.contract.recipes import list_recipe_names, load_recipe, read_recipe
from parallax.harness.contract.run_spec import (
    RUN_DEFAULTS,
    check_folder_names,
    format_overrides,
    list_overridden,
)
from parallax.harness.imports.path_pattern import FIELDS, PathPattern
from parallax.harness.imports.return_curves import (
    EVALUATION,
    CurveOptions,
    ReturnCurve,
    UnreadCurve,
    make_curve_from_values,
    read_monitor_files,
    read_sb3_evaluations,
)
from parallax.harness.imports.tables import SUFFIXES, read_table
from parallax.harness.imports.tensorboard_and_wandb import (
    MAX_FILE_BYTES,
    read_event_files,
    read_wandb_file,
)
from parallax.harness.record.completeness import describe_nonfinite
from parallax.harness.record.files import UnusableError, read_bounded
from parallax.harness.record.imported import (
    find_imported_folder,
    hash_evaluations,
    write_imported_run,
)
from parallax.harness.record.layout import EVALUATIONS_FILE, RUN_FILE, RunPath, parse_seed
from parallax.harness.record.npz_files import RunEvaluations
from parallax.harness.record.run_json import ImportSource

UNKNOWN_NAME = "unknown"
"""Name for parts that nothing states."""

FORMATS = {
    "evaluations": "Stable-Baselines3's evaluations.npz",
    "monitor": "Stable-Baselines3's monitor.csv",
    "tensorboard": "TensorBoard's event files",
    "wandb": "W&B's offline files",
    "table": "CSV or Parquet",
}
"""Kinds of files; if a folder has several kinds, the first is read."""

_MAX_SEED = 2**32 - 1


@dataclasses.dataclass(frozen=True)
class SourceFiles:
    """Files of one run, or of the runs of one table.

    Attributes:
        format: A key of `FORMATS`.
        place: File, or folder of several files.
        name: Path that a pattern is matched with.
    """

    format: str
    files: tuple[Path, ...]
    place: Path
    name: Path


@dataclasses.dataclass(frozen=True)
class ImportOptions:
    """Options of an import.

    Attributes:
        stated: Parts of the name of every run.
        pattern: Pattern of paths; None if nothing is read from paths.
        settings: Settings of every run, such as `alignment` or `n_envs`.
        hyperparameters: Unified hyperparameters of every run.
    """

    results_dir: Path
    study: str
    stated: Mapping[str, Any]
    pattern: PathPattern | None
    settings: Mapping[str, Any]
    hyperparameters: Mapping[str, Any]
    curves: CurveOptions


@dataclasses.dataclass(frozen=True, eq=False)
class NamedCurve:
    """A learning curve with the name of its run.

    Attributes:
        curve: The curve from the file, cut at the run's length.
        format: A key of `FORMATS`.
        names: Framework, algorithm, env, hps and seed; `unknown`, and None for the seed, where
            nothing states one.
        stated_by: `option`, `pattern` or `file` for each that is stated.
        steps: Length of the run; None where nothing states it.
    """

    curve: ReturnCurve
    format: str
    names: Mapping[str, Any]
    stated_by: Mapping[str, str]
    steps: int | None

    @property
    def title(self) -> str:
        """Name of its source for people."""
        part = f", {self.curve.part}" if self.curve.part else ""
        return f"{self.curve.source}{part}"

    @property
    def content_hash(self) -> str:
        """Hash of the returns, equal for copies; includes the source if they never vary.

        The returns of a solved task may be equal in different runs.
        """
        content = hash_evaluations(self.curve.evaluations)
        if np.ptp(self.curve.evaluations.results) > 0:
            return content
        return hashlib.sha256(f"{content} {self.title}".encode()).hexdigest()

    @property
    def failure(self) -> str:
        """Reason that the training counts as failed (a return is not finite), or an empty string.

        The run is imported, since a diverged run must not vanish from its framework's mean.
        """
        return describe_nonfinite(self.curve.evaluations)

    @property
    def last_step(self) -> int:
        """Step of the last evaluation."""
        return int(self.curve.evaluations.timesteps[-1])

    @property
    def interval(self) -> int:
        """Steps between the last two evaluations."""
        steps = self.curve.evaluations.timesteps
        return int(steps[-1] - steps[-2]) if len(steps) > 1 else int(steps[-1])


@dataclasses.dataclass(frozen=True)
class RefusedSource:
    """A run that is not imported."""

    title: str
    reason: str


@dataclasses.dataclass(frozen=True)
class ImportOutcome:
    """Outcome of an import.

    Attributes:
        imported: Folder of each run that was written, or would be in a dry run.
    """

    imported: Mapping[Path, NamedCurve]
    refused: Sequence[RefusedSource]


def find_sources(paths: Iterable[Path], chosen: str | None) -> list[SourceFiles]:
    """Find files of runs at or below paths; a `chosen` format is read from any file in `paths`.

    Links, hidden folders and run folders of this project are skipped.
    """
    found: list[SourceFiles] = []
    for path in paths:
        if path.is_dir():
            found += _find_sources_below(path.absolute(), chosen)
            continue
        if not path.exists():
            raise SpecError(f"{path}: no such file or folder.")
        name = chosen or guess_format(path.name)
        if name is None and path.suffix in (".yml", ".yaml"):
            raise SpecError(
                f"{path} holds no runs. A recipe of RL Baselines3 Zoo: parallax new recipe {path} "
                "--algorithms ALGORITHM --env TASK --name NAME --output FOLDER."
            )
        if name is None:
            raise SpecError(
                f"{path}: its name does not say what it is: add --format, one of "
                f"{', '.join(FORMATS)}."
            )
        found.append(_make_source(name, (path.absolute(),)))
    return found


def guess_format(name: str) -> str | None:
    """Return the format that a file's name implies."""
    if name == EVALUATIONS_FILE:
        return "evaluations"
    if name == "monitor.csv" or name.endswith(".monitor.csv"):
        return "monitor"
    if "tfevents" in name:
        return "tensorboard"
    if name.endswith(".wandb"):
        return "wandb"
    return "table" if name.endswith(SUFFIXES) else None


def _find_sources_below(root: Path, chosen: str | None) -> Iterator[SourceFiles]:
    for folder, folders, names in os.walk(root):
        if RUN_FILE in names or parse_seed(Path(folder).name) is not None:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files: dict[str, list[Path]] = collections.defaultdict(list)
        for name in sorted(names):
            path = Path(folder, name)
            if (kind := guess_format(name)) and not path.is_symlink():
                files[kind].append(path)
        kinds = [kind for kind in FORMATS if files.get(kind) and chosen in (None, kind)]
        if not kinds:
            continue
        kind = kinds[0]
        if kind == "tensorboard":
            yield _make_source(kind, tuple(files[kind]))
            continue
        # `make_vec_env` names the files of its environments 0.monitor.csv, 1.monitor.csv, ...
        copies = [path for path in files[kind] if path.name.split(".")[0].isdecimal()]
        if kind == "monitor" and copies:
            yield SourceFiles(kind, tuple(copies), Path(folder), Path(folder))
            files[kind] = [path for path in files[kind] if path not in copies]
        for path in files[kind]:
            yield _make_source(kind, (path,))


def _make_source(kind: str, files: tuple[Path, ...]) -> SourceFiles:
    file = files[0]
    in_own_folder = kind in ("tensorboard", "wandb") or file.name in (
        EVALUATIONS_FILE,
        "monitor.csv",
    )
    name = file.parent if in_own_folder else file.with_name(_strip_suffix(file.name))
    return SourceFiles(kind, files, file.parent if kind == "tensorboard" else file, name)


def _strip_suffix(name: str) -> str:
    for suffix in (".monitor.csv", ".npz", *SUFFIXES):
        name = name.removesuffix(suffix)
    return name


def read_source(source: SourceFiles, options: CurveOptions) -> list[ReturnCurve | UnreadCurve]:
    """Read the runs of one source."""
    if source.format == "evaluations":
        return [read_sb3_evaluations(source.files[0], options)]
    if source.format == "monitor":
        return [read_monitor_files(source.files, source.place, options)]
    if source.format == "table":
        return list(read_table(source.files[0], options))
    if source.format == "tensorboard":
        values = read_event_files(source.files)
    else:
        values = read_wandb_file(source.files[0], options.columns.get("step"))
    return [make_curve_from_values(values, source.place, source.files, options)]


def import_runs(
    sources: Sequence[SourceFiles],
    options: ImportOptions,
    *,
    dry_run: bool,
    advance: Callable[[str], None],
) -> ImportOutcome:
    """Read all sources and write a run folder for each run that can be used."""
    curves: list[NamedCurve] = []
    refused: list[RefusedSource] = []
    for source in sources:
        try:
            for curve in read_source(source, options.curves):
                title = f"{source.place}, {curve.part}" if curve.part else str(source.place)
                if isinstance(curve, UnreadCurve):
                    refused.append(RefusedSource(title, curve.reason))
                    continue
                try:
                    curves.append(_name_curve(curve, source, options))
                except UnusableError as error:
                    refused.append(RefusedSource(title, str(error)))
        except (UnusableError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            refused.append(RefusedSource(str(source.place), reason or str(error)))
        advance(source.place.name)
    usable = _refuse_short_runs_and_copies(curves, refused)
    imported: dict[Path, NamedCurve] = {}
    hashes = _FileHashes()
    for run in usable:
        try:
            folder = _place_run(run, options, imported)
            if not dry_run:
                _write_run(run, folder, options, hashes)
            imported[folder] = run
        except (UnusableError, SpecError) as error:
            refused.append(RefusedSource(run.title, str(error)))
    return ImportOutcome(imported, refused)


def _name_curve(curve: ReturnCurve, source: SourceFiles, options: ImportOptions) -> NamedCurve:
    """Name a run by options, pattern and file, which must agree."""
    found = options.pattern.match_path(source.name) if options.pattern else {}
    steps = {} if options.curves.steps is None else {"steps": options.curves.steps}
    origins = {"option": {**options.stated, **steps}, "pattern": found, "file": curve.facts}
    names: dict[str, Any] = {}
    stated_by: dict[str, str] = {}
    for field in (*FIELDS, "steps"):
        for origin, facts in origins.items():
            if field not in facts:
                continue
            if field == "steps" and field in names:
                continue  # an option may cut a run short
            if field in names and facts[field] != names[field]:
                raise UnusableError(
                    f"the {stated_by[field]} says {field}={names[field]} and the {origin} "
                    f"{field}={facts[field]}: leave one of them out"
                )
            names.setdefault(field, facts[field])
            stated_by.setdefault(field, origin)
    seed = names.get("seed")
    if seed is not None and not (
        isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed <= _MAX_SEED
    ):
        raise UnusableError(f"seed={seed!r} must be a whole number from 0 to {_MAX_SEED}")
    length = names.pop("steps", None)
    full = {field: names.get(field, UNKNOWN_NAME) for field in FIELDS} | {"seed": seed}
    # Stable-Baselines3 logs PPO into folders PPO_1; runs trained here have the algorithm ppo.
    for field, known in (("algorithm", ALGORITHMS), ("framework", find_adapter_entry_points())):
        lower = full[field].lower()
        full[field] = lower if lower in known else full[field]
    cut = dataclasses.replace(curve, evaluations=_cut_evaluations(curve.evaluations, length))
    run = NamedCurve(cut, source.format, full, stated_by, length)
    if length and not run.failure and run.last_step + run.interval <= length:
        raise UnusableError(f"too short: last evaluation at step {run.last_step:,} of {length:,}")
    return run


def _cut_evaluations(evaluations: RunEvaluations, steps: int | None) -> RunEvaluations:
    if steps is None or evaluations.timesteps[-1] <= steps:
        return evaluations
    count = int(np.searchsorted(evaluations.timesteps, steps, side="right"))
    if not count:
        raise UnusableError(
            f"its first evaluation is at step {evaluations.timesteps[0]:,}, after {steps:,} steps"
        )
    return RunEvaluations(
        evaluations.timesteps[:count], evaluations.results[:count], evaluations.ep_lengths[:count]
    )


def _refuse_short_runs_and_copies(
    curves: Sequence[NamedCurve], refused: list[RefusedSource]
) -> list[NamedCurve]:
    """Return the runs that are neither copies nor shorter than others of their task.

    If nothing states a run's length, the longest run of the same task and algorithm determines it.
    A run that diverged may be shorter.
    """
    ends: dict[tuple[Any, ...], int] = collections.defaultdict(int)
    for run in curves:
        key = (run.names["env"], run.names["algorithm"], run.curve.kind)
        ends[key] = max(ends[key], run.last_step)
    seen: dict[str, NamedCurve] = {}
    usable = []
    for run in curves:
        end = ends[run.names["env"], run.names["algorithm"], run.curve.kind]
        content = run.content_hash
        if content in seen:
            reason = f"same returns as {seen[content].title}, which is imported"
        elif run.failure:
            seen[content] = run
            usable.append(dataclasses.replace(run, steps=run.steps or end))
            continue
        elif (
            run.steps is None
            and run.names["env"] != UNKNOWN_NAME  # other tasks may well be shorter
            and run.last_step + run.interval <= end
        ):
            reason = (
                f"too short: last evaluation at step {run.last_step:,}; another run reached "
                f"{end:,}. --steps {run.last_step} cuts all runs to this length"
            )
        else:
            seen[content] = run
            usable.append(run)
            continue
        refused.append(RefusedSource(run.title, reason))
    return usable


def _place_run(run: NamedCurve, options: ImportOptions, taken: Mapping[Path, NamedCurve]) -> Path:
    """Return the folder of a run, which must be new."""
    check_folder_names({**run.names, "study": options.study})
    place = RunPath(study=options.study, variant=_format_variant(run, options), **run.names)
    folder = find_imported_folder(options.results_dir, place, run.content_hash)
    if folder in taken:
        raise UnusableError(
            f"has the name of {taken[folder].title}, seed {run.names['seed']} included: say with "
            "--pattern or --columns what tells them apart, or put them into studies of their own"
        )
    if folder.exists():
        raise UnusableError(f"{folder} is there already, and no run is overwritten")
    return folder


def make_imported_spec(run: NamedCurve, options: ImportOptions) -> dict[str, Any]:
    """Return the known settings of a run; unknown ones are left out."""
    curve = run.curve
    known: dict[str, Any] = {}
    gaps = np.unique(np.diff(curve.evaluations.timesteps))
    if len(gaps) == 1 and curve.evaluations.timesteps[0] in (0, gaps[0]):
        known["eval_every"] = int(gaps[0])
    if not curve.are_means or curve.evaluations.results.shape[1] > 1:
        known["eval_episodes"] = curve.evaluations.results.shape[1]
    hyperparameters = (
        {"hyperparameters": dict(options.hyperparameters)} if options.hyperparameters else {}
    )
    return {
        "study": options.study,
        **run.names,
        "steps": run.steps or run.last_step,
        **known,
        **options.settings,
        **hyperparameters,
        "returns": curve.kind,
    }


def _format_variant(run: NamedCurve, options: ImportOptions) -> str:
    """Return the variant that a run of this project with these settings has.

    Returns of training episodes, or of unknown origin, never share a variant with evaluations.
    """
    spec = make_imported_spec(run, options)
    parts = [f"steps={spec['steps']}"]
    parts += [
        f"{name}={spec[name]}"
        for name, default in RUN_DEFAULTS.items()
        if spec.get(name, default) != default
    ]
    algorithm, hps = run.names["algorithm"], run.names["hps"]
    if options.hyperparameters and algorithm in ALGORITHMS and hps in list_recipe_names(algorithm):
        values = {**read_recipe(algorithm, hps), **options.hyperparameters}
        requested: Hyperparameters = build_dataclass(
            ALGORITHMS[algorithm], values, "hyperparameters"
        )
        overridden = list_overridden(requested, load_recipe(algorithm, hps))
        parts += format_overrides(requested, overridden)
    parts += [] if run.curve.kind == EVALUATION else [f"returns={run.curve.kind}"]
    return ",".join(parts)


class _FileHashes(dict[Path, str]):
    """SHA-256 by file, computed once: a table may hold thousands of runs."""

    def __missing__(self, path: Path) -> str:
        self[path] = hashlib.sha256(read_bounded(path, MAX_FILE_BYTES)).hexdigest()
        return self[path]


def _write_run(
    run: NamedCurve, folder: Path, options: ImportOptions, hashes: Mapping[Path, str]
) -> None:
    files = {path.name: hashes[path] for path in run.curve.files}
    single = run.curve.evaluations.results.shape[1] == 1
    source = ImportSource(
        source=run.title,
        files=files,
        format=run.format,
        returns=run.curve.kind,
        are_means=run.curve.are_means and single and "eval_episodes" not in options.settings,
        stated_by=dict(run.stated_by),
        unknown=[name for name in (*FIELDS, "steps") if name not in run.stated_by],
    )
    spec = make_imported_spec(run, options)
    write_imported_run(folder, run.curve.evaluations, spec, run.curve.settings, source, run.failure)
