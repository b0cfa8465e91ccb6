"""The scripts in benchmarks/ against the code, the options and the documents that they name."""

import ast
import importlib
import os
import re
import sys
from pathlib import Path

import pytest
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
    for script, names in REPLACED_NAMES.items():
        text = (ROOT / "benchmarks" / f"{script}.py").read_text()
        for name in names:
            module, _, function = name.partition(":")
            _, attribute = TimedCall(module, function, "").find_owner()
            assert attribute in text, f"{script} no longer has {attribute}"


def test_private_attributes_are_listed():
    listed = {name.rpartition(".")[2] for names in REPLACED_NAMES.values() for name in names}
    for path in SCRIPTS:
        tree = ast.parse(path.read_text())
        own = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        }
        own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr):
                known = own | listed | UPSTREAM_ATTRIBUTES
                assert node.attr in known, f"{path.name}:{node.lineno}: {node.attr}"


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


def test_the_table_names_every_script():
    text = (ROOT / "benchmarks" / "README.md").read_text()
    named = re.findall(r"^\| `(\w+)\.py` \|", text, re.M)
    assert sorted(named) == [path.stem for path in SCRIPTS]
    for target, anchor in re.findall(r"\]\(([^)#]+)(?:#([\w-]+))?\)", text):
        page = (ROOT / "benchmarks" / target).resolve()
        headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
        anchors = {re.sub(r"[^\w\s-]", "", h.lower()).replace(" ", "-") for h in headings}
        assert not anchor or anchor in anchors, f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_documented_commands_have_scripts_and_options(page):
    text = re.sub(r" *\\+\n +", " ", page.read_text().replace("\\_", "_"))
    for name, words in COMMAND.findall(text):
        path = ROOT / "benchmarks" / f"{name}.py"
        assert path.is_file(), f"{page.name}: {name}.py"
        source = path.read_text()
        for option in re.findall(r"--[a-z][\w-]*", words):
            known = option == "--help" or f'"{option}"' in source
            assert known, f"{page.name}: {name}.py {option}"
        for file in re.findall(r"\bdocs/[\w/]+\.parquet", words):
            assert (ROOT / file).is_file(), f"{page.name}: {file}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_scripts_that_pages_name_exist(page):
    for name in re.findall(r"benchmarks/(\w+\.py)", page.read_text().replace("\\_", "_")):
        assert (ROOT / "benchmarks" / name).is_file(), f"{page.name}: {name}"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_names_and_docstrings_are_plain(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)
    assert not starts_with_question(ast.get_docstring(tree))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert not [name for name in names if is_one_word(name)]


def test_sources_name_scripts_that_exist():
    for package in ("adapters", "analysis", "envs", "harness", "hydra_plugins", "slurm"):
        for path in (ROOT / package).rglob("*.py"):
            for name in re.findall(r"benchmarks/(\w+\.py)", path.read_text()):
                assert (ROOT / "benchmarks" / name).is_file(), f"{path}: {name}"
