"""Runs that Slurm queues again, after a limit or by an order, come back and lose nothing."""

import json
import os
from pathlib import Path

import pytest
from sweep_testbed import SweepTestbed, wait_until

from parallax.harness.record.checkpoints import find_last_checkpoint

pytestmark = pytest.mark.long

MINUTES = int(os.environ.get("PARALLAX_SLURM_MINUTES", "2"))
"""Limit of a job; where others use the processors, libraries alone may take two to load."""
LIMIT = f"hydra.launcher.time.td3='00:{MINUTES:02}:00'"
SLURM = ["hydra/launcher=slurm", "hydra.launcher.preflight=false", "hydra.launcher.mem_gb=1", LIMIT]
TASK = ["env.name=lazy:Lazy-v0", "algorithm=td3", "eval_episodes=1"]
SMALL = [
    f"hyperparameters.{text}"
    for text in ("learning_starts=50", "batch_size=16", "hidden_sizes=[256,256]")
]
STUDIES = {
    "standin": ["framework=standin", "steps=300", "eval_every=100", SMALL[0]],
    "real": ["framework=sb3,cleanrl", "steps=300", "eval_every=100", *SMALL],
}
SECONDS = str(0.75 * MINUTES / 2)
"""Of a step, as long as a training lasts on the cluster: two limits and more in all."""
FEWER_SECONDS = "0.2"
"""Of a step of a run that is queued again by an order: 60 s in all."""


@pytest.mark.parametrize("study", STUDIES)
def test_runs_that_need_three_limits_end_as_on_one_machine(study, tmp_path, cluster):
    testbed, local = SweepTestbed(tmp_path / "queued", cluster), SweepTestbed(tmp_path / "local")
    for one in (testbed, local):
        one.order("go")
        one.environment["STANDIN_RESUMES"] = "1"
    testbed.environment["LAZY_SECONDS"] = SECONDS
    testbed.sweep(*SLURM, *TASK, *STUDIES[study])
    local.sweep(*TASK, *STUDIES[study])
    wait_until(lambda: came_back(testbed), patience=150 * MINUTES)
    wait_until(lambda: not testbed.queue(), patience=600 * MINUTES)
    assert {run["state"] for run in testbed.status()["runs"]} == {"completed"}
    for record in read_records(testbed):
        check_attempts(record)
    assert left(testbed) == left(local) and len(left(testbed)) == 2 * len(read_records(testbed))


def test_manually_requeued_runs_end_as_on_one_machine(tmp_path, cluster):
    testbed, local = SweepTestbed(tmp_path / "queued", cluster), SweepTestbed(tmp_path / "local")
    testbed.environment["LAZY_SECONDS"] = FEWER_SECONDS
    testbed.sweep(*SLURM[:3], *TASK, *STUDIES["real"], "checkpoint_every=0.1")
    local.sweep(*TASK, *STUDIES["real"])
    requeued = set()
    while len(requeued) < 2:
        wait_until(lambda: get_saved(testbed) - requeued, patience=300)
        (job, *_) = get_saved(testbed) - requeued
        assert testbed.run_command("scontrol", "requeue", job).returncode == 0
        requeued.add(job)
    wait_until(lambda: not testbed.queue(), patience=600)
    assert {run["state"] for run in testbed.status()["runs"]} == {"completed"}
    for record in read_records(testbed):
        assert len(record["attempts"]) == 1 and record["resumed_from"] > 0, record
    assert left(testbed) == left(local) and len(left(testbed)) == 4


def get_saved(testbed):
    """Jobs of running runs that have saved a checkpoint."""
    runs = [run for run in testbed.status()["runs"] if run["state"] == "running"]
    return {run["job"] for run in runs if find_last_checkpoint(Path(run["folder"]))}


def came_back(testbed):
    """Return whether `status` reports the resume step of a waiting run."""
    waiting = [
        run for run in testbed.status()["runs"] if run["state"] == "queued" and run["resume_step"]
    ]
    if not waiting:
        return False
    words = f"will resume from step {waiting[0]['resume_step']:,}"
    assert waiting[0]["reason"].endswith(f"; {words}"), waiting[0]
    return words in testbed.python("parallax", "status", str(testbed.results)) or testbed_has_moved(
        testbed, waiting
    )


def testbed_has_moved(testbed, waiting):
    """Between two looks a job may have begun."""
    now = {run["folder"]: run for run in testbed.status()["runs"]}
    return now[waiting[0]["folder"]]["state"] != "queued"


def check_attempts(record):
    attempts = record["attempts"]
    assert len(attempts) >= 2, attempts
    # On a busy machine the notice may not suffice to record why; saved checkpoints count then, too.
    stops = {attempt["stopped_by"] for attempt in attempts}
    assert "time limit" in stops and stops <= {"time limit", None}, attempts
    went_on = [*(attempt["resumed_from"] for attempt in attempts[1:]), record["resumed_from"]]
    assert went_on == sorted(set(went_on)) and went_on[0] > 0, went_on
    assert record["resume_notes"] == []


def read_records(testbed):
    return [json.loads(file.read_text()) for file in sorted(testbed.results.rglob("run.json"))]


def left(testbed):
    """Evaluations and trace of every run, with the hash of its weights."""
    found = {}
    for folder in (file.parent for file in testbed.results.rglob("run.json")):
        digest = json.loads((folder / "run.json").read_text())["weights_sha256"]
        for name in ("evaluations.npz", "trace.parquet"):
            place = os.fspath((folder / name).relative_to(testbed.results))
            found[place] = (digest, (folder / name).read_bytes())
    return found
