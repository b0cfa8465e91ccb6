"""Cost of reading a results folder: seconds, CPU time and memory.

    python benchmarks/loading.py

writes 1,440 runs of 300 evaluations x 30 episodes to a temporary folder (about 110 MB), the size
of the thesis' study, and reads them in a separate process. With `--seeds 50 --evaluations 30`
there are ten times as many runs in as many bytes.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from parallax.analysis.data.load import load_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_runs

FRAMEWORKS = ("cleanrl", "sb3", "torchrl")
TASKS = (
    *("Ant", "HalfCheetah", "Hopper", "InvertedPendulum"),
    *("InvertedDoublePendulum", "Reacher", "Swimmer", "Walker2d"),
)
EVALUATIONS, EPISODES, STEPS = 300, 30, 3_000_000


def main() -> int:
    """Write the folder and measure, or only measure when called by itself."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--evaluations", type=int, default=EVALUATIONS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        print(json.dumps(measure_reading(Path(options.folder))))
        return 0
    with tempfile.TemporaryDirectory() as place:
        count = write_study(Path(place), options.seeds, options.evaluations)
        command = [sys.executable, __file__, "--folder", place]
        found = json.loads(subprocess.check_output(command, text=True))
    assert found["used"] == count, found
    print(f"{count:,} runs of {options.evaluations} evaluations x {EPISODES} episodes")
    for name in ("load", "answers"):
        wall, cpu = found[name]
        print(f"{name:<8} {wall:6.2f} s, {cpu:6.2f} CPU s")
    print(f"memory   {found['memory'] / 2**20:6.0f} MiB at most")
    return 0


def measure_reading(folder: Path) -> dict[str, Any]:
    """Read and judge the folder; return times and peak memory in bytes."""
    found: dict[str, Any] = {}
    start = time.perf_counter(), time.process_time()
    loaded = load_runs(folder)
    found["load"] = _measure_since(start)
    start = time.perf_counter(), time.process_time()
    judge_runs(loaded, VerdictOptions())
    found["answers"] = _measure_since(start)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {**found, "used": loaded.used, "memory": memory}


def write_study(folder: Path, seeds: int = 5, evaluations: int = EVALUATIONS) -> int:
    """Write every run of 3 frameworks x 3 algorithms x 8 tasks x 4 settings x the seeds."""
    rng, count = np.random.default_rng(0), 0
    for task in TASKS:
        for algorithm in ("ppo", "td3", "sac"):
            for hps in (*FRAMEWORKS, "original"):
                for framework in FRAMEWORKS:
                    for seed in range(seeds):
                        place = (f"{task}-v4", algorithm, hps, framework)
                        _write_run(folder, place, seed, evaluations, rng)
                        count += 1
    return count


def _write_run(
    root: Path, place: tuple[str, ...], seed: int, evaluations: int, rng: np.random.Generator
) -> None:
    env, algorithm, hps, framework = place
    folder = root.joinpath("thesis", *place, f"steps={STEPS}", f"seed={seed}")
    folder.mkdir(parents=True)
    spec: dict[str, Any] = {"study": "thesis", "env": env, "algorithm": algorithm, "hps": hps}
    spec |= {"framework": framework, "seed": seed, "steps": STEPS}
    spec["eval_every"] = STEPS // evaluations
    record: dict[str, Any] = {"schema": 1, "status": "completed", "spec": spec}
    record |= {"steps": {"requested": STEPS, "scheduled": STEPS, "taken": STEPS}}
    # About as much other content as a real run.json.
    record["alignment"] = [{"name": f"field {i}", "text": "x" * 60} for i in range(60)]
    (folder / "run.json").write_text(json.dumps(record, indent=2))
    timesteps = np.arange(1, evaluations + 1, dtype=np.int64) * (STEPS // evaluations)
    shape = (evaluations, EPISODES)
    results = 1000 * (timesteps / STEPS)[:, None] + rng.normal(0, 100, shape)
    np.savez(
        folder / "evaluations.npz",
        timesteps=timesteps,
        results=results.astype(np.float32),
        ep_lengths=np.full(shape, 1000, dtype=np.int32),
    )


def _measure_since(start: tuple[float, float]) -> tuple[float, float]:
    return time.perf_counter() - start[0], time.process_time() - start[1]


if __name__ == "__main__":
    sys.exit(main())
