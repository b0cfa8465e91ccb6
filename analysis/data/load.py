"""Load runs for the analysis: used runs, and excluded folders with the reason."""

import collections
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parallax.analysis.data.runs import (
    CompletedRun,
    ExcludedRun,
    LoadedRuns,
    RunCollection,
    RunId,
    StudyCell,
    hash_evaluations,
    make_loaded_run,
)
from parallax.analysis.data.settings import (
    RequestedSettings,
    find_differing_values,
    get_requested_hyperparameters,
    get_requested_settings,
    setting_to_text,
)
from parallax.harness.record.files import escape_unprintable
from parallax.harness.record.layout import RunPath, find_runs
from parallax.harness.record.reading import read_run

_COMPARED_PREFIXES = ("alignment=", "intervention=", "replay")  # in variants
_MAX_NAMED_SETTINGS, _MAX_LISTED_SETTINGS = 3, 20  # in a variant, and in a sentence
_MAX_BYTES = 3 * 2**27  # of evaluations; the thesis' 1,440 runs of 3,000,000 steps take 2**28


def separate_conflicting_runs(
    runs: Sequence[CompletedRun],
) -> tuple[tuple[CompletedRun, ...], tuple[str, ...]]:
    """Assign separate variants to runs that have the same path but different settings.

    Settings must agree over a study and variant, hyperparameters over a task, algorithm and set
    of hyperparameters, whatever the level, intervention and replay strategy: these are compared.

    Returns:
        The runs in the same order, and a sentence for each place with conflicting settings.
    """
    runs, first = _separate_by_settings(
        runs, get_requested_settings, lambda cell: (cell.study, cell.variant)
    )
    runs, second = _separate_by_settings(
        runs, get_requested_hyperparameters, _remove_compared_settings
    )
    return tuple(runs), (*first, *second)


def _remove_compared_settings(cell: StudyCell) -> StudyCell:
    parts = cell.variant.split(",")
    variant = ",".join(part for part in parts if not part.startswith(_COMPARED_PREFIXES))
    return dataclasses.replace(cell, variant=variant)


def _separate_by_settings(
    runs: Sequence[CompletedRun],
    get_settings: Callable[[CompletedRun], RequestedSettings],
    get_place: Callable[[StudyCell], Any],
) -> tuple[list[CompletedRun], list[str]]:
    """Separate runs with different settings; `get_place` returns where they must agree."""
    places: dict[Any, list[int]] = collections.defaultdict(list)
    for i, run in enumerate(runs):
        places[get_place(run.id.cell)].append(i)
    separated, sentences = list(runs), []
    for where in sorted(places):
        members = places[where]
        values = [get_settings(runs[i]) for i in members]
        names = find_differing_values(values)
        if not names:
            continue
        for i, found in zip(members, values, strict=True):
            separated[i] = _add_settings_to_variant(runs[i], found, names)
        sentences.append(
            _describe_conflict(
                runs[members[0]].id.cell, values, names, of_cell=isinstance(where, StudyCell)
            )
        )
    return separated, sentences


def _add_settings_to_variant(
    run: CompletedRun, settings: RequestedSettings, names: Sequence[str]
) -> CompletedRun:
    parts = [f"{name}={settings.get(name, 'unknown')}" for name in names]
    if len(parts) > _MAX_NAMED_SETTINGS:
        parts = [f"settings={hashlib.sha256(','.join(parts).encode()).hexdigest()[:8]}"]
    cell = run.id.cell
    own = [part for part in parts if part not in cell.variant.split(",")]
    variant = ",".join([part for part in (cell.variant, *own) if part])
    place = dataclasses.replace(run.id, cell=dataclasses.replace(cell, variant=variant))
    return dataclasses.replace(run, id=place, has_conflicting_settings=True)


def _describe_conflict(
    cell: StudyCell, values: Sequence[RequestedSettings], names: Sequence[str], *, of_cell: bool
) -> str:
    """Describe different settings of the runs of a cell, or of its whole study and variant."""
    parts = []
    for name in names[:_MAX_LISTED_SETTINGS]:
        counts = collections.Counter(item.get(name, "unknown") for item in values)
        shown = ", ".join(f"{value} ({count})" for value, count in sorted(counts.items()))
        parts.append(f"{name} {shown}")
    if len(names) > len(parts):
        parts.append(f"{len(names) - len(parts)} more")
    place = (cell.study, cell.env, cell.algorithm, cell.hps) if of_cell else (cell.study,)
    where = "/".join(place) + (f", {cell.variant}" if cell.variant else "")
    return (
        f"{where}: runs of one name have different settings and are judged separately: "
        f"{'; '.join(parts)} (runs in brackets)"
    )


def load_runs(root: Path) -> LoadedRuns:
    """Load every run under `root` and resolve conflicts and copies.

    Args:
        root: A results folder, a study, anything deeper, one run folder, or a file of packed runs.

    Returns:
        Runs and excluded folders. A damaged folder is excluded and does not raise.

    Raises:
        UnusableError: A file of packed runs is damaged.
    """
    return combine_runs(read_runs(root))


def read_runs(root: Path) -> RunCollection:
    """Read every run under `root`, each by itself.

    Raises:
        UnusableError: A file of packed runs is damaged.
    """
    root = root.resolve()
    if not root.is_file():
        return _read_folders(root)
    from parallax.analysis.data.packed import read_packed  # pyarrow takes half a second to load

    return read_packed(root)


def _read_folders(root: Path) -> RunCollection:
    found = find_runs(root)
    runs: list[CompletedRun] = []
    excluded: list[ExcludedRun] = []
    size = 0
    reason = f"evaluations take more than {_MAX_BYTES:,} bytes together: read fewer runs"
    for folder in found.runs:
        item = load_run(folder)
        if isinstance(item, ExcludedRun):
            excluded.append(item)
            continue
        size += item.results.nbytes + item.ep_lengths.nbytes
        if size > _MAX_BYTES:
            excluded.append(ExcludedRun(item.id, folder, reason, completed=True))
        else:
            runs.append(item)
    return RunCollection(root, tuple(runs), tuple(excluded), found.links, found.foreign)


def combine_runs(found: RunCollection) -> LoadedRuns:
    """Name levels, separate runs with conflicting settings, and exclude second copies of a run."""
    levels: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    for one in found.folders:
        if one.spec:
            level = setting_to_text(str(one.spec.get("alignment", "")))
            levels[one.id.cell.study, one.id.cell.variant].add(level)
    runs = [dataclasses.replace(run, id=_name_level(run.id, levels)) for run in found.runs]
    others = [dataclasses.replace(one, id=_name_level(one.id, levels)) for one in found.excluded]
    separated, sentences = separate_conflicting_runs(runs)
    used, copies = _remove_copies(separated, found.root)
    conflicts = (*sentences, *_describe_equal_runs(used), *_describe_foreign_checkpoints(used))
    return LoadedRuns(found.root, used, (*others, *copies), found.links, conflicts)


def _describe_equal_runs(runs: Sequence[CompletedRun]) -> Iterator[str]:
    """Yield which runs of a framework have the same evaluations or weights under several seeds.

    Two frameworks can have them under one seed, since it decides where episodes start. Equal
    weights have other evaluations under another seed.
    """
    evaluations: dict[tuple[StudyCell, str, str], list[CompletedRun]]
    evaluations, weights = collections.defaultdict(list), collections.defaultdict(list)
    for run in runs:
        evaluations[run.id.cell, run.id.framework, hash_evaluations(run)].append(run)
        if run.weights:
            weights[run.id.cell, run.id.framework, run.weights].append(run)
    named: list[list[CompletedRun]] = []
    for what, found in (("evaluations", evaluations), ("weights", weights)):
        for (cell, framework, _), members in found.items():
            if len(members) < 2 or members in named:
                continue
            named.append(members)
            seeds = ", ".join(f"seed={run.id.seed}" for run in members)
            end = "" if what == "evaluations" else ", or training may ignore the seed"
            place = _format_place(cell)
            yield f"{place}: {seeds} of {framework} have equal {what}; one may be a copy{end}"


def _describe_foreign_checkpoints(runs: Sequence[CompletedRun]) -> Iterator[str]:
    """Yield which runs of a setting continue a checkpoint that another user may have changed."""
    found: dict[tuple[StudyCell, str], list[CompletedRun]] = collections.defaultdict(list)
    for run in runs:
        if run.has_foreign_checkpoint:
            found[run.id.cell, run.id.framework].append(run)
    for (cell, framework), members in found.items():
        seeds = ", ".join(f"seed={run.id.seed}" for run in members)
        yield (
            f"{_format_place(cell)}: {seeds} of {framework} resumed from a checkpoint that was not "
            "written with the user's own key; its author may have changed it"
        )


def _format_place(cell: StudyCell) -> str:
    return "/".join((cell.study, cell.env, cell.algorithm, cell.hps, cell.variant))


def _name_level(run_id: RunId, levels: Mapping[tuple[str, str], set[str]]) -> RunId:
    """Return an identity whose variant has the level, which the path may omit or hash."""
    cell = run_id.cell
    known = levels.get((cell.study, cell.variant), set())
    if len(known) != 1 or "" in known or "alignment=" in cell.variant:
        return run_id
    steps, *rest = cell.variant.split(",", 1)
    variant = ",".join((steps, f"alignment={min(known)}", *rest))
    return dataclasses.replace(run_id, cell=dataclasses.replace(cell, variant=variant))


def _remove_copies(
    runs: Sequence[CompletedRun], root: Path
) -> tuple[tuple[CompletedRun, ...], list[ExcludedRun]]:
    """Return every run once, and the excluded copies."""
    known: dict[tuple[RunId, str], CompletedRun] = {}
    copies = []
    for run in runs:
        # Runs of other tools may have no seed; those with the same evaluations are copies.
        content = hash_evaluations(run) if run.id.seed is None else ""
        first = known.setdefault((run.id, content), run)
        if first is not run and run.provenance is not None:
            place = escape_unprintable(str(first.path.relative_to(root)))
            same = np.array_equal(run.results, first.results)
            reason = f"same run as {place}, which is used{'' if same else ', with other returns'}"
            copies.append(ExcludedRun(run.id, run.path, reason, completed=True))
    copied = {item.path for item in copies}
    return tuple(run for run in runs if run.path not in copied), copies


def load_run(folder: Path) -> CompletedRun | ExcludedRun:
    """Load one run folder.

    Returns:
        The run if it is complete, otherwise an excluded run with the reason.
    """
    reading = read_run(folder, with_evaluations=True)
    return make_loaded_run(_run_id_from_place(reading.place), folder, reading)


def _run_id_from_place(place: RunPath) -> RunId:
    # Folder names may contain control characters, which no page, figure or terminal can show.
    names = (place.study, place.env, place.algorithm, place.hps, place.variant)
    return RunId(
        StudyCell(*map(escape_unprintable, names)), escape_unprintable(place.framework), place.seed
    )
