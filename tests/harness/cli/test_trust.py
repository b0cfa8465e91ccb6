"""No command runs code that a folder names without consent."""

import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import support

from parallax.harness.cli.main import main
from parallax.harness.contract.adapter_discovery import find_adapter_entry_point
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import spec_to_dict
from parallax.harness.record.files import escape_unprintable, write_json
from parallax.harness.train import trust


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A complete run that names a program and a module which leave a mark when they run."""
    mark = tmp_path / "mark"
    (tmp_path / "trap_module.py").write_text(f"open({str(mark)!r}, 'w')\n")
    (tmp_path / "program").write_text(f"#!/bin/sh\n: > {mark}\n")
    (tmp_path / "program").chmod(0o755)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "trap_module", raising=False)
    spec = support.spec()
    folder = spec.folder(tmp_path)
    folder.mkdir(parents=True)
    content = {
        "schema": 1,
        "status": "completed",
        "spec": spec_to_dict(spec),
        "steps": {"scheduled": 600},
        "weights_sha256": "0",
        "provenance": {},
    }
    write_json(folder / "run.json", content)
    np.savez(
        folder / "evaluations.npz",
        timesteps=[300, 600],
        results=[[1.0, 1.0]] * 2,
        ep_lengths=[[1, 1]] * 2,
    )
    return folder, mark


def name(folder, **changes):
    content = json.loads((folder / "run.json").read_text())
    content["spec"] |= changes
    (folder / "run.json").write_text(json.dumps(content))


@pytest.mark.parametrize("what", ["interpreter", "module"])
def test_code_named_by_a_folder_runs_only_if_trusted(recorded, capsys, what):
    folder, mark = recorded
    program = str(mark.with_name("program"))
    name(folder, **({"python": program} if what == "interpreter" else {"env": "trap_module:X-v0"}))
    assert main(["run", "reproduce", str(folder)]) == 2
    message = capsys.readouterr().err
    line = (
        f"interpreter: {program}" if what == "interpreter" else "import of the module trap_module"
    )
    assert f"    {line}" in message and "Add --trust" in message
    assert not mark.exists()
    assert main(["run", "reproduce", str(folder), "--trust"]) != 0  # neither can train
    assert mark.exists()


def test_user_confirms_at_a_terminal(recorded, capsys, monkeypatch):
    folder, mark = recorded
    name(folder, env="trap_module:X-v0")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer in ("n", EOFError):
        monkeypatch.setattr("builtins.input", lambda question, answer=answer: reply(answer))
        assert main(["run", "reproduce", str(folder)]) == 2
        shown = capsys.readouterr()
        assert "    import of the module trap_module: env=trap_module:X-v0\n" in shown.out
        assert "did not trust" in shown.err and not mark.exists()
    monkeypatch.setattr("builtins.input", lambda question: "y")
    main(["run", "reproduce", str(folder)])
    assert mark.exists()


def reply(answer):
    if answer is EOFError:
        raise EOFError
    return answer


def test_printable_text_is_unchanged_and_control_characters_escaped():
    assert escape_unprintable("größe 研究 'x' \\n") == "größe 研究 'x' \\n"
    assert escape_unprintable("a\x1b[2Jb\n\r\x9b\u202e\udc80") == r"a\x1b[2Jb\n\r\x9b\u202e\udc80"


# Every command that acts on runs of a folder

TRAP = "somebodys_code"
SCRIPT = f"import {TRAP}\n"
NAMED = {
    "script": lambda content: with_spec(
        content,
        script={
            "name": f"{TRAP}.py",
            "sha256": hashlib.sha256(SCRIPT.encode()).hexdigest(),
            "source": SCRIPT,
        },
    ),
    "adapter": lambda content: content | {"adapter": f"{TRAP}:Adapter"},
    "check": lambda content: with_spec(content, diagnosis=watched(f"{TRAP}:CHECK")),
    "check, as it was called before": lambda content: with_spec(
        content, diagnosis={"mode": "on", "also": [f"{TRAP}:CHECK"]}
    ),
    "task": lambda content: with_spec(content, env=f"{TRAP}:Task-v0"),
    "interpreter": lambda content: with_spec(content, python="/bin/somebodys_code"),
}


def with_spec(content, **changes):
    return content | {"spec": content["spec"] | changes}


def watched(*also):
    return {"mode": "on", "extra_checks": list(also)}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A real run, as it was made here."""
    ppo = {"rollout_steps": 128, "minibatch_size": 64, "epochs": 1}
    spec = support.spec(hyperparameters=ppo, env="CartPole-v1", steps=128, eval_every=128)
    return support.run(spec, tmp_path_factory.mktemp("results"))[0]


@pytest.fixture
def study(trained, tmp_path, monkeypatch):
    """The same run and a mutant of it, to be changed, and a module elsewhere that leaves a mark."""
    own = trained.parents[5]
    copied = shutil.copytree(own, tmp_path / "results" / own.name)
    folder = copied / trained.relative_to(own)
    mutant = shutil.copytree(folder, folder.parents[1] / "mutant" / folder.name)
    change(mutant, lambda content: with_spec(content, intervention="sdf-0.9"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    set_trap(elsewhere / f"{TRAP}.py", tmp_path / "mark")
    monkeypatch.syspath_prepend(str(elsewhere))
    monkeypatch.setenv("PYTHONPATH", f"{elsewhere}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.delitem(sys.modules, TRAP, raising=False)
    return folder, tmp_path / "mark"


def set_trap(module, mark):
    module.write_text(f"open({str(mark)!r}, 'w').close()\n")


def change(folder, changed):
    content = json.loads((folder / "run.json").read_text())
    content.pop("checksum", None)
    (folder / "run.json").write_text(json.dumps(changed(content)))


def commands(folder, out):
    return {
        "evaluate": ["policy", "evaluate", str(folder)],
        "export": ["policy", "export", str(folder), "--output", str(out / "exported")],
        "video": ["policy", "video", str(folder), "--output", str(out / "film.mp4")],
        "reproduce": ["run", "reproduce", str(folder)],
        "test": ["mutation", "test", str(folder.parents[5]), "--replay-configurations", "2"],
    }


@pytest.mark.parametrize("what", NAMED)
@pytest.mark.parametrize("command", commands(Path("/a/b/c/d/e/f/g"), Path()))
def test_no_command_runs_code_that_is_not_installed(study, tmp_path, capsys, command, what):
    folder, mark = study
    change(folder, NAMED[what])
    if what == "task":  # a pair must have one task to be a pair
        change(folder.parents[1] / "mutant" / folder.name, NAMED[what])
    assert main(commands(folder, tmp_path)[command]) == 2
    message = capsys.readouterr().err
    assert TRAP in message and "Add --trust" in message
    assert not mark.exists() and TRAP not in sys.modules


IMPORTS = """
import json, sys
from parallax.harness.cli.main import main
for words in json.loads(sys.argv[1]):
    print(main(words), flush=True)
"""


def test_without_trust_only_installed_code_is_imported(study, tmp_path):
    """By Python's own list of imports, of every command and all that it starts, at once."""
    folder, mark = study
    for named in NAMED.values():
        change(folder, named)
    set_trap(folder.parent / "came_along.py", mark)
    results, mutant = str(folder.parents[6]), folder.parents[1] / "mutant" / folder.name
    read = [["status"], ["run", "validate"], ["compare"], ["slurm", "resubmit", "--dry-run"]]
    read = [[*words, results] for words in read]  # which load no code of a run
    act = list(commands(folder, tmp_path).values())
    assert mutant.is_dir()
    command = [sys.executable, "-X", "importtime", "-c", IMPORTS, json.dumps([*read, *act])]
    paths = f"{folder.parent}{os.pathsep}{support.ROOT}{os.pathsep}{os.environ['PYTHONPATH']}"
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONPROFILEIMPORTTIME": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    codes = [int(line) for line in ended.stdout.splitlines() if line in ("0", "1", "2")]
    assert codes[-len(act) :] == [2] * len(act), ended.stdout
    lines = [line for line in ended.stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert {"parallax", "numpy", "msgspec"} <= imported and not mark.exists()
    # Names that could not be imported are in Python's list as well.
    foreign = {path.stem for path in folder.parents[6].rglob("*.py")}
    assert "came_along" in foreign and not foreign & imported


def test_installed_code_needs_no_trust(monkeypatch):
    entry = importlib.metadata.EntryPoint("mine", f"{TRAP}:CHECK", "parallax.checks")
    task = importlib.metadata.EntryPoint("t", "task_package.sub:register", "gymnasium.envs")
    groups = {"parallax.checks": [entry], "gymnasium.envs": [task]}
    monkeypatch.setattr(trust, "find_entry_points", lambda group: groups.get(group, []))
    spec = support.spec(diagnosis=watched(f"{TRAP}:CHECK"), env="InvertedPendulum-v4")
    mine = dataclasses.replace(spec, env="task_package.other:Task-v0")
    own = dataclasses.replace(spec, env="parallax.envs.scripted:ParallaxScripted-v0")
    known = [find_adapter_entry_point("sb3").value, ""]
    assert trust.list_named_code([mine, own], known) == []
    foreign = dataclasses.replace(spec, env="task_packages.other:Task-v0")
    assert len(trust.list_named_code([foreign], ["parallax.adapters.sb3:load_adapter"])) == 2


@pytest.mark.parametrize("place", ["in", "beside", "study"])
def test_modules_in_a_run_folder_cannot_be_imported(study, tmp_path, place):
    folder, _ = study
    here = {"in": folder, "beside": folder.parent, "study": folder.parents[5]}[place]
    mark = tmp_path / "other-mark"
    set_trap(here / "came_along.py", mark)
    change(folder, lambda content: content | {"adapter": "came_along:Adapter"})
    paths = {"PYTHONPATH": f"{here}{os.pathsep}{support.ROOT}"}
    for words in (["-m", "parallax"], ["-P", "-m", "parallax"]):
        command = [sys.executable, *words, "policy", "evaluate", str(folder), "--trust"]
        ended = subprocess.run(command, cwd=here, env=os.environ | paths, capture_output=True)
        assert ended.returncode == 1, ended.stderr
        assert b"came_along" in ended.stdout and not mark.exists()


LOAD_CODE = """
import os, sys, parallax
parallax.load_policy(sys.argv[1])
print("the same as the run's last evaluation", os.environ.get("PYTHONSAFEPATH"))
"""


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["-m", "parallax", "policy", "evaluate"], "the same as the run's last evaluation"),
        (["-c", LOAD_CODE], "the same as the run's last evaluation None"),
    ],
    ids=["command", "load_policy"],
)
def test_module_of_the_current_folder_does_not_shadow_project_modules(study, tmp_path, words, line):
    folder, _ = study
    mark, here = tmp_path / "other-mark", folder.parents[6]
    # glfw, which MuJoCo's tasks import, starts a Python that imports ctypes.
    for name in ("msgspec", "envs", "harness", "analysis", "ctypes"):
        set_trap(here / f"{name}.py", mark)
    environment = os.environ | {"PYTHONPATH": str(support.ROOT)}
    environment.pop("PYTHONSAFEPATH", None)
    ended = subprocess.run(
        [sys.executable, "-P", *words, str(folder)],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.rstrip().endswith(line) and not mark.exists()


@pytest.mark.parametrize(
    ("kwargs", "listed"),
    [
        ({"xml_file": "/tmp/theirs.xml"}, ["/tmp/theirs.xml"]),
        ({"xml_file": "~/theirs.xml"}, ["~/theirs.xml"]),
        ({"xml_file": ".theirs.xml"}, [".theirs.xml"]),
        ({"env_id": "their_tasks:Maze-v0"}, ["their_tasks:Maze-v0"]),
        ({"config": {"files": ["a", "b\\c"]}}, ["b\\c"]),
        ({"config": {"../x": 1}}, ["../x"]),
        ({"config": {"other_vehicles_type": "their_module.Car"}}, ["their_module.Car"]),
        ({"xml_file": "ant.xml", "mode": "easy", "size": 3, "flags": [True, None, 0.5]}, []),
    ],
)
def test_task_arguments_that_name_a_path_are_listed(kwargs, listed):
    spec = dataclasses.replace(support.spec(), env_kwargs=kwargs)
    argument = next(iter(kwargs))
    assert trust.list_named_code([spec]) == [
        f"a file or module: env.kwargs.{argument}={text}" for text in listed
    ]


def test_foreign_folder_that_names_a_file_of_the_task_is_refused(recorded, capsys):
    folder, _ = recorded
    name(folder, env_kwargs={"xml_file": "/tmp/theirs.xml"})
    assert main(["run", "reproduce", str(folder)]) == 2
    assert "env.kwargs.xml_file=/tmp/theirs.xml" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["why", "sb3", "cleanrl", "--algorithms", "ppo", "--study"],
        ["triage", "sb3", "sb3+value-loss-x0.5", "--algorithms", "ppo", "--reference"],
    ],
    ids=lambda words: words[0],
)
def test_task_of_a_study_is_imported_only_if_trusted(recorded, capsys, words):
    folder, mark = recorded
    results = mark.with_name("results")
    content = json.loads((folder / "run.json").read_text())
    for framework in ("sb3", "cleanrl", "torchrl"):
        spec = support.spec(framework=framework, hps="sb3", env="trap_module:X-v0")
        copied = shutil.copytree(folder, spec.folder(results))
        write_json(copied / "run.json", content | {"spec": spec_to_dict(spec)})
    assert main([*words, str(results)]) == 2
    message = capsys.readouterr().err
    assert "    import of the module trap_module: env=trap_module:X-v0\nAdd --trust" in message
    assert not mark.exists() and "trap_module" not in sys.modules


SHOWN = "f names what would run as you, here or on the nodes:\n    a\\x1b\n    b"
REFUSED = "Nothing was started: you did not trust the code that the folder names."


@pytest.mark.parametrize(
    ("code", "trusted", "answer", "words"),
    [
        ([], False, None, None),
        (["a\x1b", "b"], True, None, None),
        (
            *(["a\x1b", "b"], False, None),
            f"{SHOWN}\nAdd --trust if you trust the author of the folder.",
        ),
        (["a\x1b", "b"], False, "YES ", None),
        *((["a\x1b", "b"], False, answer, REFUSED) for answer in ("", "n", "yess", EOFError)),
    ],
)
def test_code_is_shown_before_consent(monkeypatch, capsys, code, trusted, answer, words):
    questions = []

    def read(question):
        questions.append(question)
        if answer is EOFError:
            raise EOFError
        return answer

    monkeypatch.setattr("builtins.input", read)
    terminal = types.SimpleNamespace(isatty=lambda: answer is not None)
    monkeypatch.setattr(trust.sys, "stdin", terminal)
    if words is None:
        assert trust.require_trust(Path("f"), code, trust=trusted) is None
    else:
        with pytest.raises(SpecError) as error:
            trust.require_trust(Path("f"), code, trust=trusted)
        assert str(error.value) == words
    assert questions == (["Run it? [y/N] "] if answer is not None else [])
    assert capsys.readouterr().out == (f"{SHOWN}\n" if questions else "")


def test_all_code_that_specifications_name_is_listed_once():
    spec = support.spec(diagnosis=watched("m:CHECK"))
    script = types.SimpleNamespace(name="own.py", sha256="ab")
    values = {"python": "/other/python", "script": script, "env": "own_tasks:A-v0"}
    values |= {"env_wrappers": ("w.x:W", "gymnasium.wrappers:FlattenObservation")}
    named = types.SimpleNamespace(**(vars(spec) | values | {"env_kwargs": {"a": ["x/y"]}}))
    off = types.SimpleNamespace(**(vars(named) | {"diagnosis": {"mode": "off"}}))
    lines = [
        "adapter: x:Y",
        "interpreter: /other/python",
        "script stored in the run: own.py (ab)",
        "import of the module own_tasks: env=own_tasks:A-v0",
        "import of the module w.x: env.wrappers=w.x:W",
        "a file or module: env.kwargs.a=x/y",
    ]
    assert trust.list_named_code([off, off], ["x:Y", "", "x:Y"]) == lines
    check = "import of the module m: diagnosis.extra_checks=m:CHECK"
    assert trust.list_named_code([named], ["x:Y"]) == [*lines, check]
    here = types.SimpleNamespace(**(vars(spec) | {"python": sys.executable, "env": "B-v0"}))
    assert trust.list_named_code([here]) == [check]
