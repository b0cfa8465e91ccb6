"""Parsing of Slurm's output, recorded on a real cluster."""

import subprocess
import sys

from parallax.slurm.queue import SlurmJob, parse_sacct, parse_scontrol, parse_squeue

SQUEUE = """\
1|0|COMPLETED|None|study-ppo-1
1|1|RUNNING|None|study-ppo-1
12|N/A|PENDING|Priority|study-td3-2
"""
SCONTROL = """\
JobId=7 ArrayJobId=1 ArrayTaskId=4-5,7%3 JobName=study-ppo-1 UserId=u(1) JobState=PENDING \
Reason=Resources Dependency=(null)
JobId=2 ArrayJobId=1 ArrayTaskId=0 JobName=study-ppo-1 JobState=FAILED Reason=NonZeroExitCode
JobId=12 JobName=study-td3-2 JobState=RUNNING Reason=None
No jobs in the system
"""
NAMES = ("study-ppo-1", "study-td3-2")
SACCT = """\
1_0|COMPLETED|study-ppo-1
1_1|CANCELLED by 0|study-ppo-1
1_[2-3%2]|PENDING|study-ppo-1
12|TIMEOUT|study-td3-2
"""


def test_squeue_output_is_parsed():
    jobs = parse_squeue(SQUEUE)
    assert jobs["study-ppo-1", "1"] == SlurmJob("1_1", "RUNNING", "None")
    assert jobs["study-td3-2", "0"] == SlurmJob("12", "PENDING", "Priority")
    assert [job.is_alive for job in jobs.values()] == [False, True, True]


def test_scontrol_output_is_parsed():
    jobs = parse_scontrol(SCONTROL, NAMES)
    waiting = {index for (_, index), job in jobs.items() if job.state == "PENDING"}
    assert waiting == {"4", "5", "7"}
    assert jobs["study-ppo-1", "0"] == SlurmJob("1_0", "FAILED", "NonZeroExitCode")
    assert jobs["study-td3-2", "0"].job_id == "12"


def test_user_text_in_job_fields_is_not_parsed_as_slurm_fields():
    name = "JobId=5 JobName=a ArrayJobId=5 ArrayTaskId={} UserId=u(1) JobState=RUNNING Comment={}"
    forged = name.format(7, "x JobName=study-ppo-1 JobState=COMPLETED")
    assert parse_scontrol(forged, NAMES) == {}
    assert parse_scontrol(forged, ["a"])["a", "7"].state == "RUNNING"


HUGE_INDICES = """
from parallax.slurm.queue import parse_sacct, parse_scontrol
name = "JobId=5 JobName=a ArrayJobId=5 ArrayTaskId={} UserId=u(1) JobState=RUNNING Comment={}"
assert len(parse_scontrol(name.format("3-9999999", "x"), ["a"])) == 249_998
for digits in ("9" * 8, "9" * 5000):
    assert parse_scontrol(name.format(digits, "x"), ["a"]) == {}
    assert parse_sacct(f"12_[{digits}]|COMPLETED|a") == {}
assert parse_scontrol(name.format(7, "x" * 300_000), ["a"])
"""


def test_huge_indices_and_texts_are_parsed_without_hanging():
    # In a process of its own, where no large heap of other tests slows down garbage collection.
    subprocess.run([sys.executable, "-c", HUGE_INDICES], check=True, timeout=100)


def test_sacct_output_is_parsed():
    jobs = parse_sacct(SACCT)
    assert jobs["study-ppo-1", "1"] == SlurmJob("1_1", "CANCELLED")
    assert jobs["study-ppo-1", "3"] == SlurmJob("1_3", "PENDING")
    assert jobs["study-td3-2", "0"] == SlurmJob("12", "TIMEOUT")
