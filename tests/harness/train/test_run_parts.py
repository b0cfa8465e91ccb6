"""Parts of a run: notes, times, facts for the diagnosis, and files of loggers."""

import contextlib
import random
import re
import sys
import time
import types

import numpy as np
import pytest
import support
from constants import compare_with_stored
from records import find_changeable

import parallax.harness.train
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.diagnosis.checks import load_all_checks
from parallax.harness.record.checkpoints import LoadedCheckpoint
from parallax.harness.record.lock import FolderDeletedError, LockLostError
from parallax.harness.record.lock_owner import LockOwner
from parallax.harness.train import diagnosis, loggers, prepare, run
from parallax.harness.train.checkpointing import ResumeError
from parallax.harness.train.diagnosis import collect_facts
from parallax.harness.train.prepare import prepare_run
from parallax.harness.train.run import _record_end, _RunAttempt
from parallax.harness.train.stop_signals import RunInterrupt


class Folder:
    """A run folder that has what `run.json` is updated with."""

    def __init__(self):
        self.content, self.path = {"steps": {"requested": 600}}, None

    def update_run(self, **changes):
        self.content |= changes


@pytest.fixture
def attempt():
    prepared = prepare_run(support.spec(), load_adapter("sb3"))
    return _RunAttempt(prepared, load_adapter("sb3"), Folder(), {}, time.time())


def test_notes_are_recorded_and_in_the_log(attempt, capsys):
    attempt._add_note("Checkpoint 3 is damaged.")
    assert attempt.notes == ["Checkpoint 3 is damaged."]
    assert capsys.readouterr().err == "Checkpoint 3 is damaged.\n"


def test_failure_before_training_records_times_and_no_steps(attempt):
    attempt._begun = time.monotonic() - 5
    attempt._cpu_begun = time.process_time() - 2
    folder = Folder()
    _record_end(folder, attempt, {"status": "failed"})
    timings = folder.content["timings"]
    assert folder.content["status"] == "failed" and folder.content["resume_notes"] == []
    assert folder.content["steps"] == {"requested": 600, "taken": 0}
    assert timings["evaluation_seconds"] == 0
    assert 5 <= timings["seconds"] < 5.9 and 2 <= timings["training_cpu_seconds"] < 2.9


@pytest.fixture
def resumed(attempt, monkeypatch):
    """An attempt 5 s after its start, 2 s of all cores, at a run that took 10 s and 7 s before."""
    read = {"monotonic": lambda: 105.0, "process_time": lambda: 52.0, "time": lambda: 2000.0}
    monkeypatch.setattr(run, "time", types.SimpleNamespace(**read))
    attempt._begun, attempt._cpu_begun, attempt._earlier_seconds = 100, 50, 10
    attempt._earlier_cpu_seconds = 7
    attempt.started, attempt._identity, attempt.notes = 1900.0, {"python": "3"}, ["a note"]
    evaluator = types.SimpleNamespace(seconds=3.0, cpu_seconds=1.5)
    attempt.monitor = types.SimpleNamespace(evaluator=evaluator, costs={}, steps=450)
    return attempt


def test_times_and_steps_of_all_attempts_are_recorded(resumed):
    state = {"identity": {"python": "3"}, "step": 450, "is_own": True}
    state |= {"seconds": 15.0, "cpu_seconds": 9.0}
    assert resumed._describe_checkpoint() == state
    timings = {"started": 1900.0, "ended": 2000.0, "seconds": 15.0, "evaluation_seconds": 3.0}
    for costs, cpu, recorded in (({}, 7, 7.5), ({"sampler": {"wait": 1.0}}, np.nan, None)):
        folder, resumed.monitor.costs, resumed._earlier_cpu_seconds = Folder(), costs, cpu
        _record_end(folder, resumed, {"status": "completed", "final_score": 2.0})
        more = {"parts": costs} if costs else {}
        assert folder.content == {
            **{"status": "completed", "final_score": 2.0, "resume_notes": ["a note"]},
            "steps": {"requested": 600, "taken": 450},
            "timings": timings | {"training_cpu_seconds": recorded} | more,
        }


def test_starting_run_clears_its_previous_outcome(monkeypatch):
    owner = LockOwner("", pid=7, host="here", job="")
    monkeypatch.setattr(run.LockOwner, "of_this_process", lambda token: owner)
    folder = Folder()
    run._record_start(folder, 5.0, [{"status": "failed"}])
    del folder.content["steps"]
    assert folder.content == {
        **{"status": "running", "failure": None, "stopped_by": None, "resumed_from": None},
        **{"attempts": [{"status": "failed"}], "resume_notes": [], "timings": {"started": 5.0}},
        "has_foreign_checkpoint": False,
        **{"pid": 7, "host": "here", "job": None},
    }


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (run.TrainingError("it diverged"), "it diverged"),
        (SpecError("too large"), "too large"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_errors_of_other_code_have_their_kind(error, words):
    assert run._describe_error(error) == words


def test_the_source_of_a_run_is_its_script_or_the_frameworks_files():
    script = types.SimpleNamespace(name="own.py", sha256="ab")
    adapter = types.SimpleNamespace(sources=lambda algorithm: {f"{algorithm}.py": "cd"})
    for own, sources in ((script, {"own.py": "ab"}), (None, {"ppo.py": "cd"})):
        spec = types.SimpleNamespace(script=own, algorithm="ppo")
        assert run._describe_sources(types.SimpleNamespace(spec=spec), adapter) == sources


@pytest.mark.parametrize("unfit", [0, 1, 2])
def test_run_resumes_from_the_newest_valid_checkpoint_or_restarts(
    attempt, monkeypatch, capsys, unfit
):
    starts = [LoadedCheckpoint(2, {}, {}, True), LoadedCheckpoint(1, {}, {}, True), None]
    tried, drawn, discarded, rooms = [], [], [], []

    def train(start, every, stop):
        tried.append((start, every))
        drawn.append(random.random())
        if len(tried) <= unfit:
            raise ResumeError(f"it does not fit ({'x' * 9_000}\n)")
        return "outcome"

    def resume(store, own, say, room):
        rooms.append(room)
        yield from starts

    attempt._folder.checkpoints = types.SimpleNamespace(list_numbers=lambda: [2, 1])
    attempt._folder.discard_results = lambda: discarded.append(1)
    monkeypatch.setattr(attempt, "_train", train)
    monkeypatch.setattr(run, "iterate_resume_points", resume)
    sizes = lambda hyperparameters, task: (hyperparameters, task)  # noqa: E731
    monkeypatch.setattr(run, "estimate_state_bytes", sizes)
    assert attempt.carry_out() == "outcome"
    assert rooms == [(attempt._prepared.hyperparameters, attempt._prepared.context.task)]
    every = attempt._prepared.spec.checkpoint_every
    assert tried == [(start, every) for start in starts[: unfit + 1]] and every > 0
    assert len(set(drawn)) == 1 and len(discarded) == unfit
    assert attempt.notes == [
        f"Checkpoint {number} cannot be resumed from: it does not fit (".ljust(1_000, "x")
        for number in (2, 1)[:unfit]
    ]


def test_run_without_checkpoints_searches_none(attempt, monkeypatch):
    spec = types.SimpleNamespace(checkpoint_every=0)
    attempt._prepared = types.SimpleNamespace(spec=spec)
    monkeypatch.setattr(attempt, "_train", lambda start, every, stop: (start, every))
    assert attempt.carry_out() == (None, 0)


@pytest.mark.parametrize("start", [None, {"step": 300, "seconds": 5.0}])
@pytest.mark.parametrize("best", [None, 3])
def test_a_training_is_resumed_finished_and_its_policy_saved(attempt, monkeypatch, start, best):
    learned, better = (
        types.SimpleNamespace(weights={"w": np.full(2, value)}) for value in (1.0, 2.0)
    )
    saved, made = [], {}
    monitor = types.SimpleNamespace(
        events="events",
        make_env="make_env",
        best=best and types.SimpleNamespace(evaluation=best, policy=better),
        finish=lambda steps: made.update(finished=steps),
        get_stored_policy=lambda: learned,
        evaluator=types.SimpleNamespace(last_score=4.5, measure_references=lambda: {"idle": {}}),
    )
    engine = types.SimpleNamespace(signals=types.SimpleNamespace())
    logging = types.SimpleNamespace(log_signal="to the logger")
    fakes = {
        "CheckpointManager": lambda *given: made.update(every=given[2], start=given[4]) or "keeper",
        "TrainingMonitor": lambda prepared, folder, keeper: made.update(keeper=keeper) or monitor,
        "start_diagnosis": lambda prepared, monitor, folder, begins: (
            made.update(begins=begins) or types.SimpleNamespace(engine=engine)
        ),
        "start_logging": lambda *given, resumes: made.update(resumes=resumes) or logging,
        "watch_libraries": contextlib.nullcontext,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(run, name, fake)
    attempt._adapter = types.SimpleNamespace(train=lambda *given: made.update(trained=given))
    attempt._folder.checkpoints, attempt._folder.save_policy = None, saved.append
    loaded = start and LoadedCheckpoint(1, start, {}, True)
    outcome = attempt._train(loaded, 20.0, run.StopRequest())
    policy, native = better if best else learned, attempt._prepared.native
    assert outcome == {
        **{"status": "completed", "final_score": 4.5, "references": {"idle": {}}},
        **{"weights_sha256": run.hash_weights(policy.weights)},
        **({"saved_evaluation": best} if best else {}),
    }
    assert saved == [policy] and engine.signals.on_value == "to the logger"
    trained = ("ppo", native, attempt._prepared.context, "make_env", monitor)
    assert made == {
        **{"every": 20.0, "start": loaded, "keeper": "keeper", "begins": 300 if start else 0},
        **{"resumes": bool(start), "finished": native.total_steps, "trained": trained},
    }
    # What a refused checkpoint changes must not be in the settings of the next attempt.
    assert made["trained"][1].settings is not native.settings
    assert attempt._folder.content["resumed_from"] == (300 if start else None)
    assert attempt._earlier_seconds == (5.0 if start else 0.0)
    cpu = attempt._earlier_cpu_seconds
    assert np.isnan(cpu) if start else cpu == 0.0


def test_facts_of_a_users_task_need_the_module_that_registers_it(tmp_path, monkeypatch):
    (tmp_path / "own_task.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "gymnasium.register('OwnPole-v0', CartPoleEnv, max_episode_steps=77, "
        "reward_threshold=70.0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_task", raising=False)
    prepared = prepare_run(support.spec(env="CartPole-v1"), load_adapter("sb3"))
    spec = types.SimpleNamespace(
        **{name: getattr(prepared.spec, name) for name in ("algorithm", "wrappers", "n_envs")},
        env="own_task:OwnPole-v0",
    )
    parts = {name: getattr(prepared, name) for name in ("context", "hyperparameters", "native")}
    facts = collect_facts(types.SimpleNamespace(spec=spec, **parts))
    assert facts.reward_threshold == 70.0 and facts.steps == prepared.native.total_steps


@pytest.mark.parametrize(("replay", "expected"), [("uniform", False), ("per", True)])
def test_replay_interventions_are_applied_only_for_replay_strategies(monkeypatch, replay, expected):
    found = []
    resolve = prepare.resolve_interventions

    def look(*arguments, **options):
        found.append(options["with_replay"])
        return resolve(*arguments, **options)

    monkeypatch.setattr(prepare, "resolve_interventions", look)
    prepare_run(support.spec(algorithm="dqn", replay=replay), load_adapter("sb3"))
    assert set(found) == {expected}


class WandbRun:
    def __init__(self):
        self.logged, self.is_finished = [], False

    def log(self, values):
        self.logged.append(values)

    def define_metric(self, *arguments, **options):
        pass

    def finish(self):
        self.is_finished = True


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_wandb_values_after_a_checkpoint_are_dropped_only_when_repeated(
    monkeypatch, tmp_path, ended, has_checkpoint
):
    logged = WandbRun()
    fake = types.SimpleNamespace(init=lambda **options: logged, Settings=lambda **options: options)
    monkeypatch.setattr(loggers.importlib, "import_module", lambda name: fake)
    sink = loggers._WandbSink(types.SimpleNamespace(path=tmp_path), resumes=False)
    sink.write(1, {"loss": 2.0})
    if has_checkpoint:
        sink.state()
        assert logged.logged == [{"loss": 2.0, "step": 1}]
    sink.write(2, {"loss": 1.0})
    sink.close(ended)
    assert logged.is_finished
    assert ({"loss": 1.0, "step": 2} in logged.logged) == (ended or not has_checkpoint)


@pytest.mark.parametrize(
    ("error", "failure"),
    [(None, None), (OSError(28, "No space"), "No space"), (ValueError("no number"), "no number")],
)
def test_failed_trace_write_fails_the_run_and_frees_reserved_space(error, failure):
    freed = []

    def finish():
        if error is not None:
            raise error

    folder = types.SimpleNamespace(finish_trace=finish, release_space=lambda: freed.append(1))
    found = run._finish_trace(folder)
    assert found.get("status") == (failure and "failed")
    assert (failure or "") in found.get("failure", "") and freed == [1]
    for raised in (LockLostError("x"), FolderDeletedError(2, "x")):
        error = raised
        with pytest.raises(type(raised)):
            run._finish_trace(folder)
    assert freed == [1, 1, 1]


@pytest.mark.parametrize(("status", "given"), [("completed", ""), ("failed", "it broke")])
def test_logs_are_closed_with_the_failure_of_the_run(status, given):
    closed = []
    outcome = {"status": status, "failure": "it broke"}
    assert run._close(types.SimpleNamespace(close=closed.append), outcome) == {}
    assert closed == [given]

    def fail(failure):
        raise errors.pop()

    errors = [LockLostError("x"), FolderDeletedError(2, "x"), OSError(28, "No space")]
    found = run._close(types.SimpleNamespace(close=fail), outcome)
    assert found["status"] == "failed" and "No space" in found["failure"]
    for kind in (FolderDeletedError, LockLostError):
        with pytest.raises(kind):
            run._close(types.SimpleNamespace(close=fail), outcome)


def test_references_that_cannot_be_measured_leave_the_run_complete(capsys):
    def fail():
        raise TypeError("no such action")

    evaluator = types.SimpleNamespace(measure_references=lambda: {"random": 3.0})
    monitor = types.SimpleNamespace(evaluator=evaluator)
    assert run._measure_references(monitor) == {"random": 3.0}
    evaluator.measure_references = fail
    assert run._measure_references(monitor) == {}
    assert "References not measured: " in (said := capsys.readouterr().err)
    assert "no such action" in said


def test_weights_that_are_not_finite_are_named_and_counted():
    good, bad = np.ones(3), np.array([1.0, np.nan])
    run._check_weights_finite({"a": good, "b": good})
    with pytest.raises(run.TrainingError, match=r"not finite \(b and 1 others\)"):
        run._check_weights_finite({"a": good, "b": bad, "c": bad})


def test_a_report_that_cannot_be_written_stops_no_training():
    problems = []
    engine = types.SimpleNamespace(report_problem=problems.append)
    diagnosing = diagnosis.RunDiagnosis(engine, "on", None)
    diagnosing._build_report = dict
    errors = [LockLostError("x"), FolderDeletedError(2, "x"), OSError(28, "No space")]

    def fail(report):
        raise errors.pop()

    diagnosing.save_report(types.SimpleNamespace(save_diagnosis=fail))
    assert problems == ["diagnosis.json cannot be written: No space"]
    for kind in (FolderDeletedError, LockLostError):
        with pytest.raises(kind):
            diagnosing.save_report(types.SimpleNamespace(save_diagnosis=fail))


@pytest.mark.parametrize("troubles", [[], ["mine:CHECK cannot be imported"]])
def test_unloadable_checks_are_skipped(monkeypatch, tmp_path, troubles):
    checks = load_all_checks(())[0][:3]
    settings = {"mode": "on", "only": [checks[0].id, "own-check"], "skip": ["other-check"]}
    prepared = prepare_run(support.spec(), load_adapter("sb3"))
    prepared = types.SimpleNamespace(
        spec=types.SimpleNamespace(diagnosis=settings), native=prepared.native
    )
    made, removed, parts = [], [], {}
    engine = types.SimpleNamespace(report_problem=made.append, subscribe=lambda events: None)
    engine.make = lambda facts, checks, thresholds, **options: made.append(options) or engine
    monkeypatch.setattr(diagnosis, "load_all_checks", lambda extra: (checks, troubles))
    monkeypatch.setattr(diagnosis, "collect_facts", lambda prepared: None)
    monkeypatch.setattr(diagnosis, "DiagnosisEngine", engine.make)
    folder = types.SimpleNamespace(
        path=tmp_path,
        remove_diagnosis=lambda: removed.append(1),
        checkpoint_extras=types.SimpleNamespace(add=parts.__setitem__),
    )
    monitor = types.SimpleNamespace(get_normalizer=None, events=None)
    if not troubles:
        with pytest.raises(SpecError, match="own-check"):
            diagnosis.start_diagnosis(prepared, monitor, folder, 0)
        return
    found = diagnosis.start_diagnosis(prepared, monitor, folder, 0)
    options, *said = made
    assert set(options["left_out"]) == {check.id for check in checks[1:]}
    assert (said, removed, parts) == (troubles, [1], {"diagnosis": found})
    assert (options["strict"], options["start_step"], options["reported_ids"]) == (False, 0, set())


@pytest.mark.parametrize(
    ("recorded", "is_refused"), [({}, False), ({"m:W": "a" * 64}, True), ({"m:W": "b" * 64}, False)]
)
def test_a_run_whose_wrapper_was_edited_is_refused(monkeypatch, tmp_path, recorded, is_refused):
    monkeypatch.setattr(prepare, "hash_wrapper_sources", lambda wrappers: {"m:W": "b" * 64})
    spec = types.SimpleNamespace(env_wrappers=("m:W",))
    if not is_refused:
        assert prepare.check_wrapper_sources(spec, recorded, tmp_path) is None
        return
    with pytest.raises(SpecError, match=f"m:W, .*{'a' * 12} then, {'b' * 12} now"):
        prepare.check_wrapper_sources(spec, recorded, tmp_path)


def edit_entry(content, **changes):
    """Return the recorded interventions with other values in one of them."""
    entries = content["interventions"]
    return entries | {"value-loss-x0.5": entries["value-loss-x0.5"] | changes}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda now: {}, None),
        (lambda now: {"native": None}, None),  # written before there was one
        (lambda now: {"native": now["native"] | {"n_steps": 7}}, "native: n_steps=7 then, 2048"),
        (lambda now: {"native": 3}, "native: 3 then, {"),
        (lambda now: {"steps": {"scheduled": 5}}, "scheduled steps: 5 then, 2048 now"),
        (lambda now: {"interventions": edit_entry(now, does="Rewritten.")}, None),
        (lambda now: {"interventions": edit_entry(now, set={"gamma": 1})}, "{'gamma': 1}"),
    ],
)
def test_a_run_that_would_be_translated_differently_is_refused(change, words):
    spec = support.spec(steps=2048, eval_every=2048, intervention="value-loss-x0.5")
    prepared = prepare_run(spec, load_adapter("sb3"))
    now = prepare._round_trip_json(prepare.describe_translation(prepared))
    recorded = {**now, "steps": {"scheduled": prepared.native.total_steps}, **change(now)}
    if words is None:
        assert prepare.check_translation(prepared, recorded) is None
        return
    with pytest.raises(SpecError, match=re.escape(words)):
        prepare.check_translation(prepared, recorded)


def test_constants_and_defaults_change_on_purpose_only():
    assert compare_with_stored("harness.train") == []


DONE = {"status": "completed", "final_score": 2.0}
FULL = {"status": "failed", "failure": "the trace cannot be written"}


@pytest.mark.parametrize(
    ("error", "trouble", "recorded"),
    [
        (None, {}, DONE),
        (None, FULL, DONE | FULL),
        (ValueError("odd"), FULL, {"status": "failed", "failure": "ValueError: odd"}),
        (SpecError("too large"), {}, {"status": "failed", "failure": "too large"}),
        (KeyboardInterrupt(), {}, run.describe_interruption("user")),
        (RunInterrupt("time limit"), FULL, run.describe_interruption("time limit")),
        (LockLostError("x"), {}, {"status": "failed"}),
        (FolderDeletedError(2, "x"), {}, {"status": "failed"}),
    ],
)
def test_end_of_a_run_is_recorded_after_every_error(monkeypatch, capsys, error, trouble, recorded):
    ended, calls, beats = [], [], []

    def carry_out(attempt):
        calls.append("trained")
        if error:
            raise error
        return dict(DONE)

    @contextlib.contextmanager
    def write_heartbeats(folder, steps):
        beats.append(steps())
        yield
        calls.append("last heartbeat")

    folder = Folder()
    folder.clear = lambda: calls.append("cleared")
    folder.reserve_space = lambda: calls.append("reserved")
    folder.checkpoints = types.SimpleNamespace(remove=lambda: calls.append("removed"))
    fakes = {
        "read_run": lambda path: types.SimpleNamespace(content={"adapter": "x:Y"}),
        "collect_attempts": lambda record: ["earlier"],
        "describe_adapter_code": lambda name: {"files": {}, "name": name},
        "HeartbeatWriter": write_heartbeats,
        "collect_provenance": lambda: {"python": "3"},
        "_record_start": lambda folder, started, attempts: calls.append(attempts),
        "_record_end": lambda folder, attempt, outcome: ended.append(outcome),
        "_close": lambda attempt, outcome: calls.append("closed") or {},
        "_finish_trace": lambda folder: trouble,
        "_describe_sources": lambda prepared, adapter: {"ppo.py": "ab"},
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(run, name, fake)
    monkeypatch.setattr(_RunAttempt, "carry_out", carry_out)
    adapter = load_adapter("sb3")
    prepared = prepare_run(support.spec(), adapter)
    if error is None or isinstance(error, ValueError):
        assert run.execute_run(prepared, adapter, folder) == recorded["status"]
    else:
        with pytest.raises(type(error)):
            run.execute_run(prepared, adapter, folder)
    provenance = {"python": "3", "sources": {"ppo.py": "ab"}}
    provenance["adapter"] = {"files": {}, "name": "x:Y"}
    assert ended == [recorded | {"provenance": provenance}] and beats == [0]
    removed = ["removed"] if recorded["status"] == "completed" else []
    steps = ["cleared", "reserved", ["earlier"], "trained", "closed", *removed]
    assert [call for call in calls if call != "last heartbeat"] == steps
    traced = isinstance(error, ValueError)
    assert ("Traceback" in capsys.readouterr().err) == traced


def test_findings_are_written_and_the_logger_is_closed_at_the_end(attempt, monkeypatch):
    calls = []
    monkeypatch.setattr(run, "finish_diagnosis", lambda *given: calls.append(given))
    attempt.close()
    assert calls == [(None, attempt._folder, "")]
    attempt.diagnosis = "diagnosis"
    attempt.logging = types.SimpleNamespace(close=lambda: calls.append("closed"))
    attempt.close("it broke")
    assert calls[1:] == [("diagnosis", attempt._folder, "it broke"), "closed"]


def test_facts_about_runs_cannot_be_changed():
    assert find_changeable(parallax.harness.train) == set()
