"""Escapes names and values from runs in Markdown and CSV, once, when a text is complete.

The authors of run folders and packed files choose the names of studies, tasks and settings, which
pages and tables show. HTML is escaped by the template's autoescaping, and LaTeX by
`parallax.analysis.report.sections.scores.escape_latex`.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any

from tabulate import tabulate

from parallax.harness.record.files import escape_unprintable

# The only tags that our pages have.
_TAGS = ("<details>", "</details>", "<summary>", "</summary>")
_FENCE = "```"
_TICKS = re.compile(r"`+")
_BACKTICKS = re.compile(r"\\.|`+")
_HTML = re.compile(r"\\.|<(?=[A-Za-z/!?])")
# A link or picture, and the targets of our links: files beside the page, and its sections.
_LINK = re.compile(r"\\.|\]\((?P<ours>(?!//)[\w#./~%+,=@-]+\))?")
_DEFINITION = re.compile(r"^([\s>*+-]*)\[(?=[^\]]*\]:)", re.MULTILINE)
_ADDRESS = re.compile(r"\\.|(?<=:)/(?=/)|\bwww(?=\.)", re.I)  # becomes a link in repositories
_MATH = re.compile(r"\\.|\$")  # a name between two of them is a formula in repositories
_SHOWN_BLANKS = re.compile("([\n\t\xa0]+)")
_PIPE = re.compile(r"\\.|\|")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:inf|nan)")
# Some spreadsheets treat the last four (full-width) like the first four.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def finish_markdown(text: str) -> str:
    """Escape raw HTML, formulas, control characters and links to other places in a page.

    Code is not changed, since nothing in it is read as HTML. Tags that our pages have (`<details>`,
    `<summary>`) are not changed, nor are links to files beside the page and to its sections. Blocks
    of code must be fenced.
    """
    parts: list[str] = []
    code: list[str] | None = None
    plain_lines: list[str] = []
    for line in escape_controls(text).split("\n"):
        if code is None and line.startswith(_FENCE):
            parts.append(_escape_lines(plain_lines))
            plain_lines, code = [], [line]
        elif code is not None:
            code.append(line)
            if line == _FENCE:
                parts.append("\n".join(code))
                code = None
        else:
            plain_lines.append(line)
    if code is not None:  # a block without an end, which our pages do not have
        plain_lines = code
    parts.append(_escape_lines(plain_lines))
    return "\n".join(part for i, part in enumerate(parts) if part or i or len(parts) == 1)


def _escape_lines(lines: Sequence[str]) -> str:
    return "\n".join(_escape_line(line) for line in lines)


def _escape_line(line: str) -> str:
    """Escape one line; spans of code end with it, and with the cell of a table."""
    if not line.startswith("|"):
        return _escape_spans(line)
    cells, start = [], 0
    for found in _PIPE.finditer(line):
        if found[0] == "|":
            cells += [_escape_spans(line[start : found.start()]), "|"]
            start = found.end()
    return "".join([*cells, _escape_spans(line[start:])])


def _escape_spans(text: str) -> str:
    """Escape text outside spans of code, which begin and end with equally many backticks."""
    done, at, start = [], 0, 0
    while opening := _BACKTICKS.search(text, at):
        at = opening.end()
        if opening[0].startswith("\\"):
            continue
        # Inside code a backslash escapes nothing.
        closings = (one for one in _TICKS.finditer(text, at) if one[0] == opening[0])
        if closing := next(closings, None):
            done += [_escape_text(text[start : opening.start()])]
            done += [text[opening.start() : closing.end()]]
            at = start = closing.end()
    return "".join([*done, _escape_text(text[start:])])


def _escape_text(text: str) -> str:
    def tag(found: re.Match[str]) -> str:
        ours = found[0] != "<" or text.startswith(_TAGS, found.start())
        return found[0] if ours else "&lt;"

    def link(found: re.Match[str]) -> str:
        ours = found[0].startswith("\\") or found["ours"]
        return found[0] if ours else "\\" + found[0]

    escaped = _MATH.sub(lambda found: r"\$" if found[0] == "$" else found[0], _HTML.sub(tag, text))
    escaped = _ADDRESS.sub(lambda found: found[0] + "\\" * ("\\" not in found[0]), escaped)
    return _DEFINITION.sub(r"\1\\[", _LINK.sub(link, escaped))


def escape_controls(value: Any) -> Any:
    """Return text without control characters and other invisible ones, but for blanks."""
    if type(value) is not str and not isinstance(value, PurePath):  # markup of ours is a subclass
        return value
    parts = _SHOWN_BLANKS.split(str(value))
    return "".join(part if i % 2 else escape_unprintable(part) for i, part in enumerate(parts))


def format_table(rows: Iterable[Sequence[object]], heads: Sequence[str]) -> str:
    """Format cells and headings in Markdown as a table: no cell can end its column or its line."""
    cells = [[escape_cell(cell) for cell in row] for row in rows]
    titles = [escape_cell(head) for head in heads]
    return tabulate(cells, titles, tablefmt="pipe", disable_numparse=True)


def escape_cell(cell: object) -> str:
    """Return a value as text that ends neither its column of a Markdown table nor its line."""
    if cell is None:
        return ""
    return _PIPE.sub(
        lambda found: r"\|" if found[0] == "|" else found[0], escape_unprintable(str(cell))
    )


def format_csv(rows: Iterable[Sequence[object]]) -> str:
    """Format rows as CSV; text that a spreadsheet would take for a formula begins with `'`.

    Numbers, also as text, stay as they are.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow([_escape_formula(cell) for cell in row])
    return text.getvalue()


def _escape_formula(cell: object) -> object:
    if not isinstance(cell, str):
        return cell
    cell = escape_unprintable(cell)
    if cell.startswith(_FORMULA) and cell != "-" and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell
