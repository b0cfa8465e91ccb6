"""`rerun` starts nothing that a folder names before somebody has said that it may."""

import json
import sys

import numpy as np
import pytest
import support

from harness.cli.rerun import main
from harness.contract.run_spec import spec_to_dict
from harness.record.files import visible, write_json


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
    np.savez(folder / "evaluations.npz", timesteps=[600], results=[[1.0]], ep_lengths=[[1]])
    return folder, mark


def name(folder, **changes):
    content = json.loads((folder / "run.json").read_text())
    content["spec"] |= changes
    (folder / "run.json").write_text(json.dumps(content))


@pytest.mark.parametrize("what", ["interpreter", "module"])
def test_code_that_the_folder_names_runs_only_where_it_is_trusted(recorded, capsys, what):
    folder, mark = recorded
    program = str(mark.with_name("program"))
    name(folder, **({"python": program} if what == "interpreter" else {"env": "trap_module:X-v0"}))
    assert main([str(folder)]) == 2
    told = capsys.readouterr().err
    line = (
        f"interpreter: {program}" if what == "interpreter" else "import of the module trap_module"
    )
    assert f"    {line}" in told and "Add --trust" in told
    assert not mark.exists()
    assert main([str(folder), "--trust"]) != 0  # neither can train
    assert mark.exists()


def test_at_a_terminal_the_user_is_asked(recorded, capsys, monkeypatch):
    folder, mark = recorded
    name(folder, env="trap_module:X-v0")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer in ("n", EOFError):
        monkeypatch.setattr("builtins.input", lambda question, answer=answer: reply(answer))
        assert main([str(folder)]) == 2
        assert "not trusted" in capsys.readouterr().err and not mark.exists()
    monkeypatch.setattr("builtins.input", lambda question: "y")
    main([str(folder)])
    assert mark.exists()


def reply(answer):
    if answer is EOFError:
        raise EOFError
    return answer


def test_text_is_shown_as_it_is():
    assert visible("größe 研究 'x' \\n") == "größe 研究 'x' \\n"
    assert visible("a\x1b[2Jb\n\r\x9b\u202e\udc80") == r"a\x1b[2Jb\n\r\x9b\u202e\udc80"
