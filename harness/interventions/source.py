"""A segment of upstream's source that is replaced while a training runs, and nothing else.

The segment is searched for in the text of the installed file, without importing it. While it is
applied, the function object stays the same and only its code object changes, so that modules that
imported the function by name run the changed code as well; afterwards its own code is restored. No
file is written. JAX identifies a compiled function by its identity alone, so a JAX user context
distinguishes the two versions.
"""

import ast
import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import itertools
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.upstream_code import use_source_rewriter


@dataclasses.dataclass(frozen=True)
class SourceSegment:
    """A segment of upstream's source and its replacement.

    Attributes:
        module: Dotted name of upstream's module, or of a script that is run as a whole.
        function: Qualified name of a function in it, such as `TD3.train`; empty for a script.
        find: The exact text, which occurs once in the function or script. Its overall indentation
            does not matter.
        replace: The replacement, indented like `find`.
    """

    module: str
    function: str
    find: str
    replace: str

    @property
    def where(self) -> str:
        """Location for messages."""
        return f"{self.module}:{self.function}" if self.function else self.module


@dataclasses.dataclass(frozen=True)
class SegmentLocation:
    """Location of a segment in the installed file.

    Attributes:
        start: Index of the segment's first character in the file's text.
        end: Index after its last character.
        replacement: The replacement, indented like the segment in the file.
    """

    path: Path
    start: int
    end: int
    replacement: str


def locate_segment(piece: SourceSegment) -> SegmentLocation:
    """Find a segment in the installed version; only the module's parent packages are imported.

    Raises:
        SpecError: The module, the function or the segment is missing, the segment occurs more
            than once, or the function is not valid Python with the replacement.
    """
    path = find_module_file(piece.module)
    return _locate_segment(piece, path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=256)
def _locate_segment(piece: SourceSegment, path: Path, changed: int) -> SegmentLocation:
    # Cached: parsing upstream's file takes 10 ms, and each run of a sweep needs it several times.
    found, text, (start, end) = _find_occurrences(piece, path, changed)
    _check_single(piece, found, f"installed version of {piece.module.partition('.')[0]}", path.name)
    spot = SegmentLocation(path, *found[0])
    _check_syntax(piece, text[start : spot.start] + spot.replacement + text[spot.end : end])
    return spot


def _check_single(piece: SourceSegment, found: Sequence[Any], what: str, name: str) -> None:
    if len(found) != 1:
        how = "is missing" if not found else f"occurs {len(found)} times"
        raise SpecError(
            f"{piece.where}: the piece {_format_excerpt(piece.find)} {how}: it must match once in "
            f"the {what} ({name})."
        )


def locate_in_text(piece: SourceSegment, text: str, name: str) -> SegmentLocation:
    """Find a segment of a script in a text that is run instead of the script.

    Args:
        piece: The segment, whose function is empty.
        text: The text.
        name: Name of its file, for messages.

    Raises:
        SpecError: The segment does not occur exactly once, or its replacement is invalid Python.
    """
    found = _find_matches(piece, text, 0, len(text))
    _check_single(piece, found, "user's own script", name)
    spot = SegmentLocation(Path(name), *found[0])
    _check_syntax(piece, text[: spot.start] + spot.replacement + text[spot.end :])
    return spot


def _find_matches(
    piece: SourceSegment, text: str, start: int, end: int
) -> list[tuple[int, int, str]]:
    return [
        (at, at + len(old), new)
        for old, new in _indent_variants(piece)
        for at in _iterate_matches(old, text, start, end)
    ]


def _find_occurrences(
    piece: SourceSegment, path: Path, changed: int
) -> tuple[list[tuple[int, int, str]], str, tuple[int, int]]:
    """Return all matches with their replacements, the file's text, and the searched range."""
    text, start, end = _read_function_text(piece.where, piece.function, path, changed)
    return _find_matches(piece, text, start, end), text, (start, end)


def count_occurrences(piece: SourceSegment) -> int:
    """Return the number of occurrences of a segment.

    Raises:
        SpecError: The module or the function does not exist.
    """
    path = find_module_file(piece.module)
    return len(_find_occurrences(piece, path, path.stat().st_mtime_ns)[0])


def find_module_file(module: str) -> Path:
    """Return the file of a module or script without importing it.

    Raises:
        SpecError: It does not exist.
    """
    top, *below = module.split(".")
    try:
        names_module = all(part.isidentifier() for part in module.split("."))
        spec = importlib.util.find_spec(top) if names_module else None
        for folder in (spec.submodule_search_locations if spec else None) or ():
            inner = Path(folder).joinpath(*below)
            for path in (
                inner.with_name(f"{inner.name}.py") if below else inner,
                inner / "__init__.py",
            ):
                if path.is_file():
                    return path
    except (ImportError, ValueError, OSError):  # such as a name that is too long for a file
        spec = None
    if spec is not None and not below and spec.origin:
        return Path(spec.origin)
    raise SpecError(f"{module[:200]}: no such module is installed.")


def describe_overlap(pieces: Sequence[tuple[str, SourceSegment]]) -> str:
    """Return a message on two segments that change the same text, or an empty string.

    Args:
        pieces: Segments, each with the name of its owner.

    Raises:
        SpecError: A segment cannot be found.
    """
    spots = sorted(
        ((locate_segment(piece), name, piece) for name, piece in pieces),
        key=lambda item: (str(item[0].path), item[0].start, item[0].end),
    )
    for (one, first, piece), (other, second, _) in itertools.pairwise(spots):
        if one.path == other.path and other.start < one.end:
            return f"{first} and {second} change the same piece of {piece.where}"
    return ""


class SourceReplacement:
    """Temporarily replaces segments of upstream's code."""

    def __init__(self, pieces: Sequence[SourceSegment]) -> None:
        """Find the segments and compile their functions; nothing is changed yet.

        Raises:
            SpecError: A segment cannot be found or replaced.
        """
        functions: dict[tuple[str, str], list[SegmentLocation]] = {}
        self._scripts: dict[str, list[SourceSegment]] = {}
        for piece in pieces:
            spot = locate_segment(piece)
            if piece.function:
                functions.setdefault((piece.module, piece.function), []).append(spot)
            else:
                self._scripts.setdefault(piece.module, []).append(piece)
        self._codes: list[tuple[FunctionType, CodeType]] = []
        for (module, name), spots in functions.items():
            function, path = _find_function(module, name), spots[0].path
            tree = ast.parse(_apply_locations(path.read_text(), spots))
            self._codes.append(
                (function, _compile_function(tree, name, function.__code__, str(path)))
            )

    @contextlib.contextmanager
    def apply_replacement(self) -> Iterator[None]:
        """Run functions and scripts with the changed code inside the context."""
        former = [(function, function.__code__) for function, _ in self._codes]
        with contextlib.ExitStack() as stack:
            if self._scripts:
                stack.enter_context(use_source_rewriter(self._rewrite))
            stack.enter_context(self._separate_compilations())
            try:
                for function, code in self._codes:
                    function.__code__ = code
                yield
            finally:
                for function, code in former:
                    function.__code__ = code

    def _separate_compilations(self) -> contextlib.AbstractContextManager[Any]:
        # Otherwise JAX would reuse the version of a function that was compiled first.
        if not self._codes or "jax" not in sys.modules:
            return contextlib.nullcontext()
        context = _make_jax_context()
        entered = context((context.value, tuple(code for _, code in self._codes)))
        assert isinstance(entered, contextlib.AbstractContextManager)
        return entered

    def _rewrite(self, name: str, text: str) -> str:
        # The text may be a user's own copy of the script, with segments at other positions.
        pieces = self._scripts.get(name, ())
        return _apply_locations(text, [locate_in_text(piece, text, name) for piece in pieces])


@functools.cache
def _make_jax_context() -> Any:
    """Return a JAX context whose value is part of the key of every JAX trace and compilation."""
    return sys.modules["jax"].make_user_context(None)


def _find_function(module: str, name: str) -> FunctionType:
    owner: Any = importlib.import_module(module)
    *outer, last = name.split(".")
    for part in outer:
        owner = getattr(owner, part)
    found = inspect.getattr_static(owner, last)
    found = getattr(found, "fget", None) or getattr(found, "__func__", found)
    found = inspect.unwrap(found)
    if not isinstance(found, FunctionType):
        kind = type(found).__name__
        raise SpecError(f"{module}:{name} is a {kind}, whose code cannot be replaced.")
    return found


def _compile_function(tree: ast.Module, name: str, former: CodeType, path: str) -> CodeType:
    """Return the code of a function in a changed file, which is compiled but not executed."""
    flags = former.co_flags & _FUTURE_ANNOTATIONS
    code = compile(tree, path, "exec", flags=flags, dont_inherit=True)
    for part in name.split("."):
        inner = [c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == part]
        code = inner[-1]
    if code.co_freevars != former.co_freevars:
        raise SpecError(
            f"{path}: {name} would use other names of the functions around it "
            f"({', '.join(code.co_freevars) or 'none'}, not {', '.join(former.co_freevars)})."
        )
    assert isinstance(code, CodeType)
    return code


_FUTURE_ANNOTATIONS = 0x1000000  # `from __future__ import annotations`; the others are always on


@functools.lru_cache(maxsize=64)
def _read_function_text(
    where: str, function: str, path: Path, changed: int
) -> tuple[str, int, int]:
    """Return a file's text, and the start and end index of a function's body or the whole text."""
    text = path.read_text()
    if not function:
        return text, 0, len(text)
    body: list[ast.stmt] = ast.parse(text).body
    node: ast.stmt | None = None
    for part in function.split("."):
        named = [n for n in body if isinstance(n, _DEFINITION_NODES) and n.name == part]
        if not named:
            raise SpecError(f"{where}: no such function is in the installed version.")
        node = named[-1]
        body = node.body
    if not isinstance(node, ast.FunctionDef):
        raise SpecError(f"{where} is not a plain function.")
    lines = text.splitlines(keepends=True)
    # Decorators and defaults before the body were already evaluated at import.
    start = sum(map(len, lines[: node.body[0].lineno - 1]))
    return text, start, sum(map(len, lines[: node.end_lineno]))


_DEFINITION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _indent_variants(piece: SourceSegment) -> list[tuple[str, str]]:
    """Return text and replacement at every possible indentation; a single line is unchanged."""
    find, replace = piece.find.rstrip("\n"), piece.replace.rstrip("\n")
    if "\n" not in find and "\n" not in replace:
        return [(find, replace)]
    find, replace = textwrap.dedent(find), textwrap.dedent(replace)
    depths = [" " * depth for depth in range(0, 44, 4)]
    # Match whole lines, so that one depth does not match within a deeper one.
    return [
        ("\n" + textwrap.indent(find, space) + "\n", "\n" + textwrap.indent(replace, space) + "\n")
        for space in depths
    ]


def _iterate_matches(old: str, text: str, start: int, end: int) -> Iterator[int]:
    at = text.find(old, max(start - 1, 0), end)
    while at >= 0:
        yield at
        at = text.find(old, at + 1, end)


def _apply_locations(text: str, spots: Sequence[SegmentLocation]) -> str:
    for spot in sorted(spots, key=lambda spot: spot.start, reverse=True):
        text = text[: spot.start] + spot.replacement + text[spot.end :]
    return text


def _check_syntax(piece: SourceSegment, changed: str) -> None:
    try:
        ast.parse(textwrap.dedent(changed))
    except SyntaxError as error:
        raise SpecError(
            f"{piece.where}: with {_format_excerpt(piece.replace)} in place of "
            f"{_format_excerpt(piece.find)} it "
            f"is no longer valid Python ({error.msg})."
        ) from error


def _format_excerpt(text: str) -> str:
    line = " ".join(text.split())
    return f"'{line if len(line) < 70 else line[:67] + '...'}'"
