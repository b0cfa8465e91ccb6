"""Words and numbers of submissions and of their status."""

import io
import json
import types
from pathlib import Path

import pytest
from rich.console import Console

from parallax.harness.contract.fields import SpecError
from parallax.slurm import commands, launch, submit
from parallax.slurm.arrays import _resolve_below_study, divide_limit
from parallax.slurm.queue import SlurmQueue
from parallax.slurm.settings import _check_option
from parallax.slurm.states import RunState
from parallax.slurm.status import count_states, estimate_seconds_left, render_status


def make_run(step, steps=100, state="running", rate=None, seed=0, **changes):
    values = {"study": "s", "framework": "sb3", "algorithm": "ppo", "env": "A-v0", "hps": "own"}
    return RunState(
        Path(f"run{seed}"),
        state,
        step=step,
        steps=steps,
        rate=rate,
        seed=seed,
        **(values | changes),
    )


def show(runs, longest=10):
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render_status(runs, SlurmQueue({}, ()), Path("results"), longest))
    return console.export_text()


def test_runs_with_most_steps_left_come_first_and_others_are_counted():
    runs = [make_run(step, seed=step) for step in (50, 10, 90)] + [make_run(5, steps=20, seed=1)]
    lines = [line for line in show(runs).splitlines() if "seed=" in line]
    assert [line.split("seed=")[1].split()[0] for line in lines] == ["10", "50", "1", "90"]
    assert sum("seed=" in line for line in show(runs, longest=2).splitlines()) == 2


def test_a_study_has_a_row_of_counts_and_the_share_of_steps():
    runs = [make_run(50), make_run(0, state="completed"), make_run(0, state="pending")]
    shown = show(runs)
    assert "s: 3 runs: " in shown and "1 completed" in shown and "1 pending" in shown
    assert "50%" in shown  # 50 and 100 of 300 steps
    assert "No runs below results" in show([])
    assert count_states(runs)["completed"] == 1 and count_states(runs)["failed"] == 0


@pytest.mark.parametrize(
    ("runs", "seconds"),
    [
        ([make_run(50, rate=5.0)], 10),
        ([make_run(50, rate=5.0), make_run(90, rate=5.0)], 10),  # as long as the slowest needs
        ([make_run(50, rate=5.0), make_run(0, state="queued")], 30),
        ([make_run(50, rate=5.0), make_run(0, state="pending")], 10),
        ([make_run(50, rate=5.0), make_run(50, rate=1.0)], 50),
        ([make_run(150, rate=5.0)], 0),
        ([make_run(50)], None),
        ([], None),
        ([make_run(0, steps=10**13, rate=1.0)], None),
    ],
)
def test_the_time_left_is_at_least_that_of_the_slowest_run(runs, seconds):
    assert estimate_seconds_left(runs) == seconds


@pytest.mark.parametrize(
    ("limit", "sizes", "shares"),
    [
        *((0, [3, 4], [3, 4]), (7, [3, 4], [3, 4]), (8, [3, 4], [3, 4])),
        *((6, [3, 4], [3, 3]), (5, [1, 9], [1, 4]), (2, [9, 9, 9], [1, 1, 1])),
        (7, [2, 4, 8], [1, 2, 4]),
    ],
)
def test_shares_of_a_limit_add_up_to_it(limit, sizes, shares):
    assert divide_limit(limit, sizes) == shares


@pytest.mark.parametrize("name", ["", "/a", "../a", "a/../b", "a\0b", "."])
def test_folders_of_a_submission_are_below_their_study(name):
    with pytest.raises(ValueError, match="is not below the study"):
        _resolve_below_study(Path("/study"), name)
    assert _resolve_below_study(Path("/study"), "a/b") == Path("/study/a/b")


def test_options_of_sbatch_are_long_names_with_plain_values():
    for value in ("x", 5, 1.5, True):
        _check_option("mail-type", value)
    for option, value in (("-p", 1), ("--mail-type", 1), ("a b", 1), ("p", [1]), ("p", "a\nb")):
        with pytest.raises(SpecError):
            _check_option(option, value)


def check_files(monkeypatch, capsys, damage, links=()):
    found = types.SimpleNamespace(
        runs=(Path("a"), Path("b")), links=links, describe_skipped_links=lambda: "links"
    )
    monkeypatch.setattr(commands, "find_runs", lambda root: found)
    monkeypatch.setattr(commands, "find_damage", lambda folder: damage.get(str(folder), {}))
    code = commands._print_damaged_files(Path())
    return code, capsys.readouterr()


def test_damaged_files_are_counted(monkeypatch, capsys):
    code, said = check_files(monkeypatch, capsys, {})
    assert (code, said.out) == (0, "2 runs were read: no files are damaged.\n")
    damage = {"a": {"x": "bad", "y": "worse"}, "b": {"x": "bad"}}
    code, said = check_files(monkeypatch, capsys, damage, links=(Path("c"),))
    assert code == 1 and "links" in said.err
    assert said.out.splitlines() == [
        *("a/x: bad", "a/y: worse", "b/x: bad"),
        "2 runs were read: 3 files are damaged.",
    ]


def test_confirmation_is_given_by_an_option_or_at_a_terminal(monkeypatch):
    confirm = commands._make_confirmation
    assert confirm(types.SimpleNamespace(yes=True))("?") is True
    monkeypatch.setattr(commands.sys, "stdin", types.SimpleNamespace(isatty=lambda: False))
    with pytest.raises(SpecError, match="add --yes"):
        confirm(types.SimpleNamespace(yes=False))("?")


@pytest.mark.parametrize(
    ("more", "every_run", "named"), [(1, False, False), (2, False, True), (2, True, False)]
)
def test_runs_between_the_first_and_the_last_are_counted(capsys, more, every_run, named):
    count = launch._NAMED_RUNS + 1 + more
    elements = [(Path(f"/r/run{i}"),) for i in range(count)]
    launch._print_runs(types.SimpleNamespace(elements=elements), Path("/r"), every_run=every_run)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"# {count} jobs, {count} runs, each after the index of its job:"
    assert lines[1] == "# 0: run0" and lines[-1] == f"# {count - 1}: run{count - 1}"
    assert (f"# ... {more} more runs" in lines) == named
    assert len(lines) == 1 + (launch._NAMED_RUNS + 2 if named else count)


def run_job(monkeypatch, tmp_path, outcome):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    (tmp_path / launch._SPECS_FILE).write_text("[1, 2]")
    written = []
    write = launch.write_json
    monkeypatch.setattr(
        launch, "write_json", lambda path, content: (written.append(content), write(path, content))
    )
    monkeypatch.setattr(launch, "spec_from_dict", lambda content: content)

    def try_settings(specs, processes, seconds):
        assert (specs, processes, seconds) == ([1, 2], 3, 60.0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    monkeypatch.setattr(launch, "run_preflight", try_settings)
    job = launch.PreflightJob(tmp_path, 3, 60.0)
    try:
        job()
    finally:
        stored = json.loads((tmp_path / launch.PREFLIGHT_FILE).read_text())
        assert written[0] == {"state": "under way", "said": "job 7"} and written[-1] == stored
    return stored


def test_a_preflight_on_a_node_writes_its_outcome(monkeypatch, tmp_path):
    passed = run_job(monkeypatch, tmp_path, 2)
    assert passed["said"] == "2 settings took one step each without an error."
    assert passed["state"] == launch.PREFLIGHT_PASSED


@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        (SpecError("1 cannot"), launch.PreflightFailedError, "1 cannot"),
        (KeyboardInterrupt(), KeyboardInterrupt, "it was ended by KeyboardInterrupt"),
        (OSError("full"), OSError, "it was ended by OSError full"),
    ],
)
def test_failed_preflight_states_the_reason(monkeypatch, tmp_path, error, raised, said):
    with pytest.raises(raised):
        run_job(monkeypatch, tmp_path, error)
    stored = json.loads((tmp_path / launch.PREFLIGHT_FILE).read_text())
    assert stored == {"state": launch.PREFLIGHT_FAILED, "said": said}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("MaxArraySize  = 500\n", 500), ("MaxArraySize  = 0\n", 1)),
        *(("nothing", 1001), (None, 1001)),
    ],
)
def test_the_largest_array_is_slurms_or_its_default(monkeypatch, text, size):
    monkeypatch.setattr(submit, "run_slurm", lambda *arguments: text)
    assert submit.get_max_array_size() == size


def test_preflight_limit_is_four_times_its_estimate_and_at_least_30_minutes(monkeypatch):
    settings = types.SimpleNamespace(time={}, get_minutes=lambda name: 5)
    monkeypatch.setattr(launch, "make_trials", lambda specs: specs)
    monkeypatch.setattr(launch, "estimate_cost", lambda trials, processes: (0, 60.0 * trials[0]))
    assert launch._estimate_minutes([5], settings, 1) == 30
    assert launch._estimate_minutes([10], settings, 1) == 40
    settings.time = {"preflight": 5}
    assert launch._estimate_minutes([10], settings, 1) == 5


def test_scripts_are_written_without_slurm(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    executor = submit._ArrayExecutor(folder=tmp_path)
    assert "#SBATCH --array=0-2" in executor.render_script(3)
    assert "--array" not in submit._ArrayExecutor(folder=tmp_path).render_script(1)
