"""A sweep on a cluster where everything goes wrong at once, and what puts it right.

The waits for Slurm to notice things are what takes time here, so all accidents happen together.
With `PARALLAX_SLURM_ACCOUNTING=1` the cluster has a database; without one `sacct` does not answer.
"""

import itertools
import os

import pytest
from slurm_failures import DISK, PARTS, PPO, TIMED, FailureScenario
from sweep_testbed import SweepTestbed, small_disk

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


# One test: the waits are shared, and parallel workers would each play the scenario.
def test_all_failures_are_reported_and_repaired_by_resubmitting(scratch, tmp_path):
    accounting = bool(os.environ.get("PARALLAX_SLURM_ACCOUNTING"))
    with SlurmCluster(scratch / "faults", nodes=6, cpus=2, accounting=accounting) as cluster:
        testbed = SweepTestbed(tmp_path / "cluster", cluster)
        with small_disk(testbed.folder(DISK)) as enlarge:
            scenario = FailureScenario(testbed, cluster)
            scenario.start()
            scenario.assign_failures()
            scenario.cause_failures()
            scenario.wait_for_end()
            scenario.repair(enlarge)
            check_reasons(scenario, {failure for failure in WHY if enlarge or failure != "fill"})
            check_restarts(scenario)
            check_resubmission(scenario, failed=4 if enlarge else 3)
            check_single_writers(scenario)
            check_evaluations(scenario, SweepTestbed(tmp_path / "local"))
    if not enlarge:
        pytest.skip("all but the full disk: this system does not permit mounting a small disk")


def check_reasons(scenario, failures):
    for failure in failures:
        (key,) = scenario.list_runs(failure)
        state, reason = WHY[failure]
        assert scenario.after[key]["state"] == state, scenario.after[key]
        assert reason in scenario.after[key]["reason"]


def check_restarts(scenario):
    """Runs that lost their place started again by themselves."""
    for key in scenario.list_runs(*BACK):
        assert scenario.after[key]["state"] == "completed", scenario.after[key]
        (attempt,) = scenario.records[key]["attempts"]
        assert (attempt["status"], attempt["stopped_by"]) == BACK[scenario.failure[key]], key


def check_resubmission(scenario, failed):
    assert (
        "To submit: 1 timeout" in scenario.measured_text and "nothing was" in scenario.measured_text
    )
    assert f"To submit: {failed} failed, 2 broken, 1 interrupted, 1 timeout\n" in scenario.said
    assert {run["state"] for run in scenario.final.values()} == {"completed"}


def check_single_writers(scenario):
    for key in [*PPO, TIMED]:
        for (_, end, _), (start, _, _) in itertools.pairwise(scenario.testbed.beats(key)):
            assert end < start, f"two processes of {key} were at work at the same time"


def check_evaluations(scenario, testbed):
    """They are those of an undisturbed sweep, byte for byte."""
    testbed.order("go")
    for part in PARTS:
        testbed.sweep(*part)
    assert len(testbed.evaluations()) == 12
    assert scenario.testbed.evaluations() == testbed.evaluations()
