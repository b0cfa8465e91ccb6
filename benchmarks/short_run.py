"""Cost of one short run from the command line, relative to a bare script that trains the same.

    python benchmarks/short_run.py --repeats 5

Each pair is a run of `parallax train` and a script that imports Stable-Baselines3 and trains PPO
for as many steps, as separate processes with one thread, in alternating order. Prints medians of
seconds and of CPU seconds, children included, and the median of the ratios within pairs.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPS = 2048
BARE = f"""
import gymnasium
from stable_baselines3 import PPO
PPO("MlpPolicy", gymnasium.make("InvertedPendulum-v4"), seed=0).learn({STEPS})
"""
OVERRIDES = (
    *("framework=sb3", "algorithm=ppo", "env=InvertedPendulum-v4", f"steps={STEPS}"),
    *(f"eval_every={STEPS}", "eval_episodes=1", "checkpoint_every=0"),
)


def main() -> None:
    """Measure the pairs and print their medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    sides = {"parallax": measure_command, "bare": measure_script}
    pairs: list[dict[str, tuple[float, float]]] = []
    for number in range(repeats):
        order = sorted(sides, reverse=bool(number % 2))
        pairs.append({name: sides[name]() for name in order})
    for index, unit in enumerate(("seconds", "CPU seconds")):
        ours, bare = ([pair[name][index] for pair in pairs] for name in ("parallax", "bare"))
        ratios = [a / b for a, b in zip(ours, bare, strict=True)]
        print(
            f"{unit:12} parallax {statistics.median(ours):6.2f}"
            f"  bare {statistics.median(bare):6.2f}"
            f"  ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )


def measure_command() -> tuple[float, float]:
    """Return seconds and CPU seconds of one run from the command line."""
    with tempfile.TemporaryDirectory() as folder:
        words = [*OVERRIDES, f"results_dir={folder}"]
        return measure_process([sys.executable, "-m", "parallax", "train", *words])


def measure_script() -> tuple[float, float]:
    """Return seconds and CPU seconds of the bare script."""
    return measure_process([sys.executable, "-c", BARE])


def measure_process(command: list[str]) -> tuple[float, float]:
    """Return seconds and CPU seconds of a process and its children."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
