"""Cost of inspecting a study: CPU seconds of `status` and `status --files`.

    python benchmarks/status_cost.py

writes 1,440 complete runs of 100 evaluations x 30 episodes with 2,000 values in each trace, once in
the current schema and once without hashes, as in schema 1, and prints the minimum and the median
of several runs of each command as whole processes, the start of Python included.
"""

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

EVALUATIONS, EPISODES, EPISODES_TRAINED = 100, 30, 1000
EVAL_EVERY = 10_000


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1440)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="store the studies in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = options.keep or Path(scratch)
        for schema in (2, 1):
            results = root / f"schema_{schema}"
            if not results.exists():
                write_study(results, options.runs, schema)
            for command in ("status", "status --files"):
                seconds = [measure_cpu_seconds(command, results) for _ in range(options.repeats)]
                print(
                    f"schema {schema}, {command}: {min(seconds):.2f} s of CPU at least, "
                    f"{statistics.median(seconds):.2f} s median of {options.repeats}"
                )
    return 0


def write_study(results: Path, runs: int, schema: int) -> None:
    """Make one run with the harness's own code, and copies of it as the others."""
    first = write_run(results)
    content = json.loads((first / "run.json").read_text())
    for seed in range(1, runs):
        folder = shutil.copytree(first, first.with_name(f"seed={seed}"))
        rewrite_run(folder, content, seed, schema)
    rewrite_run(first, content, 0, schema)


def write_run(results: Path) -> Path:
    """Write a complete run without training."""
    import support

    from parallax.harness.contract.adapter_discovery import load_adapter
    from parallax.harness.record.folder import RunFolder
    from parallax.harness.record.lock import RunLock
    from parallax.harness.record.provenance import collect_provenance
    from parallax.harness.sweep.sweep import initialize_run
    from parallax.harness.train.prepare import prepare_run

    spec = support.spec(
        *("sb3", "td3"),
        steps=EVAL_EVERY * EVALUATIONS,
        eval_every=EVAL_EVERY,
        eval_episodes=EPISODES,
    )
    folder: Path = spec.folder(results)
    initialize_run(prepare_run(spec, load_adapter(spec.framework)), folder)
    rng = np.random.default_rng(0)
    with RunLock.acquire(folder) as run_lock:
        run = RunFolder(run_lock)
        for step in range(EVAL_EVERY, spec.steps + 1, EVAL_EVERY):
            for number in range(EPISODES_TRAINED // EVALUATIONS):
                run.record(step + number, {"episode/return": rng.normal(), "loss": 1.0})
            run.add_evaluation(step, rng.normal(size=EPISODES), np.full(EPISODES, 1000))
        run.finish_trace()
        run.update_run(
            status="completed",
            weights_sha256="0" * 64,
            steps=run.content["steps"] | {"taken": spec.steps},
            timings={"started": 1e9, "ended": 1e9 + 5, "seconds": 5.0, "evaluation_seconds": 1.0},
            provenance=collect_provenance(),
        )
    return folder


def rewrite_run(folder: Path, content: dict[str, object], seed: int, schema: int) -> None:
    """Set a copy's seed, and remove the fields that its schema does not have."""
    from parallax.harness.record.files import write_json
    from parallax.harness.record.run_json import CHECKSUM_FIELD, compute_checksum

    spec = content["spec"]
    assert isinstance(spec, dict)
    new = content | {"spec": spec | {"seed": seed}, "schema": schema}
    if schema == 1:
        new = {name: value for name, value in new.items() if name not in ("files", CHECKSUM_FIELD)}
    else:
        new[CHECKSUM_FIELD] = compute_checksum(new)
    write_json(folder / "run.json", new)


def measure_cpu_seconds(command: str, results: Path) -> float:
    """Return user and system time of one process, its threads included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(
        [sys.executable, "-m", "parallax", *command.split(), str(results)],
        capture_output=True,
        cwd=ROOT,
    )
    assert result.returncode == 0, result.stdout.decode() + result.stderr.decode()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
