"""Mutants: small faults in upstream's update code, generated, numbered and reproducible.

`update_code.yaml` beside each adapter lists the code that learns. Every operator is tried at every
place in it. The numbers depend on the text, so they are valid for one version of upstream and of
the operators only. A run's record therefore contains the changed text itself.
"""

import ast
import dataclasses
import functools
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.data_files import load_yaml
from parallax.harness.contract.fields import SpecError
from parallax.harness.interventions.mutation_operators import (
    OPERATOR_DESCRIPTIONS,
    ParsedSource,
    SourceEdit,
    generate_edits,
)
from parallax.harness.interventions.source import SourceSegment, count_occurrences, find_module_file

UPDATE_CODE_FILE = "update_code.yaml"
MUTANT_PREFIX = "mutant-"
_MUTANT_NAME = re.compile(rf"{MUTANT_PREFIX}([0-9]+)")
_REGION_KEYS = {"module", "function", "within", "begin", "end"}


@dataclasses.dataclass(frozen=True)
class CodeMutant:
    """One fault.

    Attributes:
        number: Number from 1, in the order of the update code's text.
        line: Line in upstream's file.
        piece: Segment that is replaced, and its replacement; long enough to occur only once in its
            function or script.
        before: The smallest text that changes.
        after: Its replacement.
    """

    framework: str
    algorithm: str
    number: int
    operator: str
    line: int
    piece: SourceSegment
    before: str
    after: str

    @property
    def name(self) -> str:
        """Name in `intervention=`, for this framework and algorithm."""
        return f"{MUTANT_PREFIX}{self.number:03}"

    @property
    def qualified_name(self) -> str:
        """Full name, with framework and algorithm."""
        return f"{self.framework}/{self.algorithm}/{self.number:03}"

    @property
    def does(self) -> str:
        """Return the description of the change, a sentence."""
        change = f"`{_shorten_text(self.before)}` becomes `{_shorten_text(self.after)}`"
        where = f"{self.piece.module}, line {self.line}"
        operator = f"{OPERATOR_DESCRIPTIONS[self.operator]} ({self.operator})"
        return f"A mutant that {operator}: {change} in {where}."


@dataclasses.dataclass(frozen=True)
class _CodeRegion:
    """Code that learns: a function, or lines of a script or of a function in it."""

    module: str
    function: str = ""
    within: str = ""
    begin: str = ""
    end: str = ""


def is_mutant_name(name: str) -> bool:
    """Return whether a name has the form of a mutant's name."""
    return _MUTANT_NAME.fullmatch(name) is not None


def find_mutant(name: str, adapter: Adapter, algorithm: str) -> CodeMutant:
    """Return the mutant with a name.

    Raises:
        SpecError: There is no mutant with that number.
    """
    match = _MUTANT_NAME.fullmatch(name)
    there = load_mutants(adapter, algorithm)
    found = next((item for item in there if match and item.number == int(match[1])), None)
    if found is None:
        raise SpecError(
            f"intervention={name}: framework={adapter.name} has {len(there)} mutants of {algorithm}"
            + (f", {there[0].name} to {there[-1].name}" if there else "")
            + ". parallax intervention list --kind mutants lists them."
        )
    if found.name != name:
        raise SpecError(f"intervention={name}: write {found.name}.")
    return found


def load_mutants(adapter: Adapter, algorithm: str) -> tuple[CodeMutant, ...]:
    """Return all mutants of a framework's algorithm, in the order of their numbers.

    Raises:
        SpecError: The list of update code names code that is not installed; says where.
    """
    path = adapter.folder / UPDATE_CODE_FILE
    if not path.is_file():
        return ()
    return _generate_mutants(adapter.name, algorithm, path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _generate_mutants(
    framework: str, algorithm: str, path: Path, changed: int
) -> tuple[CodeMutant, ...]:
    found: list[CodeMutant] = []
    for region in _load_regions(path, algorithm):
        source = _load_source(find_module_file(region.module))
        for edit in generate_edits(source, *_get_region_code(source, region, path)):
            piece = _make_segment(source, region, edit)
            if piece is not None:
                number, line = len(found) + 1, source.get_line_number(edit.start)
                before = source.text[edit.start : edit.end]
                item = CodeMutant(
                    *(framework, algorithm, number, edit.operator, line, piece, before, edit.text)
                )
                found.append(item)
    return tuple(found)


@functools.lru_cache(maxsize=64)
def _load_source(path: Path) -> ParsedSource:
    return ParsedSource(path.read_text())


def _load_regions(path: Path, algorithm: str) -> list[_CodeRegion]:
    content = load_yaml(path, "list of update code") or {}
    if not isinstance(content, Mapping):
        raise SpecError(f"{path} must hold a mapping of algorithms to lists of update code.")
    regions: list[_CodeRegion] = []
    for entry in _flatten_entries(content.get(algorithm) or []):
        is_text = isinstance(entry, Mapping) and all(
            isinstance(part, str) for part in [*entry, *entry.values()]
        )
        if not is_text or "module" not in entry or entry.keys() - _REGION_KEYS:
            raise SpecError(
                f"{path}: {algorithm}: {entry!r} must be a mapping with module and what there is "
                "of function, within, begin and end."
            )
        regions.append(_CodeRegion(**entry))
    return regions


def _flatten_entries(entries: Any) -> Iterator[Any]:
    # YAML anchors include lists of entries that several algorithms share as nested lists.
    for entry in entries if isinstance(entries, list) else [entries]:
        if isinstance(entry, list):
            yield from _flatten_entries(entry)
        else:
            yield entry


def _get_region_code(
    source: ParsedSource, region: _CodeRegion, path: Path
) -> tuple[list[ast.stmt], set[str]]:
    """Return the statements of a region, and the names that have a value before it."""
    name = region.function or region.within
    nodes = _find_nested_definitions(source, name)
    if nodes is None:
        raise SpecError(f"{path}: {region.module} has no {name}.")
    body = nodes[-1].body if nodes else source.tree.body
    bound: set[str] = set()
    for arguments in (node.args for node in nodes if isinstance(node, ast.FunctionDef)):
        bound |= {item.arg for item in (*arguments.args, *arguments.kwonlyargs)}
    if region.begin:
        first, last = _find_line(source, region.begin, path), _find_line(source, region.end, path)
        body = list(_iterate_statements_between(body, first, last))
        bound |= source.list_names_bound_before(first)
    return body, bound


def _find_nested_definitions(
    source: ParsedSource, name: str
) -> list[ast.FunctionDef | ast.ClassDef] | None:
    """Return the definitions of `A.b`, outer first; None if one does not exist."""
    body: list[ast.stmt] = source.tree.body
    found: list[ast.FunctionDef | ast.ClassDef] = []
    for part in filter(None, name.split(".")):
        definitions = (n for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef))
        named = [node for node in definitions if node.name == part]
        if not named:
            return None
        found.append(named[-1])
        body = named[-1].body
    return found


def _find_line(source: ParsedSource, text: str, path: Path) -> int:
    lines = source.text.splitlines()
    found = [number for number, line in enumerate(lines, 1) if line.strip() == text]
    if len(found) != 1:
        raise SpecError(f"{path}: the line {text!r} occurs {len(found)} times, not once.")
    return found[0]


def _iterate_statements_between(body: list[ast.stmt], first: int, last: int) -> Iterator[ast.stmt]:
    """Yield the outermost statements that begin on line `first` or later and end before `last`."""
    for statement in body:
        if first <= statement.lineno and (statement.end_lineno or 0) < last:
            yield statement
        elif statement.lineno < last and (statement.end_lineno or 0) >= first:
            for field in ("body", "orelse"):
                yield from _iterate_statements_between(getattr(statement, field, []), first, last)


def _make_segment(
    source: ParsedSource, region: _CodeRegion, edit: SourceEdit
) -> SourceSegment | None:
    """Return an edit as a segment that occurs once, or None if impossible or not valid Python."""
    first = source.get_line_number(edit.start)
    last = source.get_line_number(max(edit.end - 1, edit.start))
    lowest, highest = _find_line_range(source, region)
    while lowest <= first and last <= highest:
        start, end = source.find_lines(first, last)
        find = source.text[start:end]
        replace = source.text[start : edit.start] + edit.text + source.text[edit.end : end]
        if first == last:
            find, replace = find.strip(), replace.strip()
        piece = SourceSegment(region.module, region.function, find, replace)
        if count_occurrences(piece) == 1:
            return piece if _is_valid_python(source, edit, lowest, highest) else None
        first, last = (first, last + 1) if last < highest else (first - 1, last)
    return None


def _is_valid_python(source: ParsedSource, edit: SourceEdit, first: int, last: int) -> bool:
    # Parse only the lines that a segment may be taken from: parsing whole files is slow.
    start, end = source.find_lines(first, last)
    text = source.text[start : edit.start] + edit.text + source.text[edit.end : end]
    try:
        ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return False
    return True


def _find_line_range(source: ParsedSource, region: _CodeRegion) -> tuple[int, int]:
    """Return the first and last line that a segment may be taken from."""
    nodes = _find_nested_definitions(source, region.function)
    if not nodes:
        return 1, len(source.text.splitlines())
    first, last = nodes[-1].body[0], nodes[-1].body[-1]
    return first.lineno, last.end_lineno or last.lineno


def _shorten_text(text: str) -> str:
    line = " ".join(text.split()) or "(nothing)"
    return line if len(line) < 60 else line[:57] + "..."
