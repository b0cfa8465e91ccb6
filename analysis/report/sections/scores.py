"""Scores in the layout of the thesis' Tables 9 to 11: one table per algorithm.

The best scores and those tied with them are marked. Tables can also be written as CSV and LaTeX.
"""

import dataclasses
import math
import re
from collections.abc import Mapping

import numpy as np

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.escaping import format_csv
from parallax.analysis.labels import (
    INTERVAL_FORMULAS,
    MISSING,
    format_range,
    format_steps,
    get_recipe_order,
    group_items,
    make_file_name,
    make_file_suffix,
)
from parallax.analysis.report.document import ScoreCell, ScoreTable, Sizes
from parallax.analysis.stats.intervals import compute_interval
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.groups import GroupKey, ScoreGroup
from parallax.analysis.verdicts.study import StudyVerdicts

BEST, TIED = "best", "tied"


def make_score_cells(
    verdicts: StudyVerdicts, method: str, rng: np.random.Generator
) -> dict[GroupKey, ScoreCell]:
    """Return every group as a cell, with the best and those tied with it marked."""
    groups = group_items(verdicts.groups, lambda group: group.cell)
    pairs = {
        (item.cell, frozenset((item.first.framework, item.second.framework))): item
        for item in verdicts.consistency
    }
    means_with_failed = {
        group.key: float(group.moments.mean)
        for group in (verdicts.with_failed_runs or verdicts).groups
        if group.failed
    }
    return {
        (cell, group.framework): dataclasses.replace(
            _make_score_cell(group, mark, method, rng),
            failed=group.failed,
            mean_with_failed=means_with_failed.get(group.key, math.nan),
        )
        for cell, members in groups.items()
        for group, mark in _mark_best_and_tied(members, pairs)
    }


def _mark_best_and_tied(
    members: list[ScoreGroup], verdicts: Mapping[tuple[StudyCell, frozenset[str]], PairVerdict]
) -> list[tuple[ScoreGroup, str]]:
    scored = [group for group in members if group.n]
    if len(scored) < 2:
        return [(group, "") for group in members]
    top = max(scored, key=lambda group: float(group.moments.mean))
    found = []
    for group in members:
        item = verdicts.get((group.cell, frozenset((top.framework, group.framework))))
        mark = ""
        if group.n and float(group.moments.mean) == float(top.moments.mean):
            mark = BEST
        elif item is not None and not math.isnan(item.p_holm) and not item.detectable:
            mark = TIED
        found.append((group, mark))
    return found


def _make_score_cell(
    group: ScoreGroup, mark: str, method: str, rng: np.random.Generator
) -> ScoreCell:
    scores = np.zeros(0) if group.scores is None else group.scores
    found = compute_interval(scores, method, rng)
    sizes = (group.requested, group.completed, group.n)
    return ScoreCell(found.mean, found.low, found.high, sizes, mark, group.key)


def make_score_tables(verdicts: StudyVerdicts, method: str = "t") -> tuple[ScoreTable, ...]:
    """Return a table for each study, algorithm and variant."""
    cells = make_score_cells(verdicts, method, np.random.default_rng(verdicts.options.seed))
    keys = sorted({cell.variant_key for cell, _ in cells})
    return tuple(_make_score_table(*key, cells, verdicts, method) for key in keys)


def _make_score_table(
    study: str,
    algorithm: str,
    variant: str,
    cells: Mapping[GroupKey, ScoreCell],
    verdicts: StudyVerdicts,
    method: str,
) -> ScoreTable:
    key = study, algorithm, variant
    own = {(cell, name): item for (cell, name), item in cells.items() if cell.variant_key == key}
    tasks = tuple(sorted({cell.env for cell, _ in own}))
    table = {(cell.hps, framework, cell.env): item for (cell, framework), item in own.items()}
    heads = sorted({(get_recipe_order(cell.hps), framework) for cell, framework in own})
    counts = [item.sizes for item in own.values()]
    sizes = max(sorted(set(counts), reverse=True), key=counts.count)
    rows = tuple(
        (
            hps,
            framework,
            tuple(_add_text(table.get((hps, framework, env)), sizes, method) for env in tasks),
        )
        for (_, hps), framework in heads
    )
    shown = [group for group in verdicts.groups if group.key in own]
    steps = [step for group in shown for step in group.steps]
    apart = make_file_suffix((cell for cell, _ in cells), study, variant, algorithm)
    name = make_file_name("scores", algorithm, *apart)
    title = ", ".join(part for part in (algorithm.upper(), *apart) if part)
    has_failed = any(item.failed for item in own.values())
    caption = _format_caption(
        algorithm.upper(), study, variant, steps, sizes, verdicts, method, has_failed
    )
    return ScoreTable(name, title, tasks, rows, sizes, method, caption)


def _format_caption(
    algorithm: str,
    study: str,
    variant: str,
    steps: list[int],
    sizes: Sizes,
    verdicts: StudyVerdicts,
    method: str,
    has_failed: bool,
) -> str:
    at = format_range(steps, format_steps) or MISSING
    failed = (
        " Failed: runs whose training failed or diverged, and the mean with them at the bottom of "
        "the task's range; means, intervals and marks are of complete runs alone."
    ) * has_failed
    return (
        f"Scores of {algorithm} (study {study}{', ' * bool(variant)}{variant}): mean over seeds of "
        f"the {verdicts.options.chosen_endpoint.description}, {at} steps, with 95% interval "
        f"({method}: {INTERVAL_FORMULAS[method]}). HPS: hyperparameters; FW: framework. Bold: best "
        "mean under the same hyperparameters. Italic: tied with it, that is not different at "
        f"{verdicts.options.alpha:.0%} by {verdicts.options.difference_test} after Holm's "
        "correction and a permutation test, which does not show equality. n = "
        f"{'/'.join(map(str, sizes))} runs requested/completed/used unless a cell says "
        f"otherwise.{failed}"
    )


_SYMMETRIC_METHODS = ("t", "thesis")
_TASKS_PER_BLOCK = 4  # tasks beside each other in LaTeX, as in the thesis
_CSV_FIELDS = (
    *("mean", "low", "high", "mark", "n_requested", "n_completed", "n_used"),
    *("n_failed", "mean_with_failed"),
)
_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "√": r"$\surd$",
    **{char: f"\\{char}" for char in "&%$#_{}"},
}


def _add_text(cell: ScoreCell | None, usual: Sizes, method: str) -> ScoreCell | None:
    """Add mean and interval as text; also the numbers of runs if they are unusual."""
    if cell is None:
        return None
    parts = [] if cell.sizes == usual else [f"n {'/'.join(map(str, cell.sizes))}"]
    if cell.failed and not math.isnan(cell.mean_with_failed):
        parts.append(
            f"{cell.failed} failed: {_format_decimal(cell.mean_with_failed, _count_decimals(cell))}"
        )
    notes = f" ({'; '.join(parts)})" if parts else ""
    return dataclasses.replace(cell, text=format_score_without_sizes(cell, method) + notes)


def format_score_without_sizes(cell: ScoreCell, method: str) -> str:
    """Format mean and interval with one decimal, as in the thesis, or more if both need them."""
    if math.isnan(cell.mean):
        return MISSING
    decimals = _count_decimals(cell)
    mean = _format_decimal(cell.mean, decimals)
    if math.isnan(cell.low):
        return mean
    if method in _SYMMETRIC_METHODS:
        return f"{mean} ± {_format_decimal(cell.high - cell.mean, decimals)}"
    ends = (_format_decimal(end, decimals) for end in (cell.low, cell.high))
    return f"{mean} [{', '.join(ends)}]"


def _count_decimals(cell: ScoreCell) -> int:
    """Return 1, or more where half an interval, or a mean without one, would be shown as 0.0."""
    size = abs(cell.mean) if math.isnan(cell.low) else (cell.high - cell.low) / 2
    return min(6, 1 - math.floor(math.log10(size))) if 0 < size < 0.05 else 1


def score_table_to_csv(table: ScoreTable) -> str:
    """Return a line per row of the table, with nine columns per task and all digits."""
    heads = [f"{task} {field}" for task in table.tasks for field in _CSV_FIELDS]
    lines: list[list[object]] = [["hps", "framework", *heads, "interval"]]
    for hps, framework, cells in table.rows:
        values = [value for cell in cells for value in _list_csv_values(cell)]
        lines.append([hps, framework, *values, table.method])
    return format_csv(lines)


def score_table_to_latex(table: ScoreTable) -> str:
    """Return a table for the package booktabs, with at most four tasks beside each other."""
    blocks = [
        table.tasks[i : i + _TASKS_PER_BLOCK] for i in range(0, len(table.tasks), _TASKS_PER_BLOCK)
    ]
    lines = [r"% \usepackage{booktabs}", r"\begin{table}", r"\centering\small"]
    lines.append(r"\setlength{\tabcolsep}{4pt}")
    for number, tasks in enumerate(blocks):
        lines += [r"\par\medskip"] if number else []
        lines += _format_latex_block(table, tasks, number * _TASKS_PER_BLOCK)
    lines.append(rf"\caption{{{escape_latex(table.caption)}}}")
    lines.append(rf"\label{{tab:{re.sub('[^A-Za-z0-9-]+', '-', table.name)}}}")
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def escape_latex(text: str) -> str:
    """Return text in which LaTeX finds no commands."""
    return "".join(_LATEX_ESCAPES.get(char, char) for char in text)


def _format_latex_block(table: ScoreTable, tasks: tuple[str, ...], start: int) -> list[str]:
    heads = " & ".join(["HPS", "FW", *map(escape_latex, tasks)])
    lines = [rf"\begin{{tabular}}{{ll{'r' * len(tasks)}}}", r"\toprule", rf"{heads} \\"]
    before = None
    for hps, framework, cells in table.rows:
        lines += [r"\midrule"] if hps != before else []
        texts = [_format_latex_cell(cell) for cell in cells[start : start + len(tasks)]]
        lines.append(" & ".join([escape_latex(hps), escape_latex(framework), *texts]) + r" \\")
        before = hps
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _format_latex_cell(cell: ScoreCell | None) -> str:
    text = escape_latex(cell.text if cell else MISSING)
    # Beside four columns of scores there is no room for more than small numbers of runs.
    text = re.sub(r" \((?:n )?([^()]+)\)$", r"\\,{\\scriptsize \1}", text)
    if text.startswith("-") and text != MISSING:
        text = f"${text[0]}${text[1:]}"
    commands = {BEST: "textbf", TIED: "textit"}
    mark = cell.mark if cell else ""
    return rf"\{commands[mark]}{{{text}}}" if mark else text


def _list_csv_values(cell: ScoreCell | None) -> list[object]:
    if cell is None:
        return [""] * len(_CSV_FIELDS)
    values = cell.mean, cell.low, cell.high, cell.mean_with_failed
    *numbers, with_failed = ("" if math.isnan(v) else repr(v) for v in values)
    return [*numbers, cell.mark, *cell.sizes, cell.failed, with_failed]


def _format_decimal(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text if float(text) else text.removeprefix("-")
