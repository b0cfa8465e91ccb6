"""Cost of the diagnosis: CPU time of trainings that it watches, and its own share of it.

    python benchmarks/diagnosis_cost.py cost --repeats 6     ratio of watched to unwatched trainings
    python benchmarks/diagnosis_cost.py share                its own share of a training's time

Each framework and algorithm on one task.
"""

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import diagnosis_seams
from diagnosis_runs import ALGORITHMS, FRAMEWORKS, TASKS, Setting, settings, watched_run

COST_STEPS = {"ppo": 12_288, "dqn": 8000, "sac": 3000, "td3": 4000, "ddpg": 4000}
"""Steps that take about ten CPU seconds each."""


def main() -> None:
    """Measure what the command line requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["cost", "share"])
    parser.add_argument("--steps", type=int, default=0, help="by algorithm without")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--frameworks", nargs="*", default=FRAMEWORKS)
    parser.add_argument("--algorithms", nargs="*", default=ALGORITHMS)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    first = {tasks[0] for tasks in TASKS.values()}
    options.settings = [
        one for one in settings(options.frameworks, options.algorithms) if one[2] in first
    ]
    (cost if options.what == "cost" else share)(options)


def cost(options: argparse.Namespace) -> None:
    """Print the ratio of the CPU times of watched and unwatched runs, which run at the same time.

    Each has its own core, so that other work on the machine slows both. When they ran one after
    the other, the interval of six pairs was ten times as wide as the effect. Two pairs with swapped
    cores make one number, so that different speeds of the cores cancel.
    """
    import numpy as np
    from scipy import stats

    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise SystemExit("cost needs two cores: the two runs of a pair are compared side by side.")
    print("CPU time with over without: geometric mean of double pairs, Student's 95% interval")
    for framework, algorithm, task in options.settings:
        setting = (framework, algorithm, task)
        steps = options.steps or COST_STEPS[algorithm]
        logs = []
        for _ in range(options.repeats):
            both = []
            for places in (cores, cores[::-1]):
                where = dict(zip(("off", "on"), places, strict=True))
                off, on = _side_by_side(setting, steps, where)
                both.append(np.log(on / off))
            logs.append(np.mean(both))
        half = stats.t.ppf(0.975, len(logs) - 1) * np.std(logs, ddof=1) / np.sqrt(len(logs))
        low, middle, high = np.exp(np.mean(logs) + half * np.array([-1, 0, 1]))
        print(
            f"{framework:<10}{algorithm:<6}{task:<22}{steps:>6} steps {middle:.3f} "
            f"({low:.3f} to {high:.3f}), n={len(logs)} double pairs",
            flush=True,
        )


def _side_by_side(setting: Setting, steps: int, cores: dict[str, int]) -> tuple[float, float]:
    """Return CPU seconds of a training without and with the checks, each on its own core."""
    context = multiprocessing.get_context("spawn")
    ready, told = context.Barrier(2, timeout=300), context.SimpleQueue()
    runs = [
        context.Process(target=_timed, args=(setting, steps, mode, core, ready, told))
        for mode, core in cores.items()
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
        if run.exitcode:
            raise SystemExit(f"A run of {' '.join(setting)} failed.")
    seconds = dict(told.get() for _ in runs)
    return seconds["off"], seconds["on"]


def _timed(setting: Setting, steps: int, mode: str, core: int, ready: Any, told: Any) -> None:
    os.sched_setaffinity(0, {core})
    with tempfile.TemporaryDirectory() as folder:
        watched_run(*setting, 0, Path(folder) / "first", mode, steps=600)  # imports the framework
        ready.wait()
        begun = time.process_time()
        watched_run(*setting, 0, Path(folder) / "measured", mode, steps=steps)
        told.put((mode, time.process_time() - begun))


def share(options: argparse.Namespace) -> None:
    """Print the time spent in the diagnosis' own code relative to the rest of the training."""
    print(f"{'':<40}{'training s':>11}{'share %':>9}{'step µs':>9}{'look ms':>9}{'looks':>7}")
    for framework, algorithm, task in options.settings:
        found = []
        for repeat in range(options.repeats + 1):
            seams = diagnosis_seams.Seams(diagnosis_seams.CLOCK)
            with tempfile.TemporaryDirectory() as folder, diagnosis_seams.placed(seams):
                steps = (options.steps or COST_STEPS[algorithm]) if repeat else 600
                watched_run(framework, algorithm, task, 0, Path(folder), "on", steps=steps)
            if repeat:  # the first one imports the framework
                found.append(diagnosis_seams.summary(seams, steps))
        middle = {name: statistics.median(one[name] for one in found) for name in found[0]}
        print(
            f"{framework:<10}{algorithm:<6}{task:<24}{middle['training']:>11.2f}"
            f"{middle['share'] * 100:>9.2f}{middle['step'] * 1e6:>9.1f}{middle['look'] * 1e3:>9.1f}"
            f"{middle['looks']:>7.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
