"""Queries of jobs of all users, and precedence among several jobs of a run."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from slurm_fakes import FakeSlurm, a_record, a_run

from parallax.harness.cli.main import main
from parallax.slurm.queue import (
    _get_job_numbers,
    parse_sacct,
    parse_scontrol,
    parse_squeue,
    query_slurm,
    run_slurm,
)

RUN = Path("Hopper-v4/ppo/sb3/sb3/steps=600/seed=0")


@pytest.fixture
def fake(tmp_path, monkeypatch):
    return FakeSlurm(tmp_path / "bin", monkeypatch)


def of_all_users(*rows):
    """A squeue that knows jobs of a colleague's: `--user` hides them, `--name` picks some."""
    return f"""
for row in {rows!r}:
    if "user" not in options and (names == [""] or row.rsplit("|", 1)[1] in names):
        print(row)
"""


def test_jobs_of_other_users_are_found(fake, tmp_path):
    record = a_record(tmp_path / "testbed", "testbed-ppo-1", [[tmp_path / "testbed" / RUN]])
    fake.write("squeue", of_all_users("7|0|RUNNING|None|testbed-ppo-1", "8|0|PENDING|None|other"))
    queue = query_slurm([record])
    assert queue.jobs[tmp_path / "testbed" / RUN].state == "RUNNING"
    assert queue.answered == ("squeue",)


def test_jobs_of_another_user_are_found_in_real_slurm(cluster, tmp_path, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("only root submits for another user")
    monkeypatch.setenv("SLURM_CONF", str(cluster.layout.config))
    options = ["--job-name=testbed-ppo-1", "--hold", "--chdir=/", "--output=/dev/null"]
    sbatch = ["sbatch", "--parsable", "--uid=nobody", *options, "--array=0-1", "--wrap=true"]
    job = subprocess.run(sbatch, capture_output=True, text=True, check=True).stdout.strip()
    folders = [tmp_path / "testbed" / RUN, tmp_path / "testbed" / RUN.with_name("seed=1")]
    record = a_record(tmp_path / "testbed", "testbed-ppo-1", [[folder] for folder in folders])
    try:
        jobs = query_slurm([record]).jobs
        assert [jobs[folder].job_id for folder in folders] == [f"{job}_0", f"{job}_1"]
        assert (
            query_slurm([a_record(tmp_path / "testbed", "testbed-ppo-2", [[folders[0]]])]).jobs
            == {}
        )
    finally:
        subprocess.run(["scancel", job], check=True)


def test_command_lines_have_bounded_length(fake, tmp_path):
    study = tmp_path / "testbed"
    records = [a_record(study, f"{'s' * 40}-ppo-{i:08x}", [[study / RUN]]) for i in range(250)]
    fake.write("squeue", "for name in names: print(f'7|0|RUNNING|None|{name}')")
    assert len(query_slurm(records).alive[study / RUN]) == 250
    assert len(fake.calls("squeue")) > 1
    assert max(len(" ".join(call)) for call in fake.calls("squeue")) < 10_000


def test_accounting_does_not_rely_on_this_machines_clock(fake, tmp_path):
    folder = tmp_path / "testbed" / RUN
    tomorrow = time.time() + 86_400
    record = a_record(tmp_path / "testbed", "testbed-ppo-1", [[folder]], submitted=tomorrow)
    fake.write("squeue", "")
    fake.write(
        "sacct",
        f"now = {time.strftime('%Y-%m-%dT%H:%M:%S')!r}\n"
        "if 'allusers' in options and options['starttime'] <= now:\n"
        "    print(f'7_0|TIMEOUT|{names[0]}')",
    )
    queue = query_slurm([record])
    assert (queue.jobs[folder].state, queue.answered) == ("TIMEOUT", ("squeue", "sacct"))


def test_live_job_takes_precedence_over_a_newer_ended_one(fake, tmp_path):
    folder = tmp_path / "testbed" / RUN
    older = a_record(tmp_path / "testbed", "a", [[folder]], submitted=1)
    newer = a_record(tmp_path / "testbed", "b", [[folder]], submitted=2)
    fake.write("squeue", of_all_users("1|0|RUNNING|None|a", "2|0|CANCELLED|None|b"))
    assert query_slurm([older, newer]).jobs[folder].job_id == "1_0"
    fake.write("squeue", of_all_users("1|0|TIMEOUT|None|a", "2|0|CANCELLED|None|b"))
    assert query_slurm([older, newer]).jobs[folder].job_id == "2_0"


def test_cancel_ends_every_job_even_without_a_run_folder(fake, tmp_path, capsys):
    results = tmp_path / "results"
    folder = a_run(results)
    study = folder.parents[5]
    gone = folder.with_name("seed=1")
    a_record(study, "a", [[folder], [gone]], submitted=1)
    a_record(study, "b", [[folder]], submitted=2)
    a_record(study, "c", [[folder]], submitted=3)
    rows = ("1|0|RUNNING|None|a", "1|1|PENDING|None|a", "2|0|PENDING|None|b", "3|0|FAILED|None|c")
    fake.write("squeue", of_all_users(*rows))
    fake.write("scancel", "")
    assert main(["slurm", "cancel", str(results), "--yes"]) == 0
    assert sorted(job for call in fake.calls("scancel") for job in call) == ["1_0", "1_1", "2_0"]
    assert main(["slurm", "cancel", str(gone.parent / "seed=0"), "--yes"]) == 0
    assert sorted(fake.calls("scancel")[-1]) == ["1_0", "2_0"]
    (fake.folder / "scancel").unlink()
    assert main(["slurm", "cancel", str(results), "--yes"]) == 1
    assert "scancel cannot be started" in capsys.readouterr().err


def test_failed_scancel_calls_are_reported_after_all_others(fake, tmp_path, capsys, monkeypatch):
    results = tmp_path / "results"
    folder = a_run(results)
    for number in (1, 2, 3):
        a_record(folder.parents[5], f"a{number}", [[folder]], job_id=str(number))
    fake.write("squeue", of_all_users(*(f"{n}|0|PENDING|None|a{n}" for n in (1, 2, 3))))
    fake.write(
        "scancel",
        "if sys.argv[1] == '1_0': sys.exit('error on job 1_0: denied')\n"
        "if sys.argv[1] == '2_0': import time; time.sleep(60)",
    )
    monkeypatch.setattr("parallax.slurm.resubmit._JOBS_PER_COMMAND", 1)
    monkeypatch.setattr("parallax.slurm.resubmit._TIMEOUT", 2)
    assert main(["slurm", "cancel", str(results), "--yes"]) == 1
    assert fake.calls("scancel") == [["1_0"], ["2_0"], ["3_0"]]
    errors = capsys.readouterr().err
    assert "error on job 1_0: denied" in errors and "did not answer within 2 s" in errors


def test_slurm_filter_variables_of_users_are_removed(fake, monkeypatch):
    wanted = {"SLURM_CONF": "/x", "SQUEUE_USERS": "me", "SACCT_STATE": "F", "SCANCEL_USER": "me"}
    for name, value in wanted.items():
        monkeypatch.setenv(name, value)
    fake.write("squeue", "import os; print(*sorted(n for n in os.environ if n[0] == 'S'))")
    names = run_slurm("squeue").split()
    assert {"SLURM_CONF", "SLURM_BITSTR_LEN"} <= set(names)
    assert not wanted.keys() - {"SLURM_CONF"} & set(names)


@pytest.mark.parametrize(
    ("parse", "good"),
    [
        (parse_squeue, "1|0|RUNNING|None|a"),
        (
            lambda text: parse_scontrol(text, ["a"]),
            "JobId=1 ArrayJobId=1 ArrayTaskId=0 JobName=a JobState=RUNNING",
        ),
        (parse_sacct, "1_0|RUNNING|a"),
    ],
)
def test_lines_without_jobs_are_skipped(parse, good):
    noise = "The cluster is down on Friday\n1_x||\n||||\n1_[|a|b\nJobId=1 JobState=RUNNING\n\n"
    jobs = parse(noise + good + "\n")
    assert jobs["a", "0"].job_id == "1_0"


@pytest.mark.parametrize(
    ("jobs", "job_id", "numbers"), [(1, "7", {"7", "7_0"}), (2, "7", {"7_0"}), (1, None, set())]
)
def test_an_array_of_one_job_has_the_number_of_the_job_too(tmp_path, jobs, job_id, numbers):
    record = a_record(tmp_path, "a", [[tmp_path / str(i)] for i in range(jobs)], job_id=job_id)
    assert _get_job_numbers(record, 0) == numbers
