"""CPU time of training with another memory allocator, relative to the system's own.

    python benchmarks/allocators.py

Each measurement is a separate process that trains once, with one thread, and reports the CPU time
of the training alone, without imports, and the hash of the weights. The two sides of a pair run one
right after the other, in alternating order.
"""

import argparse
import importlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.single_thread import measure_in_process

FRAMEWORKS = ("sb3", "cleanrl", "torchrl", "tianshou")
STEPS = 500
LEARNING_STARTS = 300


def main() -> int:
    """Measure all pairs, or one side when called by itself."""
    options = _make_parser().parse_args()
    if options.one:
        print(json.dumps(measure_training(options.frameworks[0], options.algorithm, options.env)))
        return 0
    head = f"{'':<10}{'n':>3}{'system':>9}{options.malloc:>10}{'ratio':>8}"
    print(f"{head}  {'least to largest':<17}same weights")
    for framework in options.frameworks:
        pairs = [
            _measure_pair(framework, options, turned=bool(n % 2)) for n in range(options.repeats)
        ]
        plain, other = (
            statistics.median(pair[side]["seconds"] for pair in pairs) for side in (0, 1)
        )
        ratios = [b["seconds"] / a["seconds"] for a, b in pairs]
        same = len({side["weights"] for pair in pairs for side in pair}) == 1
        print(
            f"{framework:<10}{len(pairs):>3}{plain:>9.2f}{other:>10.2f}"
            f"{statistics.median(ratios):>8.3f}  "
            f"{f'{min(ratios):.3f} to {max(ratios):.3f}':<17}{same}",
            flush=True,
        )
    return 0


def measure_training(framework: str, algorithm: str, env: str) -> dict[str, Any]:
    """Return CPU seconds of one run in this process, with only the last evaluation, and weights."""
    import support

    from parallax.harness.contract.adapter_discovery import load_adapter

    for name in load_adapter(framework).training_modules(algorithm):
        importlib.import_module(name)
    settings = {} if algorithm == "ppo" else {"learning_starts": LEARNING_STARTS}
    spec = support.spec(
        framework, algorithm, hyperparameters=settings, env=env, steps=STEPS, eval_every=STEPS
    )
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as sink:  # noqa: PTH123
        before, sys.stdout = sys.stdout, sink
        started = time.process_time()
        try:
            _, content = support.run(spec, Path(folder))
        finally:
            sys.stdout = before
        seconds = time.process_time() - started
    return {"seconds": seconds, "weights": content["weights_sha256"]}


def _measure_pair(
    framework: str, options: argparse.Namespace, turned: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    from parallax.harness.sweep.run_process import get_allocator_variables

    sides = {name: get_allocator_variables("--malloc", name) for name in ("none", options.malloc)}
    order = sorted(sides, key=lambda name: (name == "none") == turned)
    words = ["--one", "--env", options.env, "--algorithm", options.algorithm]
    words += ["--frameworks", framework]
    found = {name: measure_in_process(__file__, words, sides[name]) for name in order}
    return found["none"], found[options.malloc]


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frameworks", nargs="+", default=list(FRAMEWORKS))
    parser.add_argument("--algorithm", default="td3")
    parser.add_argument("--env", default="HalfCheetah-v4")
    parser.add_argument("--malloc", default="tcmalloc")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
