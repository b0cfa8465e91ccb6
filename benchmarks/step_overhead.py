"""CPU time that the harness adds to each environment step, measured inside the training.

    python benchmarks/share.py

Each measurement is a separate process that carries out a run as a worker does, with a clock at
every call between the harness and upstream's code:

- step: the hook directly on the task, which counts steps and episodes, without the task itself;
- record: values for the trace;
- boundary: whether a checkpoint is due, at each point where the training could be resumed;
- heartbeat: the thread that reports the progress of the run.

The share is their sum relative to the rest of the training. These calls take microseconds, less
than reading the CPU clock on some machines: each call is timed with the wall clock, and the longest
hundredth of the calls, in which other work had the processor, counts as the mean of the others. The
cost of the clocks themselves is measured with an empty call, and subtracted. Evaluation is
requested work and counts for neither side; its time is reported separately, and so is that of
writing the files after each. At the first boundary the harness checks once whether all of the
training can be saved: that is reported separately, too, since it happens once per run, not per
step. `checkpoints.py` measures the checkpoints every 20 minutes.
"""

import argparse
import collections
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

FRAMEWORKS = ("sb3", "cleanrl", "torchrl", "tianshou")
STEPS = {"ppo": 2048, "td3": 500, "sac": 500}
LEARNING_STARTS = 300
_CALIBRATION = 20_000


Clock = Callable[[], int]


class Seams:
    """Nanoseconds of each timed call, without those of the timed calls within it.

    One instance per thread and clock.
    """

    def __init__(self, clock: Clock) -> None:
        self.calls: dict[str, list[int]] = collections.defaultdict(list)
        self._clock = clock
        self._within = [0]

    def n_timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a clock around it."""
        clock, within, calls = self._clock, self._within, self.calls[name]

        def call(*args: Any, **kwargs: Any) -> Any:
            within.append(0)
            started = clock()
            try:
                return function(*args, **kwargs)
            finally:
                taken = clock() - started
                calls.append(taken - within.pop())
                within[-1] += taken

        return call

    def seconds(self, name: str) -> float:
        """Return the seconds of all calls; the longest hundredth counts as the others' mean."""
        calls = sorted(self.calls[name])
        kept = calls[: len(calls) - len(calls) // 100]
        return sum(kept) / max(len(kept), 1) * len(calls) / 1e9

    def has_own_units(self, name: str) -> float:
        """Return the mean seconds of a call."""
        return self.seconds(name) / max(len(self.calls[name]), 1)


def cost_of_a_seam(clock: Clock) -> float:
    """Return the measured seconds of an empty timed call that has another one in it."""
    probe = Seams(clock)
    inner = probe.n_timed("inner", lambda: None)
    outer = probe.n_timed("outer", inner)
    for _ in range(_CALIBRATION):
        outer()
    return probe.has_own_units("outer")


def main() -> int:
    """Measure all, or one when called by itself."""
    options = _parser().parse_args()
    if options.one:
        result = measure(options.frameworks[0], options.algorithms[0], options.env)
        print(json.dumps(result))
        return 0
    head = f"{'':<14}{'n':>3}{'training':>10}{'share %':>9}  {'least to largest':<17}"
    print(
        f"{head}{'step µs':>9}{'record µs':>10}{'bound. µs':>10}{'beat µs':>9}"
        f"{'look ms':>9}{'eval. s':>9}{'files ms':>9}"
    )
    for framework in options.frameworks:
        for algorithm in options.algorithms:
            found = [_in_process(framework, algorithm, options.env) for _ in range(options.repeats)]
            print(_line(f"{framework} {algorithm}", found), flush=True)
    return 0


def measure(framework: str, algorithm: str, env: str) -> dict[str, float]:
    """Measure one training in this process; all times are CPU seconds."""
    import support

    from parallax.harness.contract.adapter import load_adapter

    adapter: Any = load_adapter(framework)
    for name in adapter.training_modules(algorithm):
        importlib.import_module(name)  # once per process, not per step
    importlib.import_module("pandas")  # by pyarrow, for its first array
    seams, rare, beats = (
        Seams(clock) for clock in (time.perf_counter_ns, time.thread_time_ns, time.thread_time_ns)
    )
    _watch(adapter, seams, rare, beats)
    overrides = {} if algorithm == "ppo" else {"learning_starts": LEARNING_STARTS}
    steps = STEPS[algorithm]
    spec = support.spec(
        framework, algorithm, None, overrides, env=env, steps=steps, eval_every=steps
    )
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as sink:  # noqa: PTH123
        before, sys.stdout = sys.stdout, sink
        try:
            _, content = support.run(spec, Path(folder))
        finally:
            sys.stdout = before
    assert content["status"] == "completed", content["failure"]
    cost = cost_of_a_seam(time.perf_counter_ns)
    step = seams.seconds("step") - cost * steps
    within = step + seams.seconds("record") + seams.seconds("boundary")
    ours = within + beats.seconds("heartbeat")
    # The one evaluation comes after the training.
    rest = rare.seconds("train") - within - seams.seconds("look")
    return {
        "training": rest,
        "share": ours / rest,
        "step": step / steps,
        "record": seams.has_own_units("record"),
        "boundary": seams.has_own_units("boundary"),
        "look": seams.seconds("look"),
        "heartbeat": beats.has_own_units("heartbeat"),
        "evaluation": rare.seconds("evaluation"),
        "files": rare.has_own_units("files"),
    }


def _watch(adapter: Any, seams: Seams, rare: Seams, beats: Seams) -> None:
    """Put clocks around the timed calls of the harness in this process."""
    import parallax.envs.make
    from parallax.harness.record.folder import HeartbeatWriter, RunFolder
    from parallax.harness.train.checkpointing import CheckpointManager
    from parallax.harness.train.evaluation import PolicyEvaluator
    from parallax.harness.train.monitor import TrainingMonitor

    made = parallax.envs.make.make_task_env

    def make_task(env_id: str) -> Any:
        task: Any = made(env_id)
        task.step = seams.n_timed("task", task.step)
        return task

    parallax.envs.make.make_task_env = make_task
    watched: tuple[tuple[Seams, Any, str, str], ...] = (
        (seams, parallax.envs.make.StepHook, "step", "step"),
        (seams, RunFolder, "record", "record"),
        (seams, TrainingMonitor, "boundary", "boundary"),
        (seams, CheckpointManager, "_act", "look"),
        (rare, PolicyEvaluator, "_evaluate", "evaluation"),
        (rare, RunFolder, "add_evaluation", "files"),
        (rare, type(adapter), "train", "train"),
        (beats, HeartbeatWriter, "_beat", "heartbeat"),
    )
    for clock, owner, attribute, name in watched:
        setattr(owner, attribute, clock.n_timed(name, getattr(owner, attribute)))


def _line(title: str, found: list[dict[str, float]]) -> str:
    def middle(name: str, unit: float) -> float:
        return statistics.median(one.get(name, 0.0) for one in found) * unit

    shares = [one["share"] * 100 for one in found]
    return (
        f"{title:<14}{len(found):>3}{middle('training', 1):>10.2f}{middle('share', 100):>9.3f}  "
        f"{f'{min(shares):.3f} to {max(shares):.3f}':<17}{middle('step', 1e6):>9.2f}"
        f"{middle('record', 1e6):>10.1f}{middle('boundary', 1e6):>10.2f}"
        f"{middle('heartbeat', 1e6):>9.0f}{middle('look', 1e3):>9.1f}"
        f"{middle('evaluation', 1):>9.2f}{middle('files', 1e3):>9.2f}"
    )


def _in_process(framework: str, algorithm: str, env: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", "--env", env]
    command += ["--frameworks", framework, "--algorithms", algorithm]
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, "1")
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(output.stdout.splitlines()[-1])
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frameworks", nargs="+", default=list(FRAMEWORKS))
    parser.add_argument("--algorithms", nargs="+", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--env", default="HalfCheetah-v4")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
