"""Coverage of statements by tests, also in the processes and forks that tests start.

`insert_probes` puts a call before each statement of a module's functions. The call appends the
statement's number and the current test, which pytest names in the environment, to a file.
"""

import ast
import dataclasses
import functools
import sys
from pathlib import Path

import pytest

MODULE = "_statement_probes"
PROBES = '''"""Probes that `benchmarks/statement_coverage.py` inserted."""
import os
seen = set()
os.register_at_fork(after_in_child=seen.clear)


def visit(number):
    if number not in seen:
        seen.add(number)
        file = os.open({file!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.write(file, f"{{number}} {{os.environ.get('PYTEST_CURRENT_TEST', '')}}\\n".encode())
        os.close(file)
'''
LINES = 100_000
"""The number of a statement is the number of its module times this, plus its line."""


@dataclasses.dataclass
class FileCoverage:
    """What the tests of a file execute.

    Attributes:
        seconds: Seconds of each test that passed, by its name.
        visits: For each statement, the tests that execute it while they are called.
        shared: For each statement, the tests that execute it in a fixture, and "" for code that
            runs outside of any test. Other tests of the file may use the result.
    """

    seconds: dict[str, float]
    visits: dict[int, list[str]]
    shared: dict[int, list[str]]


def insert_probes(module: Path, number: int) -> None:
    """Insert a probe before each statement of the functions of a module.

    Args:
        module: File in the copy of the project.
        number: Number of the module.
    """
    tree = ast.parse(module.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for inner in list(ast.walk(node)):
                _insert_in_blocks(inner, number * LINES)
    first = sum(
        isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body
    ) + (ast.get_docstring(tree) is not None)
    tree.body[first:first] = ast.parse(f"from parallax.{MODULE} import visit as _visit").body
    module.write_text(ast.unparse(ast.fix_missing_locations(tree)))


def _insert_in_blocks(node: ast.AST, offset: int) -> None:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if not isinstance(block, list) or getattr(node, f"probed_{name}", False):
            continue
        setattr(node, f"probed_{name}", True)
        filled: list[ast.stmt] = []
        for index, statement in enumerate(block):
            is_docstring = (
                index == 0
                and isinstance(node, ast.FunctionDef | ast.ClassDef)
                and isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
            )
            if not is_docstring:
                filled += ast.parse(f"_visit({offset + statement.lineno})").body
            filled.append(statement)
        setattr(node, name, filled)


def insert_probe_module(tree: Path, visits: Path) -> None:
    """Write the module that the probes call; it appends to the file `visits`."""
    (tree / "parallax" / f"{MODULE}.py").write_text(PROBES.format(file=str(visits)))


@functools.cache
def map_lines(source: str) -> dict[int, int]:
    """Map each line of a function's body to the line on which its innermost statement begins."""
    starts: dict[int, int] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            for statement in node.body:
                for inner in ast.walk(statement):
                    if isinstance(inner, ast.stmt):
                        for line in range(inner.lineno, (inner.end_lineno or inner.lineno) + 1):
                            starts[line] = max(inner.lineno, starts.get(line, 0))
    return starts


def find_names(source: str, line: int) -> set[str]:
    """Return the names that the statements around a line define when the module is imported."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {
                    inner.id
                    for target in targets
                    for inner in ast.walk(target)
                    if isinstance(inner, ast.Name)
                }
    return names


def list_statements_with(source: str, names: set[str]) -> set[int]:
    """Return the lines of the statements in functions that use one of some names."""
    starts = map_lines(source)
    used = {
        starts.get(node.lineno, 0)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name | ast.Attribute)
        and (node.id if isinstance(node, ast.Name) else node.attr) in names
    }
    return used - {0}


class CoveragePlugin:
    """Plug-in of pytest that forgets visits between the phases of tests."""

    def _forget(self) -> None:
        if probes := sys.modules.get(f"parallax.{MODULE}"):
            probes.seen.clear()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Forget visits before fixtures are made."""
        self._forget()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self) -> None:
        """Forget visits before the test is called."""
        self._forget()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        """Forget visits before fixtures are removed."""
        self._forget()


def read_coverage(visits: Path, seconds: dict[str, float]) -> FileCoverage:
    """Read what the probes wrote while the tests of a file ran."""
    called: dict[int, set[str]] = {}
    shared: dict[int, set[str]] = {}
    with visits.open(errors="replace") as lines:
        for line in lines:
            number, _, current = line.rstrip("\n").partition(" ")
            test, _, phase = current.rpartition(" ")
            if not number.isdigit():
                continue
            if test in seconds and phase == "(call)":
                called.setdefault(int(number), set()).add(test)
            else:
                shared.setdefault(int(number), set()).add(test if test in seconds else "")
    visits.unlink()
    return FileCoverage(
        seconds,
        {number: sorted(tests) for number, tests in called.items()},
        {number: sorted(tests) for number, tests in shared.items()},
    )
