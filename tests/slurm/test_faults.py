"""A sweep on a cluster where everything goes wrong at once, and what puts it right.

The waits for Slurm to notice things are what takes time here, so all accidents happen together.
With `PARALLAX_SLURM_ACCOUNTING=1` the cluster has a database; without one `sacct` does not answer.
"""

import itertools
import os

import pytest
from slurm_lab import Lab, small_disk
from slurm_scene import DISK, PARTS, PPO, TIMED, Scene

from tests.slurm_cluster.cluster import SlurmCluster

pytestmark = pytest.mark.long

WHY = {
    "process": ("failed", "the process was killed by SIGKILL"),
    "job": ("interrupted", "stopped by the batch system: cancelled"),
    "raise": ("failed", "RuntimeError: the stand-in was ordered to fail"),
    "diverge": ("failed", "returned a number that is not finite"),
    "limit": ("timeout", "stopped at the job's time limit"),
    "fill": ("failed", "No space left on device"),
}
BACK = {
    "node": ("lost", None),
    "daemon": ("lost", None),
    "warning": ("interrupted", "preemption"),
    "requeue": ("interrupted", "cancellation"),
}


# One test: the waits are shared, and parallel workers would each play the scene.
def test_all_failures_are_reported_and_repaired_by_resubmitting(scratch, tmp_path):
    accounting = bool(os.environ.get("PARALLAX_SLURM_ACCOUNTING"))
    with SlurmCluster(scratch / "faults", nodes=6, cpus=2, accounting=accounting) as cluster:
        lab = Lab(tmp_path / "cluster", cluster)
        with small_disk(lab.folder(DISK)) as enlarge:
            scene = Scene(lab, cluster)
            scene.start()
            scene.assign()
            scene.strike()
            scene.settle()
            scene.repair(enlarge)
            check_reasons(scene, {fate for fate in WHY if enlarge or fate != "fill"})
            check_restarts(scene)
            check_resubmission(scene, failed=4 if enlarge else 3)
            check_single_writers(scene)
            check_evaluations(scene, Lab(tmp_path / "local"))
    if not enlarge:
        pytest.skip("all but the full disk: this system lets nobody mount a small disk")


def check_reasons(scene, fates):
    for fate in fates:
        (key,) = scene.those(fate)
        state, reason = WHY[fate]
        assert scene.after[key]["state"] == state, scene.after[key]
        assert reason in scene.after[key]["reason"]


def check_restarts(scene):
    """Runs that lost their place started again by themselves."""
    for key in scene.those(*BACK):
        assert scene.after[key]["state"] == "completed", scene.after[key]
        (attempt,) = scene.records[key]["attempts"]
        assert (attempt["status"], attempt["stopped_by"]) == BACK[scene.fate[key]], key


def check_resubmission(scene, failed):
    assert "To submit: 1 timeout" in scene.measured_text and "nothing was" in scene.measured_text
    assert f"To submit: {failed} failed, 2 broken, 1 interrupted, 1 timeout\n" in scene.said
    assert {run["state"] for run in scene.final.values()} == {"completed"}


def check_single_writers(scene):
    for key in [*PPO, TIMED]:
        for (_, end, _), (start, _, _) in itertools.pairwise(scene.lab.beats(key)):
            assert end < start, f"two processes of {key} were at work at the same time"


def check_evaluations(scene, lab):
    """They are those of an undisturbed sweep, byte for byte."""
    lab.order("go")
    for part in PARTS:
        lab.sweep(*part)
    assert len(lab.evaluations()) == 12
    assert scene.lab.evaluations() == lab.evaluations()
