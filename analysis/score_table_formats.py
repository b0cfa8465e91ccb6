"""Tables of final scores as Markdown, CSV and LaTeX."""

import csv
import io
import math
import re

from tabulate import tabulate

from analysis.numbers import MISSING
from analysis.score_cells import BEST, TIED, ScoreCell
from analysis.score_table import ScoreTable

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
