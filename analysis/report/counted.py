"""How many runs a study asks for, and how many were requested, completed and used; with what."""

import collections
from collections.abc import Mapping

import numpy as np
from tabulate import tabulate

from analysis.data.grid import Grid, asked_of
from analysis.data.runs import Loaded, Run
from analysis.report.statements import plural
from analysis.report.study import read_provenance, reasons
from analysis.words import OWN, label, plain, recipe_order

_HEADS = ("algorithm", "task", "hyperparameters", "frameworks")
_SETTING = ("algorithm", "env", "hps", "framework")
_ASKED = "asked"

Row = Mapping[str, str | int]


def names_in_words(loaded: Loaded) -> str:
    """Algorithms, frameworks and tasks that there are runs of."""
    cells = loaded.cells
    algorithms = ", ".join(label(name) for name in sorted({cell.algorithm for cell in cells}))
    frameworks = sorted({label(item.id.framework) for item in loaded.folders}, key=str.lower)
    return (
        f"{algorithms} of {plural(len(frameworks), 'framework')} ({', '.join(frameworks)}) on "
        f"{', '.join(sorted({cell.env for cell in cells}))}"
    )


def counts_in_words(loaded: Loaded, grid: Grid | None) -> str:
    """How many runs are used, and of how much of the study there are any.

    Args:
        loaded: What was found.
        grid: What the study asks for; None where no file tells.
    """
    text = (
        f"{names_in_words(loaded)}. {plural(loaded.requested, 'run')} requested, "
        f"{loaded.completed:,} completed, {loaded.used:,} used"
    )
    if grid is None:
        return f"{text}."
    made = grid.runs & {asked_of(item) for item in loaded.folders}
    asked, place = len(grid.runs), f"`{grid.path.as_posix()}`"
    if len(made) == asked:
        return f"{text}: all {asked:,} that {place} asks for have been requested."
    return (
        f"{text}. **This is a part of the study:** {len(made):,} of the {asked:,} runs that "
        f"{place} asks for have been requested so far, and not every framework has been run in "
        "every setting. Verdicts are those of this look: they are not corrected for several, and "
        "families of tests grow with the study."
    )


def equal_runs(loaded: Loaded) -> str:
    """Runs under a framework's own recipe that are those under another, in a sentence."""
    of: dict[tuple[object, ...], list[Run]] = collections.defaultdict(list)
    for run in loaded.runs:
        cell = run.id.cell
        of[
            cell.study, cell.env, cell.algorithm, cell.variant, run.id.framework, run.id.seed
        ].append(run)
    found = collections.Counter(
        f"{label(one.id.framework)}'s {label(one.id.cell.algorithm)} on {one.id.cell.env}"
        for runs in of.values()
        for one in runs
        if one.id.cell.hps == one.id.framework
        and any(np.array_equal(one.results, other.results) for other in runs if other is not one)
    )
    if not found:
        return ""
    names = ", ".join(f"{name} ({count})" for name, count in sorted(found.items()))
    return (
        f"{plural(sum(found.values()), 'run')} under own defaults are equal, to the last bit of "
        f"all evaluations, to runs under another recipe: {names}. They are no further evidence."
    )


def counts(loaded: Loaded, grid: Grid | None) -> list[Row]:
    """A row for each setting and framework: runs asked for, requested, completed and used."""
    found: dict[tuple[str, ...], collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for run in grid.runs if grid else ():
        found[run.setting][_ASKED] += 1
    for item in loaded.folders:
        cell = item.id.cell
        counter = found[cell.algorithm, cell.env, cell.hps, item.id.framework]
        counter["requested"] += 1
        counter["completed"] += isinstance(item, Run) or item.completed
        counter["used"] += isinstance(item, Run)
    order = sorted(found, key=lambda key: (*key[:2], recipe_order(key[2]), label(key[3]).lower()))
    rows: list[Row] = []
    for key in order:
        setting: dict[str, str | int] = dict(zip(_SETTING, key, strict=True))
        rows.append(setting | {name: found[key][name] for name in _names(grid)})
    return rows


def _names(grid: Grid | None) -> list[str]:
    return [*([_ASKED] if grid else []), "requested", "completed", "used"]


def counts_table(loaded: Loaded, grid: Grid | None) -> str:
    """The same in Markdown, a row for each algorithm, task and recipe; own recipes together."""
    rows: dict[tuple[str, str, str], list[Row]] = {}
    for row in counts(loaded, grid):
        hps = OWN if row["hps"] == row["framework"] else str(row["hps"])
        rows.setdefault((str(row["algorithm"]), str(row["env"]), hps), []).append(row)
    cells = [
        [
            *(label(algorithm), env, "each framework's own" if hps == OWN else hps),
            ", ".join(sorted((label(str(row["framework"])) for row in own), key=str.lower)),
            *(str(sum(int(row[name]) for row in own)) for name in _names(grid)),
        ]
        for (algorithm, env, hps), own in rows.items()
    ]
    return tabulate(cells, [*_HEADS, *_names(grid)], tablefmt="pipe", disable_numparse=True)


def apart_in_words(loaded: Loaded, grid: Grid | None) -> list[str]:
    """Runs that are not used, that nobody asked for, or that were asked for something else."""
    kinds = ", ".join(f"{count} {plain(kind)}" for kind, count in reasons(loaded))
    blocks = [f"Not used: {len(loaded.excluded)}: {kinds}." if kinds else "Every run is used."]
    if grid:
        strange = [item for item in loaded.folders if asked_of(item) not in grid.runs]
        if strange:
            number_of = plural(len(strange), "run")
            blocks.append(f"{number_of} of these are not in `{grid.path.as_posix()}`.")
    return [*blocks, *(f"{plain(text)}." for text in loaded.parted)]


def made_with(loaded: Loaded) -> list[str]:
    """Core-hours, and a table of packages, Python, processor and commit; not the host."""
    provenance = read_provenance(loaded.runs)
    rows = [
        [plain(name), plain(value), str(count)]
        for name, value, count in provenance.rows
        if name not in ("host", "platform") and not name.startswith("adapter of ")
    ]
    blocks = []
    if provenance.timed:
        timed = plural(provenance.timed, "run")
        blocks.append(f"{timed} took {provenance.hours:.1f} core-hours.")
    if rows:
        heads = ["made with", "version", "runs"]
        blocks.append(tabulate(rows, heads, tablefmt="pipe", disable_numparse=True))
    return blocks
