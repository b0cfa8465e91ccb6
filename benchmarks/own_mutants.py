"""Mutation test of this project's own code: which random faults its tests notice.

`python benchmarks/own_mutants.py --output FILE --number 200` copies the tree into a temporary
folder, changes one place of one module at a time, and runs the tests that mirror the module: those
that import it and those in the folder of its name under `tests/`, the fastest first. Each file of
tests runs in a process forked from one that has imported the libraries and frameworks. The test
that kills a mutant must pass on the unchanged tree, or is left out and named. FILE has a line per
mutant; mutants in it are not tested again, but `--survivors` tests its survivors again, after
tests were added, or with a larger `--budget`. `--report` only prints the table. A
survivor may be equivalent to the original: after reading it, mark it in FILE with
`"equivalent": "why"`.
"""

import argparse
import ast
import collections
import contextlib
import gc
import importlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

for threads in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[threads] = "1"  # before anything imports a numerical library

import pytest

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
)
MUTATED_FILES = "adapters/*/settings.py"
"""Pattern of further modules."""

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
LIBRARIES = (
    *("numpy", "scipy.stats", "pyarrow.parquet", "hydra", "hypothesis", "matplotlib.figure"),
    *("gymnasium", "mujoco", "torch", "stable_baselines3", "torchrl", "tianshou", "skrl"),
)
"""Imported once, before processes are forked."""
UNKNOWN_SECONDS = 2.0  # of a file of tests that has not run yet
NO_TESTS = 5  # exit code of pytest
MAX_MEMORY = 16 * 2**30  # bytes of addresses; a mutant may ask for any amount


def main(arguments: Sequence[str] | None = None) -> int:
    """Test mutants and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="JSON lines, one per mutant")
    parser.add_argument("--number", type=int, default=200, help="mutants in all")
    parser.add_argument("--seed", type=int, default=0, help="of the random choice of places")
    parser.add_argument("--budget", type=float, default=60.0, help="CPU seconds per mutant")
    parser.add_argument("--survivors", action="store_true", help="test survivors in FILE again")
    parser.add_argument("--report", action="store_true", help="only print what FILE holds")
    options = parser.parse_args(arguments)
    if not options.report:
        with tempfile.TemporaryDirectory() as folder:
            tree = copy_tree(Path(folder) / "tree")
            test_mutants(tree, options)
    print_report(read_outcomes(options.output))
    return 0


def copy_tree(tree: Path) -> Path:
    """Copy the files that git tracks, as they are in the checkout."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    return tree


def read_outcomes(path: Path) -> dict[str, dict[str, object]]:
    """Read outcomes by the name of their mutant."""
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return {str(row["mutant"]): row for row in rows}


def test_mutants(tree: Path, options: argparse.Namespace) -> None:
    """Test mutants that have no outcome yet, or survivors again."""
    outcomes = read_outcomes(options.output)
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):  # a framework that is not installed here
            importlib.import_module(library)
    gc.freeze()  # forks neither scan it nor copy its pages
    tests = MirrorTests(tree, options.budget)
    for number, (path, name, text) in enumerate(choose_mutants(tree, options.seed), 1):
        if number > options.number:
            return
        known = outcomes.get(name)
        if known and not (options.survivors and not known["killed_by"]):
            continue
        started = measure_seconds()
        killed_by = tests.find_killer(path, text, find_function(path.read_text(), name))
        row = (known or {}) | {
            "mutant": name,
            "killed_by": killed_by,
            "seconds": round(measure_seconds() - started, 1),
        }
        with options.output.open("a") as file:
            file.write(json.dumps(row) + "\n")
        verdict = "killed" if killed_by else "SURVIVED"
        print(f"[{number}/{options.number}] {verdict} {name} {row['seconds']} s", flush=True)


def choose_mutants(tree: Path, seed: int) -> Iterator[tuple[Path, str, str]]:
    """Yield module, name and source of random mutants; all modules are equally likely."""
    rng = random.Random(seed)
    modules = [
        path
        for folder in MUTATED_FOLDERS
        for path in sorted((tree / folder).rglob("*.py"))
        if path.name != "__init__.py"
    ]
    modules += sorted(tree.glob(MUTATED_FILES))
    chosen = set()
    while True:
        path = rng.choice(modules)
        mutants = list(generate_mutants(path.read_text()))
        if not mutants:
            continue
        line, what, text = rng.choice(mutants)
        name = f"{path.relative_to(tree).as_posix()}:{line} {what}"
        if name not in chosen:
            chosen.add(name)
            yield path, name, text


def find_function(source: str, mutant: str) -> str:
    """Return the name of the function, or else the class, that has the line of a mutant."""
    line = int(mutant.partition(" ")[0].rpartition(":")[2])
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    public = [node.name for node in around if not node.name.startswith("_")]
    return public[-1] if public else ""


class MirrorTests:
    """Tests that mirror the modules of a tree."""

    def __init__(self, tree: Path, budget: float) -> None:
        """Begin without times of tests.

        Args:
            tree: Copy of the project.
            budget: CPU seconds of tests for a mutant; files that take longer than what is left of
                it are not run.
        """
        self._tree, self._budget = tree, budget
        self._seconds: dict[Path, float] = {}
        self._unusable: set[str] = set()
        self._verified: set[str] = set()
        self._mutants = 0

    def find_killer(self, module: Path, text: str, function: str) -> str:
        """Return the test that notices a change of a function; empty if none does.

        Args:
            module: Module that is changed.
            text: New source of the module.
            function: Name of the function or class whose code differs; empty outside of any.
        """
        left = self._budget
        for file in self._order_files(module, function):
            if self._seconds.get(file, UNKNOWN_SECONDS) > left:
                continue
            limit = max(20.0, 2 * left)  # a mutant may not end at all
            with replace_source(module, text, self._count_mutant()):
                killer, seconds = self._run_file(file, limit)
            left -= seconds
            if killer and self._passes_unchanged(file, killer, limit):
                return killer
        return ""

    def _count_mutant(self) -> int:
        self._mutants += 1
        return self._mutants

    def _order_files(self, module: Path, function: str) -> list[Path]:
        """Return the files of a module's tests, those that name the function or import it first.

        Where no test imports the module, the folder above its mirror is searched too.
        """
        mirror = self._tree / "tests" / module.relative_to(self._tree).parent
        importing = find_importing_tests(self._tree, module)
        if not importing and not mirror.is_dir():
            mirror = mirror.parent
        files = {*mirror.rglob("test_*.py"), *importing}
        files -= {file for file in files if "cluster" in file.name}  # minutes, and ports
        return sorted(
            files,
            key=lambda file: (
                not function or function not in file.read_text(),
                file not in importing,
                file.stem != f"test_{module.stem}",
                self._seconds.get(file, UNKNOWN_SECONDS),
                file,
            ),
        )

    def _run_file(self, file: Path, limit: float) -> tuple[str, float]:
        """Return the first test of a file that fails, and the seconds that the file took."""
        started = measure_seconds()
        left_out = [f"--deselect={name}" for name in sorted(self._unusable)]
        killer = find_failure(self._tree, [*left_out, str(file)], limit)
        seconds = measure_seconds() - started
        if not killer:  # the whole file ran
            self._seconds[file] = seconds
        return killer, seconds

    def _passes_unchanged(self, file: Path, killer: str, limit: float) -> bool:
        """Return whether a test passes on the original; otherwise leave it out from now on."""
        if killer in self._verified:
            return True
        named = killer.startswith("tests/")
        failure = find_failure(self._tree, [killer if named else str(file)], limit)
        if not failure:
            if named:
                self._verified.add(killer)
            return True
        unusable = killer if named else f"{file.relative_to(self._tree)}"
        print(f"left out: {unusable}", flush=True)
        self._unusable.add(unusable)
        return False


@contextlib.contextmanager
def replace_source(module: Path, text: str, modified: int) -> Iterator[None]:
    """Replace a module's source within the context.

    Python recognises compiled files by their source's time, so that each mutant needs its own
    `modified`, and the original gets back its own.
    """
    original, written = module.read_text(), module.stat().st_mtime
    module.write_text(text)
    os.utime(module, (modified, modified))
    try:
        yield
    finally:
        module.write_text(original)
        os.utime(module, (written, written))


def measure_seconds() -> float:
    """Return the processor time of all tests so far, which other processes do not change."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def find_failure(tree: Path, tests: Sequence[str], limit: float) -> str:
    """Run tests and return the first that fails, "timeout", or nothing if all pass."""
    code, output = run_tests(tree, tests, limit)
    if code in (0, NO_TESTS):
        return ""
    if code is None:
        return "timeout"
    lines = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return (lines or ["FAILED error"])[0].split(" ", 1)[1].split(" - ")[0].strip()


def find_importing_tests(tree: Path, module: Path) -> list[Path]:
    """Return test files that import a module, except for those of long tests."""
    dotted = "parallax." + ".".join(module.relative_to(tree).with_suffix("").parts)
    package, _, leaf = dotted.rpartition(".")
    needles = (f"from {dotted} import", f"import {dotted}", f"from {package} import {leaf}")
    return [
        path
        for path in sorted((tree / "tests").rglob("test_*.py"))
        if "long" not in path.parts and any(needle in path.read_text() for needle in needles)
    ]


def run_tests(tree: Path, tests: Sequence[str], limit: float) -> tuple[int | None, str]:
    """Run tests in a forked process.

    Args:
        tree: Copy of the project.
        tests: Files, names of tests and options.
        limit: Seconds of work; three times as long on the clock, as others may use the processor.

    Returns:
        Pytest's exit code, None if it took too long, and what it printed.
    """
    with tempfile.TemporaryFile() as log:
        child = os.fork()
        if child == 0:
            run_forked_tests(tree, tests, log.fileno(), int(limit))
        deadline = time.monotonic() + 3 * limit
        status = None
        while status is None and time.monotonic() < deadline:
            ended, code = os.waitpid(child, os.WNOHANG)
            status = os.waitstatus_to_exitcode(code) if ended else None
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # with all processes that a mutant started
        if status is None:
            os.waitpid(child, 0)
        status = None if status == -signal.SIGXCPU else status
        log.seek(0)
        return status, log.read().decode(errors="replace")


def run_forked_tests(tree: Path, tests: Sequence[str], log: int, limit: int) -> NoReturn:
    """Run pytest in this process, which ends with its exit code."""
    code = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 10))
        for stream in (1, 2):
            os.dup2(log, stream)
        os.chdir(tree)
        os.environ["PYTHONPATH"] = str(tree)
        sys.path[:] = [str(tree), *(path for path in sys.path if Path(path) != ROOT)]
        sys.argv[0] = "pytest"
        sys.dont_write_bytecode = False  # compiling all modules again takes longer than most tests
        code = pytest.main(["-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests])
    finally:
        sys.stdout.flush()
        os._exit(code)


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
            except SyntaxError:  # a part of a format string, whose position is wrong
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
