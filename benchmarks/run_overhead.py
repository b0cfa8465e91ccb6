"""CPU time of a run through the harness, without evaluation, relative to upstream's bare loop.

Each measurement is a separate process that trains once, with one thread, and reports the CPU
time of the training alone. Harness and bare runs alternate; the ratio is computed for each
pair, and for the smallest times, which other work on the machine disturbs least.
Usage: `python benchmarks/run_overhead.py --frameworks sb3 cleanrl --repeats 5`.
"""

import argparse
import dataclasses
import importlib
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from benchmarks.single_thread import measure_in_process

STEPS = {"ppo": 6144, "td3": 1500, "sac": 1500}
LEARNING_STARTS = 300
SEED = 1


def main() -> None:
    """Measure all pairs, or one side when called by itself."""
    options = _make_parser().parse_args()
    if options.side:
        print(
            measure_training(
                options.side, options.frameworks[0], options.algorithms[0], options.env
            )
        )
        return
    print(f"CPU seconds of training on {options.env}, medians of {options.repeats} pairs")
    print(f"{'':<14}{'steps':>7}{'harness':>9}{'bare':>9}{'ratio':>8}   (min to max)   of least")
    for framework in options.frameworks:
        for algorithm in options.algorithms:
            pairs = [
                _measure_pair(framework, algorithm, options.env, first=list(SIDES)[index % 2])
                for index in range(options.repeats)
            ]
            ours, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
            ratios = [a / b for a, b in pairs]
            least = min(a for a, _ in pairs) / min(b for _, b in pairs)
            print(
                f"{framework + ' ' + algorithm:<14}{STEPS[algorithm]:>7}{ours:>9.2f}{bare:>9.2f}"
                f"{statistics.median(ratios):>8.3f}   ({min(ratios):.3f} to {max(ratios):.3f})"
                f"{least:>11.3f}",
                flush=True,
            )


def measure_training(side: str, framework: str, algorithm: str, env: str) -> float:
    """Return the CPU seconds of one training in this process."""
    from parallax.envs.tasks import silence_mujoco

    warnings.simplefilter("ignore")
    silence_mujoco()  # bare upstream would leave a MUJOCO_LOG.TXT behind
    with open(os.devnull, "w") as sink:  # noqa: PTH123
        before, sys.stdout = sys.stdout, sink
        try:
            train = SIDES[side](framework, algorithm, env)
            started = time.process_time()
            train()
            return time.process_time() - started
        finally:
            sys.stdout = before


def make_harness_training(framework: str, algorithm: str, env: str) -> Callable[[], Any]:
    """Return the training as `parallax.harness.train.run` starts it, without evaluation."""
    from parallax.harness.contract.adapter_discovery import load_adapter
    from parallax.harness.contract.recipes import read_recipe
    from parallax.harness.contract.run_spec import RUN_DEFAULTS, make_run_spec
    from parallax.harness.record.folder import RunFolder
    from parallax.harness.record.lock import RunLock
    from parallax.harness.train.monitor import TrainingMonitor
    from parallax.harness.train.prepare import prepare_run

    recipe = read_recipe(algorithm, framework)
    overrides = {} if algorithm == "ppo" else {"learning_starts": LEARNING_STARTS}
    values = RUN_DEFAULTS | {
        "study": "overhead",
        "framework": framework,
        "algorithm": algorithm,
        "env": env,
        "hps": framework,
        "seed": SEED,
        "steps": STEPS[algorithm],
        "eval_every": STEPS[algorithm],
    }
    spec = make_run_spec(values, recipe | overrides, recipe)
    adapter = load_adapter(framework)
    importlib.import_module(
        f"parallax.adapters.{framework}.train"
    )  # a one-off, not a cost per step
    prepared = prepare_run(spec, adapter)
    run_lock = RunLock.acquire(Path(tempfile.mkdtemp()))
    monitor = TrainingMonitor(prepared, RunFolder(run_lock))
    return lambda: adapter.train(
        algorithm, prepared.native, prepared.context, monitor.make_env, monitor
    )


def make_bare_training(framework: str, algorithm: str, env: str) -> Callable[[], Any]:
    """Return upstream's code on `gymnasium.make`, without any of the harness."""
    import gymnasium

    if framework == "sb3":
        import stable_baselines3

        arguments = {} if algorithm == "ppo" else {"learning_starts": LEARNING_STARTS}
        model_class = getattr(stable_baselines3, algorithm.upper())

        def learn() -> None:
            model = model_class("MlpPolicy", gymnasium.make(env), seed=SEED, **arguments)
            model.learn(STEPS[algorithm])

        return learn
    if framework == "cleanrl":
        return _make_bare_cleanrl(algorithm, env)
    return _make_bare_recipe(framework, algorithm, env)


def _make_bare_cleanrl(algorithm: str, env: str) -> Callable[[], Any]:
    from parallax.adapters.cleanrl.scripts import read_script

    sys.path.append(str(Path(__file__).parents[1] / "tests/adapters/cleanrl"))
    import reference
    import stable_baselines3  # noqa: F401  (the script imports it)

    path, _ = read_script(algorithm)
    arguments = ["--env-id", env, "--seed", str(SEED), "--total-timesteps", str(STEPS[algorithm])]
    if algorithm != "ppo":
        arguments += ["--learning-starts", str(LEARNING_STARTS)]
    output = Path(tempfile.mkdtemp()) / "weights"
    if algorithm != "ppo":
        return lambda: reference.main(output, str(path), arguments)
    # The script's own vector environment, not the reference's leaner one.
    from parallax.adapters.cleanrl.facades import GymnasiumSyncVectorEnv

    return lambda: reference.main(output, str(path), arguments, GymnasiumSyncVectorEnv)


def _make_bare_recipe(framework: str, algorithm: str, env: str) -> Callable[[], Any]:
    # The framework has no loop: the recipe runs without step hook and recording.
    import gymnasium

    from parallax.envs.tasks import load_task
    from parallax.harness.contract.adapter import RunContext
    from parallax.harness.contract.adapter_discovery import load_adapter
    from parallax.harness.contract.recipes import load_recipe

    class Silent:
        def attach(self, *what: Any) -> None:
            pass

        def safe_point(self) -> None:
            pass

        def record(self, metrics: Any) -> None:
            pass

    hyperparameters: Any = load_recipe(algorithm, framework)
    if algorithm != "ppo":
        hyperparameters = dataclasses.replace(hyperparameters, learning_starts=LEARNING_STARTS)
    adapter = load_adapter(framework)
    importlib.import_module(f"parallax.adapters.{framework}.train")
    context = RunContext(load_task(env), STEPS[algorithm], SEED)
    native = adapter.translate(algorithm, hyperparameters, context)
    return lambda: adapter.train(algorithm, native, context, lambda: gymnasium.make(env), Silent())


SIDES = {"harness": make_harness_training, "bare": make_bare_training}


def _measure_pair(framework: str, algorithm: str, env: str, first: str) -> tuple[float, float]:
    order = sorted(SIDES, key=lambda side: side != first)
    words = ["--env", env, "--frameworks", framework, "--algorithms", algorithm, "--side"]
    seconds = {side: measure_in_process(__file__, [*words, side]) for side in order}
    return seconds["harness"], seconds["bare"]


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frameworks", nargs="+", default=["sb3", "cleanrl", "torchrl"])
    parser.add_argument("--algorithms", nargs="+", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--env", default="HalfCheetah-v4")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--side", choices=["harness", "bare"], help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
