"""The status of a study line by line, and the command lines that print it."""

import argparse
import datetime
import gc
import io
import json
import types
from pathlib import Path

import pytest
from rich.console import Console

from parallax.harness.contract.fields import SpecError
from parallax.slurm import commands, resubmit, states, status
from parallax.slurm.queue import SlurmQueue
from parallax.slurm.states import RunState

SILENT = SlurmQueue({}, ())


def make_run(state, step=0, steps=1000, seed=0, **changes):
    values = {"study": "s", "framework": "sb3", "algorithm": "ppo", "env": "A-v0", "hps": "own"}
    folder = changes.pop("folder", Path(f"/r/run{seed}"))
    return RunState(folder, state, step=step, steps=steps, seed=seed, **(values | changes))


def show(runs, queue=SILENT, longest=9):
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(status.render_status(runs, queue, Path("/r"), longest))
    return [line.rstrip() for line in console.export_text().splitlines()]


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands at noon of a Saturday."""
    now = datetime.datetime(2026, 11, 28, 12)
    fake = types.SimpleNamespace(
        datetime=types.SimpleNamespace(now=lambda: now), timedelta=datetime.timedelta
    )
    monkeypatch.setattr(status, "datetime", fake)


@pytest.mark.usefixtures("clock")
def test_a_status_has_counts_running_runs_and_reasons():
    runs = [
        make_run("completed", 999, seed=1),
        make_run("running", 400, seed=2, rate=10.0, job="7_2", resumed_from=300, resumptions=1),
        make_run("running", 100, seed=3, algorithm="td3"),
        make_run("failed", 50, seed=4, reason="it broke"),
        make_run("lost", 0, seed=5, reason="no process", resumed_from=9, resumptions=2),
        make_run("queued", 0, seed=6, resume_step=0, reason="job 7_6 is PENDING"),
        make_run("queued", 0, seed=7, reason="not shown"),
        make_run("pending", 0, seed=8, study="t", steps=0, reason="not shown"),
    ]
    counts = "1 completed, 2 running, 2 queued, 1 failed, 1 lost; expected end Sat 28 Nov 12:02"
    lines = show(runs, SlurmQueue({}, ("squeue", "sacct")))
    heads = "framework  algorithm  task  completed  running  queued  failed  lost  steps"
    assert lines[0] == f"s: 7 runs: {counts}" and lines[1].split() == heads.split()
    assert lines[2].split() == ["sb3", "ppo", "A-v0", "1", "1", "2", "1", "1", "24%"]
    assert lines[3].split() == ["sb3", "td3", "A-v0", "1", "10%"]
    assert lines[4:6] == ["", "t: 1 runs: 1 pending"]
    assert lines[7].split() == ["sb3", "ppo", "A-v0", "1", "0%"]
    assert lines[9].split() == ["running", "steps", "a", "second", "end", "job"]
    first, second = lines[10:12]
    assert first.split() == ["sb3", "td3", "A-v0", "own", "seed=3", "100", "/", "1,000"]
    words = ["sb3", "ppo", "A-v0", "own", "seed=2", "400", "/", "1,000", "10.0", "Sat", "28", "Nov"]
    assert second.split()[:14] == [*words, "12:01", "7_2"] and "300" in second
    assert lines[12] == ""
    again = status.describe_resumption(9, 2)
    assert lines[13:20] == [
        "queued      sb3 ppo A-v0 own seed=6: job 7_6 is PENDING",
        "            /r/run6",
        "failed      sb3 ppo A-v0 own seed=4: it broke",
        "            /r/run4",
        f"lost        sb3 ppo A-v0 own seed=5: no process ({again})",
        "            /r/run5",
        "",
    ]
    assert lines[20:] == ["Slurm was queried with squeue, sacct."]


def test_runs_beyond_the_longest_list_are_counted():
    runs = [make_run("failed", seed=seed, reason="x") for seed in range(4)]
    assert show(runs, longest=2)[-7:] == [
        "failed      sb3 ppo A-v0 own seed=0: x",
        "            /r/run0",
        "failed      sb3 ppo A-v0 own seed=1: x",
        "            /r/run1",
        "... and 2 more: --json lists all",
        "",
        "Slurm was not queried: states are those of the folders.",
    ]
    assert "more" not in "".join(show(runs, longest=4))
    assert "... and 1 more: --json lists all" in show(runs, longest=3)
    assert show([]) == ["No runs below /r."]


def test_json_status_has_counts_and_all_runs_by_folder():
    runs = [make_run("running", 40, seed=2, rate=10.0), make_run("lost", seed=1)]
    content = json.loads(status.status_to_json(runs, SlurmQueue({}, ("sacct",)), Path("/r")))
    counts = dict.fromkeys(states.RUN_STATES, 0) | {"running": 1, "lost": 1}
    assert [run.pop("folder") for run in content["runs"]] == ["/r/run1", "/r/run2"]
    first = {"state": "lost", "step": 0, "steps": 1000, "rate": None, "reason": "", "job": None}
    first |= {"study": "s", "framework": "sb3", "algorithm": "ppo", "env": "A-v0", "hps": "own"}
    first |= {"seed": 1, "resumed_from": None, "resumptions": 0, "resume_step": None}
    assert content["runs"][0] == first and len(content) == 5
    assert (content["root"], content["answered"], content["counts"]) == ("/r", ["sacct"], counts)
    assert content["seconds_left"] == 96.0


@pytest.mark.parametrize(
    ("left", "seconds"), [(10**12, None), (10**12 - 1, 10**12 - 1), (1, 1.0), (0, 0.0), (-5, 0.0)]
)
def test_excessive_remaining_time_is_not_estimated(left, seconds):
    run = make_run("running", 100, 100 + left, rate=1.0)
    assert status.estimate_seconds_left([run]) == seconds


def parse(add, *arguments):
    parser = argparse.ArgumentParser()
    add(parser)
    return vars(parser.parse_args(list(arguments)))


def test_option_defaults_match_the_help(tmp_path):
    place = str(tmp_path)
    plain = {"folder": tmp_path, "json": False, "watch": False, "list": 20, "files": False}
    assert parse(commands.add_status_arguments, place) == plain
    for mode in ("json", "watch", "files"):
        given = parse(commands.add_status_arguments, place, f"--{mode}", "--list=1000000000")
        assert given == plain | {mode: True, "list": 10**9}
    plain = {"only": None, "profile": None, "time": None, "mem_gb": None}
    plain |= {"folder": tmp_path, "dry_run": False, "yes": False, "trust": False}
    assert parse(commands.add_resubmit_arguments, place) == plain
    given = ("--only=lost", "--profile=p", "--time=1", "--mem-gb=2.5", "--dry-run", "--yes")
    set_all = {"only": "lost", "profile": "p", "time": "1", "mem_gb": 2.5, "dry_run": True}
    set_all |= {"folder": tmp_path, "yes": True, "trust": True}
    assert parse(commands.add_resubmit_arguments, place, *given, "--trust") == set_all
    assert parse(commands.add_cancel_arguments, place, "--yes") == {"folder": tmp_path, "yes": True}
    assert parse(commands.add_cancel_arguments, place)["yes"] is False


@pytest.mark.parametrize("only", [None, "lost,failed"])
def test_all_states_are_submitted_again_unless_some_are_named(monkeypatch, only):
    given = []
    monkeypatch.setattr(
        resubmit, "resubmit_runs", lambda *values, **options: given.append((values, options)) or 5
    )
    options = argparse.Namespace(folder="f", only=only, profile="p", time="1:00:00", mem_gb=2.5)
    vars(options).update(dry_run=True, trust=False, yes=True)
    assert commands.run_resubmit(options) == 5
    ((folder, chosen, overrides), others) = given[0]
    every = ("pending", "interrupted", "timeout", "failed", "lost", "broken")
    assert folder == "f" and chosen == (("lost", "failed") if only else every)
    names = ("default", "ppo", "td3", "sac", "ddpg", "dqn", "r2d2")
    assert overrides == {"time": dict.fromkeys(names, "1:00:00"), "mem_gb": 2.5}
    assert others.pop("confirm")("?") is True
    assert others == {"profile": "p", "dry_run": True, "trust": False}
    options.only = "lost,complete"
    with pytest.raises(SpecError, match=r"^--only=complete is not a state to submit: choose pend"):
        commands.run_resubmit(options)
    assert len(given) == 1


def test_jobs_are_cancelled_after_confirmation(monkeypatch):
    monkeypatch.setattr(resubmit, "cancel_jobs", lambda folder, confirm: (folder, confirm("?")))
    assert commands.run_cancel(argparse.Namespace(folder="f", yes=True)) == ("f", True)
    monkeypatch.setattr(commands.sys, "stdin", types.SimpleNamespace(isatty=lambda: True))
    for answer, confirmed in (("y", True), ("", False)):
        monkeypatch.setattr("builtins.input", lambda question, answer=answer: answer)
        found = commands.run_cancel(argparse.Namespace(folder="f", yes=False))
        assert found == ("f", confirmed)


def test_json_status_is_printed_alone(monkeypatch, capsys):
    seen = []

    def survey(folder, say):
        seen.append(gc.isenabled())
        say("a \x1b link")
        return [make_run("lost")], SILENT

    monkeypatch.setattr(states, "survey_runs", survey)
    options = argparse.Namespace(folder=Path("/r"), json=True, watch=True, files=False, list=20)
    assert commands.run_status(options) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["counts"]["lost"] == 1 and said.err == "a \\x1b link\n"
    assert seen == [False] and gc.isenabled()
    options.files = True
    monkeypatch.setattr(commands, "_print_damaged_files", lambda folder: (folder, 1))
    assert commands.run_status(options) == (Path("/r"), 1)
