"""A sweep of twelve runs on six nodes, and accidents that are all different."""

import os
import signal

from slurm_lab import wait_until

PPO = [f"ppo-{seed}" for seed in range(11)]
DISK, TIMED = "ppo-0", "td3-0"
SLURM = ["hydra/launcher=slurm", "hydra.launcher.preflight=false", "hydra.launcher.mem_gb=1"]
PARTS = (["algorithm=ppo", "seed=" + ",".join(map(str, range(11)))], ["algorithm=td3", "seed=0"])
SLURMS_OWN = {"scancel": "job", "scancel --signal=USR2": "warning", "scontrol requeue": "requeue"}
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
            result = self.lab.run_command(*command.split(), self.jobs[fate])
            assert result.returncode == 0, result.stderr
        # Some seconds later, or the controller would not have listed these yet.
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
        self.records = {key: self.lab.record(key) for key in self.fate}

    def repair(self, enlarge):
        for key in self.fate:
            (self.lab.orders / key).unlink(missing_ok=True)
        self.lab.order("go")
        if enlarge:
            enlarge()
            (self.lab.folder(DISK) / "filler").unlink()
        # Two runs that are complete lose half a file.
        self.damaged = dict(zip(self.those("node"), ("run.json", "evaluations.npz"), strict=True))
        for key, name in self.damaged.items():
            file = self.lab.folder(key) / name
            file.write_bytes(file.read_bytes()[:100])
        results = str(self.lab.results)
        self.measured_text = self.lab.python(
            "parallax", "slurm", "resubmit", results, "--dry-run", "--only", "timeout"
        )
        self.said = self.lab.python("parallax", "slurm", "resubmit", results, "--yes")
        wait_until(lambda: not self.lab.queue(), 120)
        self.final = self.lab.runs()
