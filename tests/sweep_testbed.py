"""Sweeps of the stand-in framework on a cluster: what the tests here do and look at."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import forked

SWEEP = [
    "framework=standin",
    "hps=sb3",
    "alignment=exact",
    "env.name=parallax.envs.scripted:ParallaxScripted-v0",
    "steps=2048",
    "eval_every=1024",
    "eval_episodes=2",
    "study.name=testbed",
]
VARIANT = "steps=2048,alignment=exact,eval_every=1024,eval_episodes=2"
ENTRY_POINTS = "[parallax.adapters]\nstandin = standin:StandinAdapter\n"


def wait_until(condition, patience=60, pause=0.1):
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "gave up waiting"
        time.sleep(pause)


class SweepTestbed:
    """A results folder, the stand-in's orders, and commands run against a cluster, if any."""

    def __init__(self, folder, cluster=None):
        self.results = folder / "results"
        self.orders = folder / "orders"
        self.orders.mkdir(parents=True)
        site = folder / "site"
        info = site / "standin-0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: standin\nVersion: 0\n")
        (info / "entry_points.txt").write_text(ENTRY_POINTS)
        for name in ("standin.py", "lazy.py"):
            shutil.copy(Path(__file__).with_name(name), site)
        base = cluster.environment() if cluster else os.environ
        path = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = base | {
            "PYTHONPATH": os.pathsep.join(path),
            "STANDIN_ORDERS": str(self.orders),
            "COLUMNS": "200",
        }

    def order(self, word, *keys):
        for key in keys or ["all"]:
            (self.orders / f".{key}").write_text(word)
            (self.orders / f".{key}").rename(self.orders / key)

    def run_command(self, *command):
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=300
        )

    def start(self, *arguments, merged=False):
        """Starts a command of the project's."""
        return forked.start(*arguments, env=self.environment, merged=merged)

    def call(self, *arguments):
        """Runs a command of the project's, whatever it returns."""
        return forked.run(*arguments, env=self.environment)

    def python(self, *arguments):
        """Runs a command of the project's; returns what it printed."""
        result = self.call(*arguments)
        if result.returncode < 0:
            # A fork of the process that has loaded all frameworks may die of a signal before its
            # command begins, with the threads of their libraries gone; a new process does not.
            result = self.run_command(sys.executable, "-m", *map(str, arguments))
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def sweep(self, *arguments):
        where = f"results_dir={self.results}"
        return self.python("parallax", "train", "--multirun", *SWEEP, where, *arguments)

    def status(self):
        return json.loads(self.python("parallax", "status", str(self.results), "--json"))

    def record(self, key):
        """The content of a run's `run.json`."""
        return json.loads((self.folder(key) / "run.json").read_text())

    def runs(self):
        """Return the status of each run by its algorithm and seed."""
        return {f"{run['algorithm']}-{run['seed']}": run for run in self.status()["runs"]}

    def folder(self, key):
        """The folder of `<algorithm>-<seed>`, also before there is a run."""
        algorithm, seed = key.split("-")
        above = (
            self.results
            / "testbed"
            / "parallax.envs.scripted:ParallaxScripted-v0"
            / algorithm
            / "sb3"
        )
        return above / "standin" / VARIANT / f"seed={seed}"

    def queue(self):
        """Slurm's jobs that are not over: state and node by id."""
        lines = self.run_command("squeue", "--noheader", "--array", "--format=%i %T %N").stdout
        return {line.split()[0]: line.split()[1:] for line in lines.splitlines()}

    def beats(self, key):
        """First and last sign of life of each process of a run, in order."""
        spans = []
        for file in self.orders.glob(f"beats-{key}-*"):
            times = [float(line) for line in file.read_text().split()]
            if times:  # the file is there before its first line is
                spans.append((times[0], times[-1], int(file.name.rpartition("-")[2])))
        return sorted(spans)

    def trainings(self, key):
        """Return events of the trainings of a run in order: `begin` or `end`, process, time."""
        file = self.orders / f"trainings-{key}"
        lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return [(word, int(pid), float(when)) for word, pid, when in lines]

    def files(self):
        """Every file of every run folder, by its place."""
        files = self.results.rglob("seed=*/**/*")
        return sorted(str(file.relative_to(self.results)) for file in files)

    def evaluations(self):
        """The bytes of every evaluation file by its place."""
        return {
            str(file.relative_to(self.results)): file.read_bytes()
            for file in self.results.rglob("evaluations.npz")
        }


@contextlib.contextmanager
def small_disk(folder):
    """A disk of 512 KiB in a folder's place; yields what makes it larger, None if forbidden."""
    folder.mkdir(parents=True)
    mounted = not mount("-t", "tmpfs", "-o", "size=512k", "none", str(folder))
    try:
        yield (lambda: mount("-o", "remount,size=16m", str(folder))) if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def mount(*arguments):
    return subprocess.run(["mount", *arguments], capture_output=True).returncode
