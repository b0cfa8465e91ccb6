"""Mutation test of this project's own code: which random faults its tests notice.

`python benchmarks/own_mutants.py --output FILE --number 200` copies the tree into a temporary
folder, changes one place of one module at a time, and runs the tests that mirror the module: those
that import it and those in the folder of its name under `tests/`. Of these it runs the tests that
execute the changed statement, the fastest first, until one fails. Which tests do is measured once
per file of tests, and stored in `--coverage`. Tests run in processes forked from one that has
imported the libraries and frameworks. The test that kills a mutant must pass on the unchanged
tree, or is left out and named.

FILE has a line per mutant; mutants in it are not tested again, but `--survivors` tests its
survivors again, after tests were added, or with a larger `--budget`. `--report` only prints the
table. A survivor may be equivalent to the original: after reading it, mark it in FILE with
`"equivalent": "why"`.
"""

import argparse
import ast
import collections
import contextlib
import dataclasses
import functools
import gc
import hashlib
import importlib
import itertools
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
from typing import Any, NoReturn

for threads in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[threads] = "1"  # before anything imports a numerical library

import pytest

from benchmarks import statement_coverage

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
UNKNOWN_SECONDS = 15.0  # of a file of tests that has not run yet
START_SECONDS = 2.0  # of a process that tests
BATCH_SECONDS = 10.0  # of tests that share a process
MEASURED_SHARE = 1.0  # of the budget of a mutant: CPU seconds to measure coverage
COVERAGE_SECONDS = 30  # at most, for a file of tests
MAX_MEMORY = 16 * 2**30  # bytes of addresses; a mutant may ask for any amount


def main(arguments: Sequence[str] | None = None) -> int:
    """Test mutants and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="JSON lines, one per mutant")
    parser.add_argument("--number", type=int, default=200, help="mutants in all")
    parser.add_argument("--seed", type=int, default=0, help="of the random choice of places")
    parser.add_argument("--budget", type=float, default=60.0, help="CPU seconds per mutant")
    parser.add_argument("--coverage", type=Path, help="JSON lines; by default beside FILE")
    parser.add_argument("--survivors", action="store_true", help="test survivors in FILE again")
    parser.add_argument("--verify", action="store_true", help="run killers on the unchanged tree")
    parser.add_argument("--report", action="store_true", help="only print what FILE holds")
    options = parser.parse_args(arguments)
    if not (options.report or options.verify):
        with tempfile.TemporaryDirectory() as folder:
            test_mutants(Path(folder), options)
    if options.verify:
        with tempfile.TemporaryDirectory() as folder:
            verify_killers(copy_tree(Path(folder) / "tree"), options.output)
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


def test_mutants(folder: Path, options: argparse.Namespace) -> None:
    """Test mutants that have no outcome yet, or survivors again, in a temporary folder."""
    tree = copy_tree(folder / "tree")
    outcomes = read_outcomes(options.output)
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):  # a framework that is not installed here
            importlib.import_module(library)
    gc.freeze()  # forks neither scan it nor copy its pages
    stored = options.coverage or options.output.with_suffix(".coverage.jsonl")
    tests = MirrorTests(tree, options.budget, CoverageStore(tree, folder / "probed", stored))
    chosen = itertools.islice(choose_mutants(tree, options.seed), options.number)
    for number, (path, name, text) in enumerate(chosen, 1):
        known = outcomes.get(name)
        if known and not (options.survivors and not known["killed_by"]):
            continue
        started = measure_seconds()
        line = int(name.split(":")[1])
        killed_by, unfinished = tests.find_killer(path, text, line)
        row = (known or {}) | {
            "mutant": name,
            "killed_by": killed_by,
            "seconds": round(measure_seconds() - started, 1),
            "tests_not_run": unfinished,
            "files_not_measured": tests.files_not_measured,
        }
        with options.output.open("a") as file:
            file.write(json.dumps(row) + "\n")
        verdict = "killed" if killed_by else "SURVIVED"
        print(f"[{number}/{options.number}] {verdict} {name} {row['seconds']} s", flush=True)


def verify_killers(tree: Path, output: Path) -> None:
    """Run all killers on the unchanged tree; a mutant whose killer fails there is a survivor."""
    outcomes = read_outcomes(output)
    killers = sorted({str(row["killed_by"]) for row in outcomes.values()})
    named = [killer for killer in killers if "::" in killer]
    result = run_tests(tree, named, 3600, stop=False)
    bad = set(result.failed) | (set(named) - set(result.seconds))
    print(f"{len(named) - len(bad)} of {len(named)} killers pass on the unchanged tree")
    with output.open("a") as file:
        for name, row in outcomes.items():
            if row["killed_by"] in bad:
                print(f"{name}: {row['killed_by']} fails on the unchanged tree")
                file.write(json.dumps(row | {"killed_by": ""}) + "\n")


def choose_mutants(tree: Path, seed: int) -> Iterator[tuple[Path, str, str]]:
    """Yield module, name and source of random mutants; all modules are equally likely."""
    rng = random.Random(seed)
    modules = list_modules(tree)
    chosen = set()
    read = functools.cache(lambda path: list(generate_mutants(path.read_text())))
    while True:
        path = rng.choice(modules)
        mutants = read(path)
        if not mutants:
            continue
        place, what, text = rng.choice(mutants)
        name = f"{path.relative_to(tree).as_posix()}:{place} {what}"
        if name not in chosen:
            chosen.add(name)
            yield path, name, text


def list_modules(tree: Path) -> list[Path]:
    """Return the modules that can be changed."""
    modules = [
        path
        for folder in MUTATED_FOLDERS
        for path in sorted((tree / folder).rglob("*.py"))
        if path.name != "__init__.py"
    ]
    return modules + sorted(tree.glob(MUTATED_FILES))


class CoverageStore:
    """Coverage of files of tests, measured when it is first needed and stored in a file."""

    def __init__(self, tree: Path, probed: Path, path: Path) -> None:
        """Read what is stored.

        Args:
            tree: Copy of the project.
            probed: Folder for another copy, with probes.
            path: File of the coverage, JSON lines. An entry is valid for these sources and the
                same file of tests; after a change of helpers in `tests/`, delete it.
        """
        self._tree, self._probed, self._path = tree, probed, path
        self._visits = probed.with_name("visits")
        self._modules = [path.relative_to(tree).as_posix() for path in list_modules(tree)]
        self._known: dict[str, statement_coverage.FileCoverage] = {}
        packages = {name.partition("/")[0] for name in self._modules}
        sources = [path for package in sorted(packages) for path in (tree / package).rglob("*.py")]
        self._digest = hash_files(sorted(sources))
        for row in map(json.loads, path.read_text().splitlines() if path.exists() else ()):
            self._known[row.pop("key")] = decode_coverage(row)

    def is_known(self, file: Path) -> bool:
        """Return whether the coverage of a file of tests is stored."""
        return self._make_key(file) in self._known

    def measure(self, file: Path) -> statement_coverage.FileCoverage:
        """Return the coverage of a file of tests."""
        key = self._make_key(file)
        if key not in self._known:
            coverage, is_whole = self._measure_file(file)
            self._known[key] = coverage
            if is_whole:
                with self._path.open("a") as stored:
                    stored.write(json.dumps({"key": key} | encode_coverage(coverage)) + "\n")
        return self._known[key]

    def list_statements_with(self, names: set[str]) -> set[int]:
        """Return the numbers of the statements that use one of some names."""
        return {
            index * statement_coverage.LINES + line
            for index, name in enumerate(self._modules)
            for line in statement_coverage.list_statements_with(
                (self._tree / name).read_text(), names
            )
        }

    def find_statement(self, module: Path, line: int) -> int:
        """Return the number of the statement on a line; 0 if it runs when imported."""
        start = statement_coverage.map_lines(module.read_text()).get(line, 0)
        index = self._modules.index(module.relative_to(self._tree).as_posix())
        return index * statement_coverage.LINES + start if start else 0

    def _make_key(self, file: Path) -> str:
        return f"{file.relative_to(self._tree).as_posix()} {hash_files([file])} {self._digest}"

    def _measure_file(self, file: Path) -> tuple[statement_coverage.FileCoverage, bool]:
        # Tests that time was too short for have no coverage, and are not run.
        if not self._probed.exists():
            copy_tree(self._probed)
            statement_coverage.insert_probe_module(self._probed, self._visits)
            for index, name in enumerate(self._modules):
                statement_coverage.insert_probes(self._probed / name, index)
        self._visits.touch()
        name = file.relative_to(self._tree).as_posix()
        started = time.monotonic()
        result = run_tests(self._probed, [name], COVERAGE_SECONDS, stop=False)
        passed = {test: result.seconds[test] for test in result.seconds.keys() - set(result.failed)}
        print(
            f"coverage of {name}: {len(passed)} tests, {time.monotonic() - started:.0f} s; "
            f"left out {result.failed} {'(out of time)' if result.timed_out else ''}",
            flush=True,
        )
        coverage = statement_coverage.read_coverage(self._visits, passed)
        return coverage, not result.timed_out


def hash_files(files: Sequence[Path]) -> str:
    """Return the SHA-256 of the content of files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def encode_coverage(coverage: statement_coverage.FileCoverage) -> dict[str, object]:
    """Encode the coverage of a file of tests for JSON, tests by their number."""
    numbers = {test: index for index, test in enumerate(coverage.seconds)}
    numbers[""] = -1
    return {
        "seconds": coverage.seconds,
        **{
            field: {
                statement: [numbers[test] for test in tests]
                for statement, tests in getattr(coverage, field).items()
            }
            for field in ("visits", "shared")
        },
    }


def decode_coverage(row: dict[str, dict[str, Any]]) -> statement_coverage.FileCoverage:
    """Decode what `encode_coverage` made."""
    names = [*row["seconds"], ""]
    visits, shared = (
        {
            int(statement): [names[index] for index in tests]
            for statement, tests in row[field].items()
        }
        for field in ("visits", "shared")
    )
    return statement_coverage.FileCoverage(row["seconds"], visits, shared)


class MirrorTests:
    """Tests that mirror the modules of a tree."""

    def __init__(self, tree: Path, budget: float, coverage: CoverageStore) -> None:
        """Begin without knowledge of tests that cannot be used.

        Args:
            tree: Copy of the project.
            budget: CPU seconds of tests for a mutant.
            coverage: Statements that tests execute.
        """
        self._tree, self._budget, self._coverage = tree, budget, coverage
        self._unusable: set[str] = set()
        self._mutants = 0
        self.files_not_measured = 0

    def find_killer(self, module: Path, text: str, line: int) -> tuple[str, int]:
        """Return the test that notices a change, empty if none does, and how many were not run.

        Args:
            module: Module that is changed.
            text: New source of the module.
            line: Line of the change.
        """
        self._mutants += 1
        self.files_not_measured = 0
        left, not_run = self._budget, 0
        for tests, seconds in self._generate_batches(module, line):
            if seconds > left:
                not_run += len(tests)
                continue
            limit = 20 + 4 * seconds  # a mutant may not end at all
            started = measure_seconds()
            with replace_source(module, text, self._mutants):
                result = run_tests(self._tree, tests, limit)
            left -= max(measure_seconds() - started - START_SECONDS, 0.0)
            if killer := self._verify_killer(tests, result, limit):
                return killer, 0
        return "", not_run

    def _generate_batches(self, module: Path, line: int) -> Iterator[tuple[list[str], float]]:
        """Yield tests that run together, and their seconds, the fastest first.

        First come those that execute the changed statement, or, if it runs when its module is
        imported, a statement with a name that it defines. Then come the other tests of these
        files, as they may use what the statement computed for another test, and, for statements
        that run when imported, all others.
        """
        source = module.read_text()
        statement = self._coverage.find_statement(module, line)
        names = statement_coverage.find_names(source, line)
        statements = {statement} if statement else self._coverage.list_statements_with(names)
        waiting = self._list_files(module, names)
        measuring = 0.0
        ready: list[tuple[float, list[str]]] = []
        others: list[tuple[float, list[str]]] = []
        while waiting or ready:
            ready.sort()
            if waiting and not (ready and ready[0][0] < waiting[0][0]):
                _, file = waiting.pop(0)
                if measuring > MEASURED_SHARE * self._budget and not self._coverage.is_known(file):
                    self.files_not_measured += 1
                    continue
                started = measure_seconds()
                coverage = self._coverage.measure(file)
                measuring += measure_seconds() - started
                seconds = self._list_usable(coverage)
                direct, shared = select_tests(coverage, statements)
                direct &= seconds.keys()
                rest = seconds.keys() - direct if direct or shared or not statement else set()
                for chosen, group in ((direct, ready), (rest, others)):
                    for tests in split_batches({test: seconds[test] for test in chosen}):
                        group.append((sum(seconds[test] for test in tests), tests))
                continue
            yield from take_batch(ready)
        others.sort()
        while others:
            yield from take_batch(others)

    def _list_usable(self, coverage: statement_coverage.FileCoverage) -> dict[str, float]:
        return {
            test: seconds
            for test, seconds in coverage.seconds.items()
            if test not in self._unusable
        }

    def _list_files(self, module: Path, names: set[str]) -> list[tuple[float, Path]]:
        """Return the files of a module's tests and guesses of their seconds.

        Where the mirror of the module's folder does not exist, that of the folder above is taken.
        """
        mirror = self._tree / "tests" / module.relative_to(self._tree).parent
        importing = find_importing_tests(self._tree, module)
        if not mirror.is_dir():
            mirror = mirror.parent
        files = {*mirror.rglob("test_*.py"), *importing}
        files -= {file for file in files if "cluster" in file.name}  # minutes, and ports
        guesses = []
        for file in files:
            guess = 0.0 if self._coverage.is_known(file) else UNKNOWN_SECONDS
            if file.stem == f"test_{module.stem}" or any(
                name in file.read_text() for name in names
            ):
                guess /= 5
            guesses.append((guess if file in importing else 3 * guess, file))
        return sorted(guesses)

    def _verify_killer(self, tests: list[str], result: "TestResult", limit: float) -> str:
        """Return the test that failed, or "timeout" or "crash" if the unchanged tree passes."""
        killer = result.failed[0] if result.failed else ""
        if not killer and not result.timed_out and not result.crashed:
            return ""
        if killer:  # it passed when its coverage was measured; --verify runs it again
            return killer
        again = run_tests(self._tree, tests, limit)
        if not (again.failed or again.timed_out or again.crashed):
            return "timeout" if result.timed_out else "crash"
        print(f"left out: {tests}", flush=True)
        self._unusable |= set(tests)
        return ""


def select_tests(
    coverage: statement_coverage.FileCoverage, statements: set[int]
) -> tuple[set[str], bool]:
    """Return the tests that execute statements, and whether code that tests share does."""
    tests: set[str] = set()
    shared = False
    for statement in statements:
        tests.update(coverage.visits.get(statement, ()))
        tests.update(coverage.shared.get(statement, ()))
        shared = shared or statement in coverage.shared
    return tests, shared


def split_batches(seconds: dict[str, float]) -> Iterator[list[str]]:
    """Yield groups of tests, the fastest first, of about `BATCH_SECONDS` each."""
    batch: list[str] = []
    total = 0.0
    for test in sorted(seconds, key=lambda test: seconds[test]):
        if batch and total + seconds[test] > BATCH_SECONDS:
            yield batch
            batch, total = [], 0.0
        batch.append(test)
        total += seconds[test]
    if batch:
        yield batch


def take_batch(groups: list[tuple[float, list[str]]]) -> Iterator[tuple[list[str], float]]:
    """Take the first groups, as many as `BATCH_SECONDS` allow, and yield them as one."""
    seconds, tests = groups.pop(0)
    tests = list(tests)
    while groups and seconds + groups[0][0] <= BATCH_SECONDS:
        more, others = groups.pop(0)
        seconds, tests = seconds + more, tests + others
    yield tests, seconds


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


@dataclasses.dataclass(frozen=True)
class TestResult:
    """Outcome of tests.

    Attributes:
        seconds: Seconds of each test that ran to its end.
        failed: Those that failed, the first that failed first.
        timed_out: Whether they took too long.
        crashed: Whether the tests could not be collected, or their process ended early.
    """

    seconds: dict[str, float]
    failed: list[str]
    timed_out: bool
    crashed: bool


class SelectingPlugin(statement_coverage.CoveragePlugin):
    """Plug-in of pytest that runs chosen tests, and writes down how each ends."""

    def __init__(self, chosen: Sequence[str], log: Path) -> None:
        """Begin with no outcomes.

        Args:
            chosen: Names of tests in their order; all if none has the name of a test.
            log: File for the outcomes, JSON lines.
        """
        self._order = {name: index for index, name in enumerate(chosen) if "::" in name}
        self._log = log.open("w", buffering=1)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave the chosen tests, file by file."""
        if self._order:
            items[:] = [item for item in items if item.nodeid in self._order]
            first: dict[Path, int] = {}
            for item in items:
                order = self._order[item.nodeid]
                first[item.path] = min(first.get(item.path, order), order)
            items.sort(key=lambda item: (first[item.path], self._order[item.nodeid]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write how a phase of a test ended."""
        row = {"test": report.nodeid, "seconds": report.duration, "phase": report.when}
        self._log.write(json.dumps(row | {"outcome": report.outcome}) + "\n")


def run_tests(tree: Path, tests: Sequence[str], limit: float, stop: bool = True) -> TestResult:
    """Run tests in a forked process.

    Args:
        tree: Copy of the project.
        tests: Names of tests, or a file.
        limit: Seconds of work; eight times as long on the clock, as others may use the processor.
        stop: Whether to stop at the first failure.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        child = os.fork()
        if child == 0:
            run_forked_tests(tree, tests, log, int(limit), stop)
        deadline = time.monotonic() + 8 * limit
        status = None
        while status is None and time.monotonic() < deadline:
            ended, code = os.waitpid(child, os.WNOHANG)
            status = os.waitstatus_to_exitcode(code) if ended else None
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # with all processes that a mutant started
        if status is None:
            os.waitpid(child, 0)
        return read_result(log, status)


def read_result(log: Path, status: int | None) -> TestResult:
    """Read the outcomes of tests; `status` is the exit code of pytest, None if out of time."""
    seconds: dict[str, float] = collections.defaultdict(float)
    failed: list[str] = []
    ended = set()
    for row in map(json.loads, log.read_text().splitlines() if log.exists() else ()):
        seconds[row["test"]] += row["seconds"]
        if row["outcome"] == "failed" and row["test"] not in failed:
            failed.append(row["test"])
        if row["phase"] == "teardown":
            ended.add(row["test"])
    timed_out = status is None or status == -signal.SIGXCPU
    good = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
    finished = {test: round(seconds[test], 3) for test in seconds if test in ended}
    return TestResult(finished, failed, timed_out, not timed_out and status not in good)


def run_forked_tests(
    tree: Path, tests: Sequence[str], log: Path, limit: int, stop: bool
) -> NoReturn:
    """Run pytest in this process, which ends with its exit code."""
    code = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 10))
        output = os.open(log.with_name("output"), os.O_WRONLY | os.O_CREAT)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.chdir(tree)
        os.environ["PYTHONPATH"] = str(tree)
        sys.path[:] = [str(tree), *(path for path in sys.path if Path(path) != ROOT)]
        sys.argv[0] = "pytest"
        sys.dont_write_bytecode = False  # compiling all modules again takes longer than most tests
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        options = ["-q", "--no-header", f"--basetemp={log.parent}/t"]
        options += ["-x"] if stop else []
        code = pytest.main([*options, *files], plugins=[SelectingPlugin(tests, log)])
    finally:
        sys.stdout.flush()
        os._exit(code)


def generate_mutants(source: str) -> Iterator[tuple[str, str, str]]:
    """Yield line and column, description, and source of each mutant of a module."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    encoded = source.encode()
    for node in ast.walk(ast.parse(source)):
        for what, replacement in mutate_node(node):
            assert isinstance(node, ast.expr | ast.stmt)
            assert node.end_lineno is not None and node.end_col_offset is not None
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            changed = (encoded[:start] + replacement.encode() + encoded[end:]).decode()
            try:
                ast.parse(changed)
            except SyntaxError:  # a part of a format string, whose position is wrong
                continue
            yield f"{node.lineno}:{node.col_offset + 1}", what, changed


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
            swapped_bool = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield "and <-> or", f"({ast.unparse(ast.BoolOp(swapped_bool, values))})"
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
        case ast.Return(value=ast.Constant(value=None)):
            return
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
