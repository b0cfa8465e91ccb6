"""The front door: which command is run, what help costs, and how mistakes are told."""

import os
import subprocess
import sys

import forked
import pytest

from parallax.harness.cli import main as parallax

HEAVY = ["hydra", "gymnasium", "mujoco", "torch", "matplotlib", "pandas", "pyarrow", "scipy"]


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)


def test_every_command_of_the_rooms_has_a_door():
    groups = {name: forked.run(name, "--help").stdout for name in ("analysis", "slurm")}
    for name in ("compare", "figures", "plan", "published", "report", "tables", "verdicts"):
        assert name in parallax.list_command_names() and name in groups["analysis"]
    (usage,) = [line for line in groups["slurm"].splitlines() if line.startswith("usage:")]
    commands = usage.partition("{")[2].partition("}")[0].split(",")
    assert set(commands) <= set(parallax.list_command_names()) and "status" in commands
    assert len(parallax.list_command_names()) == len(set(parallax.list_command_names()))


@pytest.mark.parametrize("name", parallax.list_command_names())
def test_every_command_tells_its_options(name):
    result = forked.run("parallax.harness.cli", name, "--help")
    assert result.returncode == 0, result.stderr
    assert name in result.stdout and result.stderr == ""


@pytest.mark.parametrize(
    "words",
    [
        ["parallax.harness.cli"],
        ["parallax.harness.cli", "--help"],
        ["parallax.harness.cli", "--version"],
        ["parallax.harness.cli", "train", "--help"],
        ["parallax.harness.cli", "trian"],
        ["harness", "--help"],
        ["harness"],
        ["analysis", "--help"],
    ],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(words):
    result = python("-X", "importtime", "-m", *words)
    imported = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert not imported.intersection(HEAVY) and "harness" in imported | {"harness"}


def test_help_of_train_is_what_hydra_says():
    ours = forked.run("parallax.harness.cli", "train", "--help").stdout
    assert "gamma: 0.99" in ours
    assert (
        ours == forked.run("parallax.harness.cli", "train", "--help", "hydra.job.name=other").stdout
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "parallax has no command 'trian'. Did you mean train?"),
        (["reports"], "Did you mean report?"),
        (["seed=3"], "Did you mean parallax train seed=3?"),
        (["--multirun"], "Did you mean parallax train --multirun?"),
        (["zzz"], "Commands: train, rerun, evaluate, export,"),
    ],
)
def test_an_unknown_command_is_one_sentence(words, message, capsys):
    assert parallax.main(words) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "words", [["parallax.harness.cli"], ["harness"], ["parallax.harness.cli", "train"]]
)
def test_nothing_is_trained_without_a_word(words, tmp_path):
    result = python("-m", *words)
    assert result.returncode == 2 and "train" in result.stdout
    assert not (tmp_path / "cwd" / "results").exists()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("parallax re", "rerun replay report resubmit"),
        ("parallax train framework=", "framework=cleanrl framework=sb3"),
        ("parallax train framework=sb3 hyperparameters.gam", "hyperparameters.gamma="),
        ("parallax report ", ""),
    ],
)
def test_shells_complete_commands_and_values(line, expected):
    asked = os.environ | {"COMP_LINE": line}
    result = forked.run("parallax.harness.cli", "-sc", "query=bash", env=asked)
    assert result.returncode == 0, result.stderr
    assert " ".join(result.stdout.split()).startswith(expected) and (expected or not result.stdout)


def test_completion_is_installed_by_hydra():
    result = forked.run("parallax.harness.cli", "train", "-sc", "install=bash")
    assert "hydra_bash_completion" in result.stdout


def test_former_names_of_commands_go_on():
    assert "--drift" in forked.run("harness", "probe", "--help").stdout
    assert "--hps" in forked.run("parallax.harness.cli.alignment", "--help").stdout
    assert "--markdown" in forked.run("parallax.harness.cli.alignment", "--help").stdout
