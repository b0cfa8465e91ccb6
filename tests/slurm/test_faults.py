"""A sweep on a cluster where everything goes wrong at once, and what puts it right.

The waits for Slurm to notice things are what takes time here, so all accidents happen together.
With `PARALLAX_SLURM_ACCOUNTING=1` the cluster has a database; without one `sacct` does not answer.
"""

import itertools
import os
import signal

import pytest
from slurm_lab import Lab, small_disk, wait_until

from slurm.cluster import Cluster

PPO = [f"ppo-{seed}" for seed in range(11)]
DISK, TIMED = "ppo-0", "td3-0"
SLURM = ["hydra/launcher=slurm", "hydra.launcher.preflight=false", "hydra.launcher.mem_gb=1"]
PARTS = (["algorithm=ppo", "seed=" + ",".join(map(str, range(11)))], ["algorithm=td3", "seed=0"])
SLURMS_OWN = {
    "scancel": "job",
    "scancel --signal=USR2": "warning",
    "scontrol requeue": "requeue",
}
SIX_FATES = ("process", "job", "raise", "diverge", "warning", "requeue")


class Scene:
    """A sweep, what happened to which run, and what was seen of it."""

    def __init__(self, lab, cluster):
        self.lab, self.cluster, self.fate = lab, cluster, {}

    def start(self):
        limit = "hydra.launcher.time.td3='00:01:00'"
        for part in PARTS:
            self.lab.sweep(*SLURM, *part, limit)
        wait_until(lambda: all(self.lab.beats(key) for key in [*PPO, TIMED]))

    def assign(self):
        """Chooses two nodes to die, and a run elsewhere for each other accident."""
        queue, runs = self.lab.queue(), self.lab.runs()
        node = {key: queue[run["job"]][1] for key, run in runs.items()}
        self.nodes = sorted(set(node.values()) - {node[TIMED], node[DISK]})[:2]
        fates = dict(zip(self.nodes, ("node", "daemon"), strict=True))
        self.fate = {key: fates[node[key]] for key in PPO if node[key] in fates}
        free = [key for key in PPO if key not in self.fate and key != DISK]
        self.fate |= dict(zip(free, SIX_FATES, strict=False)) | {TIMED: "limit", DISK: "fill"}
        assert set(self.fate.values()) >= {*SIX_FATES, "node", "daemon"}
        self.jobs = {self.fate.get(key): run["job"] for key, run in runs.items()}

    def those(self, *fates):
        return [key for key, fate in self.fate.items() if fate in fates]

    def strike(self):
        """Does what comes from outside and gives orders for what comes from inside."""
        self.cluster.kill_node(self.nodes[0], steps=True)
        self.cluster.kill_node(self.nodes[1], steps=False)
        for key in self.those("process"):
            os.kill(self.lab.record(key)["pid"], signal.SIGKILL)
        for command, fate in SLURMS_OWN.items():
            result = self.lab.ask(*command.split(), self.jobs[fate])
            assert result.returncode == 0, result.stderr
        # Some seconds later, or the controller would not have told anyone of these yet.
        gone = {self.jobs[fate] for fate in SLURMS_OWN.values()}
        wait_until(lambda: not gone & {i for i, job in self.lab.queue().items() if job[1:]})
        self.cluster.kill_controller()
        self.cluster.start_controller()
        for order in ("raise", "diverge", "fill"):
            self.lab.order(order, *self.those(order))
        self.lab.order("go", *self.those("node", "warning", "requeue"))
        # The processes of the node without its daemon live on; their successors come all the same.
        daemonless = self.those("daemon")
        wait_until(lambda: all(len(self.lab.beats(key)) == 2 for key in daemonless), 120)
        self.lab.order("go", *daemonless)
        for node in self.nodes:
            self.cluster.start_node(node)

    def settle(self):
        wait_until(lambda: not self.lab.queue(), 180)
        self.after = self.lab.runs()

    def repair(self, enlarge):
        for key in self.fate:
            (self.lab.orders / key).unlink(missing_ok=True)
        self.lab.order("go")
        if enlarge:
            enlarge()
            (self.lab.folder(DISK) / "filler").unlink()
        results = str(self.lab.results)
        self.shown = self.lab.python("slurm", "resubmit", results, "--dry-run", "--only", "timeout")
        self.said = self.lab.python("slurm", "resubmit", results, "--yes")
        wait_until(lambda: not self.lab.queue(), 120)
        self.final = self.lab.runs()


@pytest.fixture(scope="module")
def scene(scratch, tmp_path_factory):
    accounting = bool(os.environ.get("PARALLAX_SLURM_ACCOUNTING"))
    with Cluster(scratch / "faults", nodes=6, cpus=2, accounting=accounting) as cluster:
        lab = Lab(tmp_path_factory.mktemp("faults"), cluster)
        with small_disk(lab.folder(DISK)) as enlarge:
            scene = Scene(lab, cluster)
            scene.start()
            scene.assign()
            scene.strike()
            scene.settle()
            scene.disk = enlarge is not None
            scene.repair(enlarge)
            yield scene


@pytest.mark.parametrize(
    ("fate", "state", "reason"),
    [
        ("process", "failed", "the process was killed by SIGKILL"),
        ("job", "interrupted", "stopped by the batch system: cancelled"),
        ("raise", "failed", "RuntimeError: the stand-in was told to fail"),
        ("diverge", "failed", "returned a number that is not finite"),
        ("limit", "timeout", "stopped at the job's time limit"),
        ("fill", "failed", "No space left on device"),
    ],
)
def test_run_says_why_it_is_not_complete(scene, fate, state, reason):
    if fate == "fill" and not scene.disk:
        pytest.skip("this system lets nobody mount a small disk")
    (key,) = scene.those(fate)
    assert scene.after[key]["state"] == state
    assert reason in scene.after[key]["reason"]


@pytest.mark.parametrize(
    ("fate", "status", "stopped_by"),
    [
        ("node", "lost", None),
        ("daemon", "lost", None),
        ("warning", "interrupted", "preemption"),
        ("requeue", "interrupted", "cancellation"),
    ],
)
def test_run_that_lost_its_place_starts_again_by_itself(scene, fate, status, stopped_by):
    for key in scene.those(fate):
        assert scene.after[key]["state"] == "completed", scene.after[key]
        (attempt,) = scene.lab.record(key)["attempts"]
        assert (attempt["status"], attempt["stopped_by"]) == (status, stopped_by)


def test_one_resubmission_completes_everything(scene):
    assert "To submit: 1 timeout" in scene.shown and "nothing was" in scene.shown
    failed = 4 if scene.disk else 3
    assert f"To submit: {failed} failed, 1 interrupted, 1 timeout\n" in scene.said
    assert {run["state"] for run in scene.final.values()} == {"completed"}


def test_no_run_ever_had_two_processes_at_work(scene):
    for key in [*PPO, TIMED]:
        spans = scene.lab.beats(key)
        for (_, end, _), (start, _, _) in itertools.pairwise(spans):
            assert end < start, key


def test_evaluations_are_those_of_an_undisturbed_sweep(scene, tmp_path):
    lab = Lab(tmp_path)
    lab.order("go")
    for part in PARTS:
        lab.sweep(*part)
    assert scene.lab.evaluations() == lab.evaluations()
