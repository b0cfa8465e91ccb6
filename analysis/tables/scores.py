"""Final scores in the layout of the thesis' Tables 9 to 11: one table per algorithm.

The best are marked, and those tied with them; as Markdown, CSV and LaTeX.
"""

import csv
import dataclasses
import io
import math
import re
from collections.abc import Mapping

import numpy as np
from tabulate import tabulate

from analysis.data.runs import Cell
from analysis.stats.intervals import interval
from analysis.verdicts.consistency import PairVerdict
from analysis.verdicts.groups import Group
from analysis.verdicts.study import StudyVerdicts
from analysis.words import FORMULAS, MISSING, file_name, recipe_order, suffix

BEST, TIED = "best", "tied"
Sizes = tuple[int, int, int]  # runs requested, completed, used


@dataclasses.dataclass(frozen=True)
class ScoreCell:
    """One framework in one setting.

    Attributes:
        mean: Mean over seeds of the final score; NaN without a run.
        low: Lower end of the interval; NaN below two runs.
        high: Upper end.
        sizes: Runs requested, completed and used.
        mark: `best`, `tied` or empty.
        key: Setting and framework.
    """

    mean: float
    low: float
    high: float
    sizes: Sizes
    mark: str
    key: tuple[Cell, str]


def marked_cells(
    verdicts: StudyVerdicts, method: str, rng: np.random.Generator
) -> dict[tuple[Cell, str], ScoreCell]:
    """Every group as a cell, with the best and those tied with it marked."""
    groups: dict[Cell, list[Group]] = {}
    for group in verdicts.groups:
        groups.setdefault(group.cell, []).append(group)
    pairs = {
        (item.cell, frozenset((item.first.framework, item.second.framework))): item
        for item in verdicts.consistency
    }
    return {
        (cell, group.framework): _cell(group, mark, method, rng)
        for cell, members in groups.items()
        for group, mark in _marks(members, pairs)
    }


def _marks(
    members: list[Group], verdicts: Mapping[tuple[Cell, frozenset[str]], PairVerdict]
) -> list[tuple[Group, str]]:
    scored = [group for group in members if group.n]
    if len(scored) < 2:
        return [(group, "") for group in members]
    top = max(scored, key=lambda group: float(group.moments.mean))
    found = []
    for group in members:
        item = verdicts.get((group.cell, frozenset((top.framework, group.framework))))
        best = bool(group.n) and float(group.moments.mean) == float(top.moments.mean)
        tied = item is not None and not math.isnan(item.p_holm) and not item.detectable
        found.append((group, BEST if best else TIED if tied else ""))
    return found


def _cell(group: Group, mark: str, method: str, rng: np.random.Generator) -> ScoreCell:
    scores = np.zeros(0) if group.scores is None else group.scores
    found = interval(scores, method, rng)
    sizes = (group.requested, group.completed, group.n)
    key = (group.cell, group.framework)
    return ScoreCell(found.mean, found.low, found.high, sizes, mark, key)


@dataclasses.dataclass(frozen=True)
class ScoreTable:
    """The frameworks under all sets of hyperparameters, on all tasks.

    Attributes:
        name: Name of its files, without ending.
        title: Heading.
        tasks: Columns.
        rows: Hyperparameters, framework, and one cell per task; None where nothing was run.
        sizes: The most frequent numbers of runs; cells say where theirs differ.
        method: Method of the intervals.
        caption: What it shows and what marks mean.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[ScoreCell | None, ...]], ...]
    sizes: Sizes
    method: str
    caption: str


def score_tables(verdicts: StudyVerdicts, method: str = "t") -> tuple[ScoreTable, ...]:
    """A table for each study, algorithm and variant.

    Args:
        verdicts: Groups, and the verdicts that say which of them are tied.
        method: One of `analysis.stats.intervals.METHODS`.
    """
    rng = np.random.default_rng(verdicts.options.seed)
    cells = marked_cells(verdicts, method, rng)
    keys = sorted({(cell.study, cell.algorithm, cell.variant) for cell, _ in cells})
    return tuple(_table(*key, cells, verdicts, method) for key in keys)


def _table(
    study: str,
    algorithm: str,
    variant: str,
    cells: Mapping[tuple[Cell, str], ScoreCell],
    verdicts: StudyVerdicts,
    method: str,
) -> ScoreTable:
    own = {
        key: cell
        for key, cell in cells.items()
        if (key[0].study, key[0].algorithm, key[0].variant) == (study, algorithm, variant)
    }
    tasks = tuple(sorted({cell.env for cell, _ in own}))
    table = {(cell.hps, framework, cell.env): item for (cell, framework), item in own.items()}
    heads = sorted({(recipe_order(cell.hps), framework) for cell, framework in own})
    rows = tuple(
        (hps, framework, tuple(table.get((hps, framework, env)) for env in tasks))
        for (_, hps), framework in heads
    )
    counts = [cell.sizes for cell in own.values()]
    sizes = max(sorted(set(counts), reverse=True), key=counts.count)
    shown = [group for group in verdicts.groups if (group.cell, group.framework) in own]
    steps = sorted({step for group in shown for step in group.steps})
    apart = suffix((cell for cell, _ in cells), study, variant, algorithm)
    name = file_name("scores", algorithm, *apart)
    title = ", ".join(part for part in (algorithm.upper(), *apart) if part)
    caption = _caption(algorithm.upper(), study, variant, steps, sizes, verdicts, method)
    return ScoreTable(name, title, tasks, rows, sizes, method, caption)


def _caption(
    algorithm: str,
    study: str,
    variant: str,
    steps: list[int],
    sizes: Sizes,
    verdicts: StudyVerdicts,
    method: str,
) -> str:
    at = " to ".join(f"{step:,}" for step in dict.fromkeys((steps[0], steps[-1]))) if steps else "-"
    return (
        f"Final scores of {algorithm} (study {study}{', ' * bool(variant)}{variant}): mean over "
        f"seeds of the mean return of the last evaluation, at {at} steps, with 95% interval "
        f"({method}: {FORMULAS[method]}). HPS: hyperparameters; FW: framework. Bold: best mean "
        "under the same hyperparameters. Italic: tied with it, that is not different at "
        f"{verdicts.options.alpha:.0%} by Welch's test after Holm's correction and a permutation "
        f"test, which does not show equality. n = {'/'.join(map(str, sizes))} runs "
        "requested/completed/used unless a cell says otherwise."
    )


_SYMMETRIC = ("t", "thesis")
_BLOCK = 4  # tasks beside each other in LaTeX, as in the thesis
_CSV_FIELDS = ("mean", "low", "high", "mark", "n_requested", "n_completed", "n_used")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "√": r"$\surd$",
    **{char: f"\\{char}" for char in "&%$#_{}"},
}


def score_text(cell: ScoreCell | None, table: ScoreTable) -> str:
    """Mean and interval; also the numbers of runs where they are not the table's."""
    if cell is None:
        return MISSING
    sizes = "" if cell.sizes == table.sizes else f" (n {'/'.join(map(str, cell.sizes))})"
    return score_only(cell, table.method) + sizes


def score_only(cell: ScoreCell, method: str) -> str:
    """Mean and interval with one decimal, as the thesis prints them."""
    if math.isnan(cell.mean):
        return MISSING
    mean = _decimal(cell.mean)
    if math.isnan(cell.low):
        return mean
    if method in _SYMMETRIC:
        return f"{mean} ± {_decimal(cell.high - cell.mean)}"
    return f"{mean} [{_decimal(cell.low)}, {_decimal(cell.high)}]"


def to_markdown(table: ScoreTable) -> str:
    """A Markdown table with its caption."""
    rows = []
    for hps, framework, cells in table.rows:
        texts = [_markdown(cell, table) for cell in cells]
        rows.append([_escape_markdown(hps), _escape_markdown(framework), *texts])
    heads = ["HPS", "FW", *(_escape_markdown(task) for task in table.tasks)]
    body = tabulate(rows, heads, tablefmt="pipe", disable_numparse=True)
    return f"{body}\n\n{_escape_markdown(table.caption)}\n"


def to_csv(table: ScoreTable) -> str:
    """One line per row of the table, seven columns per task, all digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads = [f"{task} {field}" for task in table.tasks for field in _CSV_FIELDS]
    writer.writerow(["hps", "framework", *heads, "interval"])
    for hps, framework, cells in table.rows:
        values = [value for cell in cells for value in _csv_values(cell)]
        writer.writerow([hps, framework, *values, table.method])
    return text.getvalue()


def to_latex(table: ScoreTable) -> str:
    """A table for the package booktabs, with at most four tasks beside each other."""
    blocks = [table.tasks[i : i + _BLOCK] for i in range(0, len(table.tasks), _BLOCK)]
    lines = [r"% \usepackage{booktabs}", r"\begin{table}", r"\centering\small"]
    lines.append(r"\setlength{\tabcolsep}{4pt}")
    for number, tasks in enumerate(blocks):
        lines += [r"\par\medskip"] if number else []
        lines += _latex_block(table, tasks, number * _BLOCK)
    lines.append(rf"\caption{{{escape_latex(table.caption)}}}")
    lines.append(rf"\label{{tab:{re.sub('[^A-Za-z0-9-]+', '-', table.name)}}}")
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def escape_latex(text: str) -> str:
    """Text in which LaTeX finds no commands."""
    return "".join(_LATEX.get(char, char) for char in text)


def _latex_block(table: ScoreTable, tasks: tuple[str, ...], start: int) -> list[str]:
    heads = " & ".join(["HPS", "FW", *map(escape_latex, tasks)])
    lines = [rf"\begin{{tabular}}{{ll{'r' * len(tasks)}}}", r"\toprule", rf"{heads} \\"]
    before = None
    for hps, framework, cells in table.rows:
        lines += [r"\midrule"] if hps != before else []
        texts = [_latex(cell, table) for cell in cells[start : start + len(tasks)]]
        lines.append(" & ".join([escape_latex(hps), escape_latex(framework), *texts]) + r" \\")
        before = hps
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _latex(cell: ScoreCell | None, table: ScoreTable) -> str:
    text = escape_latex(score_text(cell, table))
    # Beside four columns of scores there is no room for more than small numbers of runs.
    text = re.sub(r" \(n ([0-9/]+)\)$", r"\\,{\\scriptsize \1}", text)
    if text.startswith("-") and text != MISSING:
        text = f"${text[0]}${text[1:]}"
    commands = {BEST: "textbf", TIED: "textit"}
    mark = cell.mark if cell else ""
    return rf"\{commands[mark]}{{{text}}}" if mark else text


def _markdown(cell: ScoreCell | None, table: ScoreTable) -> str:
    text = _escape_markdown(score_text(cell, table))
    around = {BEST: "**", TIED: "*"}.get(cell.mark if cell else "", "")
    return f"{around}{text}{around}"


def _csv_values(cell: ScoreCell | None) -> list[object]:
    if cell is None:
        return [""] * len(_CSV_FIELDS)
    numbers = ["" if math.isnan(v) else repr(v) for v in (cell.mean, cell.low, cell.high)]
    return [*numbers, cell.mark, *cell.sizes]


def _decimal(value: float) -> str:
    text = f"{value:.1f}"
    return "0.0" if text == "-0.0" else text


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\|<*_`\[])", r"\\\1", text)
