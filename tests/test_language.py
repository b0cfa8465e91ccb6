"""Names and words of sources and tests: verb and object, nouns that say of what, the field's terms.

`python tests/test_language.py` prints the measurements. The bounds below are upper limits, and
exceptions are listed.
"""

import ast
import builtins
import dataclasses
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from sources import parse_files

ROOT = Path(__file__).parents[1]
PACKAGES = ("harness", "adapters", "analysis", "slurm", "envs", "hydra_plugins")
MAX_ONE_WORD_FUNCTIONS, MAX_ONE_WORD_CLASSES, MAX_QUESTION_DOCSTRINGS = 0.15, 0.20, 0.01
MAX_MODULES, MAX_LINES = 392, 107_250
"""Sizes of the tree. A commit that raises one says what for."""
MAX_TEST_NAME_WORDS = 12
QUESTION_WORDS = {"What", "Which", "Whether", "How", "Who", "Whom", "Whose", "Where", "When", "Why"}
REPLACED_WORDS = re.compile(
    r"\b(told|telling|laid in(to)?|lay in|lays in|held|kept|minding|undecided|parted|parting"
    r"|as they come|may as well be|comes? to bear|be it that|at a look|preloaded|bent loss"
    r"|way of replaying|ways of replaying|the house|runs that were not seen|optimisers?)\b",
    re.IGNORECASE,
)
"""Words of docs, comments, messages and identifiers that have a standard term instead."""
IDENTIFIER_PARTS = {"told", "held", "kept", "minding", "undecided", "parted", "laid", "asked"}
EXCEPTIONS: dict[str, tuple[str, ...]] = {
    "harness/record/old_names.py": ("told", "kept", "held", "parted", "undecided"),
    "tests/harness/record/test_old_names.py": ("kept",),
    "tests/harness/record/test_small_records.py": ("kept", "preloaded"),
    "tests/harness/sweep/test_allocator.py": ("preloaded",),
    "tests/analysis/data/test_packed_records.py": ("preloaded",),
    "tests/analysis/report/test_publication.py": ("preloaded",),
    "harness/record/run_json.py": ("preloaded",),
    "harness/record/provenance.py": ("preloaded",),
    "analysis/data/packed.py": ("preloaded",),
    "docs/reference/run-folder.md": ("preloaded", "kept"),
}
"""Words that a file may use: names as they are on disk in old files, and quotations."""
UNCHECKED_FILES = {"tests/test_language.py", "tests/plants/one_line_faults.yaml"}
"""This file, and patterns that recognize descriptions written by people."""
TEXT_FILES = ("README.md", "docs/**/*.md", "hp_configs/**/*.yaml", "harness/conf/**/*.yaml")


@dataclasses.dataclass(frozen=True)
class SourceMeasures:
    """Counts over all modules of the packages.

    Attributes:
        modules: Modules besides `__init__`.
        lines: Lines of all modules.
        functions: Module-level functions.
        one_word_functions: Those whose name has one word, without `main`.
        classes: Module-level classes.
        one_word_classes: Those whose name has one word.
        docstrings: Docstrings of modules, classes and functions.
        question_docstrings: Those that begin with a question word.
    """

    modules: int
    lines: int
    functions: int
    one_word_functions: int
    classes: int
    one_word_classes: int
    docstrings: int
    question_docstrings: int


def list_source_files() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def list_checked_files() -> list[Path]:
    """Return sources, tests, texts and benchmarks whose words are checked."""
    tests = sorted((ROOT / "tests").rglob("*.py")) + sorted((ROOT / "tests").rglob("*.yaml"))
    texts = sorted(path for pattern in TEXT_FILES for path in ROOT.glob(pattern))
    benchmarks = sorted((ROOT / "benchmarks").glob("*.*"))
    files = list_source_files() + tests + texts + benchmarks
    return [path for path in files if path.relative_to(ROOT).as_posix() not in UNCHECKED_FILES]


def is_one_word(name: str) -> bool:
    stripped = name.strip("_")
    if stripped[:1].isupper():
        return len(re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", stripped)) <= 1
    return "_" not in stripped and stripped != "main"


def starts_with_question(docstring: str) -> bool:
    return re.split(r"\W", docstring, maxsplit=1)[0] in QUESTION_WORDS


def list_docstrings(node: ast.AST) -> Iterator[str]:
    """Yield the docstrings of a module and of all that it defines, without its expressions."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
        text = ast.get_docstring(node)
        if text:
            yield text
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from list_docstrings(child)


@functools.cache
def parse_sources() -> dict[Path, ast.Module]:
    return parse_files(list_source_files())


@functools.cache
def parse_tests() -> list[ast.Module]:
    return list(parse_files(sorted((ROOT / "tests").rglob("*.py"))).values())


@functools.cache
def measure_sources() -> SourceMeasures:
    trees = parse_sources()
    functions = [n.name for t in trees.values() for n in t.body if isinstance(n, ast.FunctionDef)]
    classes = [n.name for t in trees.values() for n in t.body if isinstance(n, ast.ClassDef)]
    docstrings = [text for tree in trees.values() for text in list_docstrings(tree)]
    return SourceMeasures(
        modules=sum(path.name != "__init__.py" for path in trees),
        lines=sum(path.read_text("utf-8").count("\n") for path in trees),
        functions=len(functions),
        one_word_functions=sum(map(is_one_word, functions)),
        classes=len(classes),
        one_word_classes=sum(map(is_one_word, classes)),
        docstrings=len(docstrings),
        question_docstrings=sum(map(starts_with_question, docstrings)),
    )


def find_replaced_words() -> list[str]:
    """Return the lines of sources, tests and docs with a word that has a standard term."""
    found = []
    for path in list_checked_files():
        name = path.relative_to(ROOT).as_posix()
        allowed = EXCEPTIONS.get(name, ())
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            words = {match[0].lower() for match in REPLACED_WORDS.finditer(line)}
            words |= {
                part
                for identifier in re.findall(r"[A-Za-z_]+", line)
                for part in identifier.lower().split("_")
                if part in IDENTIFIER_PARTS and "_" in identifier
            }
            if words - set(allowed):
                found.append(f"{name}:{number}: {', '.join(sorted(words))}")
    return found


def test_functions_are_verb_and_object():
    measures = measure_sources()
    assert measures.functions > 1000
    assert measures.one_word_functions <= MAX_ONE_WORD_FUNCTIONS * measures.functions


def test_classes_have_specific_names():
    measures = measure_sources()
    assert measures.classes > 300
    assert measures.one_word_classes <= MAX_ONE_WORD_CLASSES * measures.classes


def test_docstrings_do_not_begin_with_a_question_word():
    measures = measure_sources()
    assert measures.docstrings > 2000
    assert measures.question_docstrings <= MAX_QUESTION_DOCSTRINGS * measures.docstrings


def test_docstrings_of_tests_do_not_begin_with_a_question_word():
    texts = [text for tree in parse_tests() for text in list_docstrings(tree)]
    assert len(texts) > 500
    assert not list(filter(starts_with_question, texts))


def test_names_of_tests_are_short():
    nodes = [node for tree in parse_tests() for node in ast.walk(tree)]
    names = [
        node.name.removeprefix("test_")
        for node in nodes
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert len(names) > 3000
    assert not [name for name in names if name.count("_") >= MAX_TEST_NAME_WORDS]


def test_docstrings_name_errors_that_exist():
    trees = list(parse_sources().values())
    nodes = [node for tree in trees for node in ast.walk(tree)]
    known = {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.alias)}
    known |= set(dir(builtins))
    raised = re.compile(r"^    (\w+): ", re.MULTILINE)
    named = {
        name
        for tree in trees
        for text in list_docstrings(tree)
        for name in raised.findall(text.partition("\nRaises:\n")[2].partition("\n\n")[0])
    }
    assert sorted(named - known) == []


def test_tree_is_small():
    measures = measure_sources()
    assert measures.modules <= MAX_MODULES and measures.lines <= MAX_LINES


def test_sources_use_standard_terms():
    found = find_replaced_words()
    assert not found


if __name__ == "__main__":
    for field, value in dataclasses.asdict(measure_sources()).items():
        print(f"{field:22} {value}")
    lines = find_replaced_words()
    print(f"{'replaced words':22} {len(lines)} lines")
    print("\n".join(lines[:40]))
