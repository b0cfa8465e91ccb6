"""24 short runs of `study=demo`: through a real Slurm on two nodes, and on this machine.

    python benchmarks/slurm_trial.py

Compares every `evaluations.npz` byte for byte and the names of all files. Takes some minutes on
two cores. Needs slurm-wlm and munge.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.slurm_cluster.cluster import SlurmCluster

STUDY = [
    *("parallax", "train", "--multirun", "study=demo", "algorithm=ppo,td3", "seed=0,1,2,3"),
    *("steps=2048", "eval_every=2048", "eval_episodes=2"),
]


def run(environment: Mapping[str, str], *command: str) -> float:
    """Seconds that a command of the project's takes; ends this script where it fails."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", *command], env=environment, check=True)
    return time.monotonic() - started


def contents(results: Path) -> dict[str, bytes]:
    """All files of run folders by their place, with the bytes of evaluations only."""
    return {
        str(file.relative_to(results)): file.read_bytes() if file.suffix == ".npz" else b""
        for file in results.rglob("seed=*/*")
    }


def main() -> int:
    """Prints times and what differs; returns 1 where anything does."""
    with tempfile.TemporaryDirectory(prefix="trial-") as name:
        folder = Path(name)
        queued, local = folder / "queued", folder / "local"
        with SlurmCluster(folder / "lab", nodes=2, cpus=1) as cluster:
            environment = cluster.environment()
            started = time.monotonic()
            submit = run(environment, *STUDY, f"results_dir={queued}", "hydra/launcher=slurm")
            run(environment, "parallax", "status", str(queued), "--watch")
            total = time.monotonic() - started
        seconds = run(os.environ, *STUDY, f"results_dir={local}")
        first, second = contents(queued), contents(local)
    different = sorted(
        name for name in first.keys() | second if first.get(name) != second.get(name)
    )
    evaluations = sum(name.endswith(".npz") for name in first)
    print(f"Slurm: {submit:.0f} s to the prompt, {total:.0f} s in all; locally: {seconds:.0f} s.")
    print(f"{evaluations} evaluation files, {len(first)} files, {len(different)} differ.")
    for name in different:
        print(f"  {name}")
    return 1 if different or not evaluations else 0


if __name__ == "__main__":
    sys.exit(main())
