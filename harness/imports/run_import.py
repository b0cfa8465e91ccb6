"""Import of runs: finds and reads their files, and writes a run folder for each run."""

import collections
import dataclasses
import functools
import hashlib
import io
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.fields import SpecError, build_dataclass, check_fields
from parallax.harness.contract.recipes import list_recipe_names, load_recipe, read_recipe
from parallax.harness.contract.run_spec import (
    RUN_DEFAULTS,
    check_new_folder_names,
    format_overrides,
    list_overridden,
)
from parallax.harness.imports.return_curves import (
    EVALUATION,
    CurveOptions,
    ReturnCurve,
    UnreadCurve,
    make_curve_from_values,
    read_monitor_files,
    read_sb3_evaluations,
)
from parallax.harness.imports.run_names import (
    FIELDS,
    ImportOptions,
    NamedCurve,
    RefusedSource,
    SourceFiles,
    name_curve,
    refuse_short_runs_and_copies,
)
from parallax.harness.imports.tables import SUFFIXES, read_table
from parallax.harness.imports.tensorboard_and_wandb import (
    MAX_FILE_BYTES,
    read_event_files,
    read_wandb_file,
)
from parallax.harness.record.files import (
    UnusableError,
    make_bytes_writer,
    make_json_writer,
    read_bounded,
    sync_folder,
    to_plain_json,
    write_atomically,
)
from parallax.harness.record.layout import (
    EVALUATIONS_FILE,
    RUN_FILE,
    RunPath,
    find_link,
    parse_seed_folder,
)
from parallax.harness.record.npz_files import RunEvaluations
from parallax.harness.record.reading import MAX_DEPTH, MAX_JSON_BYTES, measure_depth, parse_record
from parallax.harness.record.run_json import CHECKSUM_FIELD, SCHEMA, ImportSource, compute_checksum

FORMATS = {
    "evaluations": "Stable-Baselines3's evaluations.npz",
    "monitor": "Stable-Baselines3's monitor.csv",
    "tensorboard": "TensorBoard's event files",
    "wandb": "W&B's offline files",
    "table": "CSV or Parquet",
}
"""Kinds of files; if a folder has several kinds, the first is read."""
_STUDY_LEVELS = 6  # folders of a run in that of its results


@dataclasses.dataclass(frozen=True)
class ImportOutcome:
    """Outcome of an import.

    Attributes:
        imported: Folder of each run that was written, or would be in a dry run.
    """

    imported: Mapping[Path, NamedCurve]
    refused: Sequence[RefusedSource]


def find_sources(paths: Iterable[Path], chosen: str | None) -> list[SourceFiles]:
    """Find files of runs at or below paths.

    Links, hidden folders and run folders of this project are skipped.

    Args:
        paths: Files and folders.
        chosen: Look only for this format, and read files in `paths` in it; None for all.

    Raises:
        SpecError: A path does not exist, or a file's name does not say its format.
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
                f"{path}: its name does not reveal its format: add --format, one of "
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
        if RUN_FILE in names or parse_seed_folder(Path(folder).name) is not None:
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
        first, *rest = _list_sources(kinds[0], files[kinds[0]], Path(folder))
        unread = tuple(path for kind in kinds[1:] for path in files[kind])
        yield from (dataclasses.replace(first, unread=unread), *rest)


def _list_sources(kind: str, files: list[Path], folder: Path) -> Iterator[SourceFiles]:
    """Yield the sources that the files of one kind in a folder are."""
    if kind == "tensorboard":
        yield _make_source(kind, tuple(files))
        return
    # `make_vec_env` names the files of its environments 0.monitor.csv, 1.monitor.csv, ...
    copies = [path for path in files if path.name.split(".")[0].isdecimal()]
    if kind == "monitor" and copies:
        yield SourceFiles(kind, tuple(copies), folder, folder)
        files = [path for path in files if path not in copies]
    for path in files:
        yield _make_source(kind, (path,))


def _make_source(kind: str, files: tuple[Path, ...]) -> SourceFiles:
    file = files[0]
    own_names = (EVALUATIONS_FILE, "monitor.csv")
    in_own_folder = kind in ("tensorboard", "wandb") or file.name in own_names
    name = file.parent if in_own_folder else file.with_name(_strip_suffix(file.name))
    return SourceFiles(kind, files, file.parent if kind == "tensorboard" else file, name)


def _strip_suffix(name: str) -> str:
    for suffix in (".monitor.csv", ".npz", *SUFFIXES):
        name = name.removesuffix(suffix)
    return name


def read_source(source: SourceFiles, options: CurveOptions) -> list[ReturnCurve | UnreadCurve]:
    """Read the runs of one source.

    Raises:
        UnusableError: It is damaged or has other content.
    """
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
                    curves.append(name_curve(curve, source, options))
                except UnusableError as error:
                    refused.append(RefusedSource(title, str(error)))
        except (UnusableError, OSError) as error:
            refused.append(RefusedSource(str(source.place), _describe_error(error)))
        advance(source.place.name)
    usable = refuse_short_runs_and_copies(curves, refused)
    imported: dict[Path, NamedCurve] = {}
    hash_file = functools.cache(  # a table may hold thousands of runs
        lambda path: hashlib.sha256(read_bounded(path, MAX_FILE_BYTES)).hexdigest()
    )
    for run in usable:
        try:
            folder = _place_run(run, options, imported)
            write_imported_run(
                folder,
                run.curve.evaluations,
                make_imported_spec(run, options),
                run.curve.settings,
                _describe_source(run, options, hash_file),
                run.failure,
                dry_run,
            )
            imported[folder] = run
        except (UnusableError, SpecError, OSError) as error:
            refused.append(RefusedSource(run.title, _describe_error(error)))
    return ImportOutcome(imported, refused)


def _describe_error(error: Exception) -> str:
    return getattr(error, "strerror", "") or str(error)


def _place_run(run: NamedCurve, options: ImportOptions, taken: Mapping[Path, NamedCurve]) -> Path:
    """Return the folder of a run.

    Raises:
        SpecError: A name cannot name a folder, a hyperparameter cannot have its value, or a link is
            in the place of a folder.
        UnusableError: Another source has the same name.
    """
    check_new_folder_names({**run.names, "study": options.study})
    if described := ALGORITHMS.get(run.names["algorithm"]):
        check_fields(described, options.hyperparameters, "hyperparameters")
    place = RunPath(study=options.study, variant=_format_variant(run, options), **run.names)
    folder = find_imported_folder(options.results_dir, place, run.content_hash)
    if link := find_link(folder):
        raise SpecError(
            f"{link} is a link, and searches for runs do not follow links below a results folder: "
            "choose another --results-dir or --study"
        )
    if folder in taken:
        raise UnusableError(
            f"has the name of {taken[folder].title}, seed {run.names['seed']} included: say with "
            "--pattern or --columns what distinguishes them, or put them into separate studies"
        )
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


def _describe_source(
    run: NamedCurve, options: ImportOptions, hash_file: Callable[[Path], str]
) -> ImportSource:
    episodes = run.curve.evaluations.results.shape[1]
    stated = options.settings.get("eval_episodes")
    are_means = run.curve.are_means and episodes == 1
    if stated not in (None, episodes) and not are_means:
        raise UnusableError(f"has evaluations of {episodes} episodes: leave out eval_episodes")
    return ImportSource(
        source=run.title,
        files={path.name: hash_file(path) for path in run.curve.files},
        format=run.format,
        returns=run.curve.kind,
        are_means=are_means and stated is None,
        stated_by=dict(run.stated_by),
        unknown=[name for name in (*FIELDS, "steps") if name not in run.stated_by],
    )


def find_imported_folder(results_dir: Path, place: RunPath, content_hash: str) -> Path:
    """Return the folder of a run; one without a known seed is named after its evaluations."""
    folder = place.to_folder(results_dir)
    return folder if place.seed is not None else folder.with_name(f"unknown-{content_hash[:12]}")


def write_imported_run(
    folder: Path,
    evaluations: RunEvaluations,
    spec: Mapping[str, Any],
    settings: Mapping[str, Any],
    source: ImportSource,
    failure: str = "",
    dry_run: bool = False,
) -> None:
    """Write a run folder under a temporary name, then rename it.

    Args:
        folder: The run folder; nothing may be there.
        evaluations: Its evaluations.
        spec: What is known of its settings.
        settings: Its settings under the other tool's names.
        source: Its origin.
        failure: Reason that its training failed; empty where it did not.
        dry_run: Only check that it can be written.

    Raises:
        UnusableError: A run already exists there.
        OSError: The folder cannot be written.
    """
    exists = UnusableError(f"{folder} already exists, and no run is overwritten")
    if folder.exists():
        raise exists
    file = io.BytesIO()
    np.savez(file, **vars(evaluations))
    raw = file.getvalue()
    record = _encode_record(_make_record(evaluations, spec, settings, source, failure, raw))
    try:
        parse_record(record)
    except UnusableError as error:  # such as n_envs=0
        raise UnusableError(str(error).removeprefix(f"corrupted {RUN_FILE}: ")) from error
    if dry_run:
        return
    # Searches for runs skip hidden folders, so that nobody reads it before it is complete.
    temporary = folder.parents[_STUDY_LEVELS] / f".import-{secrets.token_hex(8)}"
    temporary.mkdir(parents=True)
    try:
        write_atomically(temporary / EVALUATIONS_FILE, make_bytes_writer(raw))
        write_atomically(temporary / RUN_FILE, make_bytes_writer(record))
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary.rename(folder)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError) and folder.exists():  # another process was faster
            raise exists from error
        raise
    sync_folder(folder.parent)


def _encode_record(content: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    make_json_writer(content)(file)
    if file.tell() > MAX_JSON_BYTES:
        raise UnusableError(
            f"its settings are too large: {file.tell():,} bytes; {MAX_JSON_BYTES:,} are allowed"
        )
    return file.getvalue()


def _make_record(
    evaluations: RunEvaluations,
    spec: Mapping[str, Any],
    settings: Mapping[str, Any],
    source: ImportSource,
    failure: str,
    raw: bytes,
) -> dict[str, Any]:
    if measure_depth(settings) >= MAX_DEPTH:
        raise UnusableError("its settings are nested too deeply")
    last = int(evaluations.timesteps[-1])
    end = spec["steps"] if failure else last
    content = {
        "schema": SCHEMA,
        "status": "failed" if failure else "completed",
        "spec": dict(spec),
        "steps": {"requested": spec["steps"], "scheduled": end, "framework": last, "taken": last},
        "hyperparameters": spec.get("hyperparameters", {}),
        "native": dict(settings),
        "final_score": None if failure else float(evaluations.results[-1].mean()),
        "failure": failure or None,
        "imported": msgspec.to_builtins(source),
        "files": {EVALUATIONS_FILE: hashlib.sha256(raw).hexdigest()},
        "sizes": {EVALUATIONS_FILE: len(raw)},
    }
    # Encoded and decoded first: the hash must be of the values that a reader will see.
    decoded = msgspec.json.decode(msgspec.json.encode(to_plain_json(content)), type=dict[str, Any])
    return {**decoded, CHECKSUM_FIELD: compute_checksum(decoded)}
