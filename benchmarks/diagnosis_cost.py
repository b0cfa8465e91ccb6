"""Cost of the diagnosis: CPU time of trainings that it watches, and its own share of it.

    python benchmarks/diagnosis_cost.py cost --repeats 6     ratio of watched to unwatched trainings
    python benchmarks/diagnosis_cost.py share                its own share of a training's time

Each framework and algorithm on one task. The share has the time of all functions of the diagnosis
that subscribe to a training's events, of writing its report, and of describing layers and optimizer
steps to it. It does not have the cost of PyTorch's hooks themselves, which `cost` includes.
"""

import argparse
import contextlib
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.call_timer import CallTimer, TimedCall, measure_clock_cost
from benchmarks.diagnosis_runs import (
    ALGORITHMS,
    FRAMEWORKS,
    TASKS,
    Setting,
    list_settings,
    train_with_diagnosis,
)

COST_STEPS = {"ppo": 12_288, "dqn": 8000, "sac": 3000, "td3": 4000, "ddpg": 4000}
"""Steps that take about ten CPU seconds each."""
CLOCK = time.thread_time_ns  # CPU time of this thread, as other work shares the processors
DIAGNOSIS_PACKAGE = "parallax.harness.diagnosis"
"""Subscribers from this package are timed, with the kind of event as their label."""
TIMED_CALLS = (
    TimedCall("parallax.harness.diagnosis.engine", "DiagnosisEngine._process_step", "check"),
    TimedCall("parallax.harness.train.diagnosis", "RunDiagnosis.save_report", "report"),
    TimedCall("parallax.harness.train.evaluation", "PolicyEvaluator._evaluate", "evaluation"),
    TimedCall("parallax.adapters.torch_common.watch", "_make_forward_event", "LayerForward"),
    TimedCall("parallax.adapters.torch_common.watch", "_make_step_event", "BeforeOptimizerStep"),
)
"""Functions that are timed besides the subscribers; `check` is called at steps with checks."""
STEP_LABELS = ("EnvStep", "EnvTransition")
FREQUENT_LABELS = (
    *STEP_LABELS,
    *("ReportedMetrics", "LayerForward", "LossBackward"),
    *("BeforeOptimizerStep", "AfterOptimizerStep"),
)
"""Calls for which the cost of the clock is subtracted."""
RARE_LABELS = ("check", "report", "PolicyAttached", "TrainingEnd")


def main() -> None:
    """Measure what the command line requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["cost", "share"])
    parser.add_argument("--steps", type=int, default=0, help="default: by algorithm")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--frameworks", nargs="*", default=FRAMEWORKS)
    parser.add_argument("--algorithms", nargs="*", default=ALGORITHMS)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    first = {tasks[0] for tasks in TASKS.values()}
    options.settings = [
        one for one in list_settings(options.frameworks, options.algorithms) if one[2] in first
    ]
    (print_ratios if options.what == "cost" else print_shares)(options)


def print_ratios(options: argparse.Namespace) -> None:
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
            for order in (cores, cores[::-1]):
                where = dict(zip(("off", "on"), order, strict=True))
                off, on = _train_side_by_side(setting, steps, where)
                both.append(np.log(on / off))
            logs.append(np.mean(both))
        half = stats.t.ppf(0.975, len(logs) - 1) * np.std(logs, ddof=1) / np.sqrt(len(logs))
        low, middle, high = np.exp(np.mean(logs) + half * np.array([-1, 0, 1]))
        print(
            f"{framework:<10}{algorithm:<6}{task:<22}{steps:>6} steps {middle:.3f} "
            f"({low:.3f} to {high:.3f}), n={len(logs)} double pairs",
            flush=True,
        )


def _train_side_by_side(setting: Setting, steps: int, cores: dict[str, int]) -> tuple[float, float]:
    """Return CPU seconds of a training without and with the checks, each on its own core."""
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(2, timeout=300), context.SimpleQueue()
    runs = [
        context.Process(target=_train_on_core, args=(setting, steps, mode, core, ready, results))
        for mode, core in cores.items()
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
        if run.exitcode:
            raise SystemExit(f"A run of {' '.join(setting)} failed.")
    seconds = dict(results.get() for _ in runs)
    return seconds["off"], seconds["on"]


def _train_on_core(
    setting: Setting, steps: int, mode: str, core: int, ready: Any, results: Any
) -> None:
    os.sched_setaffinity(0, {core})
    with tempfile.TemporaryDirectory() as folder:
        train_with_diagnosis(
            *setting, 0, Path(folder) / "first", mode, steps=600
        )  # imports the framework
        ready.wait()
        begun = time.process_time()
        train_with_diagnosis(*setting, 0, Path(folder) / "measured", mode, steps=steps)
        results.put((mode, time.process_time() - begun))


def print_shares(options: argparse.Namespace) -> None:
    """Print the time spent in the diagnosis' own code relative to the rest of the training."""
    print(f"{'':<40}{'training s':>11}{'share %':>9}{'step µs':>9}{'check ms':>9}{'checks':>7}")
    for framework, algorithm, task in options.settings:
        found = []
        for repeat in range(options.repeats + 1):
            timer = CallTimer(CLOCK)
            with tempfile.TemporaryDirectory() as folder, time_diagnosis(timer, framework):
                steps = (options.steps or COST_STEPS[algorithm]) if repeat else 600
                train_with_diagnosis(framework, algorithm, task, 0, Path(folder), "on", steps=steps)
            if repeat:  # the first one imports the framework
                found.append(compute_shares(timer, steps))
        middle = {name: statistics.median(one[name] for one in found) for name in found[0]}
        print(
            f"{framework:<10}{algorithm:<6}{task:<24}{middle['training']:>11.2f}"
            f"{middle['share'] * 100:>9.2f}{middle['step'] * 1e6:>9.1f}"
            f"{middle['check'] * 1e3:>9.1f}{middle['checks']:>7.0f}",
            flush=True,
        )


@contextlib.contextmanager
def time_diagnosis(timer: CallTimer, framework: str) -> Iterator[None]:
    """Time trainings of a framework, and all calls from them into the diagnosis."""
    from parallax.harness.contract.adapter_discovery import load_adapter
    from parallax.harness.contract.events import TrainingEvents

    subscribe: Any = TrainingEvents.subscribe

    def subscribe_timed(self: Any, kind: type[Any], subscriber: Any) -> None:
        if getattr(subscriber, "__module__", "").startswith(DIAGNOSIS_PACKAGE):
            subscriber = timer.wrap_function(kind.__name__, subscriber)
        subscribe(self, kind, subscriber)

    adapter = type(load_adapter(framework))
    training = TimedCall(adapter.__module__, f"{adapter.__name__}.train", "train")
    TrainingEvents.subscribe = subscribe_timed  # type: ignore[method-assign]
    try:
        with timer.time_calls((*TIMED_CALLS, training)):
            yield
    finally:
        TrainingEvents.subscribe = subscribe  # type: ignore[method-assign]


def compute_shares(timer: CallTimer, steps: int) -> dict[str, float]:
    """Return the diagnosis' share of a training's time, and the means of its parts.

    Raises:
        ValueError: No subscriber was timed, or one of a kind of event that has no label here.
    """
    if not timer.calls["EnvStep"]:
        raise ValueError(f"nothing in {DIAGNOSIS_PACKAGE} subscribes to environment steps")
    known = {*FREQUENT_LABELS, *RARE_LABELS, "evaluation", "train"}
    if unknown := timer.calls.keys() - known:
        raise ValueError(f"the diagnosis subscribes to {sorted(unknown)}: add it to the labels")
    clock_cost = measure_clock_cost(CLOCK)
    frequent = {
        name: max(timer.compute_seconds(name) - clock_cost * len(timer.calls[name]), 0.0)
        for name in FREQUENT_LABELS
    }
    rare = sum(sum(timer.calls[name]) for name in RARE_LABELS) / 1e9
    training = sum(timer.calls["train"]) / 1e9  # without the time of other timed calls
    training -= clock_cost * sum(len(timer.calls[name]) for name in FREQUENT_LABELS)
    whole, step = sum(frequent.values()) + rare, sum(frequent[name] for name in STEP_LABELS)
    checks = max(len(timer.calls["check"]), 1)
    return {
        "training": training,
        "share": whole / training,
        "step": step / steps,
        "check": (whole - step) / checks,
        "checks": checks,
    }


if __name__ == "__main__":
    main()
