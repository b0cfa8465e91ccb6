"""Odd input: one sentence, no traceback."""

import subprocess
import sys

import pytest
from slurm_fakes import a_record, a_run

from parallax.harness.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["status", "{tmp}/" + "x" * 300], "File name too long"),
        (["status", "{tmp}/a\x1b[2Jb"], r"a\x1b[2Jb is not a folder"),
        (["slurm", "resubmit", "{tmp}", "--only=x"], "--only=x is not a state to submit"),
        (
            ["slurm", "resubmit", "{results}", "--profile={tmp}/latin.yaml"],
            "latin.yaml:1: the profile cannot be read",
        ),
        (
            ["slurm", "resubmit", "{results}", "--profile={tmp}/keys.yaml"],
            "keys.yaml: 7 is not known",
        ),
        (
            ["slurm", "resubmit", "{results}", "--profile={tmp}/deep.yaml"],
            "deep.yaml:1: the profile is not valid YAML",
        ),
        (["slurm", "resubmit", "{results}", "--time=1\x1b"], r"'1\x1b' must be 'HH:MM:SS'"),
        (["slurm", "resubmit", "{results}", "--mem-gb=nan"], "mem_gb=nan must be finite"),
        (["slurm", "resubmit", "{tmp}/none", "--mem-gb=nan"], "mem_gb=nan must be finite"),
        (["slurm", "resubmit", "{tmp}/none", "--time=soon"], "'soon' must be 'HH:MM:SS'"),
        (["slurm", "resubmit", "{tmp}/none", "--profile=x"], "x.yaml does not exist"),
    ],
)
def test_invalid_input_is_refused_with_one_sentence(
    tmp_path, capsys, monkeypatch, arguments, words
):
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = a_run(tmp_path / "results", "interrupted")
    (tmp_path / "none").mkdir()  # no run to submit
    (tmp_path / "latin.yaml").write_bytes(b"setup: [\xe4]")
    (tmp_path / "keys.yaml").write_text("7: 8")
    (tmp_path / "deep.yaml").write_text("[" * 5000)
    if "--profile" not in " ".join(arguments):
        # Without an answer of Slurm's, records would stop the command before.
        monkeypatch.setattr(
            "parallax.slurm.states.check_slurm_answered", lambda folders, queue: None
        )
        monkeypatch.setattr(
            "parallax.slurm.resubmit.check_slurm_answered", lambda folders, queue: None
        )
        a_record(folder.parents[5], "a", [[folder]])
    places = {"tmp": tmp_path, "results": tmp_path / "results"}
    assert main([argument.format(**places) for argument in arguments]) == 2
    output = capsys.readouterr().err
    assert words in output and output.startswith("Error: ") and output.count("\n") <= 10


@pytest.mark.parametrize("number", ["-1", "x", "1.5"])
def test_number_of_runs_to_list_must_be_a_number(tmp_path, capsys, number):
    assert main(["status", str(tmp_path), f"--list={number}"]) == 2
    assert "must be from 0" in capsys.readouterr().err


def test_control_characters_in_names_are_escaped(tmp_path, capsys):
    a_run(tmp_path, "failed", changed={"env": "[/red]\x1b[2J", "study": "[bold]"})
    assert main(["status", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert r"[/red]\x1b[2J" in output and "[bold]: 1 runs" in output and "\x1b" not in output


def test_closed_stdout_is_no_error(tmp_path):
    for seed in range(3):
        a_run(tmp_path, seed=seed)
    command = [sys.executable, "-m", "parallax", "status", str(tmp_path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (1, b"")
