"""Order, numbers and outcomes of a sweep's runs, without training one."""

import dataclasses
import signal
import types
from pathlib import Path

import pytest
import recorded
import support
from records import find_changeable

import parallax.harness.sweep
from parallax.harness.contract.adapter_discovery import find_adapter_entry_point, load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import spec_from_dict, spec_to_dict
from parallax.harness.record.layout import find_link
from parallax.harness.record.lock import LockHeldError, LockLostError, RunLock
from parallax.harness.record.reading import read_run
from parallax.harness.sweep import sweep
from parallax.harness.sweep.run_process import RunOutcome
from parallax.harness.train.prepare import describe_translation, prepare_run
from parallax.harness.train.stop_signals import SWEEP_FAILED_SIGNAL


@pytest.mark.parametrize(("requested", "number"), [(1, 1), (3, 3), (1024, 1024), (-1, 5)])
def test_processes_are_counted_or_one_per_core(monkeypatch, requested, number):
    import joblib

    monkeypatch.setattr(joblib, "cpu_count", lambda *given: 5)
    monkeypatch.setattr(joblib, "effective_n_jobs", lambda n: 6 + n if n else int("zero"))
    assert sweep.count_processes(requested) == number
    for wrong in (0, -2, -7, 1025, 10**10, True, "4", None):
        with pytest.raises(
            SpecError,
            match=f"^hydra.launcher.n_jobs={wrong} is not a number of runs .* or -1 for one",
        ):
            sweep.count_processes(wrong)


class Process:
    """A run's process that ends after some waits."""

    def __init__(self, waits, stop=None, when=0):
        self.waits, self.stopped, self.wait_calls = waits, [], []
        self.event, self.when = stop and stop.event, when

    def wait(self, seconds):
        self.wait_calls.append(seconds)
        if self.event and len(self.wait_calls) == self.when:
            self.event.set()
        return len(self.wait_calls) >= self.waits

    def stop(self, number):
        self.stopped.append(number)

    def outcome(self):
        return "outcome"


def test_a_run_is_waited_for_and_stopped_with_the_sweeps_signal():
    stop = sweep._SweepStop()
    assert stop.number == signal.SIGTERM
    process = Process(3)
    assert sweep._execute_run("spec", "folder", stop, lambda *given: process) == "outcome"
    assert process.wait_calls == [0.2] * 3 and process.stopped == []
    process, stop.number = Process(4, stop, when=2), 9
    assert sweep._execute_run("spec", "folder", stop, lambda *given: process) == "outcome"
    assert process.stopped == [9, 9]
    pending = sweep._execute_run("spec", "folder", stop, None)
    assert pending == RunOutcome("spec", "folder", "pending")


@pytest.mark.parametrize("error", [None, LockHeldError("process 7"), LockLostError("process 7")])
def test_a_run_that_cannot_be_started_failed_unless_another_process_has_it(monkeypatch, error):
    marked = []

    def mark(folder, changes):
        marked.append((folder, changes))
        if error:
            raise error

    def fail(*given):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(sweep, "mark_run_ended", mark)
    words = "it cannot be started: [Errno 24] Too many open files"
    outcome = RunOutcome("spec", "folder", "failed", words)
    if error:
        outcome = RunOutcome("spec", "folder", "running", str(error))
    assert sweep._execute_run("spec", "folder", sweep._SweepStop(), fail) == outcome
    assert marked == [("folder", {"status": "failed", "failure": words})]


class Display:
    """Notes the outcomes that it shows; may end the sweep at one."""

    def __init__(self, error=None):
        self.error, self.shown = error, []

    def __call__(self, pending, jobs):
        self.jobs = jobs
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def print_outcome(self, *outcome):
        self.shown.append(outcome)
        if self.error:
            raise self.error


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (None, signal.SIGTERM),
        (KeyboardInterrupt(), signal.SIGTERM),
        (ValueError("x"), SWEEP_FAILED_SIGNAL),
    ],
)
def test_an_error_of_a_sweep_stops_its_runs_with_the_reason(monkeypatch, error, number):
    stops, display = [], Display(error)

    def execute(spec, folder, stop, start):
        stops.append(stop)
        return RunOutcome(spec, folder, "failed", "why")

    monkeypatch.setattr(sweep, "SweepDisplay", display)
    monkeypatch.setattr(sweep, "_execute_run", execute)
    pending = {Path("a"): types.SimpleNamespace(spec=support.spec())}
    if error is None:
        outcomes = sweep._execute_runs(pending, 3, {}, None)
        assert outcomes == {Path("a"): RunOutcome(support.spec(), Path("a"), "failed", "why")}
    else:
        with pytest.raises(type(error)):
            sweep._execute_runs(pending, 3, {}, None)
    assert display.shown == [(Path("a"), "failed", "why")] and display.jobs == 3
    assert stops[0].number == number and stops[0].event.is_set() == bool(error)


def test_a_signal_while_runs_are_submitted_stops_those_that_have_started(monkeypatch):
    stops = []

    class Pool(sweep.ThreadPoolExecutor):
        def submit(self, work, *given):
            super().submit(work, *given)
            raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "SweepDisplay", Display(None))
    monkeypatch.setattr(sweep, "ThreadPoolExecutor", Pool)
    # Without the stop, the run would train to its end and the sweep wait for it.
    execute = lambda spec, folder, stop, start: stops.append(stop.event.wait(5))  # noqa: E731
    monkeypatch.setattr(sweep, "_execute_run", execute)
    with pytest.raises(KeyboardInterrupt):
        sweep._execute_runs({Path("a"): types.SimpleNamespace(spec=support.spec())}, 3, {}, None)
    assert stops == [True]


def test_outcomes_come_in_the_order_of_the_runs(monkeypatch, tmp_path, capsys):
    specs = [support.spec(seed=seed) for seed in range(3)]
    folders = [spec.folder(tmp_path) for spec in specs]
    watched, given = [], []

    def initialize(runs, silent):
        runs = dict(runs)
        assert (list(runs), silent) == (folders, {"token"})
        return {folders[1]: runs[folders[1]]}, {folders[2]: "process 7", folders[0]: None}

    def execute(pending, jobs, variables, server):
        given.append((list(pending), jobs, variables, server))
        return {folders[1]: RunOutcome(specs[1], folders[1], "completed")}

    def watch(runs, say, is_wanted):
        watched.extend(is_wanted(folder) for folder in runs)
        say("watched")
        return {"token"}, None

    monkeypatch.setattr(sweep, "describe_doubtful_runs", lambda runs: ["doubtful"])
    monkeypatch.setattr(sweep, "watch_heartbeats", watch)
    monkeypatch.setattr(sweep, "initialize_runs", initialize)
    monkeypatch.setattr(sweep, "_execute_runs", execute)
    assert sweep.run_sweep(specs, tmp_path, 2, early_server="server") == [
        RunOutcome(specs[0], folders[0], "skipped"),
        RunOutcome(specs[1], folders[1], "completed"),
        RunOutcome(specs[2], folders[2], "running", "process 7"),
    ]
    assert given == [([folders[1]], 2, {}, "server")] and watched == [True] * 3
    said = capsys.readouterr()
    assert said.err == "doubtful\nwatched\n"
    assert said.out.splitlines() == [
        "1 of 3 runs are complete already.",
        "1 of 3 runs are running elsewhere.",
    ]
    with pytest.raises(SpecError, match=rf"names the same run more than once: .*: {folders[0]}"):
        sweep.run_sweep([specs[0], specs[0]], tmp_path, 2)


def test_initialized_run_resets_everything_of_an_earlier_one():
    prepared = prepare_run(support.spec(), load_adapter("sb3"))
    schedule = prepared.native.update_schedule
    steps = {"requested": 600, "scheduled": 1152, "framework": 1152, "taken": 0}
    content = sweep._make_pending_content(prepared, read_run(Path("nowhere")))
    alignment = content.pop("alignment")
    assert [row["field"] for row in alignment] == [row.field for row in prepared.native.alignment]
    assert content == {
        **{"status": "pending", "spec": spec_to_dict(prepared.spec)},
        "adapter": find_adapter_entry_point("sb3").value,
        **describe_translation(prepared),
        "update_schedule": vars(schedule),
        "steps": steps,
        **dict.fromkeys(("final_score", "weights_sha256", "failure", "stopped_by")),
        **{"attempts": [], "timings": {}, "provenance": {}},
    }


def make_reading(**changes):
    values = {"newer": False, "unreadable": False, "spec": spec_to_dict(support.spec())}
    values |= {"content": {}}
    values |= {"folder": Path("f"), "reason": "it is odd", "record": None}
    return types.SimpleNamespace(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "own", "words"),
    [
        ({}, {}, None),
        ({"newer": True}, {}, "f: it is odd, or choose another results_dir."),
        ({"unreadable": True}, {}, "f: it is odd. Change its permissions, or move it."),
        ({"imported": "elsewhere"}, {}, "f holds a run that was imported from elsewhere, and"),
        ({"imported": None}, {}, None),
        ({"imported": None}, {"study": "new", "python": "/other/python"}, None),
        ({"imported": None}, {"seed": 1}, r"f holds a run with other settings. Choose"),
        ({"imported": None, "spec": {}}, {}, r"f holds a run with other settings. Choose"),
        (
            {"imported": None, "content": {"checksum": "0"}},
            {"seed": 1},
            r"other settings (its run.json was changed or is damaged). Choose",
        ),
    ],
)
def test_a_folder_is_used_for_its_own_run_only(monkeypatch, changes, own, words):
    monkeypatch.setattr(sweep, "has_valid_checksum", lambda content: not content)
    changes = dict(changes)
    if "imported" in changes:
        source = changes.pop("imported")
        imported = source and types.SimpleNamespace(source=source)
        changes["record"] = types.SimpleNamespace(imported=imported)
    reading = make_reading(**changes)
    requested = dataclasses.replace(support.spec(), **own)
    if words is None:
        assert sweep._check_same_run(requested, reading) is None
        return
    with pytest.raises(SpecError) as error:
        sweep._check_same_run(requested, reading)
    assert words in str(error.value)


def test_folders_to_create_are_listed_from_the_inside(tmp_path):
    (tmp_path / "a").mkdir()
    assert sweep._find_missing_folders(tmp_path / "a" / ("x" * 300) / "c") == []
    assert sweep._find_missing_folders(tmp_path / "a" / "b" / "c") == [
        tmp_path / "a" / "b" / "c",
        tmp_path / "a" / "b",
    ]
    assert sweep._find_missing_folders(tmp_path / "a") == []


def test_links_within_a_run_path_are_refused(tmp_path):
    spec = support.spec()
    (tmp_path / "real").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "real")
    folder = spec.folder(tmp_path / "results")
    assert find_link(folder) is None
    prepared = types.SimpleNamespace(spec=spec)
    study = folder.parents[5]
    study.symlink_to(tmp_path)
    with pytest.raises(SpecError, match=f"results_dir: {study} is a link"):
        sweep.initialize_run(prepared, folder)
    study.unlink()
    folder.parent.mkdir(parents=True)
    folder.symlink_to(tmp_path)
    with pytest.raises(SpecError, match=f"results_dir: {folder} is a link"):
        sweep.initialize_run(prepared, folder)


@pytest.mark.parametrize("before", [None, b'{"status": "failed"}'])
def test_a_record_is_restored_unless_the_run_was_started_since(tmp_path, before):
    prepared = prepare_run(support.spec(), load_adapter("sb3"))
    folder = prepared.spec.folder(tmp_path)
    assert sweep.initialize_run(prepared, folder)
    with RunLock.acquire(folder):
        sweep._restore_run_file(folder, before)
    path = folder / "run.json"
    assert read_run(folder).reason == "pending"
    sweep._restore_run_file(folder, before)
    assert (path.read_bytes() if path.exists() else None) == before
    path.write_bytes(b"begun")
    sweep._restore_run_file(folder, before)
    assert path.read_bytes() == b"begun"


@pytest.mark.parametrize(
    ("count", "text"), [(1, "a"), (3, "a, b, c"), (4, "a, b, c and 1 more"), (0, "")]
)
def test_first_three_names_are_listed_and_others_counted(count, text):
    assert sweep._format_names(list("abcd")[:count]) == text


def test_a_run_is_set_up_unless_it_is_complete(monkeypatch, tmp_path):
    prepared = prepare_run(support.spec(), load_adapter("sb3"))
    folder = prepared.spec.folder(tmp_path)
    checked = []
    monkeypatch.setattr(sweep, "check_wrapper_sources", lambda *given: checked.append(given))
    assert sweep.initialize_run(prepared, folder) is True and checked == []
    (folder / "evaluations.npz").write_text("damaged")
    (folder / "run.json").write_text("{")
    assert sweep.initialize_run(prepared, folder) is True
    assert read_run(folder).reason == "pending" and not (folder / "evaluations.npz").exists()
    assert len(list(folder.glob("evaluations.npz.*"))) == 1
    done = recorded.complete_run(tmp_path, study="done")
    again = dataclasses.replace(prepared, spec=spec_from_dict(read_run(done).spec))
    assert sweep.initialize_run(again, done) is False
    assert checked == [(again.spec, {}, done)]


def test_run_completed_by_another_sweep_is_skipped(monkeypatch, tmp_path):
    prepared = prepare_run(support.spec(), load_adapter("sb3"))
    folder = prepared.spec.folder(tmp_path)
    readings = iter([make_reading(complete=False), make_reading(complete=True)])
    monkeypatch.setattr(sweep, "read_run", lambda path: next(readings))
    assert sweep.initialize_run(prepared, folder) is False
    assert not (folder / "run.json").exists()


def test_failed_folder_creation_states_the_reason(tmp_path):
    prepared = prepare_run(support.spec(), load_adapter("sb3"))
    (tmp_path / "results").write_text("a file")
    folder = prepared.spec.folder(tmp_path / "results")
    with pytest.raises(SpecError) as error:
        sweep.initialize_run(prepared, folder)
    words = f"results_dir: {folder} cannot be written (Not a directory). Choose another folder."
    assert str(error.value) == words


def test_only_leftovers_need_the_lock_of_a_complete_run(monkeypatch, tmp_path):
    left, tidied = [], []
    monkeypatch.setattr(sweep, "list_leftovers", lambda folder: left)
    folder = types.SimpleNamespace(tidy=lambda: tidied.append(1))
    monkeypatch.setattr(sweep, "RunFolder", lambda run_lock, content: folder)
    sweep._remove_leftovers(tmp_path, None)
    assert not tidied
    left.append("progress.json")
    sweep._remove_leftovers(tmp_path, None)
    with RunLock.acquire(tmp_path):
        sweep._remove_leftovers(tmp_path, ())
    assert tidied == [1]


def test_outcomes_of_runs_cannot_be_changed():
    assert find_changeable(parallax.harness.sweep) == {"_SweepStop"}


@pytest.mark.parametrize("target", ["loop", "missing"])
def test_results_are_not_written_through_a_dangling_link(target, tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / target)
    with pytest.raises(SpecError, match=r"results_dir=.*/loop/x: .*/loop is a link that leads"):
        sweep.run_sweep([], tmp_path / "loop" / "x", 1)


def test_listed_runs_have_folders_states_and_remaining_steps(tmp_path):
    complete, incomplete = recorded.complete_run(tmp_path), recorded.complete_run(tmp_path, seed=1)
    recorded.edit(incomplete, status="pending")
    specs = [spec_from_dict(read_run(complete).spec)]
    specs += [dataclasses.replace(specs[0], seed=seed) for seed in (1, 2)]
    *lines, total = sweep.list_sweep(specs, tmp_path, 1)
    names = [str(spec.folder(tmp_path).relative_to(tmp_path)) for spec in specs]
    assert [line.split() for line in lines] == [
        [state, name] for state, name in zip(("complete", "incomplete", "new"), names, strict=True)
    ]
    steps = 2 * specs[0].steps
    assert total == (
        f"3 runs: 1 complete, 1 incomplete, 1 new. At most {steps:,} environment steps remain."
    )
    assert not specs[2].folder(tmp_path).exists()
