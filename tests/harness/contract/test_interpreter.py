"""Interpreters of users, and where this process and its children may import from."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from parallax.harness.contract import interpreter
from parallax.harness.contract.fields import SpecError

ROOT = Path(interpreter._ROOT)


@pytest.fixture
def program(tmp_path: Path):
    def make(text: str) -> str:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        interpreter._why_not_python.cache_clear()
        interpreter._why_cannot_train.cache_clear()
        return str(path)

    return make


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo hello", "does not answer as a Python does: 'hello'"),
        ("exit 3", "does not answer as a Python does: 'exit code 3, without output'"),
        ("echo trouble >&2; exit 1", "does not answer as a Python does: 'trouble'"),
        ("echo 6 3 11", "does not answer as a Python does"),  # not the product
        ("sleep 30", "did not answer within 0.3 s."),
        ("while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done", "prints without end."),
        ("exec >&- 2>&-; sleep 30", "closed its output but does not exit."),
    ],
)
def test_non_python_program_is_named_with_its_output(program, monkeypatch, text, words):
    limit = 0.3 if "within 0.3 s" in words else 20.0
    monkeypatch.setattr(interpreter, "_PYTHON_CHECK_SECONDS", limit)
    python = program(text)
    with pytest.raises(SpecError) as error:
        interpreter.check_interpreter(python, "sb3")
    assert str(error.value).startswith(f"framework.python={python} {words}")
    assert str(error.value).endswith(interpreter._REMEDY)


def test_missing_or_non_executable_program_cannot_be_started(tmp_path):
    for name, why in (("gone", "No such file or directory"), (".", "Permission denied")):
        with pytest.raises(SpecError, match=rf"cannot be started \({why}\)\. Name the path"):
            interpreter.check_interpreter(str(tmp_path / name), "sb3")


@pytest.mark.parametrize(("version", "is_new"), [((3, 10), False), ((3, 11), True), ((4, 0), True)])
def test_the_oldest_python_is_the_oldest_that_loads_the_harness(monkeypatch, version, is_new):
    def answer(python, code, first, second, seconds):
        return 0, f"a start-up file\n{int(first) * int(second)} {version[0]} {version[1]}\n", ""

    interpreter._why_not_python.cache_clear()
    monkeypatch.setattr(interpreter, "_run_code", answer)
    found = interpreter._why_not_python("python-of-a-test")
    expected = f"is Python {version[0]}.{version[1]}. {interpreter._REMEDY}"
    assert found == (None if is_new else expected)


@pytest.mark.parametrize(
    ("code", "answer", "errors", "words"),
    [
        (0, "noise\nable {}", "a warning", None),
        (1, "able {}", "", "it ended without output"),
        (0, "able 6", "", "it ended without output"),
        (1, "", "Traceback\nImportError: no sb3\n", "ImportError: no sb3"),
    ],
)
def test_unusable_python_states_the_reason(monkeypatch, code, answer, errors, words):
    def run(python, source, entry, first, second, seconds):
        assert entry == "parallax.adapters.sb3:SB3Adapter"
        return code, answer.format(int(first) * int(second)), errors

    interpreter._why_cannot_train.cache_clear()
    monkeypatch.setattr(interpreter, "_run_code", run)
    expected = words and f"cannot train with sb3: {words}"
    assert interpreter._why_cannot_train("python-of-a-test", "sb3") == expected


@pytest.fixture
def path(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    return sys.path


@pytest.mark.parametrize("given", [None, "/own/a:/own/b"])
@pytest.mark.parametrize("imports_from_here", [True, False])
def test_children_import_from_the_current_folder_only_if_this_process_does(
    tmp_path, monkeypatch, path, given, imports_from_here
):
    monkeypatch.chdir(tmp_path)
    path[:] = [str(tmp_path), *path] if imports_from_here else [p for p in path if p]
    environment = {"A": "1"} | ({"PYTHONPATH": given} if given else {})
    here = [str(tmp_path)] if imports_from_here and not sys.flags.safe_path else []
    own = given.split(":") if given else []
    found = interpreter.leave_out_folder(environment)
    assert found["A"] == "1" and found["PYTHONSAFEPATH"] == "1"
    assert found.get("PYTHONPATH", "") == ":".join([*own, *here])
    found = interpreter.add_project_to_path(environment)
    assert found["PYTHONPATH"] == ":".join([str(ROOT), *own, *here])
    assert environment.get("PYTHONPATH") == given


def test_modules_in_study_folders_cannot_be_imported(tmp_path, path):
    study = tmp_path / "results" / "study"
    run = study / "Hopper-v4" / "ppo" / "own" / "sb3" / "steps=1" / "seed=0"
    run.mkdir(parents=True)
    theirs = [run, run / "lib", run.parent, study, study / "Hopper-v4"]
    others = [tmp_path, tmp_path / "results", tmp_path / "elsewhere", ROOT, Path(sys.prefix)]
    before = list(path)
    path[:] = [*map(str, theirs), *map(str, others), *before]
    interpreter.forbid_imports_from([run])
    assert path == [*map(str, others), *before]
    # A folder that is no run of a study: itself, what is in it and what is beside it.
    lone = tmp_path / "lone" / "run"
    path[:] = [str(lone), str(lone / "lib"), str(lone.parent), str(tmp_path), *before]
    interpreter.forbid_imports_from([lone])
    assert path == [str(tmp_path), *before]


def test_missing_modules_are_skipped_and_the_environment_is_unchanged(monkeypatch):
    for before in (None, "own"):
        monkeypatch.delenv("JE_ARROW_MALLOC_CONF", raising=False)
        if before:
            monkeypatch.setenv("JE_ARROW_MALLOC_CONF", before)
        seen = []

        def load(name, seen=seen):
            seen.append((name, os.environ["JE_ARROW_MALLOC_CONF"]))
            raise ModuleNotFoundError(name)

        monkeypatch.setattr(importlib, "import_module", load)
        interpreter.import_modules(["gone", "json"])
        expected = "background_thread:false"
        assert seen == [("gone", expected), ("json", expected)]
        assert os.environ.get("JE_ARROW_MALLOC_CONF") == before


def test_a_process_with_a_thread_cannot_be_forked():
    code = (
        "import threading, parallax.harness.contract.interpreter as i\n"
        "print(i.has_other_threads())\n"
        "ends = threading.Event(); t = threading.Thread(target=ends.wait); t.start()\n"
        "print(i.has_other_threads()); ends.set(); t.join()"
    )
    environment = interpreter.add_project_to_path(dict(os.environ))
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]
