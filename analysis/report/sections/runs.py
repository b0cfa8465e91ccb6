"""Counts of runs requested, completed and used, their provenance and diagnosis."""

import collections
import dataclasses
import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from parallax.analysis.data.diagnosis import CheckSummary, DiagnosisSummary
from parallax.analysis.data.runs import CompletedRun, ExcludedRun, LoadedRuns, StudyCell
from parallax.analysis.data.settings import REPORTED_PACKAGES
from parallax.analysis.data.study_grid import StudyGrid, requested_run_from_folder
from parallax.analysis.figures.figure_spec import MissingFigure
from parallax.analysis.labels import (
    LIBRARY_DEFAULTS,
    MISSING,
    find_common_parts,
    format_count,
    format_ranges,
    get_label,
    get_recipe_order,
    group_items,
    shorten_run_path,
    sort_recipes,
    split_variant,
)
from parallax.analysis.report import tables
from parallax.analysis.report.document import Block, Code, Grid, Link, Listing, Strong, Words
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.study import StudyVerdicts
from parallax.harness.record import run_json

_PART_HEADS = (
    *("study", "algorithm", "variant", "requested", "completed", "used", "seeds", "frameworks"),
    *("hyperparameters", "tasks", "evaluations (episodes)", "alignment"),
)


def make_study_grid(loaded: LoadedRuns) -> Grid:
    """Return the algorithms and variants of the studies, with their numbers of runs."""
    found = group_items(loaded.folders, lambda item: item.id.cell.variant_key)
    rows = tuple(_make_study_row(*key, found[key]) for key in sorted(found))
    return Grid(_PART_HEADS, rows, numeric=(3, 4, 5))


def _make_study_row(
    study: str, algorithm: str, variant: str, items: list[CompletedRun | ExcludedRun]
) -> tuple[str, ...]:
    runs = [item for item in items if isinstance(item, CompletedRun)]
    shapes = sorted({run.results.shape for run in runs})
    seeds = sorted({item.id.seed for item in items if item.id.seed is not None})
    completed = sum(isinstance(item, CompletedRun) or item.completed for item in items)
    return (
        study,
        get_label(algorithm),
        variant.replace(",", ", ") or MISSING,
        *(f"{count:,}" for count in (len(items), completed, len(runs))),
        format_ranges(seeds),
        ", ".join(get_label(name) for name in sorted({item.id.framework for item in items})),
        ", ".join(sort_recipes([item.id.cell.hps for item in items])),
        ", ".join(sorted({item.id.cell.env for item in items})),
        ", ".join(f"{count} ({episodes})" for count, episodes in shapes) or MISSING,
        ", ".join(sorted({str(run.spec.get("alignment", "unknown")) for run in runs})) or MISSING,
    )


def count_exclusion_reasons(loaded: LoadedRuns) -> tuple[tuple[str, int], ...]:
    """Return the kinds of reasons why folders are not used, the most frequent first."""
    kinds = collections.Counter(item.reason.partition(":")[0] for item in loaded.excluded)
    return tuple(sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0])))


def describe_missing_runs(
    loaded: LoadedRuns, missing_figures: Sequence[MissingFigure]
) -> tuple[Block, ...]:
    """Return runs that are not used, compared or drawn, with reasons, and seeds without a run."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in count_exclusion_reasons(loaded))
    unused: Block = "Every run folder found is used."
    if kinds:
        folders = format_count(len(loaded.excluded), "run folder")
        link = Link("Each with its reason", "#runs", "problems")
        unused = (f"Not used: {folders}: {kinds}. ", link, ".")
    blocks: list[Block] = [unused]
    if loaded.conflicts:
        conflicts = tuple(f"{text}." for text in loaded.conflicts)
        blocks.append(Listing(conflicts, "Runs that may not be comparable or independent"))
    absent = tuple(map(str, loaded.missing_seeds))
    if absent:
        lead = "Without a folder, though another framework has the seed"
        blocks.append(Listing(absent, summary=f"{lead}: {format_count(len(absent), 'setting')}"))
    else:
        blocks.append("No framework lacks a seed that another one has in the same setting.")
    if missing_figures:
        figures = tuple(f"{item.name}: {item.reason}." for item in missing_figures)
        summary = f"Not drawn: {format_count(len(figures), 'figure')}"
        blocks.append(Listing(figures, summary=summary))
    return tuple(blocks)


_MACHINE_FACTS = ("Python", "processor", "host", "platform", "commit")


@dataclasses.dataclass(frozen=True)
class ProvenanceSummary:
    """A summary over runs.

    Runs without any record can be those of other projects.

    Attributes:
        rows: What is recorded (a package, Python, processor, ...), its value, and how many runs.
        hours: Sum of the runs' core-hours: durations times threads.
    """

    rows: tuple[tuple[str, str, int], ...]
    hours: float
    n_timed: int
    n_without_record: int


def summarize_provenance(runs: Sequence[CompletedRun]) -> ProvenanceSummary:
    """Return the recorded provenance of runs, with the number of runs that record none."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    without_record = 0
    for run in runs:
        facts = _list_facts(run.provenance, run.id.framework) if run.provenance else []
        without_record += not facts
        counts.update(facts)
    timed = [run for run in runs if not math.isnan(run.seconds)]
    others = sorted({name for name, _ in counts} - {*REPORTED_PACKAGES, *_MACHINE_FACTS})
    names = [*others, *REPORTED_PACKAGES, *_MACHINE_FACTS]
    rows = sorted(counts.items(), key=lambda item: (names.index(item[0][0]), item[0][1]))
    return ProvenanceSummary(
        tuple((name, value, count) for (name, value), count in rows),
        math.fsum(run.seconds * run.spec.get("threads", 1) for run in timed) / 3600,
        len(timed),
        without_record,
    )


def _normalize_package_name(package: str) -> str:
    return package.lower().replace("_", "-").replace(".", "-")


def _describe_adapter_code(adapter: run_json.AdapterCode) -> str:
    """Return distribution, version and the first digits of a hash over all files' hashes."""
    text = "\n".join(f"{name} {digest}" for name, digest in sorted(adapter.files.items()))
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    owner = f"{adapter.distribution} {adapter.version}, " if adapter.distribution else ""
    return f"{owner}files {digest}"


def _list_facts(found: run_json.RunProvenance, framework: str) -> list[tuple[str, str]]:
    required = set(map(_normalize_package_name, found.adapter.requires))
    own = (
        name
        for name in found.packages
        if name not in REPORTED_PACKAGES
        and (framework in name.lower() or _normalize_package_name(name) in required)
    )
    names = [*own, *(name for name in REPORTED_PACKAGES if name in found.packages)]
    facts = [(name, found.packages[name]) for name in names]
    facts += [
        (f"{get_label(framework)}'s {name}", f"sha256 {digest[:12]}")
        for name, digest in sorted(found.sources.items())
    ]
    if found.adapter.files:
        facts.append((f"adapter of {get_label(framework)}", _describe_adapter_code(found.adapter)))
    for value, name in (
        (found.python, "Python"),
        (found.processor, "processor"),
        (found.host, "host"),
        (found.platform, "platform"),
    ):
        if value:
            facts.append((name, value))
    if found.commit.get("commit"):
        dirty = " with changes" if found.commit.get("dirty") else ""
        facts.append(("commit", f"{str(found.commit['commit'])[:12]}{dirty}"))
    return facts


def find_videos(root: Path) -> tuple[Path, ...]:
    """Return every video below the results folder."""
    # Unlike rglob, walk skips folders that a run has just removed.
    return tuple(
        sorted(
            Path(top, name)
            for top, _, names in os.walk(root)
            for name in names
            if name.endswith(".mp4")
        )
    )


_COUNT_HEADINGS = ("algorithm", "task", "hyperparameters", "frameworks")
_CELL_FIELDS = ("study", "algorithm", "env", "hps", "variant")
_GRID_COLUMN = "planned"

CountRow = Mapping[str, str | int]
_CountKey = tuple[StudyCell, str]  # a setting and a framework


def describe_study_names(loaded: LoadedRuns) -> str:
    """Return algorithms, frameworks and tasks that there are runs of."""
    cells = loaded.cells
    algorithms = ", ".join(get_label(name) for name in sorted({cell.algorithm for cell in cells}))
    frameworks = sorted({get_label(item.id.framework) for item in loaded.folders}, key=str.lower)
    return (
        f"{algorithms} of {format_count(len(frameworks), 'framework')} ({', '.join(frameworks)}) "
        f"on {', '.join(sorted({cell.env for cell in cells}))}"
    )


def describe_counts(loaded: LoadedRuns, grid: StudyGrid | None) -> Words:
    """Return the number of runs used and the share of the study that they cover, in words.

    Args:
        loaded: Runs found.
        grid: Runs that the study requests; None if no file lists them.
    """
    text = (
        f"{describe_study_names(loaded)}. {format_count(loaded.requested, 'run')} requested, "
        f"{loaded.completed:,} completed, {loaded.used:,} used"
    )
    if grid is None:
        return f"{text}."
    made = grid.runs & {requested_run_from_folder(item) for item in loaded.folders}
    planned, place = len(grid.runs), Code(grid.path.as_posix())
    if len(made) == planned:
        return f"{text}: all {planned:,} that ", place, " plans."
    return (
        f"{text}. ",
        Strong("This is a part of the study:"),
        f" {len(made):,} of the {planned:,} runs that ",
        place,
        " plans have been requested so far, and not every framework has been run in every "
        "setting. Verdicts are interim: they are not corrected for repeated checks, and "
        "families of tests grow with the study.",
    )


def describe_equal_runs(loaded: LoadedRuns) -> str:
    """Return a sentence on runs under library defaults that equal runs under another recipe."""
    by_seed = group_items(
        loaded.runs,
        lambda run: (dataclasses.replace(run.id.cell, hps=""), run.id.framework, run.id.seed),
    )
    found = collections.Counter(
        f"{get_label(one.id.framework)}'s {get_label(one.id.cell.algorithm)} on {one.id.cell.env}"
        for runs in by_seed.values()
        for one in runs
        if one.id.cell.hps == one.id.framework
        and any(np.array_equal(one.results, other.results) for other in runs if other is not one)
    )
    if not found:
        return ""
    names = ", ".join(f"{name} ({count})" for name, count in sorted(found.items()))
    return (
        f"{format_count(sum(found.values()), 'run')} under library defaults have the same "
        f"evaluations, to the last bit, as runs under another recipe: {names}. They are no further "
        "evidence."
    )


def count_runs_by_setting(loaded: LoadedRuns, grid: StudyGrid | None) -> list[CountRow]:
    """Return a row for each setting and framework: runs planned, requested, completed and used."""
    names = _list_count_columns(grid)
    return [
        {
            **{field: getattr(cell, field) for field in _CELL_FIELDS},
            "framework": framework,
            **{name: counter[name] for name in names},
        }
        for (cell, framework), counter in _count_runs(loaded, grid).items()
    ]


def _count_runs(
    loaded: LoadedRuns, grid: StudyGrid | None
) -> dict[_CountKey, collections.Counter[str]]:
    """Return the counts of each setting and framework, in the order of tables.

    A grid names no studies and variants. Planned runs are counted where their setting was run if
    that is one study and variant, and on their own otherwise.
    """
    found: dict[_CountKey, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for item in loaded.folders:
        counter = found[item.id.cell, item.id.framework]
        counter["requested"] += 1
        counter["completed"] += isinstance(item, CompletedRun) or item.completed
        counter["used"] += isinstance(item, CompletedRun)
    if grid:
        keys = group_items(found, lambda key: (key[0].algorithm, key[0].env, key[0].hps, key[1]))
        for setting, count in collections.Counter(run.setting for run in grid.runs).items():
            algorithm, env, hps, framework = setting
            place: _CountKey = StudyCell(grid.name, env, algorithm, hps, ""), framework
            own = keys.get((algorithm, env, hps, framework), [])
            found[own[0] if len(own) == 1 else place][_GRID_COLUMN] += count
    order = sorted(
        found,
        key=lambda key: (
            *(key[0].study, key[0].algorithm, key[0].env),
            *(get_recipe_order(key[0].hps), key[0].variant, get_label(key[1]).lower()),
        ),
    )
    return {key: found[key] for key in order}


def _list_count_columns(grid: StudyGrid | None) -> list[str]:
    return [*([_GRID_COLUMN] if grid else []), "requested", "completed", "used"]


def make_counts_grid(loaded: LoadedRuns, grid: StudyGrid | None) -> Grid:
    """Return the counts of runs for each study, algorithm, task, recipe and variant.

    Recipes that only their own framework ran are combined. Studies and variants have a column where
    they are several.
    """
    counts = _count_runs(loaded, grid)
    users = group_items(counts, lambda key: key[0])
    rows: dict[StudyCell, dict[str, collections.Counter[str]]] = {}
    for (cell, framework), counter in counts.items():
        is_own = len(users[cell]) == 1 and framework == cell.hps
        place = dataclasses.replace(cell, hps=LIBRARY_DEFAULTS) if is_own else cell
        rows.setdefault(place, {})[framework] = counter
    settings = _describe_variants(list(rows), loaded)
    names = _list_count_columns(grid)
    cells = tuple(
        (
            get_label(cell.algorithm),
            cell.env,
            cell.hps,
            *([setting or MISSING] if any(settings) else []),
            ", ".join(sorted(map(get_label, own), key=str.lower)),
            *(str(sum(counter[name] for counter in own.values())) for name in names),
        )
        for (cell, own), setting in zip(rows.items(), settings, strict=True)
    )
    headings = list(_COUNT_HEADINGS)
    if any(settings):
        headings.insert(3, "settings")
    return Grid((*headings, *names), cells)


def _describe_variants(cells: Sequence[StudyCell], loaded: LoadedRuns) -> list[str]:
    """Return what distinguishes each setting from those that were run on its algorithm and task."""
    run = group_items(loaded.cells, lambda cell: (cell.algorithm, cell.env))
    common = {key: find_common_parts(own) for key, own in run.items()}
    is_one_study = len({cell.study for cell in loaded.cells}) == 1
    found = []
    for cell in cells:
        shared = common.get((cell.algorithm, cell.env), [])
        parts = [part for part in split_variant(cell.variant) if part not in shared]
        study = [] if is_one_study else [f"study {cell.study}"]
        found.append(", ".join(filter(None, (*study, *parts))))
    return found


def describe_unused_runs(loaded: LoadedRuns, grid: StudyGrid | None) -> list[Words]:
    """Describe runs that are not used, not planned, not comparable or copies."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in count_exclusion_reasons(loaded))
    blocks: list[Words] = [
        f"Not used: {len(loaded.excluded)}: {kinds}." if kinds else "Every run is used."
    ]
    if grid:
        strange = [
            item for item in loaded.folders if requested_run_from_folder(item) not in grid.runs
        ]
        if strange:
            count = format_count(len(strange), "run")
            blocks.append((f"{count} of these are not in ", Code(grid.path.as_posix()), "."))
    return [*blocks, *(f"{text}." for text in loaded.conflicts)]


_MACHINE_NAMES = ("host", "platform")


def describe_imported_runs(runs: Sequence[CompletedRun]) -> str:
    """Return how many runs were imported, from which files, and which facts are unknown."""
    sources = [run.imported for run in runs if run.imported is not None]
    if not sources:
        return ""
    formats = collections.Counter(source.format for source in sources)
    unknown = collections.Counter(name for source in sources for name in source.unknown)
    listed = ", ".join(f"{name} of {count}" for name, count in sorted(unknown.items()))
    return (
        f"{format_count(len(sources), 'run')} used were made by other tools and imported from "
        f"{', '.join(f'{name} ({count})' for name, count in sorted(formats.items()))}."
        + (f" Unknown: {listed}." if listed else "")
    )


def describe_provenance(loaded: LoadedRuns, with_machine: bool) -> tuple[Block, ...]:
    """Return core-hours, and a table of packages, Python, processor and commit.

    `with_machine` adds hosts, platforms and the code of adapters.
    """
    provenance = summarize_provenance(loaded.runs)
    rows = tuple(
        (name, value, f"{count:,}")
        for name, value, count in provenance.rows
        if with_machine or not (name in _MACHINE_NAMES or name.startswith("adapter of "))
    )
    timed = format_count(provenance.n_timed, "run")
    silent = format_count(provenance.n_without_record, "run")
    hours = provenance.hours
    cost = f"{hours:,.1f} core-hours" if hours >= 1 else f"{60 * hours:.1f} core-minutes"
    return (
        f"{timed} took {cost}." if provenance.n_timed else "",
        f"{silent} used have no record of where and with what they ran."
        if provenance.n_without_record
        else "",
        describe_imported_runs(loaded.runs),
        Grid(("made with", "version", "runs"), rows, numeric=(2,)) if rows else "",
    )


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """A run folder with its group; unknown numbers are NaN."""

    item: CompletedRun | ExcludedRun
    group: ScoreGroup

    def get_score(self) -> float:
        """Return the final score, rounded as on pages."""
        run = self.item
        return round(run.final_score, 2) if isinstance(run, CompletedRun) else math.nan

    def get_last_step(self) -> float:
        """Return the steps at the last evaluation."""
        run = self.item
        return float(run.timesteps[-1]) if isinstance(run, CompletedRun) else math.nan

    def get_hours(self) -> float:
        """Return the duration in hours, rounded as on pages."""
        run = self.item
        return round(run.seconds / 3600, 2) if isinstance(run, CompletedRun) else math.nan

    def get_reason(self) -> str:
        """Return why the run is not used; empty if it is."""
        return self.item.reason if isinstance(self.item, ExcludedRun) else ""


def make_runs_table(loaded: LoadedRuns, verdicts: StudyVerdicts) -> tables.Table[RunFolder]:
    """Return a table with a row for each run folder, ordered by group and seed."""
    groups = verdicts.group_by_key
    order = {key: number for number, key in enumerate(groups)}
    items = tuple(
        sorted(
            (RunFolder(item, groups[item.id.cell, item.id.framework]) for item in loaded.folders),
            key=lambda i: (
                order[i.group.cell, i.group.framework],
                -1 if i.item.id.seed is None else i.item.id.seed,
                i.item.path,
            ),
        )
    )
    columns: tuple[tables.Column[RunFolder], ...] = (
        *tables.make_setting_columns(lambda i: i.group.cell, loaded.cells),
        tables.make_text_column("", "framework", lambda i: i.group.framework, get_label),
        tables.Column("", "seed", lambda i: i.item.id.seed, _format_seed, _get_seed_key),
        tables.make_number_column("", "final score", RunFolder.get_score, _format_score),
        tables.make_number_column("", "last step", RunFolder.get_last_step, _format_step),
        tables.make_number_column("", "hours", RunFolder.get_hours, _format_score),
        tables.Column("", "not used because", RunFolder.get_reason, get_style=_get_problem_style),
        tables.Column(
            "", "folder", lambda i: shorten_run_path(i.item, loaded), get_path=lambda i: i.item.path
        ),
    )
    return tables.Table(tables.RUNS_TABLE, "Every run folder", columns, items, lambda i: [i.group])


def _format_seed(seed: int | None) -> str:
    return MISSING if seed is None else str(seed)


def _get_seed_key(seed: int | None) -> float:
    return math.nan if seed is None else seed


def _format_score(value: float) -> str:
    return MISSING if math.isnan(value) else f"{value:.2f}"


def _format_step(value: float) -> str:
    return MISSING if math.isnan(value) else f"{value:,.0f}"


def _get_problem_style(reason: str) -> str:
    return "wrap problem" if reason else ""


DIAGNOSIS_TABLE = "t-diagnosis"


def describe_diagnosis(found: DiagnosisSummary) -> tuple[str, ...]:
    """Describe the diagnosis in sentences; empty if no run was watched."""
    if not found.watched and not found.unread:
        return ()
    touched = ", ".join(
        f"{count:,} with {level}s"
        for level, count in found.runs_with_findings.items()
        if level != "note"
    )
    sentences = [
        f"{found.watched:,} of {format_count(found.folders, 'run folder')} have a diagnosis "
        f"(diagnosis=on), among them those of runs that are not used; {touched}. "
        "It changes no result and no verdict."
    ]
    if found.notes:
        notes = ", ".join(f"{name} in {format_count(count, 'run')}" for name, count in found.notes)
        sentences.append(f"Notes on tasks and runs: {notes}.")
    sentences += [f"{format_count(count, 'run')}: {reason}." for reason, count in found.unread]
    return tuple(sentences)


def make_diagnosis_table(
    found: DiagnosisSummary, verdicts: StudyVerdicts
) -> tables.Table[CheckSummary]:
    """Return a table with a row for each check that found something in a framework's runs."""
    columns: tuple[tables.Column[CheckSummary], ...] = (
        tables.make_text_column("level", "level", lambda i: i.level),
        tables.make_text_column("check", "check", lambda i: i.check),
        tables.make_text_column("name", "finding", lambda i: i.name),
        tables.make_text_column("framework", "framework", lambda i: i.framework, get_label),
        tables.make_text_column("algorithm", "algorithm", lambda i: i.algorithm, get_label),
        tables.make_text_column("task", "task", lambda i: i.task),
        tables.make_count_column("runs", "runs", lambda i: i.runs),
        tables.make_count_column("watched", "of diagnosed", lambda i: i.watched),
        tables.make_count_column("first_step", "from step", lambda i: i.first_step),
        tables.make_text_column("seen", "first seen", lambda i: i.seen),
        tables.make_text_column("remedies", "try", lambda i: i.remedies),
    )
    return tables.Table(
        DIAGNOSIS_TABLE,
        "Findings",
        columns,
        tuple(found.findings),
        lambda i: [group for group in verdicts.groups if group.cell in i.cells],
    )
