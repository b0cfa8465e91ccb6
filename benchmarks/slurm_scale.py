"""The thesis's 1,440 runs on a real Slurm with hundreds of node daemons on this machine.

    python benchmarks/slurm_scale.py --nodes 200

Each job is a stand-in that writes a complete run folder in a second, so that the benchmark measures
planning, submission, scheduling and `status`, not training. Needs slurm-wlm and munge, and about
2 MB of memory per node.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tabulate import tabulate

from tests.slurm_cluster.cluster import SlurmCluster
from tests.slurm_cluster.daemons import read_pid

PATIENCE = 180.0  # seconds without change after which jobs count as hanging

# Passed to sbatch instead of Python; the last argument is the folder of the array's logs, with
# its record beside it.
STAND_IN = """#!/usr/bin/python3 -SE
import json, os, shutil, subprocess, sys, time
folder, index = sys.argv[-1], int(os.environ["SLURM_ARRAY_TASK_ID"])
with open(folder + ".json") as file:
    element = json.load(file)["elements"][index]
for name in element:
    path = os.path.join(os.path.dirname(os.path.dirname(folder)), name)
    with open(path + "/run.json") as file:
        run = json.load(file)
    started = time.time()
    time.sleep(1)
    run["status"], run["steps"]["taken"] = "completed", run["steps"]["scheduled"]
    run["timings"] = {{"started": started, "ended": time.time(), "seconds": 1.0}}
    template = "{folder}/" + str(run["steps"]["scheduled"]) + ".npz"
    if not os.path.exists(template):
        command = ["{python}", "{helper}", template, str(run["steps"]["scheduled"])]
        subprocess.run(command, check=True)
    shutil.copy(template, path + "/evaluations.npz")
    with open(path + "/.run", "w") as file:
        json.dump(run, file)
    os.rename(path + "/.run", path + "/run.json")
"""


# Evaluations as large as those of the thesis, made once for each number of steps.
EVALUATIONS = """
import os, sys
import numpy as np
timesteps = np.arange(10_000, 3_000_000, 10_000, dtype=np.int64)
timesteps = np.append(timesteps, int(sys.argv[2]))
results = np.random.default_rng(0).normal(size=(len(timesteps), 30)).astype(np.float32)
name = f"{sys.argv[1]}.{os.getpid()}.npz"
np.savez(name, timesteps=timesteps, results=results, ep_lengths=results.astype(np.int32))
os.rename(name, sys.argv[1])
"""


def write_stand_in(folder: Path) -> Path:
    """Write the stand-in and its helper into a folder; return its path."""
    script, helper = folder / "stand-in", folder / "evaluations.py"
    helper.write_text(EVALUATIONS)
    script.write_text(STAND_IN.format(python=sys.executable, helper=helper, folder=folder))
    script.chmod(0o755)
    return script


def run_timed(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, str, str]:
    """Return seconds, a text with processor time and memory, and the output of a command."""
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], env=environment, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        output.seek(0)
        text = output.read()
    if status:
        raise SystemExit(f"{' '.join(command)} failed:\n{text}")
    busy = usage.ru_utime + usage.ru_stime
    words = f"{seconds:.1f} s, of them {busy:.1f} s of processor; {usage.ru_maxrss / 1024:.0f} MB"
    return seconds, words, text


def count_jobs(environment: Mapping[str, str]) -> int:
    """Return the number of unfinished jobs."""
    command = ["squeue", "--noheader", "--array", "--format=%i"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    return len(result.stdout.split()) if not result.returncode else -1


def find_last_change(left: Sequence[tuple[float, int]]) -> float:
    """Return when the number of jobs last changed, from pairs of time and number."""
    return next((time for time, number in reversed(left) if number != left[-1][1]), left[0][0])


def measure_memory(cluster: SlurmCluster) -> float:
    """Return the memory of all daemons in MB; shared memory is counted for each."""
    total = 0
    for file in cluster.layout.run.glob("*.pid"):
        status = Path(f"/proc/{read_pid(file)}/statm")
        total += int(status.read_text().split()[1]) if status.exists() else 0
    return total * resource.getpagesize() / 1e6


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--study", default="thesis")
    options = parser.parse_args()
    large = (f"TreeWidth={options.nodes}", "SlurmdTimeout=120", "MaxJobCount=5000")
    rows: list[tuple[str, str]] = []

    def report(what: str, value: str) -> None:
        rows.append((what, value))
        print(f"{what}: {value}", flush=True)

    with tempfile.TemporaryDirectory(prefix="scale-") as name:
        folder, started = Path(name), time.monotonic()
        with SlurmCluster(folder / "cluster", options.nodes, cpus=1, options=large) as cluster:
            report(f"{options.nodes} nodes idle after", f"{time.monotonic() - started:.1f} s")
            report("memory of all daemons", f"{measure_memory(cluster):.0f} MB")
            measure_study(options.study, folder, cluster.environment(), report)
    print(tabulate(rows, ["what", "measured"], tablefmt="github"))


def measure_study(
    study: str, folder: Path, environment: Mapping[str, str], report: Callable[[str, str], None]
) -> None:
    """Plan, submit and watch one study, and query its status."""
    results = str(folder / "results")
    sweep = ["parallax", "train", "--multirun", f"study={study}", f"results_dir={results}"]
    sweep += ["hydra/launcher=slurm", "hydra.launcher.preflight=false"]
    sweep += [f"hydra.launcher.python={write_stand_in(folder)}"]
    _, words, text = run_timed([*sweep, "hydra.launcher.dry_run=true"], environment)
    (summary,) = (line for line in text.splitlines() if line.startswith("Dry run:"))
    report("dry run", f"{words}: {summary}")
    begun = time.monotonic()
    report("submission, from command to prompt", run_timed(sweep, environment)[1])
    left = [(time.monotonic(), count_jobs(environment))]
    report("jobs that are left when it returns", str(left[0][1]))
    report("status while they run", run_timed(["parallax", "status", results], environment)[1])
    while left[-1][1] and time.monotonic() - find_last_change(left) < PATIENCE:
        time.sleep(2)
        left.append((time.monotonic(), count_jobs(environment)))
    ended = find_last_change(left)
    rate = (left[0][1] - left[-1][1]) / (ended - left[0][0]) * 60
    report("scheduling rate", f"{rate:.0f} jobs a minute")
    report("from command to last job", f"{ended - begun:.0f} s")
    if left[-1][1]:
        report("jobs that hang and are cancelled", str(left[-1][1]))
        run_timed(["parallax", "slurm", "cancel", results, "--yes"], environment)
    tries = sorted(run_timed(["parallax", "status", results], environment) for _ in range(5))
    report("status when all is over, median of 5", tries[2][1])
    report("what it says", tries[2][2].splitlines()[0])
    _, words, text = run_timed(["parallax", "slurm", "resubmit", results, "--dry-run"], environment)
    report("resubmit --dry-run", f"{words}: {text.splitlines()[-1]}")


if __name__ == "__main__":
    main()
