"""CPU time that the harness adds to each environment step, measured inside the training.

    python benchmarks/step_overhead.py

Each measurement is a separate process that carries out a run as a worker does, with a clock at
every call between the harness and upstream's code:

- step: the hook directly on the task, which counts steps and episodes, without the task itself;
- record: values for the trace;
- safe point: whether a checkpoint is due, at each point where the training could be resumed;
- heartbeat: the thread that reports the progress of the run.

The share is their sum relative to the rest of the training. These calls take microseconds, less
than reading the CPU clock on some machines: each call is timed with the wall clock, and the longest
hundredth of the calls, in which other work had the processor, counts as the mean of the others. The
cost of the clocks themselves is measured with an empty call, and subtracted. Evaluation is
requested work and counts for neither side; its time is reported separately, and so is that of
writing the files after each. At the first safe point the harness checks once whether all of the
training can be saved: that is reported separately, too, since it happens once per run, not per
step. `checkpoints.py` measures the checkpoints every 20 minutes.
"""

import argparse
import contextlib
import importlib
import io
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.call_timer import CallTimer, TimedCall, measure_clock_cost
from benchmarks.single_thread import measure_in_process

FRAMEWORKS = ("sb3", "cleanrl", "torchrl", "tianshou")
STEPS = {"ppo": 2048, "td3": 500, "sac": 500}
LEARNING_STARTS = 300
STEP_CALLS = (
    TimedCall("parallax.envs.make", "StepHook.step", "step"),
    TimedCall("parallax.harness.record.folder", "RunFolder.record", "record"),
    TimedCall("parallax.harness.train.monitor", "TrainingMonitor.safe_point", "safe point"),
    TimedCall(
        "parallax.harness.train.checkpointing", "CheckpointManager._load_or_save", "first check"
    ),
)
"""Calls of microseconds, timed with the wall clock."""
RARE_CALLS = (
    TimedCall("parallax.harness.train.evaluation", "PolicyEvaluator._evaluate", "evaluation"),
    TimedCall("parallax.harness.record.folder", "RunFolder.add_evaluation", "files"),
)
HEARTBEAT_CALLS = (
    TimedCall("parallax.harness.record.folder", "HeartbeatWriter._beat", "heartbeat"),
)
TIMED_CALLS = (*STEP_CALLS, *RARE_CALLS, *HEARTBEAT_CALLS)


def main() -> int:
    """Measure all, or one when called by itself."""
    options = _make_parser().parse_args()
    if options.one:
        result = measure_training(options.frameworks[0], options.algorithms[0], options.env)
        print(json.dumps(result))
        return 0
    head = f"{'':<14}{'n':>3}{'training':>10}{'share %':>9}  {'least to largest':<17}"
    print(
        f"{head}{'step µs':>9}{'record µs':>10}{'safe pt µs':>11}{'beat µs':>9}"
        f"{'check ms':>9}{'eval. s':>9}{'files ms':>9}"
    )
    for framework in options.frameworks:
        for algorithm in options.algorithms:
            words = ["--one", "--env", options.env, "--frameworks", framework]
            words += ["--algorithms", algorithm]
            found = [measure_in_process(__file__, words) for _ in range(options.repeats)]
            print(_format_row(f"{framework} {algorithm}", found), flush=True)
    return 0


def measure_training(framework: str, algorithm: str, env: str) -> dict[str, float]:
    """Measure one training in this process; all times are CPU seconds."""
    import support

    from parallax.harness.contract.adapter_discovery import load_adapter

    adapter: Any = load_adapter(framework)
    for name in adapter.training_modules(algorithm):
        importlib.import_module(name)  # once per process, not per step
    importlib.import_module("pandas")  # by pyarrow, for its first array
    often, rare, beats = (
        CallTimer(clock)
        for clock in (time.perf_counter_ns, time.thread_time_ns, time.thread_time_ns)
    )
    overrides = {} if algorithm == "ppo" else {"learning_starts": LEARNING_STARTS}
    steps = STEPS[algorithm]
    spec = support.spec(
        framework, algorithm, None, overrides, env=env, steps=steps, eval_every=steps
    )
    training = TimedCall(type(adapter).__module__, f"{type(adapter).__name__}.train", "train")
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(io.StringIO()),
        time_tasks(often),
        often.time_calls(STEP_CALLS),
        rare.time_calls((*RARE_CALLS, training)),
        beats.time_calls(HEARTBEAT_CALLS),
    ):
        _, content = support.run(spec, Path(folder))
    assert content["status"] == "completed", content["failure"]
    clock_cost = measure_clock_cost(time.perf_counter_ns)
    step = often.compute_seconds("step") - clock_cost * steps
    in_training = step + often.compute_seconds("record") + often.compute_seconds("safe point")
    added = in_training + beats.compute_seconds("heartbeat")
    # The one evaluation comes after the training.
    rest = rare.compute_seconds("train") - in_training - often.compute_seconds("first check")
    return {
        "training": rest,
        "share": added / rest,
        "step": step / steps,
        "record": often.compute_mean_seconds("record"),
        "safe point": often.compute_mean_seconds("safe point"),
        "first check": often.compute_seconds("first check"),
        "heartbeat": beats.compute_mean_seconds("heartbeat"),
        "evaluation": rare.compute_seconds("evaluation"),
        "files": rare.compute_mean_seconds("files"),
    }


@contextlib.contextmanager
def time_tasks(timer: CallTimer) -> Iterator[None]:
    """Time the steps of training tasks within the context, which are upstream's own work."""
    make: Any = importlib.import_module("parallax.envs.make")
    make_task_env = make.make_task_env

    def make_timed_task(*args: Any, **kwargs: Any) -> Any:
        task: Any = make_task_env(*args, **kwargs)
        task.step = timer.wrap_function("task", task.step)
        return task

    make.make_task_env = make_timed_task
    try:
        yield
    finally:
        make.make_task_env = make_task_env


def _format_row(title: str, found: list[dict[str, float]]) -> str:
    def middle(name: str, unit: float) -> float:
        return statistics.median(one.get(name, 0.0) for one in found) * unit

    shares = [one["share"] * 100 for one in found]
    return (
        f"{title:<14}{len(found):>3}{middle('training', 1):>10.2f}{middle('share', 100):>9.3f}  "
        f"{f'{min(shares):.3f} to {max(shares):.3f}':<17}{middle('step', 1e6):>9.2f}"
        f"{middle('record', 1e6):>10.1f}{middle('safe point', 1e6):>11.2f}"
        f"{middle('heartbeat', 1e6):>9.0f}{middle('first check', 1e3):>9.1f}"
        f"{middle('evaluation', 1):>9.2f}{middle('files', 1e3):>9.2f}"
    )


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frameworks", nargs="+", default=list(FRAMEWORKS))
    parser.add_argument("--algorithms", nargs="+", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--env", default="HalfCheetah-v4")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
