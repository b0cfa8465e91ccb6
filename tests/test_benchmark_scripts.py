"""The scripts in benchmarks/ against the code, the options and the documents that they name."""

import ast
import importlib
import os
import re
import sys
from pathlib import Path

import pytest
from loops import iterate_some
from test_language import is_one_word, starts_with_question

from benchmarks.call_timer import CallTimer, TimedCall

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *SCRIPTS,
]
COMMAND = re.compile(r"python benchmarks/(\w+)\.py([^\n`'\"|:#]*)")
TIMING_SCRIPTS = ("step_overhead", "diagnosis_cost")
REPLACED_NAMES = {
    "called_modules": ("parallax.harness.sweep.sweep:_execute_runs",),
    "diagnosis_classes": ("parallax.harness.train.run:make_replacement",),
    "diagnosis_cost": ("parallax.harness.contract.events:TrainingEvents.subscribe",),
    "replay_drift": (
        "parallax.harness.replay.replayer:ReplaySampler.draw",
        "parallax.harness.replay.replayer:ReplaySampler._make_error_function",
    ),
    "step_overhead": ("parallax.envs.make:make_task_env",),
}
"""Functions of the packages that scripts replace or call besides those in `TIMED_CALLS`."""
UPSTREAM_ATTRIBUTES = {"_predict", "_size", "_value", "_exit", "_tree"}
"""Private attributes that scripts read: of frameworks, of `os`, and of replay strategies."""


@pytest.fixture
def script(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "JAX_PLATFORMS"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


@pytest.mark.parametrize("name", TIMING_SCRIPTS)
def test_timed_functions_exist(script, name):
    module = script(name)
    assert len(module.TIMED_CALLS) > 4
    for call in module.TIMED_CALLS:
        call.find_owner()


def test_every_script_with_a_table_of_timed_functions_is_tested():
    found = {path.stem for path in SCRIPTS if "\nTIMED_CALLS = " in path.read_text()}
    assert found == set(TIMING_SCRIPTS)


def test_timed_subscribers_are_those_of_the_diagnosis(script):
    module = script("diagnosis_cost")
    engine = importlib.import_module(f"{module.DIAGNOSIS_PACKAGE}.engine")
    assert engine.DiagnosisEngine.__module__.startswith(module.DIAGNOSIS_PACKAGE)
    events = importlib.import_module("parallax.harness.contract.events")
    labels = {*module.FREQUENT_LABELS, *module.RARE_LABELS} - {"check", "report"}
    assert all(hasattr(events, label) for label in labels)


def test_replaced_functions_exist():
    for script, names in iterate_some(REPLACED_NAMES.items()):
        text = (ROOT / "benchmarks" / f"{script}.py").read_text()
        for name in iterate_some(names):
            module, _, function = name.partition(":")
            _, attribute = TimedCall(module, function, "").find_owner()
            assert attribute in text, f"{script} no longer has {attribute}"


def list_own_names(tree):
    """Return the functions of a script and the attributes that it sets on `self`."""
    nodes = list(ast.walk(tree))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    return own | {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    }


def test_private_attributes_are_listed():
    listed = {name.rpartition(".")[2] for names in REPLACED_NAMES.values() for name in names}
    unknown = []
    for path in SCRIPTS:
        tree = ast.parse(path.read_text())
        known = list_own_names(tree) | listed | UPSTREAM_ATTRIBUTES
        unknown += [
            f"{path.name}:{node.lineno}: {node.attr}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and re.match("_[a-z]", node.attr)
            and node.attr not in known
        ]
    assert not unknown


def test_a_missing_function_is_an_error():
    with pytest.raises(AttributeError):
        TimedCall("parallax.envs.make", "StepHook.no_such_method", "step").find_owner()


def test_nested_calls_are_not_counted_twice():
    now = iter([0, 10, 30, 100])
    timer = CallTimer(lambda: next(now))
    inner = timer.wrap_function("inner", lambda: None)
    timer.wrap_function("outer", inner)()
    assert dict(timer.calls) == {"inner": [20], "outer": [80]}


def test_timed_functions_are_restored():
    owner, name = (call := TimedCall("benchmarks.call_timer", "CallTimer", "made")).find_owner()
    before, timer = getattr(owner, name), CallTimer(lambda: 0)
    with timer.time_calls([call]):
        owner.CallTimer(lambda: 0)
    assert getattr(owner, name) is before and timer.calls["made"] == [0]


@pytest.mark.parametrize("name", ["per", "rank", "imp", "atdc"])
def test_replay_strategies_can_be_timed(script, name):
    draw, store, extra_bytes = script("replay").build_strategy(name, 512)
    store(draw())
    assert extra_bytes > 0


def test_own_mutants_differ_from_their_source(script):
    source = "def f(a, b):\n    if not a < b:\n        return a + 1\n    b += 2\n    return b\n"
    mutants = [text for _, _, text in script("own_mutants").generate_mutants(source)]
    assert len(mutants) > 4 and source not in mutants


def test_the_table_names_every_script():
    text = (ROOT / "benchmarks" / "README.md").read_text()
    named = re.findall(r"^\| `(\w+)\.py` \|", text, re.M)
    assert sorted(named) == [path.stem for path in SCRIPTS]
    for target, anchor in re.findall(r"\]\(([^)#]+)(?:#([\w-]+))?\)", text):
        page = (ROOT / "benchmarks" / target).resolve()
        headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
        anchors = {re.sub(r"[^\w\s-]", "", h.lower()).replace(" ", "-") for h in headings}
        assert not anchor or anchor in anchors, f"{target}#{anchor}"


def find_wrong_commands(page):
    """Return the commands of a page whose script, option or packed study does not exist."""
    wrong = []
    text = re.sub(r" *\\+\n +", " ", page.read_text().replace("\\_", "_"))
    for name, words in COMMAND.findall(text):
        path = ROOT / "benchmarks" / f"{name}.py"
        source = path.read_text() if path.is_file() else ""
        options = set(re.findall(r"--[a-z][\w-]*", words)) - {"--help"}
        files = re.findall(r"\bdocs/[\w/]+\.parquet", words)
        if not source or any(f'"{option}"' not in source for option in options):
            wrong.append(f"{name}.py{words}")
        wrong += [file for file in files if not (ROOT / file).is_file()]
    return wrong


def find_missing_scripts(page):
    names = re.findall(r"benchmarks/(\w+\.py)", page.read_text().replace("\\_", "_"))
    return [name for name in names if not (ROOT / "benchmarks" / name).is_file()]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_documented_commands_have_scripts_and_options(page):
    assert find_wrong_commands(page) == []
    assert find_missing_scripts(page) == []


def test_wrong_commands_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("    python benchmarks/events.py --looks 3\n    python benchmarks/share.py\n")
    assert find_wrong_commands(page) == ["events.py --looks 3", "share.py"]
    assert find_missing_scripts(page) == ["share.py"]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_names_and_docstrings_are_plain(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)
    assert not starts_with_question(ast.get_docstring(tree))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert not [name for name in names if is_one_word(name)]


def test_sources_name_scripts_that_exist():
    packages = ("adapters", "analysis", "envs", "harness", "hydra_plugins", "slurm")
    sources = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    assert [name for path in sources for name in find_missing_scripts(path)] == []
