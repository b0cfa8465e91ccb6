"""Jobs that are cancelled and runs that are submitted again, with what is printed."""

import subprocess
import types
from pathlib import Path

import pytest
import support
from slurm_fakes import FakeSlurm, a_record, a_run

from parallax.harness.contract.fields import RunsFailedError, SpecError
from parallax.slurm import resubmit
from parallax.slurm.queue import SlurmJob, SlurmQueue
from parallax.slurm.settings import load_settings
from parallax.slurm.states import RunState


@pytest.fixture
def cancelled(monkeypatch, tmp_path):
    """Runs of two studies with jobs; returns the commands that cancel them, and their errors."""
    calls, errors = [], []
    root = tmp_path / "results"
    folders = [root / "a" / f"seed={i}" for i in range(5)] + [root / "b" / "seed=0"]
    alive = {folder: (SlurmJob(f"7_{i}", "RUNNING"),) for i, folder in enumerate(folders)}
    alive[folders[0]] += (SlurmJob("8_0", "PENDING"),)
    queue = SlurmQueue({}, ("squeue",), alive)
    checked = []
    runs = [RunState(folders[0], "running")]  # the folders of the others are gone
    monkeypatch.setattr(resubmit, "survey_runs", lambda root: (runs, queue))
    monkeypatch.setattr(
        resubmit, "check_slurm_answered", lambda folders, queue: checked.extend(folders)
    )
    monkeypatch.setattr(resubmit, "_JOBS_PER_COMMAND", 2)

    def cancel(jobs):
        calls.append(list(jobs))
        return errors.pop(0) if errors else ""

    monkeypatch.setattr(resubmit, "_run_scancel", cancel)
    return types.SimpleNamespace(calls=calls, errors=errors, root=root, checked=checked)


def test_all_jobs_below_a_folder_are_cancelled_once(cancelled, capsys):
    questions = []
    assert (
        resubmit.cancel_jobs(cancelled.root / "a", confirm=lambda q: questions.append(q) or True)
        == 0
    )
    assert cancelled.calls == [["7_0", "7_1"], ["7_2", "7_3"], ["7_4", "8_0"]]
    assert questions == ["Cancel 6 jobs?"] and cancelled.checked == [
        cancelled.root / "a" / "seed=0"
    ]
    assert capsys.readouterr().out.splitlines() == [
        "6 jobs are queued or running.",
        "6 jobs were cancelled. Complete runs stay as they are.",
    ]
    assert resubmit.cancel_jobs(cancelled.root / "b" / "seed=0", confirm=lambda q: True) == 0
    assert cancelled.calls[3:] == [["7_5"]]


def test_nothing_is_cancelled_without_jobs_or_consent(cancelled, capsys):
    assert resubmit.cancel_jobs(cancelled.root / "c", confirm=None) == 0
    assert capsys.readouterr().out == "No job is queued or running.\n"
    assert resubmit.cancel_jobs(cancelled.root, confirm=lambda question: False) == 0
    assert capsys.readouterr().out == "7 jobs are queued or running.\n" and cancelled.calls == []


def test_failed_command_does_not_prevent_the_others(cancelled):
    cancelled.errors[:] = ["not yours", "", "not yours", "late"]
    with pytest.raises(RunsFailedError, match=r"^not yours; late$"):
        resubmit.cancel_jobs(cancelled.root, confirm=lambda question: True)
    assert len(cancelled.calls) == 4


@pytest.mark.parametrize(
    ("code", "text", "error", "words"),
    [
        (0, "", None, ""),
        (0, "slow", None, ""),
        (1, "no\x1b\nright\n", None, r"scancel: no\x1b; right"),
        (0, "", OSError(2, "No such file"), "scancel cannot be started (No such file)."),
        (*(0, "", subprocess.TimeoutExpired("scancel", 60)), "scancel did not answer within 60 s"),
    ],
)
def test_scancel_errors_are_summarized_in_one_line(monkeypatch, code, text, error, words):
    def run(command, **options):
        assert command == ("scancel", "7", "8") and options["timeout"] == 60
        if error:
            raise error
        return types.SimpleNamespace(returncode=code, stderr=text)

    monkeypatch.setattr(resubmit.subprocess, "run", run)
    assert resubmit._run_scancel(["7", "8"]) == words


def test_scancel_stderr_is_captured(monkeypatch, tmp_path):
    fake = FakeSlurm(tmp_path / "bin", monkeypatch)
    fake.write("scancel", "print('said'); print('not yours', file=sys.stderr); sys.exit(1)")
    assert resubmit._run_scancel(["7", "8"]) == "scancel: not yours"
    assert fake.calls("scancel") == [["7", "8"]]


def test_settings_name_the_code_that_they_run():
    settings = load_settings("default", {"setup": ["a", "b"], "python": "/p", "sbatch": {"x": 1}})
    assert resubmit.list_code_of_settings(settings) == [
        "set-up line on the nodes: a",
        "set-up line on the nodes: b",
        "interpreter on the nodes: /p",
        "option of sbatch: --x=1",
    ]
    assert resubmit.list_code_of_settings(load_settings("default", {})) == []


@pytest.fixture
def study(monkeypatch, tmp_path):
    """Two runs of a study, one of which cannot be read; notes what is launched."""
    specs = [support.spec(seed=seed) for seed in range(2)]
    runs = [
        RunState(spec.folder(tmp_path), state, seed=i, reason="why")
        for i, (spec, state) in enumerate(zip(specs, ("failed", "lost"), strict=True))
    ]
    everything = [*runs, RunState(tmp_path / "other", "completed")]
    launched, checked, known = (
        [],
        [],
        {run.folder: spec for run, spec in zip(runs, specs, strict=True)},
    )
    record = a_record(specs[0].folder(tmp_path).parents[5], "a", [[run.folder for run in runs]])
    fakes = {
        "survey_runs": lambda root, say: (everything, SlurmQueue({}, ())),
        "check_slurm_answered": lambda folders, queue: checked.extend(folders),
        "_read_recorded_spec": known.get,
        "launch_sweep": lambda *given, dry_run: launched.append((*given, dry_run)),
        "require_trust": lambda root, code, trust: launched.append((code, trust)),
        "list_named_code": lambda specs, adapters: ["code", "code"],
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(resubmit, name, fake)
    return types.SimpleNamespace(
        root=tmp_path, specs=specs, known=known, launched=launched, checked=checked, record=record
    )


def send(study, states=("failed", "lost"), confirm=None, **options):
    values = {
        "profile": None,
        "dry_run": False,
        "confirm": confirm or (lambda question: True),
    } | options
    return resubmit.resubmit_runs(study.root, states, {}, **values)


def test_runs_are_submitted_to_their_study_and_the_others_are_named(study, capsys):
    assert send(study) == 0
    settings = resubmit.settings_from_record(study.record.settings, {}, "a")
    folders = [spec.folder(study.root) for spec in study.specs]
    assert study.launched == [(["code"], False), (study.specs, study.root, settings, False)]
    assert study.checked == folders
    assert capsys.readouterr().out.splitlines() == [
        "To submit: 1 failed, 1 lost",
        "    failed      ? ? ? ? seed=0  why",
        "    lost        ? ? ? ? seed=1  why",
    ]
    del study.known[folders[1]]
    assert send(study, dry_run=True, trust=True) == 1
    assert study.launched[2:] == [(["code"], True), (study.specs[:1], study.root, settings, True)]
    assert study.checked == folders
    words = f"Not submitted: {folders[1]}: why; start the sweep again for it"
    assert capsys.readouterr().out.splitlines()[:2] == [words, "To submit: 1 failed"]


def test_nothing_is_submitted_without_runs_or_consent(study, capsys):
    questions = []
    assert send(study, confirm=questions.append) == 0
    assert questions == ["Submit 2 runs?"] and study.launched == [(["code"], False)]
    capsys.readouterr()
    assert send(study, ("timeout",)) == 0
    assert capsys.readouterr().out == "Nothing to submit.\n" and len(study.checked) == 2
    study.known.clear()
    assert send(study) == 1
    assert capsys.readouterr().out.endswith("\nNothing to submit.\n")


def test_submission_options_come_from_the_last_submission_or_a_profile(tmp_path):
    records = [
        a_record(tmp_path, f"a-{i}", [], settings={"mem_gb": memory}, submitted=i)
        for i, memory in enumerate((2.0, 3.0))
    ]
    load = resubmit._load_study_settings
    assert load(tmp_path, records, None, {}).mem_gb == 3.0
    assert load(tmp_path, records, None, {"mem_gb": 5.0}).mem_gb == 5.0
    assert load(tmp_path, records, "default", {}) == load_settings("default", {})
    records.append(a_record(tmp_path, "a-9", [], settings={"odd": 1}))
    with pytest.raises(SpecError, match=r"^a-9: odd"):
        load(tmp_path, records, None, {})
    with pytest.raises(SpecError, match=r"was never submitted: name a profile with --profile\.$"):
        load(tmp_path, [], None, {})


def test_time_limit_of_a_run_is_that_of_its_last_submission(tmp_path):
    folder, other = tmp_path / "seed=0", tmp_path / "seed=1"
    times = [("01:00:00", folder), ("02:00:00", folder), ("03:00:00", other)]
    records = [
        a_record(tmp_path, f"a-{i}", [[other], [one]], settings={"time": {"ppo": text}})
        for i, (text, one) in enumerate(times)
    ]
    find = resubmit._find_time_limit
    assert (find(folder, "ppo", records), find(other, "ppo", records)) == (120, 180)
    assert find(tmp_path / "seed=2", "ppo", records) is None
    damaged = a_record(tmp_path, "a-9", [[folder]], settings={"time": 7})
    assert find(folder, "ppo", [*records, damaged]) is None


def test_a_specification_belongs_to_its_folders_study(monkeypatch, tmp_path):
    spec = support.spec()
    folder = resubmit.rename_study(spec, "b").folder(tmp_path)
    assert resubmit._match_spec_to_folder(spec, folder) == (resubmit.rename_study(spec, "b"), "")
    place = spec.folder(Path("<results>"))
    words = f"it holds the run of another folder, {place}: put it there"
    assert resubmit._match_spec_to_folder(spec, Path("seed=0")) == (spec, words)
    _, why = resubmit._match_spec_to_folder(spec, folder.with_name("seed=7"))
    assert why == words.replace("/test/", "/b/")

    def refuse(spec, name):
        raise SpecError(f"study={name} is too long")

    monkeypatch.setattr(resubmit, "rename_study", refuse)
    assert resubmit._match_spec_to_folder(spec, folder) == (spec, "study=b is too long")


def test_a_specification_is_that_of_the_folder_or_else_of_the_submission(tmp_path):
    good, odd = a_run(tmp_path, seed=0), a_run(tmp_path, seed=1, changed={"alignment": "odd"})
    lost, moved = a_run(tmp_path, seed=2, changed={"spec": 7}), a_run(tmp_path, seed=3)
    study = good.parents[5]
    record = a_record(study, "a", [[good, odd]])
    record.save_specs({good: support.spec(seed=0), odd: support.spec(seed=1)})
    moved = moved.rename(moved.with_name("seed=9"))
    runs = [RunState(folder, "failed", reason="why") for folder in (good, odd, lost, moved)]
    (lost / "run.json").unlink()
    readable, unreadable = resubmit._read_specs(runs, {study: [record]})
    specs = [resubmit.rename_study(support.spec(seed=seed), study.name) for seed in (0, 1)]
    assert readable == dict(zip(runs, specs, strict=False))
    assert unreadable == {
        runs[2]: "why; start the sweep again for it",
        runs[3]: "it holds the run of another folder, "
        f"{support.spec(seed=3).folder(Path('<results>'))}: put it there",
    }
