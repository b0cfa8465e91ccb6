"""Mutation test of this project's own code: which random faults its tests notice.

`python benchmarks/own_mutants.py --output FILE --number 200` copies the tree into a temporary
folder, changes one place of one module at a time, and runs the test files that import the module.
FILE has a line per mutant; mutants that it has already are not tested again. `--report` only prints
the table. A survivor may be equivalent to the original: after reading it, mark it in FILE with
`"equivalent": true`.
"""

import argparse
import ast
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
MUTATED_FOLDERS = (
    "analysis/stats",
    "analysis/verdicts",
    "analysis/data",
    "harness/record",
    "harness/contract",
    "harness/sweep",
    "harness/train",
    "slurm",
    "adapters/sb3",
    "adapters/cleanrl",
    "adapters/tianshou",
)
COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
SECONDS_PER_MUTANT = 300


def main(arguments: Sequence[str] | None = None) -> int:
    """Test mutants and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="JSON lines, one per mutant")
    parser.add_argument("--number", type=int, default=200, help="mutants in all")
    parser.add_argument("--seed", type=int, default=0, help="of the random choice of places")
    parser.add_argument("--report", action="store_true", help="only print what FILE holds")
    options = parser.parse_args(arguments)
    done = read_outcomes(options.output)
    if not options.report:
        with tempfile.TemporaryDirectory() as folder:
            test_mutants(Path(folder) / "tree", options, done)
    print_report(read_outcomes(options.output))
    return 0


def read_outcomes(path: Path) -> dict[str, dict[str, object]]:
    """Read outcomes by the name of their mutant."""
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return {str(row["mutant"]): row for row in rows}


def test_mutants(
    tree: Path, options: argparse.Namespace, done: dict[str, dict[str, object]]
) -> None:
    """Test mutants that have no outcome yet, in a copy of the tree."""
    ignored = shutil.ignore_patterns(".git", ".venv", "results", "__pycache__", ".mypy_cache")
    shutil.copytree(ROOT, tree, symlinks=True, ignore=ignored)
    rng = random.Random(options.seed)
    modules = [
        path
        for folder in MUTATED_FOLDERS
        for path in sorted((tree / folder).rglob("*.py"))
        if path.name != "__init__.py" and find_tests(tree, path)
    ]
    tried = 0
    while tried < options.number:
        path = rng.choice(modules)
        original = path.read_text()
        mutants = list(generate_mutants(original))
        if not mutants:
            continue
        line, what, text = rng.choice(mutants)
        name = f"{path.relative_to(tree).as_posix()}:{line} {what}"
        tried += 1
        if name in done:
            continue
        path.write_text(text)
        started = time.monotonic()
        killed_by = run_tests(tree, find_tests(tree, path))
        path.write_text(original)
        row = {
            "mutant": name,
            "killed_by": killed_by,
            "seconds": round(time.monotonic() - started, 1),
        }
        with options.output.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"[{tried}/{options.number}] {'killed' if killed_by else 'SURVIVED'} {name}")


def find_tests(tree: Path, module: Path) -> list[Path]:
    """Return test files that import a module, but for those of long tests."""
    dotted = "parallax." + ".".join(module.relative_to(tree).with_suffix("").parts)
    package, _, leaf = dotted.rpartition(".")
    needles = (f"from {dotted} import", f"import {dotted}", f"from {package} import {leaf}")
    return [
        path
        for path in sorted((tree / "tests").rglob("test_*.py"))
        if "long" not in path.parts and any(needle in path.read_text() for needle in needles)
    ]


def run_tests(tree: Path, files: Sequence[Path]) -> str:
    """Return the test that noticed the mutant; empty if none did."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        outcome = subprocess.run(
            [*command, *map(str, files)],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_PER_MUTANT,
        )
    except subprocess.TimeoutExpired:
        return "timeout"
    if outcome.returncode == 0:
        return ""
    failed = [line for line in outcome.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return (failed or ["error"])[0].split(" - ")[0]


def generate_mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, description and source of each mutant of a module."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    encoded = source.encode()
    for node in ast.walk(ast.parse(source)):
        for what, replacement in mutate_node(node):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            changed = (encoded[:start] + replacement.encode() + encoded[end:]).decode()
            try:
                ast.parse(changed)
            except SyntaxError:  # a part of a format string, whose position is not its own
                continue
            yield node.lineno, what, changed


def mutate_node(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield descriptions and texts that can replace a node."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            other = COMPARISONS[type(operator)]()
            swapped = ast.Compare(node.left, [other], node.comparators)
            yield (
                f"{type(operator).__name__} -> {type(other).__name__}",
                f"({ast.unparse(swapped)})",
            )
        case ast.BoolOp(op=operator, values=values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield "and <-> or", f"({ast.unparse(ast.BoolOp(other, values))})"
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in ARITHMETIC:
            other_operator = ARITHMETIC[type(operator)]()
            yield (
                f"{type(operator).__name__} -> {type(other_operator).__name__}",
                f"({ast.unparse(ast.BinOp(left, other_operator, right))})",
            )
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not dropped", f"({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            yield f"{value} -> {not value}", str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield f"{value} -> {value + 1}", repr(value + 1)
        case ast.Return(value=ast.expr()):
            yield "returns None", "return None"
        case ast.Expr(value=ast.Call()):
            yield "call dropped", "pass"


def print_report(outcomes: dict[str, dict[str, object]]) -> None:
    """Print how many mutants were killed, by folder, and name the survivors."""
    by_folder = collections.defaultdict(list)
    for name, row in outcomes.items():
        if not row.get("equivalent"):
            by_folder[str(Path(name.partition(":")[0]).parent)].append(row)
    for folder, rows in sorted(by_folder.items()):
        killed = sum(bool(row["killed_by"]) for row in rows)
        print(f"{folder:32} {killed:4} of {len(rows):4} killed")
    rows = [row for rows in by_folder.values() for row in rows]
    killed = sum(bool(row["killed_by"]) for row in rows)
    equivalent = len(outcomes) - len(rows)
    share = killed / len(rows) if rows else 0.0
    print(f"{'all':32} {killed:4} of {len(rows):4} killed ({share:.1%}), {equivalent} equivalent")
    for row in rows:
        if not row["killed_by"]:
            print(f"survived: {row['mutant']}")


if __name__ == "__main__":
    sys.exit(main())
