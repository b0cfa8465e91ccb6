"""How good the diagnosis is and what it costs: faults found, false alarms, CPU time.

    python benchmarks/diagnosis.py faults --seeds 4     injected faults, and their healthy twin
    python benchmarks/diagnosis.py healthy --seeds 2    false alarms in short runs of frameworks
    python benchmarks/diagnosis.py cost --repeats 5     CPU time, watched over not watched

Runs with an even seed are the half on which thresholds may be set; those with an odd seed judge.
"""

import argparse
import collections
import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

HALVES = {0: "set on", 1: "judged on"}
FRAMEWORKS = ("sb3", "cleanrl", "torchrl", "tianshou")
ALGORITHMS = ("ppo", "dqn", "sac", "td3", "ddpg")
TASKS = {"continuous": ("InvertedPendulum-v4", "Pendulum-v1"), "discrete": ("CartPole-v1",)}


def main() -> None:
    """Measures what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("faults", "healthy", "cost"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--frameworks", nargs="*", default=FRAMEWORKS)
    parser.add_argument("--algorithms", nargs="*", default=ALGORITHMS)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    {"faults": faults, "healthy": healthy, "cost": cost}[options.what](options)


def faults(options: argparse.Namespace) -> None:
    """Which injected faults are found by their check, and what the twin is told of."""
    from faulty_programs.dqn import FAULTS, train

    print(f"DQN on CartPole, {options.steps} steps, {options.seeds} seeds")
    alarms: dict[int, list[dict[str, str]]] = {0: [], 1: []}
    for fault in [None, *FAULTS]:
        hits: dict[int, list[bool]] = {0: [], 1: []}
        for seed in range(options.seeds):
            found, _ = train(fault, seed=seed, steps=options.steps)
            if fault is None:
                alarms[seed % 2].append({name: f.level for name, f in found.items()})
            else:
                hits[seed % 2].append(FAULTS[fault] in found)
        if fault:
            counts = "  ".join(f"{HALVES[h]}: {sum(x)} of {len(x)}" for h, x in hits.items())
            print(f"{fault:<24}{FAULTS[fault]:<12}{counts}", flush=True)
    _tell_alarms("healthy twin", alarms)


def healthy(options: argparse.Namespace) -> None:
    """False alarms per healthy run."""
    alarms: dict[int, list[dict[str, str]]] = {0: [], 1: []}
    for framework, algorithm, task in _settings(options):
        for seed in range(options.seeds):
            with tempfile.TemporaryDirectory() as folder:
                content, report = _run(
                    framework, algorithm, task, seed, options.steps, "on", Path(folder)
                )
            if content["status"] != "completed":
                print(f"{framework} {algorithm} {task} seed={seed}: {content['failure']}")
                continue
            found = {one["id"]: one["level"] for one in report["findings"]}
            print(f"{framework} {algorithm} {task} seed={seed}: {found}", flush=True)
            alarms[seed % 2].append(found)
    _tell_alarms("healthy", alarms)


def cost(options: argparse.Namespace) -> None:
    """CPU time of watched runs over that of runs that are not, in pairs in turn."""
    for framework, algorithm, task in _settings(options):
        if task == "Pendulum-v1":
            continue
        ratios = []
        for repeat in range(options.repeats + 1):
            seconds = {}
            for mode in ("off", "on") if repeat % 2 else ("on", "off"):
                with tempfile.TemporaryDirectory() as folder:
                    begun = time.process_time()
                    _run(framework, algorithm, task, 0, options.steps, mode, Path(folder))
                    seconds[mode] = time.process_time() - begun
            if repeat:  # the first pair imports the framework
                ratios.append(seconds["on"] / seconds["off"])
        middle = statistics.median(ratios)
        spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
        print(f"{framework:<10}{algorithm:<6}{task:<22}{middle:.3f} ({spread}), n={len(ratios)}")


def _settings(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    from harness.contract.algorithms import ALGORITHMS as KNOWN

    return [
        (framework, algorithm, task)
        for framework in options.frameworks
        for algorithm in options.algorithms
        for task in TASKS[KNOWN[algorithm].actions]
    ]


def _run(
    framework: str, algorithm: str, task: str, seed: int, steps: int, mode: str, folder: Path
) -> tuple[Any, Any]:
    import support

    from harness.conformance.trainings import base_hyperparameters

    base = dataclasses.asdict(base_hyperparameters(framework, algorithm))
    # Sound values, small networks and early learning, so that short runs do learn.
    values = base | {"learning_rate": 1e-3} if "learning_rate" in base else base
    values |= {"hidden_sizes": (32, 32)}
    if "learning_starts" in values:
        values |= {"learning_starts": 128}
    if "exploration_steps" in values:
        values |= {"exploration_initial": 1.0, "exploration_final": 0.05}
        values |= {"exploration_steps": steps // 2}
    for name in ("policy_learning_rate", "critic_learning_rate", "temperature_learning_rate"):
        if name in values:
            values[name] = 1e-3
    spec = support.spec(
        framework,
        algorithm,
        hyperparameters=values,
        alignment="full",
        **{"env": task, "steps": steps, "eval_every": steps, "eval_episodes": 1, "seed": seed},
    )
    spec = dataclasses.replace(spec, diagnosis={"mode": mode})
    place, content = support.run(spec, folder)
    path = place / "diagnosis.json"
    return content, json.loads(path.read_text()) if path.exists() else None


def _tell_alarms(what: str, alarms: dict[int, list[dict[str, str]]]) -> None:
    for half, runs in alarms.items():
        for level in ("error", "warning", "note"):
            hit = collections.Counter(n for run in runs for n, at in run.items() if at == level)
            touched = sum(level in run.values() for run in runs)
            print(
                f"{what}, {HALVES[half]}: {touched} of {len(runs)} runs with {level}s {dict(hit)}"
            )


if __name__ == "__main__":
    main()
