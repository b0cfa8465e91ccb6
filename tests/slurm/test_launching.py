"""Order of a submission: checks, preflight, folders, arrays; and the preflight's processes."""

import io
import json
import os
import types
from pathlib import Path

import pytest
import support
from rich.console import Console

from parallax.harness.contract.fields import RunsFailedError, SpecError
from parallax.harness.contract.run_spec import spec_to_dict
from parallax.harness.sweep import run_process, sweep
from parallax.slurm import arrays, launch, preflight, submit
from parallax.slurm.arrays import JobArray, JobResources, plan_arrays, read_records
from parallax.slurm.preflight import PreflightOptions
from parallax.slurm.requeueable_job import JobLimits
from parallax.slurm.settings import load_settings

SETTINGS = load_settings("default", {})


@pytest.fixture
def launched(monkeypatch, tmp_path):
    """Notes the steps of a submission, of which none reaches Slurm."""
    steps = []

    def select(runs, *, dry_run):
        steps.append(("select", dry_run))
        return dict(list(runs.items())[:2])

    def set_up(todo):
        steps.append(("set up", len(todo)))
        return dict(list(todo.items())[:1])

    fakes = {
        "select_runs": select,
        "_set_up_folders": set_up,
        "get_max_array_size": lambda: 10,
        "run_preflight": lambda *given: steps.append(("try", *given)) or 1,
        "submit_preflight": lambda *given: steps.append(("job", *given)) or {"dependency": "7"},
        "submit_arrays": lambda *given: steps.append(("submit", *given)) or ["record"],
        "_print_submitted": lambda *given: steps.append(("print", *given)),
        "_print_plan": lambda *given, every_run: steps.append(("plan", *given, every_run)),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(launch, name, fake)
    prepare = sweep.prepare_runs

    def prepare_for_nodes(specs, on_this_machine=True):
        assert not on_this_machine, "nodes have devices that this machine lacks"
        return prepare(specs, on_this_machine)

    monkeypatch.setattr(sweep, "prepare_runs", prepare_for_nodes)
    monkeypatch.setattr(sweep, "describe_doubtful_runs", lambda runs: ["doubtful"])
    specs = [support.spec(seed=seed) for seed in range(3)]
    return types.SimpleNamespace(steps=steps, specs=specs, root=tmp_path)


def test_runs_are_tried_locally_initialized_and_submitted(launched, capsys):
    options = PreflightOptions(processes=3, seconds=60.0)
    specs, root = launched.specs, launched.root
    assert launch.launch_sweep(specs, root, SETTINGS, preflight=options) == ["record"]
    folder = specs[0].folder(root)
    planned = plan_arrays([(specs[0], folder)], SETTINGS, 10)
    assert launched.steps == [
        ("select", False),
        ("try", specs[:2], 3, 60.0),
        ("set up", 2),
        ("submit", folder.parents[5], planned, SETTINGS, {folder: specs[0]}, {}),
        ("print", ["record"], root),
    ]
    said = capsys.readouterr()
    assert said.out == "1 settings took one step each without an error.\n"
    assert said.err == "doubtful\n"


def test_cluster_preflight_is_a_job_that_arrays_depend_on(launched):
    options = PreflightOptions("cluster")
    specs, root = launched.specs, launched.root
    launch.launch_sweep(specs, root, SETTINGS, preflight=options)
    study = specs[0].folder(root).parents[5]
    names = [step[0] for step in launched.steps]
    assert names == ["select", "set up", "job", "submit", "print"]
    assert launched.steps[2] == ("job", study, specs[:1], SETTINGS, options)
    assert launched.steps[3][-1] == {"dependency": "7"}


def test_a_dry_run_and_a_sweep_without_a_preflight_try_nothing(launched):
    specs, root = launched.specs, launched.root
    assert launch.launch_sweep(specs, root, SETTINGS, dry_run=True) == []
    folders = [spec.folder(root) for spec in specs[:2]]
    planned = plan_arrays(list(zip(specs[:2], folders, strict=True)), SETTINGS, 10)
    plan = ("plan", {folders[0].parents[5]: planned}, SETTINGS, False)
    assert launched.steps == [("select", True), plan]
    del launched.steps[:]
    launch.launch_sweep(specs, root, SETTINGS)
    assert [step[0] for step in launched.steps] == ["select", "set up", "submit", "print"]
    with pytest.raises(SpecError, match=r"^The sweep names the same run more than once: remove"):
        launch.launch_sweep([specs[0], specs[0]], root, SETTINGS)


def test_concurrent_submission_is_refused_and_failed_one_leaves_no_folder(launched, monkeypatch):
    root, settings = launched.root / "results", SETTINGS

    def select_while_another_submits(runs, *, dry_run):
        with pytest.raises(SpecError, match="another such command"):
            launch.launch_sweep(launched.specs[:1], root, settings)
        raise SpecError("Slurm does not answer")

    monkeypatch.setattr(launch, "select_runs", select_while_another_submits)
    with pytest.raises(SpecError, match="does not answer"):
        launch.launch_sweep(launched.specs, root, settings)
    assert not root.exists() and launched.root.exists()


def test_a_plan_has_each_script_and_the_number_of_jobs(monkeypatch, capsys):
    monkeypatch.setattr(launch, "render_scripts", lambda *given: ["one\x1b\nline", "two"])
    monkeypatch.setattr(launch, "_print_runs", lambda array, place, every_run: print(place))
    array = types.SimpleNamespace(elements=[1, 2, 3])
    plans = {Path("/r/a"): [array, array], Path("/r/b"): [array, array]}
    launch._print_plan(plans, SETTINGS, every_run=False)
    one = ["", "-" * 78, "one\\x1b", "line", "/r", "", "-" * 78, "two", "/r"]
    end = ["", "Dry run: 12 jobs in 4 arrays would be submitted; nothing was."]
    assert capsys.readouterr().out.splitlines() == [*one, *one, *end]


@pytest.mark.parametrize(
    ("processes", "cpus", "dependency", "wanted"),
    [(-1, 2, None, "afterok:77"), (3, 3, "afterany:5", "afterok:77,afterany:5")],
)
def test_a_preflight_job_has_its_resources_and_its_specifications(
    monkeypatch, tmp_path, capsys, processes, cpus, dependency, wanted
):
    sbatch = {"dependency": dependency} if dependency else {}
    settings = load_settings(
        "default", {"cpus": 2, "mem_gb": 1.5, "time": {"preflight": "01:00:00"}, "sbatch": sbatch}
    )
    given = []
    monkeypatch.setattr(launch, "submit_job", lambda *values: given.append(values) or "77")
    specs = [support.spec(seed=seed) for seed in (0, 1)]
    options = PreflightOptions("cluster", processes, 60.0)
    found = launch.submit_preflight(tmp_path / "s", specs, settings, options)
    assert found == {"dependency": wanted, "kill-on-invalid-dep": "yes"}
    ((record, array, used, job),) = given
    resources = JobResources("preflight", 60, 1, cpus, 1.5 * cpus)
    assert array == JobArray(resources, (), 1) and used is settings
    assert (job._folder, job._processes, job._seconds) == (record.folder, cpus, 60.0)
    stored = json.loads((record.folder / "preflight-specs.json").read_text())
    assert stored == json.loads(json.dumps([spec_to_dict(spec) for spec in specs]))
    outcome = record.folder / "preflight.json"
    assert json.loads(outcome.read_text()) == {"state": "queued", "said": ""}
    assert capsys.readouterr().out.splitlines() == [
        "Job 77: preflight of 2 runs, which the others wait for.",
        f"    its outcome: {outcome}",
    ]


@pytest.fixture
def array(tmp_path):
    folders = tuple((tmp_path / "s" / f"seed={i}", tmp_path / "s" / f"seed=1{i}") for i in range(2))
    return JobArray(JobResources("ppo", 10, 2, 1, 1.0), folders, 1)


def test_each_array_is_recorded_before_and_after_it_is_queued(monkeypatch, tmp_path, array):
    seen = []

    def queue(job, folders):
        (record,) = read_records(tmp_path / "s")
        seen.append((record.job_id, job._limits, folders, record.read_specs()))
        return [types.SimpleNamespace(job_id="9_0")]

    executor = types.SimpleNamespace(map_array=queue)
    monkeypatch.setattr(submit, "_make_executor", lambda *given: executor)
    specs = {
        folder: support.spec(seed=i)
        for i, folder in enumerate(folder for element in array.elements for folder in element)
    }
    (record,) = submit.submit_arrays(tmp_path / "s", [array], SETTINGS, specs)
    restarts = (SETTINGS.timeout_restarts, SETTINGS.preemption_restarts)
    limits = JobLimits(10, 20, 120, *restarts, SETTINGS.malloc)
    folders = [[str(folder) for folder in element] for element in array.elements]
    assert seen == [(None, limits, folders, specs)]
    assert [one.job_id for one in read_records(tmp_path / "s")] == [record.job_id] == ["9"]
    assert (record.study_folder, record.elements) == (tmp_path / "s", array.elements)


@pytest.mark.parametrize("stage", ["record", "queue"])
def test_a_refused_array_is_named_with_what_is_queued(monkeypatch, tmp_path, array, stage):
    answers = [[types.SimpleNamespace(job_id="9_0")], RuntimeError(" no srun\n")]

    def queue(job, folders):
        if stage == "record":  # the next record cannot be written
            (tmp_path / "s" / "slurm").rename(tmp_path / "s" / "old")
            (tmp_path / "s" / "slurm").write_text("")
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    executor = types.SimpleNamespace(map_array=queue)
    monkeypatch.setattr(submit, "_make_executor", lambda *given: executor)
    specs = {folder: support.spec() for element in array.elements for folder in element}
    with pytest.raises(RunsFailedError) as error:
        submit.submit_arrays(tmp_path / "s", [array, array], SETTINGS, specs)
    words = {"record": "cannot be written (", "queue": "sbatch refused s-ppo-"}[stage]
    assert words in str(error.value)
    end = "4 runs are queued; the same command submits the others."
    assert str(error.value).endswith(end)
    if stage == "queue":
        assert ": no srun 4 runs" in str(error.value)
        assert [record.job_id for record in read_records(tmp_path / "s")] == ["9"]


@pytest.mark.parametrize("error", [None, OSError("no sbatch ")])
def test_a_single_job_is_queued_with_its_number(monkeypatch, tmp_path, array, error):
    def queue(job):
        if error:
            raise error
        return types.SimpleNamespace(job_id=f"{job}7")

    monkeypatch.setattr(
        submit, "_make_executor", lambda *given: types.SimpleNamespace(submit=queue)
    )
    record = arrays.SubmissionRecord(tmp_path / "s", "p", 5.0, None, (), {})
    if error is None:
        assert submit.submit_job(record, array, SETTINGS, "job") == "job7"
        assert submit.submit_job(record, array, SETTINGS, "job") == "job7"
        assert record.folder.is_dir()
        return
    with pytest.raises(RunsFailedError, match=r"^sbatch refused p: no sbatch Nothing is queued\.$"):
        submit.submit_job(record, array, SETTINGS, "job")


def test_stored_record_is_complete(tmp_path):
    folder = tmp_path / "A-v0" / "seed=0"
    record = arrays.SubmissionRecord(tmp_path, "s-1", 5.0, None, ((folder,),), {"mem_gb": 4})
    record.save()
    assert record.folder == tmp_path / "slurm" / "s-1" and record.folder.is_dir()
    path = tmp_path / "slurm" / "s-1.json"
    assert json.loads(path.read_text()) == {
        **{"schema": 1, "name": "s-1", "submitted": 5.0, "job_id": None},
        **{"elements": [["A-v0/seed=0"]], "settings": {"mem_gb": 4}},
    }
    assert read_records(tmp_path) == [record]
    record.discard()
    record.discard()
    assert not path.exists()


class Worker:
    """A process that tries settings; its outcomes are given."""

    def __init__(self, trial):
        self.trial, self.deadline, self.begun, self.ended = trial, 0.0, [], 0
        self.outcomes = trial.outcomes

    def begin(self, trial, folder, seconds):
        self.trial, self.deadline = trial, preflight.time.monotonic() + seconds
        self.begun.append((trial.name, folder, seconds))

    def fileno(self):
        return 5

    def poll(self):
        return self.outcomes.pop(0)

    def end(self):
        self.ended += 1


class Trial:
    """A setting to try, with what its process answers."""

    def __init__(self, name, group, cost, outcomes):
        self.name, self.group, self.cost, self.outcomes = name, group, cost, outcomes
        self.settings = (name,)


def make_trial(name, group, cost, *outcomes):
    return Trial(name, group, cost, list(outcomes))


@pytest.fixture
def pool(monkeypatch):
    """Makes pools whose workers are fakes, by a clock that is set."""
    now = types.SimpleNamespace(value=100.0, waited=[])
    monkeypatch.setattr(preflight, "time", types.SimpleNamespace(monotonic=lambda: now.value))
    monkeypatch.setattr(preflight, "_TrialWorker", Worker)
    monkeypatch.setattr(preflight, "wait", lambda files, seconds: now.waited.append(seconds))

    def make(jobs, *trials):
        made = preflight._WorkerPool(trials, jobs, 60.0, Path("/nowhere"))
        monkeypatch.setattr(made, "_prepare", lambda trial: (f"folder of {trial.name}", trial))
        return made, now

    return make


def test_processes_are_started_where_they_save_most_time(pool):
    trials = [make_trial(f"a{i}", "a", 10.0) for i in range(3)] + [make_trial("b", "b", 25.0)]
    made, _ = pool(9, *trials, make_trial("c", "c", 0.5))
    assert made.is_busy
    # The second process for `a` is worth its 8 s of loading: 20 s are left for two.
    assert [trial.name for trial in made.running_trials] == ["a0", "b", "a1", "c"]
    assert made._workers[0].begun == [("a0", "folder of a0", 60.0)]
    few, _ = pool(1, *trials)
    assert few.is_busy and len(few.running_trials) == 1
    none, _ = pool(3)
    assert not none.is_busy
    with made:
        pass
    assert [worker.ended for worker in made._workers] == [1] * 4


@pytest.mark.parametrize(("cost", "number"), [(16.0, 1), (16.1, 2)])
def test_further_process_is_started_only_if_it_saves_time(pool, cost, number):
    made, _ = pool(5, make_trial("a", "a", 1.0), make_trial("b", "a", cost))
    assert made.is_busy and len(made.running_trials) == number


def test_process_runs_trials_until_it_ends_or_times_out(pool):
    outcome = preflight._TrialOutcome
    first = make_trial("a", "a", 1.0, None, outcome(None, False), outcome("broke", True), None)
    made, now = pool(1, first, make_trial("b", "a", 1.0), make_trial("c", "a", 1.0, None))
    assert made.is_busy and made.wait_for_outcomes() == [] and now.waited == [60.0]
    assert made.wait_for_outcomes() == [(first, None)]
    (worker,) = made._workers
    assert [begun[0] for begun in worker.begun] == ["a", "b"] and worker.ended == 0
    ((trial, failure),) = made.wait_for_outcomes()
    assert (trial.name, failure, made._workers, worker.ended) == ("b", "broke", [], 1)
    assert made.is_busy
    now.value += 59.9
    assert made.wait_for_outcomes() == []
    now.value += 0.1
    made._workers[0].outcomes.append(None)
    ((trial, failure),) = made.wait_for_outcomes()
    words = "did not take a step within 60 s (hydra.launcher.preflight_seconds)"
    assert (trial.name, failure, made.is_busy) == ("c", words, False)
    assert now.waited[-1] == 0


def test_the_display_counts_trials_and_names_those_that_run():
    trials = [make_trial("a", "a", 1.5), make_trial("b", "a", 2.0)]
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with preflight._PreflightDisplay(trials, console) as display:
        (task,) = display._progress.tasks
        display.show(trials, 0)
        shown = {"done": "0/2", "failed": "", "now": "a, b"}
        assert task.fields == shown and task.total == 3.5 and not display._progress.disable
        display.advance_progress(trials[0])
        display.show(trials[1:], 1)
        assert task.fields == {"done": "1/2", "failed": "1 failed", "now": "b"}
        assert task.completed == 1.5
    assert display._progress.finished is False and display._progress.live.is_started is False
    quiet = preflight._PreflightDisplay(trials, Console(file=io.StringIO()))
    assert quiet._progress.disable


def test_settings_that_fail_are_listed_in_their_order(monkeypatch, capsys):
    trials = [make_trial(name, "a", 1.0) for name in "abc"]
    trials[1].settings = ("b1", "b2")
    given = []

    def run(trials, jobs, seconds, console):
        given.append((jobs, seconds))
        return failures

    monkeypatch.setattr(preflight, "make_trials", lambda specs: trials)
    monkeypatch.setattr(preflight, "_run_trials", run)
    failures = {}
    assert preflight.run_preflight([], 7, 60.0) == 4 and given == [(3, 60.0)]
    said = capsys.readouterr()
    words = "Preflight of 4 settings in 3 trials: about 27 s of CPU time, 9 s with 3 at a time.\n"
    assert (said.out, said.err) == ("", words)
    failures = {trials[1]: "broke", trials[2]: "gone"}
    with pytest.raises(SpecError) as error:
        preflight.run_preflight([], 1, 60.0)
    assert str(error.value) == (
        "3 of 4 settings cannot take a single step, so nothing is started:\n"
        "  b1: broke\n  b2: broke\n  c: gone"
    )


@pytest.fixture
def worker():
    """A process that tries settings, of which only the pipes exist."""
    questions, answers = os.pipe(), os.pipe()
    for end in (questions[0], answers[0]):
        os.set_blocking(end, False)  # what never comes is an error, and no test without an end
    made = object.__new__(preflight._TrialWorker)
    made._answer, made.deadline, made._log = b"", 0.0, io.BytesIO(b"first\nlast words\n")
    made._process = types.SimpleNamespace(
        stdin=os.fdopen(questions[1], "wb"), stdout=os.fdopen(answers[0], "rb"), pid=7
    )
    made.requests, made.answers = os.fdopen(questions[0], "rb"), answers[1]
    yield made
    made.requests.close()


def test_settings_and_answers_are_exchanged_as_lines(worker):
    trial = make_trial("a", "a", 1.0)
    before = preflight.time.monotonic()
    worker.begin(trial, Path("/a\nb"), 60.0)
    assert worker.requests.readline() == b'"/a\\nb"\n' and worker.trial is trial
    assert 59 < worker.deadline - before < 90
    assert worker.poll() is None
    for failure in (None, "it broke"):
        whole = json.dumps({"failure": failure}).encode()
        os.write(worker.answers, whole)
        assert worker.poll() is None  # without the line's end
        os.write(worker.answers, b"\n")
        assert worker.poll() == preflight._TrialOutcome(failure, is_over=False)
    os.close(worker.answers)
    worker._describe_end = lambda: "last words"
    assert worker.poll() == preflight._TrialOutcome("ended the process: last words", is_over=True)
    worker.requests.close()
    worker.begin(trial, Path("a"), 1.0)  # of a process that has ended


def test_process_is_killed_with_its_children(worker, monkeypatch):
    killed, errors = [], [None, ProcessLookupError()]
    process = worker._process
    process.wait = lambda: 5

    def kill(group, number):
        killed.append((group, number))
        if error := errors.pop(0):
            raise error

    monkeypatch.setattr(preflight.os, "killpg", kill)
    assert [worker.end(), worker.end()] == [5, 5] and killed == [(7, 9)] * 2
    assert process.stdin.closed and process.stdout.closed and worker._log.closed


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        (os.CLD_KILLED, 9, "killed by SIGKILL"),
        (os.CLD_DUMPED, 11, "killed by SIGSEGV"),
        (os.CLD_EXITED, 1, "last words"),
        (None, None, "last words"),
    ],
)
def test_end_of_a_process_is_described(worker, monkeypatch, code, status, words):
    now = types.SimpleNamespace(value=0.0, looks=0)

    def look(*given):
        now.looks += 1
        if code is None or now.looks < 3:
            return None
        return types.SimpleNamespace(si_code=code, si_status=status)

    def sleep(seconds):
        now.value += seconds if code else 0.5

    monkeypatch.setattr(preflight.os, "waitid", look)
    fake = types.SimpleNamespace(monotonic=lambda: now.value, sleep=sleep)
    monkeypatch.setattr(preflight, "time", fake)
    assert worker._describe_end() == words and now.looks == (3 if code else 4)


def test_failures_come_in_the_order_of_the_trials(pool, monkeypatch):
    outcome = preflight._TrialOutcome
    slow = make_trial("a", "a", 1.0, None, outcome("slow", True))
    quick = make_trial("b", "b", 2.0, outcome("quick", True))
    good = make_trial("c", "c", 3.0, outcome(None, False))
    pool(1)
    folders = []

    def prepare(self, trial):
        folders.append(self._scratch)
        return "folder", trial

    monkeypatch.setattr(preflight._WorkerPool, "_prepare", prepare)
    console = Console(file=io.StringIO())
    found = preflight._run_trials([slow, quick, good], 3, 60.0, console)
    assert list(found.items()) == [(slow, "slow"), (quick, "quick")]
    assert len(set(folders)) == 1 and not folders[0].exists()


def test_temporary_folder_must_be_usable_by_runs(monkeypatch):
    monkeypatch.setattr(preflight.tempfile, "gettempdir", lambda: "/a")
    assert preflight._check_temporary_folder() is None
    monkeypatch.setattr(preflight.tempfile, "gettempdir", lambda: "/\udcff")
    with pytest.raises(SpecError, match=r"^TMPDIR='/\\udcff' is not UTF-8, as the name of a run"):
        preflight._check_temporary_folder()


@pytest.mark.parametrize("python", [None, "/other/python"])
def test_preflight_process_has_the_interpreter_and_threads_of_its_runs(monkeypatch, python):
    made = []
    monkeypatch.setattr(
        preflight.subprocess, "Popen", lambda command, **options: made.append((command, options))
    )
    for name in ("add_project_to_path", "leave_out_folder"):
        monkeypatch.setattr(run_process, name, lambda given, name=name: given | {"BY": name})
    spec = types.SimpleNamespace(python=python, threads=3)
    trial = types.SimpleNamespace(prepared=types.SimpleNamespace(spec=spec))
    worker = preflight._TrialWorker(trial)
    ((command, options),) = made
    module = ["-m", "parallax.slurm.preflight_worker"]
    assert command == [python or preflight.sys.executable, *module]
    environment = options.pop("env")
    threads = dict.fromkeys(run_process.THREAD_VARIABLES, "3")
    by = "add_project_to_path" if python else "leave_out_folder"
    assert environment.items() >= {"BY": by, **threads}.items()
    pipe = preflight.subprocess.PIPE
    assert options == {
        **{"stdin": pipe, "stdout": pipe, "stderr": worker._log},
        "start_new_session": True,
    }
    assert (worker.trial, worker.deadline, worker._answer) == (trial, 0.0, b"")
    worker._log.close()


def test_each_trial_has_its_own_folder(monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(preflight, "initialize_run", lambda *given: made.append(given))
    pool = preflight._WorkerPool([], 1, 60.0, tmp_path)
    trial = types.SimpleNamespace(prepared="prepared")
    folders = [pool._prepare(trial)[0] for _ in range(2)]
    assert made == [("prepared", folder) for folder in folders] and folders[0] != folders[1]
    assert {folder.name for folder in folders} == {"run"}
    assert {folder.parents[1] for folder in folders} == {tmp_path}
