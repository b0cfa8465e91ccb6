"""CPU time of training with a source patch, relative to that without, in paired runs.

    python benchmarks/patch_overhead.py --pairs 8

Each pair trains the same settings twice, in alternating order: with upstream's constant, which
needs no patch, and with another value, which is patched into upstream's source. Both values cost
the same computation. Prints a table for docs/reference/benchmarks.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

PATCH_PREFIX = "patch."
CASES = {
    ("cleanrl", "ppo"): ("adam_eps", "1e-5", "1.1e-5"),
    ("skrl", "ppo"): ("adam_eps", "1e-8", "1.1e-8"),
    ("cleanrl", "sac"): ("adam_eps", "1e-8", "1.1e-8"),
    ("sb3", "dqn"): ("huber_delta", "1.0", "1.1"),
    ("sbx", "dqn"): ("huber_delta", "1.0", "1.1"),
}
"""Framework and algorithm: a constant of upstream, its value there, and another one."""
TASKS = {
    "ppo": ("Pendulum-v1", "steps=8192"),
    "sac": ("Pendulum-v1", "steps=1500 hyperparameters.learning_starts=300"),
    "dqn": ("CartPole-v1", "steps=3000 hyperparameters.learning_starts=300"),
}


def main() -> int:
    """Measure all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=8)
    pairs = parser.parse_args().pairs
    print(f"Load before: {os.getloadavg()[0]:.1f}")
    print("| | constant | patched over not patched, CPU time (95% interval) | pairs |")
    print("|---|---|---|---|")
    for (framework, algorithm), (name, own, other) in CASES.items():
        ratios = []
        for number in range(pairs):
            seconds = {}
            for value in (own, other)[:: 1 if number % 2 else -1]:
                seconds[value] = measure_training(
                    framework, algorithm, f"hyperparameters.{name}={value}"
                )
            assert seconds[own][1] < seconds[other][1], "the other value needs no patch"
            ratios.append(np.log(seconds[other][0] / seconds[own][0]))
        mean, error = statistics.mean(ratios), stats.sem(ratios)
        half = stats.t.ppf(0.975, pairs - 1) * error
        low, middle, high = np.exp([mean - half, mean, mean + half])
        print(
            f"| {framework} {algorithm} | `{name}` {own} and {other} | {middle:.3f} ({low:.3f} to "
            f"{high:.3f}) | {pairs} |",
            flush=True,
        )
    print(f"Load after: {os.getloadavg()[0]:.1f}")
    return 0


def measure_training(framework: str, algorithm: str, change: str) -> tuple[float, int]:
    """Return CPU seconds of training without evaluations, and the number of patches."""
    env, settings = TASKS[algorithm]
    with tempfile.TemporaryDirectory() as folder:
        words = [
            *("framework=" + framework, "algorithm=" + algorithm, "env=" + env, "hps=" + framework),
            *("alignment=exact", *settings.split(), change, "eval_episodes=1"),
            *("evaluate_untrained=false", "results_dir=" + folder),
        ]
        command = [sys.executable, "-m", "parallax", "train", *words]
        subprocess.run(command, check=True, capture_output=True)
        content = json.loads(next(Path(folder).rglob("run.json")).read_text())
    return content["timings"]["training_cpu_seconds"], count_patches(content)


def count_patches(content: Mapping[str, Any]) -> int:
    """Return the number of constants of upstream that a run's record says were patched."""
    return sum(name.startswith(PATCH_PREFIX) for name in content.get("interventions") or ())


if __name__ == "__main__":
    sys.exit(main())
