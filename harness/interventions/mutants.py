"""Mutants: small faults in upstream's update code, generated, numbered and reproducible.

Which code learns stands in `update_code.yaml` beside each adapter. Every operator is tried at every
place of it; the numbers follow from the text, so they hold for one version of upstream and of the
operators. A run's record holds the text itself.
"""

import ast
import dataclasses
import functools
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.contract.adapter import adapter_folder
from harness.contract.fields import SpecError
from harness.interventions.operators import WORDS, Edit, Source, edits
from harness.interventions.source import Piece, counted, file_of

FILE = "update_code.yaml"
PREFIX = "mutant-"
_NAME = re.compile(rf"{PREFIX}([0-9]+)")
_KEYS = {"module", "function", "within", "begin", "end"}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        framework: Whose code it is in.
        algorithm: That learns by that code.
        number: From 1, in the order of the update code's text.
        operator: What made it.
        line: In upstream's file.
        piece: What is replaced, and by what; a part of a function or script as large as it takes
            to be there once.
        before: The smallest text that is another.
        after: What it becomes.
    """

    framework: str
    algorithm: str
    number: int
    operator: str
    line: int
    piece: Piece
    before: str
    after: str

    @property
    def name(self) -> str:
        """As `intervention=` has it, for this framework and algorithm."""
        return f"{PREFIX}{self.number:03}"

    @property
    def whole_name(self) -> str:
        """With framework and algorithm."""
        return f"{self.framework}/{self.algorithm}/{self.number:03}"

    @property
    def does(self) -> str:
        """In a sentence."""
        change = f"`{_short(self.before)}` becomes `{_short(self.after)}`"
        where = f"{self.piece.module}, line {self.line}"
        return f"A mutant that {WORDS[self.operator]} ({self.operator}): {change} in {where}."


@dataclasses.dataclass(frozen=True)
class _Region:
    """Code that learns: a function, or lines of a script or of a function in it."""

    module: str
    function: str = ""
    within: str = ""
    begin: str = ""
    end: str = ""


def is_mutant(name: str) -> bool:
    """Whether a name is of the form that mutants have."""
    return _NAME.fullmatch(name) is not None


def mutant(name: str, framework: str, algorithm: str) -> Mutant:
    """A mutant by its name.

    Raises:
        SpecError: There is none of that number.
    """
    match = _NAME.fullmatch(name)
    there = mutants(framework, algorithm)
    found = next((item for item in there if match and item.number == int(match[1])), None)
    if found is None:
        raise SpecError(
            f"intervention={name}: framework={framework} has {len(there)} mutants of {algorithm}"
            + (f", {there[0].name} to {there[-1].name}" if there else "")
            + ". parallax mutants lists them."
        )
    if found.name != name:
        raise SpecError(f"intervention={name}: write {found.name}.")
    return found


def mutants(framework: str, algorithm: str) -> tuple[Mutant, ...]:
    """All mutants of a framework's algorithm, in the order of their numbers.

    Raises:
        SpecError: The list of update code names what is not installed; says where.
    """
    path = adapter_folder(framework) / FILE
    if not path.is_file():
        return ()
    return _generated(framework, algorithm, path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _generated(framework: str, algorithm: str, path: Path, changed: int) -> tuple[Mutant, ...]:
    found: list[Mutant] = []
    for region in _regions(path, algorithm):
        source = _source(file_of(region.module))
        for edit in edits(source, *_code_of(source, region, path)):
            piece = _piece(source, region, edit)
            if piece is not None:
                number, line = len(found) + 1, source.line_of(edit.start)
                before = source.text[edit.start : edit.end]
                item = Mutant(
                    *(framework, algorithm, number, edit.operator, line, piece, before, edit.text)
                )
                found.append(item)
    return tuple(found)


@functools.lru_cache(maxsize=64)
def _source(path: Path) -> Source:
    return Source(path.read_text())


def _regions(path: Path, algorithm: str) -> list[_Region]:
    content = yaml.safe_load(path.read_text()) or {}
    regions: list[_Region] = []
    for entry in _flat(content.get(algorithm, [])):
        if not isinstance(entry, Mapping) or "module" not in entry or entry.keys() - _KEYS:
            raise SpecError(
                f"{path}: {algorithm}: {entry!r} must be a mapping with module and what there is "
                "of function, within, begin and end."
            )
        regions.append(_Region(**entry))
    return regions


def _flat(entries: Any) -> Iterator[Any]:
    # Lists of entries that several algorithms share stand in their lists by an anchor.
    for entry in entries:
        if isinstance(entry, list):
            yield from _flat(entry)
        else:
            yield entry


def _code_of(source: Source, region: _Region, path: Path) -> tuple[list[ast.stmt], set[str]]:
    """Statements of a region, and names that have a value before it."""
    body: list[ast.stmt] = source.tree.body
    bound: set[str] = set()
    for part in (region.function or region.within).split("."):
        if not part:
            continue
        named = [n for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef) if n.name == part]
        if not named:
            raise SpecError(f"{path}: {region.module} has no {region.function or region.within}.")
        body = named[-1].body
        if isinstance(named[-1], ast.FunctionDef):
            arguments = named[-1].args
            bound |= {item.arg for item in (*arguments.args, *arguments.kwonlyargs)}
    if region.begin:
        first, last = _line(source, region.begin, path), _line(source, region.end, path)
        body = list(_between(body, first, last))
        bound |= source.bound_before(first)
    return body, bound


def _line(source: Source, text: str, path: Path) -> int:
    lines = source.text.splitlines()
    found = [number for number, line in enumerate(lines, 1) if line.strip() == text]
    if len(found) != 1:
        raise SpecError(f"{path}: the line {text!r} is there {len(found)} times, not once.")
    return found[0]


def _between(body: list[ast.stmt], first: int, last: int) -> Iterator[ast.stmt]:
    """The outermost statements that begin on line `first` or later and end before `last`."""
    for statement in body:
        if first <= statement.lineno and (statement.end_lineno or 0) < last:
            yield statement
        elif statement.lineno < last and (statement.end_lineno or 0) >= first:
            for field in ("body", "orelse"):
                yield from _between(getattr(statement, field, []), first, last)


def _piece(source: Source, region: _Region, edit: Edit) -> Piece | None:
    """An edit as a piece that is there once; None where there is no such, or it is no Python."""
    first, last = source.line_of(edit.start), source.line_of(max(edit.end - 1, edit.start))
    lowest, highest = _extent(source, region)
    while lowest <= first and last <= highest:
        start, end = source.lines(first, last)
        find = source.text[start:end]
        replace = source.text[start : edit.start] + edit.text + source.text[edit.end : end]
        if first == last:
            find, replace = find.strip(), replace.strip()
        piece = Piece(region.module, region.function, find, replace)
        if counted(piece) == 1:
            return piece if _is_python(source, edit, lowest, highest) else None
        first, last = (first, last + 1) if last < highest else (first - 1, last)
    return None


def _is_python(source: Source, edit: Edit, first: int, last: int) -> bool:
    # Only the lines that a piece may be taken from: whole files take long.
    start, end = source.lines(first, last)
    text = source.text[start : edit.start] + edit.text + source.text[edit.end : end]
    try:
        ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return False
    return True


def _extent(source: Source, region: _Region) -> tuple[int, int]:
    """First and last line of what a piece may be taken from."""
    if not region.function:
        return 1, len(source.text.splitlines())
    body: list[ast.stmt] = source.tree.body
    for part in region.function.split("."):
        named = [n for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef) if n.name == part]
        body = named[-1].body
    return body[0].lineno, body[-1].end_lineno or body[-1].lineno


def _short(text: str) -> str:
    line = " ".join(text.split()) or "(nothing)"
    return line if len(line) < 60 else line[:57] + "..."
