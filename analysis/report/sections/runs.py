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
from parallax.analysis.data.runs import CompletedRun, ExcludedRun, LoadedRuns, find_missing_seeds
from parallax.analysis.data.study_grid import StudyGrid, requested_run_from_folder
from parallax.analysis.escaping import format_table
from parallax.analysis.labels import (
    LIBRARY_DEFAULTS,
    escape_markdown,
    get_label,
    get_recipe_order,
    shorten_run_path,
    sort_recipes,
)
from parallax.analysis.report.document import (
    Column,
    Table,
    list_setting_columns,
    make_count_column,
    make_text_column,
)
from parallax.analysis.report.phrases import RunLinks, format_count
from parallax.analysis.verdicts.study import StudyVerdicts
from parallax.harness.record import run_json


@dataclasses.dataclass(frozen=True)
class StudyPart:
    """One algorithm and variant of a study.

    Attributes:
        study: Name of the study.
        algorithm: Algorithm.
        variant: Other settings that are set equal.
        frameworks: Names.
        hps: Sets of hyperparameters.
        tasks: Tasks.
        seeds: Seeds, as few words.
        evaluations: Evaluations (episodes in each) of the runs used; several if they differ.
        alignment: `common`, `exact` or what run.json says.
        requested: Run folders found.
        completed: Runs that meet the completeness rule.
        used: Runs that enter the statistics.
    """

    study: str
    algorithm: str
    variant: str
    frameworks: tuple[str, ...]
    hps: tuple[str, ...]
    tasks: tuple[str, ...]
    seeds: str
    evaluations: str
    alignment: str
    requested: int
    completed: int
    used: int


def list_study_parts(loaded: LoadedRuns) -> tuple[StudyPart, ...]:
    """Return the parts of the studies, one per study, algorithm and variant."""
    found: dict[tuple[str, str, str], list[CompletedRun | ExcludedRun]] = collections.defaultdict(
        list
    )
    for item in loaded.folders:
        cell = item.id.cell
        found[cell.study, cell.algorithm, cell.variant].append(item)
    return tuple(_make_study_part(*key, found[key]) for key in sorted(found))


def _make_study_part(
    study: str, algorithm: str, variant: str, items: list[CompletedRun | ExcludedRun]
) -> StudyPart:
    runs = [item for item in items if isinstance(item, CompletedRun)]
    shapes = sorted({run.results.shape for run in runs})
    seeds = sorted({item.id.seed for item in items if item.id.seed is not None})
    return StudyPart(
        study,
        algorithm,
        variant,
        tuple(sorted({item.id.framework for item in items})),
        sort_recipes(item.id.cell.hps for item in items),
        tuple(sorted({item.id.cell.env for item in items})),
        _format_ranges(seeds),
        ", ".join(f"{count} ({episodes})" for count, episodes in shapes),
        ", ".join(sorted({str(run.spec.get("alignment", "unknown")) for run in runs})),
        len(items),
        sum(isinstance(item, CompletedRun) or item.completed for item in items),
        len(runs),
    )


def _format_ranges(values: list[int]) -> str:
    """Format numbers as ranges, such as `0 to 4, 7`."""
    words: list[list[int]] = []
    for value in values:
        if words and value == words[-1][-1] + 1:
            words[-1].append(value)
        else:
            words.append([value])
    return ", ".join(f"{w[0]} to {w[-1]}" if len(w) > 1 else str(w[0]) for w in words)


def count_exclusion_reasons(loaded: LoadedRuns) -> tuple[tuple[str, int], ...]:
    """Return the kinds of reasons why folders are not used, the most frequent first."""
    kinds = collections.Counter(item.reason.partition(":")[0] for item in loaded.excluded)
    return tuple(sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0])))


def list_absent_runs(loaded: LoadedRuns) -> tuple[str, ...]:
    """Return runs without a folder that other frameworks lead one to expect."""
    return tuple(str(item) for item in find_missing_seeds(loaded))


# Packages whose versions matter to results; others stand in each run.json.
# Of the packages that a run recorded, these are listed, and those that bear its framework's name.
REPORTED_PACKAGES = (
    *("stable_baselines3", "cleanrl", "torchrl", "tensordict", "tianshou", "skrl"),
    *("sbx", "jax", "flax", "optax"),
    *("torch", "gymnasium", "mujoco", "numpy"),
)
_MACHINE_FACTS = ("Python", "processor", "host", "platform", "commit")


@dataclasses.dataclass(frozen=True)
class ProvenanceSummary:
    """A summary over runs.

    Attributes:
        rows: What is recorded (a package, Python, processor, ...), its value, and how many runs.
        hours: Sum of the runs' core-hours: durations times threads.
        timed: Runs that record their duration.
        silent: Runs that record nothing at all, such as those of other projects.
    """

    rows: tuple[tuple[str, str, int], ...]
    hours: float
    n_timed: int
    n_without_record: int


def summarize_provenance(runs: Sequence[CompletedRun]) -> ProvenanceSummary:
    """Return the recorded provenance of runs, with the number of runs that record none."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    silent = 0
    for run in runs:
        facts = _list_facts(run.provenance, run.id.framework) if run.provenance else []
        silent += not facts
        counts.update(facts)
    timed = [run for run in runs if not math.isnan(run.seconds)]
    others = sorted({name for name, _ in counts} - {*REPORTED_PACKAGES, *_MACHINE_FACTS})
    names = [*others, *REPORTED_PACKAGES, *_MACHINE_FACTS]
    rows = sorted(counts.items(), key=lambda item: (names.index(item[0][0]), item[0][1]))
    return ProvenanceSummary(
        tuple((name, value, count) for (name, value), count in rows),
        math.fsum(run.seconds * run.spec.get("threads", 1) for run in timed) / 3600,
        len(timed),
        silent,
    )


def _normalize_package_name(package: str) -> str:
    return package.lower().replace("_", "-").replace(".", "-")


def _describe_adapter_code(adapter: run_json.AdapterCode) -> str:
    """Distribution and version, and the start of a hash over the hashes of all files."""
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
        facts.append((f"adapter of {framework}", _describe_adapter_code(found.adapter)))
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


def find_videos(loaded: LoadedRuns, links: RunLinks) -> tuple[tuple[str, str], ...]:
    """Name below the results folder and relative address of each film that lies there."""
    # Unlike rglob, walk passes over folders that a run has just given up.
    found = sorted(
        Path(top, name)
        for top, _, names in os.walk(loaded.root)
        for name in names
        if name.endswith(".mp4")
    )
    return tuple((str(path.relative_to(loaded.root)), links.file(path)) for path in found)


_COUNT_HEADINGS = ("algorithm", "task", "hyperparameters", "frameworks")
_SETTING_FIELDS = ("algorithm", "env", "hps", "framework")
_GRID_COLUMN = "planned"

CountRow = Mapping[str, str | int]


def describe_study_names(loaded: LoadedRuns) -> str:
    """Return algorithms, frameworks and tasks that there are runs of."""
    cells = loaded.cells
    algorithms = ", ".join(get_label(name) for name in sorted({cell.algorithm for cell in cells}))
    frameworks = sorted({get_label(item.id.framework) for item in loaded.folders}, key=str.lower)
    return (
        f"{algorithms} of {format_count(len(frameworks), 'framework')} ({', '.join(frameworks)}) "
        "on "
        f"{', '.join(sorted({cell.env for cell in cells}))}"
    )


def describe_counts(loaded: LoadedRuns, grid: StudyGrid | None) -> str:
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
    planned, place = len(grid.runs), f"`{grid.path.as_posix()}`"
    if len(made) == planned:
        return f"{text}: all {planned:,} that {place} plans."
    return (
        f"{text}. **This is a part of the study:** {len(made):,} of the {planned:,} runs that "
        f"{place} plans have been requested so far, and not every framework has been run in "
        "every setting. Verdicts are interim: they are not corrected for repeated checks, and "
        "families of tests grow with the study."
    )


def describe_equal_runs(loaded: LoadedRuns) -> str:
    """Return runs under a framework's own recipe that are those under another, in a sentence."""
    of: dict[tuple[object, ...], list[CompletedRun]] = collections.defaultdict(list)
    for run in loaded.runs:
        cell = run.id.cell
        of[
            cell.study, cell.env, cell.algorithm, cell.variant, run.id.framework, run.id.seed
        ].append(run)
    found = collections.Counter(
        f"{get_label(one.id.framework)}'s {get_label(one.id.cell.algorithm)} on {one.id.cell.env}"
        for runs in of.values()
        for one in runs
        if one.id.cell.hps == one.id.framework
        and any(np.array_equal(one.results, other.results) for other in runs if other is not one)
    )
    if not found:
        return ""
    names = ", ".join(f"{name} ({count})" for name, count in sorted(found.items()))
    return (
        f"{format_count(sum(found.values()), 'run')} under library defaults have the same "
        "evaluations, to "
        f"the last bit, as runs under another recipe: {names}. They are no further evidence."
    )


def count_runs_by_setting(loaded: LoadedRuns, grid: StudyGrid | None) -> list[CountRow]:
    """Return a row for each setting and framework: runs planned, requested, completed and used."""
    found: dict[tuple[str, ...], collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for run in grid.runs if grid else ():
        found[run.setting][_GRID_COLUMN] += 1
    for item in loaded.folders:
        cell = item.id.cell
        counter = found[cell.algorithm, cell.env, cell.hps, item.id.framework]
        counter["requested"] += 1
        counter["completed"] += isinstance(item, CompletedRun) or item.completed
        counter["used"] += isinstance(item, CompletedRun)
    order = sorted(
        found, key=lambda key: (*key[:2], get_recipe_order(key[2]), get_label(key[3]).lower())
    )
    rows: list[CountRow] = []
    for key in order:
        setting: dict[str, str | int] = dict(zip(_SETTING_FIELDS, key, strict=True))
        rows.append(setting | {name: found[key][name] for name in _list_count_columns(grid)})
    return rows


def _list_count_columns(grid: StudyGrid | None) -> list[str]:
    return [*([_GRID_COLUMN] if grid else []), "requested", "completed", "used"]


def make_counts_table(loaded: LoadedRuns, grid: StudyGrid | None) -> str:
    """The same in Markdown, a row for each algorithm, task and recipe; own recipes together."""
    rows: dict[tuple[str, str, str], list[CountRow]] = {}
    for row in count_runs_by_setting(loaded, grid):
        hps = LIBRARY_DEFAULTS if row["hps"] == row["framework"] else str(row["hps"])
        rows.setdefault((str(row["algorithm"]), str(row["env"]), hps), []).append(row)
    cells = [
        [
            *(
                get_label(algorithm),
                env,
                "library defaults" if hps == LIBRARY_DEFAULTS else hps,
            ),
            ", ".join(sorted((get_label(str(row["framework"])) for row in own), key=str.lower)),
            *(str(sum(int(row[name]) for row in own)) for name in _list_count_columns(grid)),
        ]
        for (algorithm, env, hps), own in rows.items()
    ]
    return format_table(cells, [*_COUNT_HEADINGS, *_list_count_columns(grid)])


def describe_unused_runs(loaded: LoadedRuns, grid: StudyGrid | None) -> list[str]:
    """Describe runs that are not used, not planned, or requested with different settings."""
    kinds = ", ".join(
        f"{count} {escape_markdown(kind)}" for kind, count in count_exclusion_reasons(loaded)
    )
    blocks = [f"Not used: {len(loaded.excluded)}: {kinds}." if kinds else "Every run is used."]
    if grid:
        strange = [
            item for item in loaded.folders if requested_run_from_folder(item) not in grid.runs
        ]
        if strange:
            number_of = format_count(len(strange), "run")
            blocks.append(f"{number_of} of these are not in `{grid.path.as_posix()}`.")
    return [*blocks, *(f"{escape_markdown(text)}." for text in loaded.conflicts)]


def render_provenance(loaded: LoadedRuns) -> list[str]:
    """Return core-hours, and a table of packages, Python, processor and commit; not the host."""
    provenance = summarize_provenance(loaded.runs)
    rows = [
        [escape_markdown(name), escape_markdown(value), str(count)]
        for name, value, count in provenance.rows
        if name not in ("host", "platform") and not name.startswith("adapter of ")
    ]
    blocks = []
    if provenance.n_timed:
        timed = format_count(provenance.n_timed, "run")
        blocks.append(f"{timed} took {provenance.hours:.1f} core-hours.")
    if rows:
        heads = ["made with", "version", "runs"]
        blocks.append(format_table(rows, heads))
    return blocks


@dataclasses.dataclass(frozen=True)
class RunRow:
    """One run folder.

    Attributes:
        group: Number of its group.
        first: Whether it is the first of its group.
        setting: What names its setting, in the columns of `list_setting_columns`.
        framework: Its framework.
        seed: Its seed; -1 where unknown.
        score: Final score as text; empty if not used.
        last_step: Environment steps at the last evaluation; -1 if not used.
        hours: Duration; -1 where unknown.
        reason: Why it is not used; empty if it is.
        link: Relative address of the folder.
        path: The folder below the results folder.
    """

    group: int
    first: bool
    setting: tuple[str, ...]
    framework: str
    seed: int
    score: str
    last_step: int
    hours: float
    reason: str
    link: str
    path: str


def make_run_rows(loaded: LoadedRuns, links: RunLinks) -> tuple[RunRow, ...]:
    """Return every run folder, ordered by group and seed."""
    items = sorted(
        loaded.folders,
        key=lambda i: (
            links.numbers[i.id.cell, i.id.framework],
            -1 if i.id.seed is None else i.id.seed,
            i.path,
        ),
    )
    heads = list_setting_columns(loaded.cells)
    rows, before = [], -1
    for item in items:
        group = links.numbers[item.id.cell, item.id.framework]
        setting = tuple(get(item.id.cell) for _, get in heads)
        rows.append(_make_run_row(item, group, group != before, setting, loaded, links))
        before = group
    return tuple(rows)


def _make_run_row(
    item: CompletedRun | ExcludedRun,
    group: int,
    first: bool,
    setting: tuple[str, ...],
    loaded: LoadedRuns,
    links: RunLinks,
) -> RunRow:
    seconds = item.seconds if isinstance(item, CompletedRun) else math.nan
    return RunRow(
        group=group,
        first=first,
        setting=setting,
        framework=item.id.framework,
        seed=-1 if item.id.seed is None else item.id.seed,
        score=f"{item.final_score:.2f}" if isinstance(item, CompletedRun) else "",
        last_step=int(item.timesteps[-1]) if isinstance(item, CompletedRun) else -1,
        hours=-1.0 if math.isnan(seconds) else seconds / 3600,
        reason="" if isinstance(item, CompletedRun) else item.reason,
        link=links.folder(item.path),
        path=shorten_run_path(item, loaded),
    )


DIAGNOSIS_TABLE = "t-diagnosis"


def describe_diagnosis(found: DiagnosisSummary) -> tuple[str, ...]:
    """In sentences; empty where no run was watched."""
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
        "No result and no verdict hangs on it."
    ]
    if found.notes:
        notes = ", ".join(f"{name} in {format_count(count, 'run')}" for name, count in found.notes)
        sentences.append(f"Notes on tasks and runs: {notes}.")
    sentences += [f"{format_count(count, 'run')}: {reason}." for reason, count in found.unread]
    return tuple(sentences)


def make_diagnosis_table(found: DiagnosisSummary, verdicts: StudyVerdicts) -> Table[CheckSummary]:
    """Return a table with a row for each check that found something in a framework's runs."""
    columns: tuple[Column[CheckSummary], ...] = (
        make_text_column("level", "level", lambda i: i.level),
        make_text_column("check", "check", lambda i: i.check),
        make_text_column("name", "finding", lambda i: i.name),
        make_text_column("framework", "framework", lambda i: i.framework, get_label),
        make_text_column("algorithm", "algorithm", lambda i: i.algorithm, get_label),
        make_text_column("task", "task", lambda i: i.task),
        make_count_column("runs", "runs", lambda i: i.runs),
        make_count_column("watched", "of diagnosed", lambda i: i.watched),
        make_count_column("first_step", "from step", lambda i: i.first_step),
        make_text_column("seen", "first seen", lambda i: i.seen),
        make_text_column("remedies", "try", lambda i: i.remedies),
    )
    return Table(
        DIAGNOSIS_TABLE,
        "Findings",
        columns,
        tuple(found.findings),
        lambda i: [group for group in verdicts.groups if group.cell in i.cells],
    )
