"""A sweep of twelve runs on six nodes, and accidents that are all different."""

import os
import signal

from sweep_testbed import wait_until

PPO = [f"ppo-{seed}" for seed in range(11)]
DISK, TIMED = "ppo-0", "td3-0"
SLURM = ["hydra/launcher=slurm", "hydra.launcher.preflight=false", "hydra.launcher.mem_gb=1"]
PARTS = (["algorithm=ppo", "seed=" + ",".join(map(str, range(11)))], ["algorithm=td3", "seed=0"])
SLURM_COMMANDS = {
    "scancel": "job",
    "scancel --signal=USR2": "warning",
    "scontrol requeue": "requeue",
}
SIX_FAILURES = ("process", "job", "raise", "diverge", "warning", "requeue")


class FailureScenario:
    """A sweep, what happened to which run, and what was seen of it."""

    def __init__(self, testbed, cluster):
        self.testbed, self.cluster, self.failure = testbed, cluster, {}

    def start(self):
        limit = "hydra.launcher.time.td3='00:01:00'"
        for part in PARTS:
            self.testbed.sweep(*SLURM, *part, limit)
        wait_until(lambda: all(self.testbed.beats(key) for key in [*PPO, TIMED]))

    def assign_failures(self):
        """Chooses two nodes to die, and a run elsewhere for each other accident."""
        queue, runs = self.testbed.queue(), self.testbed.runs()
        node = {key: queue[run["job"]][1] for key, run in runs.items()}
        self.nodes = sorted(set(node.values()) - {node[TIMED], node[DISK]})[:2]
        failures = dict(zip(self.nodes, ("node", "daemon"), strict=True))
        self.failure = {key: failures[node[key]] for key in PPO if node[key] in failures}
        free = [key for key in PPO if key not in self.failure and key != DISK]
        self.failure |= dict(zip(free, SIX_FAILURES, strict=False)) | {TIMED: "limit", DISK: "fill"}
        assert set(self.failure.values()) >= {*SIX_FAILURES, "node", "daemon"}
        self.jobs = {self.failure.get(key): run["job"] for key, run in runs.items()}

    def list_runs(self, *failures):
        return [key for key, failure in self.failure.items() if failure in failures]

    def cause_failures(self):
        """Does what comes from outside and gives orders for what comes from inside."""
        self.cluster.kill_node(self.nodes[0], steps=True)
        self.cluster.kill_node(self.nodes[1], steps=False)
        for key in self.list_runs("process"):
            os.kill(self.testbed.record(key)["pid"], signal.SIGKILL)
        for command, failure in SLURM_COMMANDS.items():
            result = self.testbed.run_command(*command.split(), self.jobs[failure])
            assert result.returncode == 0, result.stderr
        # Some seconds later, or the controller would not have listed these yet.
        gone = {self.jobs[failure] for failure in SLURM_COMMANDS.values()}
        wait_until(lambda: not gone & {i for i, job in self.testbed.queue().items() if job[1:]})
        self.cluster.kill_controller()
        self.cluster.start_controller()
        for order in ("raise", "diverge", "fill"):
            self.testbed.order(order, *self.list_runs(order))
        self.testbed.order("go", *self.list_runs("node", "warning", "requeue"))
        # The processes of the node without its daemon live on; their successors come all the same.
        daemonless = self.list_runs("daemon")
        wait_until(lambda: all(len(self.testbed.beats(key)) == 2 for key in daemonless), 120)
        self.testbed.order("go", *daemonless)
        for node in self.nodes:
            self.cluster.start_node(node)

    def wait_for_end(self):
        wait_until(lambda: not self.testbed.queue(), 180)
        self.after = self.testbed.runs()
        self.records = {key: self.testbed.record(key) for key in self.failure}

    def repair(self, enlarge):
        for key in self.failure:
            (self.testbed.orders / key).unlink(missing_ok=True)
        self.testbed.order("go")
        if enlarge:
            enlarge()
            (self.testbed.folder(DISK) / "filler").unlink()
        # Two runs that are complete lose half a file.
        self.damaged = dict(
            zip(self.list_runs("node"), ("run.json", "evaluations.npz"), strict=True)
        )
        for key, name in self.damaged.items():
            file = self.testbed.folder(key) / name
            file.write_bytes(file.read_bytes()[:100])
        results = str(self.testbed.results)
        self.measured_text = self.testbed.python(
            "parallax", "slurm", "resubmit", results, "--dry-run", "--only", "timeout"
        )
        self.said = self.testbed.python("parallax", "slurm", "resubmit", results, "--yes")
        wait_until(lambda: not self.testbed.queue(), 120)
        self.final = self.testbed.runs()
