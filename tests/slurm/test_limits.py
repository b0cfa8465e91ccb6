"""Runs that Slurm queues again, after a limit or by an order, come back and lose nothing."""

import json
import os
from pathlib import Path

import pytest
from slurm_lab import Lab, wait_until

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
    lab, local = Lab(tmp_path / "queued", cluster), Lab(tmp_path / "local")
    for one in (lab, local):
        one.order("go")
        one.environment["STANDIN_RESUMES"] = "1"
    lab.environment["LAZY_SECONDS"] = SECONDS
    lab.sweep(*SLURM, *TASK, *STUDIES[study])
    local.sweep(*TASK, *STUDIES[study])
    wait_until(lambda: came_back(lab), patience=150 * MINUTES)
    wait_until(lambda: not lab.queue(), patience=600 * MINUTES)
    assert {run["state"] for run in lab.status()["runs"]} == {"completed"}
    for record in lab_records(lab):
        check_attempts(record)
    assert left(lab) == left(local) and len(left(lab)) == 2 * len(lab_records(lab))


def test_manually_requeued_runs_end_as_on_one_machine(tmp_path, cluster):
    lab, local = Lab(tmp_path / "queued", cluster), Lab(tmp_path / "local")
    lab.environment["LAZY_SECONDS"] = FEWER_SECONDS
    lab.sweep(*SLURM[:3], *TASK, *STUDIES["real"], "checkpoint_every=0.1")
    local.sweep(*TASK, *STUDIES["real"])
    requeued = set()
    while len(requeued) < 2:
        wait_until(lambda: get_saved(lab) - requeued, patience=300)
        (job, *_) = get_saved(lab) - requeued
        assert lab.run_command("scontrol", "requeue", job).returncode == 0
        requeued.add(job)
    wait_until(lambda: not lab.queue(), patience=600)
    assert {run["state"] for run in lab.status()["runs"]} == {"completed"}
    for record in lab_records(lab):
        assert len(record["attempts"]) == 1 and record["resumed_from"] > 0, record
    assert left(lab) == left(local) and len(left(lab)) == 4


def get_saved(lab):
    """Jobs of running runs that have saved a checkpoint."""
    runs = [run for run in lab.status()["runs"] if run["state"] == "running"]
    return {run["job"] for run in runs if find_last_checkpoint(Path(run["folder"]))}


def came_back(lab):
    """Return whether `status` reports the resume step of a waiting run."""
    waiting = [
        run for run in lab.status()["runs"] if run["state"] == "queued" and run["resume_step"]
    ]
    if not waiting:
        return False
    words = f"will resume from step {waiting[0]['resume_step']:,}"
    assert waiting[0]["reason"].endswith(f"; {words}"), waiting[0]
    return words in lab.python("parallax", "status", str(lab.results)) or lab_has_moved(
        lab, waiting
    )


def lab_has_moved(lab, waiting):
    """Between two looks a job may have begun."""
    now = {run["folder"]: run for run in lab.status()["runs"]}
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


def lab_records(lab):
    return [json.loads(file.read_text()) for file in sorted(lab.results.rglob("run.json"))]


def left(lab):
    """Evaluations and trace of every run, with the hash of its weights."""
    found = {}
    for folder in (file.parent for file in lab.results.rglob("run.json")):
        digest = json.loads((folder / "run.json").read_text())["weights_sha256"]
        for name in ("evaluations.npz", "trace.parquet"):
            place = os.fspath((folder / name).relative_to(lab.results))
            found[place] = (digest, (folder / name).read_bytes())
    return found
