"""The command table: which command runs, what help costs, and how errors are worded."""

import importlib
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import forked
import pytest
import yaml
from loops import iterate_some

from parallax.harness.cli import main as cli
from parallax.harness.contract.adapter_discovery import find_adapter_entry_points
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import HANDLED_ERRORS, RunsFailedError, SpecError

HEAVY = ["hydra", "gymnasium", "mujoco", "torch", "matplotlib", "pandas", "pyarrow", "scipy"]
MAX_COMMANDS = 36
PARSED = [command for command in cli.COMMANDS if not command.takes_overrides]


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)


def test_commands_are_unique_and_at_most_the_limit():
    words = [command.words for command in cli.COMMANDS]
    assert len(words) == len(set(words)) <= MAX_COMMANDS
    assert {command.group for command in cli.COMMANDS} == {"", *cli.GROUPS}
    assert not {command.words for command in cli.COMMANDS} & set(cli.GROUPS)


def test_figures_do_not_need_the_backend_that_the_environment_names(tmp_path):
    study = Path(__file__).parents[3] / "docs" / "thesis_ppo_hopper.parquet"
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "parallax",
            "compare",
            str(study),
            "--output",
            str(tmp_path / "a.png"),
        ],
        capture_output=True,
        text=True,
        env=os.environ | {"MPLBACKEND": "nope"},
    )
    assert result.returncode == 0 and list(tmp_path.glob("*.png")), result.stderr


@pytest.mark.parametrize("command", PARSED, ids=lambda command: command.words)
def test_every_command_describes_its_options(command):
    result = forked.run("parallax", *command.words.split(), "--help")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.startswith(f"usage: parallax {command.words} ")
    for action in cli.make_parser(command)._actions:
        assert action.help, f"{command.words}: {action.dest} has no help"


@pytest.mark.parametrize(("old", "new"), cli.OLD_COMMANDS.items())
def test_old_command_names_still_work(old, new):
    assert cli.find_command(old.split()) is None
    words = cli.replace_old_command([*old.split(), "--help"])
    assert words == [*new.split(), "--help"]
    command = cli.find_command(words)
    options = [word for word in words[len(command.words.split()) : -1] if word.startswith("--")]
    known = cli.make_parser(command)._option_string_actions
    assert set(options) <= known.keys()


def test_two_studies_are_packed_by_the_old_command_name():
    words = cli.replace_old_command(["study", "merge", "a.parquet", "b", "--study", "one"])
    command = cli.find_command(words)
    parsed = cli.make_parser(command).parse_args(words[len(command.words.split()) :])
    assert (str(parsed.results), str(parsed.merged), parsed.study) == ("a.parquet", "b", "one")


def test_options_have_one_spelling():
    for command in cli.COMMANDS:
        if not command.takes_overrides:
            options = cli.make_parser(command)._option_string_actions
            assert not {"--framework", "--algorithm"} & set(options), command.words


@pytest.mark.parametrize("group", cli.GROUPS)
def test_a_group_lists_its_commands(group, capsys):
    assert cli.main([group]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: parallax {group} ")
    for command in cli.COMMANDS:
        if command.group == group:
            assert re.search(rf"^  {command.name} ", text, re.M)


@pytest.mark.parametrize(
    "words",
    [[], ["--help"], ["--version"], ["study"], ["train", "--help"], ["trian"]],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(words):
    result = python("-X", "importtime", "-m", "parallax", *words)
    imported = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    heavy = set(HEAVY) - ({"hydra"} if words[:1] == ["train"] else set())
    assert not imported.intersection(heavy) and "parallax.harness.cli.main" in imported


def test_help_of_train_is_that_of_hydra_without_thresholds():
    ours = forked.run("parallax", "train", "--help").stdout
    full = forked.run("parallax", "train", "--help", "hydra.job.name=other").stdout
    frameworks = f"options: {', '.join(sorted(find_adapter_entry_points()))}"
    for part in (frameworks, "Hopper-v4", "gamma=0.99 ", "eval_every=null "):
        assert part in ours
    assert "threshold" not in ours
    values = yaml.safe_load(re.search(r"^seed: .*(?=\nFor help)", full, re.M | re.S)[0])
    groups = {name: value for name, value in values.items() if isinstance(value, dict)}
    printed = {name: value for name, value in values.items() if name not in groups}
    printed |= {name: value["name"] for name, value in groups.items() if "name" in value}
    printed |= groups["hyperparameters"] | {"hydra/launcher": "local"}
    texts = {k: json.dumps(v, separators=(",", ":")).replace('"', "") for k, v in printed.items()}
    assert dict(re.findall(r"^  ([\w/]+)=(\S+)", ours, re.M)) == texts


def test_help_of_train_explains_every_setting_and_study(capsys):
    for algorithm in ALGORITHMS:
        assert cli.main(["train", f"algorithm={algorithm}", "--help"]) == 0
        rows = capsys.readouterr().out.splitlines()
        pairs = itertools.pairwise(rows)
        settings = [pair for pair in pairs if re.match(r" {2,6}[\w/]+(=|$)", pair[0])]
        for row, after in iterate_some(settings):
            assert re.search(r" {2}\S", row[20:]) or re.match(r" {28}\S", after), row


def test_a_repeated_setting_is_no_request_for_help():
    result = forked.run("parallax", "train", "algorithm=ppo", "algorithm=dqn")
    assert "algorithm=dqn of framework=sb3 supports discrete actions" in result.stderr
    assert result.stdout == "" and result.returncode == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "parallax has no command 'trian'. Did you mean parallax train?"),
        (["reports"], "Did you mean parallax report?"),
        (["evaluate"], "Did you mean parallax policy evaluate?"),
        (["study", "verdict"], "Did you mean parallax study verdicts?"),
        (["study", "zzz"], "Known: study verdicts, study figures,"),
        (["seed=3"], "Did you mean parallax train seed=3?"),
        (["--multirun"], "Did you mean parallax train --multirun?"),
        (["zzz"], "Known: train, compare, report,"),
        (["status"], "the following arguments are required: FOLDER"),
        (["alignment", "--hp", "x"], "unrecognized arguments: --hp x"),
        (["run", "reproduce", ".", "--seed", "-1"], "'-1' must be from 0 to 4294967295"),
        (["run", "reproduce", ".", "--jobs", "-7"], "'-7' must be from 1 to 1024, or -1"),
        (["triage", "x", "--jobs", "0"], "'0' must be from 1 to 1024, or -1"),
        (["study", "verdicts", ".", "--rng-seed", "-1"], "'-1' must be from 0 to 4294967295"),
        (["study", "publish", ".", "x", "--jobs", "-3"], "'-3' must be from 1 to 1024, or -1"),
        (["intervention", "list", "--seed", "-1"], "'-1' must be from 0 to 4294967295"),
        (["intervention", "list", "--steps", "-5"], "'-5' must be from 1 to"),
        (["intervention", "list", "--values", "0"], "'0' must be from 1 to 1000"),
        (["compare", "no-such-folder"], "no-such-folder: no such folder"),
        (["compare", ".", "--output", ""], "argument --output: names nothing: give a path"),
        (["probe", "--json", ""], "argument --json: names nothing: give a path"),
        (["run", "unlock", ""], "argument FOLDER: names nothing: give a path"),
        (["probe", "--environments", "--releases", "../x"], "'../x' is not a version"),
        (["mutation", "detectors", "--mutants", "x", "--training-seconds", "-1"], "give 0 or more"),
        (["mutation", "detectors", "--mutants", "x", "--output", "."], ". is no regular file"),
    ],
)
def test_errors_are_one_sentence(words, message, capsys):
    assert cli.main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: ") and message in error and error.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["train"]])
def test_train_without_arguments_trains_nothing(words, tmp_path):
    result = python("-m", "parallax", *words)
    assert result.returncode == 2 and "train" in result.stdout
    assert not (tmp_path / "cwd" / "results").exists()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("parallax re", "report"),
        ("parallax st", "status study"),
        ("parallax study pl", "plan"),
        ("parallax train framework=", "framework=cleanrl framework=sb3"),
        ("parallax train framework=sb3 hyperparameters.gam", "hyperparameters.gamma="),
        ("parallax report ", ""),
    ],
)
def test_shells_complete_commands_and_values(line, expected):
    environment = os.environ | {"COMP_LINE": line}
    result = forked.run("parallax", "-sc", "query=bash", env=environment)
    assert result.returncode == 0, result.stderr
    assert " ".join(result.stdout.split()).startswith(expected) and (
        expected or not result.stdout.strip()
    )


@pytest.mark.parametrize("words", [["train"], []])
def test_completion_is_installed_by_hydra(words):
    result = forked.run("parallax", *words, "-sc", "install=bash")
    assert "hydra_bash_completion" in result.stdout


def test_completion_without_a_command_line_is_one_message(capsys, monkeypatch):
    monkeypatch.delenv("COMP_LINE", raising=False)
    assert cli.main(["-sc"]) == 2
    assert capsys.readouterr().err.startswith("Error: Hydra cannot use these settings")


def test_every_module_of_the_table_exists():
    for command in cli.COMMANDS:
        path, _, part = command.module.partition(":")
        module = importlib.import_module(path)
        assert hasattr(module, f"run_{part}" if part else "run")


def test_alignment_shows_the_algorithms_that_have_a_recipe(capsys):
    assert cli.main(["alignment", "--hps", "cpu", "--frameworks", "torchrl"]) == 0
    assert "torchrl: 1 of 1 recipes translated" in capsys.readouterr().out
    assert cli.main(["alignment", "--hps", "no-such"]) == 2
    assert "hps=no-such is not known" in capsys.readouterr().err
    assert cli.main(["alignment", "--hps", "cpu", "--algorithms", "ppo"]) == 2


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (SpecError("bad \udcff name"), 2, "Error: bad \\udcff name"),
        (SpecError("a\x1b[2Jb\n\u202ec"), 2, "Error: a\\x1b[2Jb\n\\u202ec"),
        (RunsFailedError("1 failed"), 1, "Not complete: 1 failed"),
        (KeyboardInterrupt(), 130, "Interrupted. Run the same command again to resume."),
    ],
)
def test_errors_are_a_sentence_and_an_exit_code(capsys, error, code, words):
    assert isinstance(error, HANDLED_ERRORS)
    assert cli.report_error(error) == code
    assert capsys.readouterr() == ("", f"{words}\n")
