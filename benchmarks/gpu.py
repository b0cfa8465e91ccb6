"""Runs each framework and algorithm on a GPU and compares with the CPU.

    python benchmarks/gpu.py --lines gpu.jsonl --jobs 7 --seconds 500
    python benchmarks/gpu.py --merge gpu.jsonl

Every measurement has its own process with a time limit, and its result is appended to a file of
JSON lines at once. Those that find no GPU are recorded as skipped, with the reason.

- `train`: a short training on the GPU; the same again: the same bytes? Killed with SIGKILL after
  its first checkpoint and resumed: the same bytes? The saved policy is evaluated on the CPU.
- `lockstep`: updates on the GPU and on the CPU with the same weights, data and random numbers.
- `probe`: answers of the probes on the GPU that differ from those on the CPU.
- `speed`: a training on the CPU and one on the GPU, in turns.
- `accelerate`: the same comparisons of accelerated with plain updates, both on the GPU.
"""

import argparse
import concurrent.futures
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # also in processes with PYTHONSAFEPATH
from accelerations import compare_in_lockstep, measure_speed
from kills import a_spec, begun, result

from parallax.harness.contract.adapter import load_adapter
from parallax.harness.contract.interpreter import add_project_to_path
from parallax.harness.policies.loading import load_policy
from parallax.harness.policies.worker import (
    EvaluationConditions,
    evaluate_loaded_policy,
    get_recorded_returns,
    has_same_returns,
)
from parallax.harness.record.files import write_text
from parallax.harness.record.layout import CHECKPOINT_FOLDER
from parallax.harness.record.reading import read_run

CUDA = "cuda"
FRAMEWORKS = ("sb3", "cleanrl", "torchrl", "tianshou", "skrl", "sbx")
ALGORITHMS = ("td3", "ppo", "sac", "dqn", "ddpg")
CASES = tuple((framework, algorithm) for algorithm in ALGORITHMS for framework in FRAMEWORKS)
ACCELERATED = (
    *(("sb3", "td3", name) for name in ("fused-adam", "bfloat16", "matmul-medium", "compile")),
    *(("torchrl", "td3", name) for name in ("compile", "fused-adam", "no-vmap")),
    ("sb3", "ppo", "fused-adam"),
    *((name, "td3", "fused-adam") for name in ("cleanrl", "tianshou", "skrl")),
    ("sb3", "td3", "foreach-adam"),
)
LIMITS = {"train": 170, "lockstep": 120, "probe": 200, "speed": 110, "accelerate": 240}
"""Seconds of a measurement, by its kind."""
LAST_START = 25
"""Seconds before the end from which no measurement is started."""
STEPS, CHECKPOINT_MINUTES = 250, 0.02


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, or merge results and write the page."""
    options = _make_parser().parse_args(arguments)
    if options.one:
        print(json.dumps(measure_one(*options.one.split(","))))
        return 0
    if options.lines:
        return run_pieces(list_pieces(options.only), options)
    stored = json.loads(options.output.read_text("utf-8")) if options.output.exists() else {}
    for path in options.merge or ():
        stored |= {item.pop("piece"): item for item in read_lines(path)}
    write_text(options.output, render_json(stored))
    write_text(options.markdown, render_page(stored))
    return 0


def list_pieces(only: str = "") -> list[str]:
    """Return the measurements, important ones first.

    Each is `KIND,FRAMEWORK,ALGORITHM[,ACCELERATION]`.

    Args:
        only: Parts of the wanted ones with `;` between them, in this order.
    """
    found = [f"train,{framework},{algorithm}" for framework, algorithm in CASES]
    first, rest = CASES[: len(FRAMEWORKS)], CASES[len(FRAMEWORKS) :]
    found += [f"{kind},{f},{a}" for kind in ("lockstep", "speed") for f, a in first]
    found += [f"accelerate,{','.join(case)}" for case in ACCELERATED]
    found += [f"lockstep,{f},{a}" for f, a in rest]
    found += [f"probe,{f},{a}" for f, a in first]
    found += [f"speed,{f},{a}" for f, a in rest]
    found += [f"probe,{f},{a}" for f, a in rest]
    parts = only.split(";")
    order = {
        piece: next((n for n, part in enumerate(parts) if part in piece), None) for piece in found
    }
    return sorted((p for p in found if order[p] is not None), key=lambda p: order[p] or 0)


def run_pieces(pieces: Sequence[str], options: argparse.Namespace) -> int:
    """Run measurements side by side until the time is over, and append what they return."""
    deadline, lock = time.monotonic() + options.seconds, threading.Lock()
    conditions = json.dumps({"piece": "conditions", **describe_machine(), "jobs": options.jobs})

    def append(text: str) -> None:
        with lock, options.lines.open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def run(piece: str) -> None:
        left = deadline - time.monotonic()
        if left < LAST_START:
            return
        began, load = time.monotonic(), os.getloadavg()[0]
        found = run_in_process(piece, min(left, LIMITS[piece.partition(",")[0]]))
        seconds = round(time.monotonic() - began, 1)
        append(json.dumps({"piece": piece, "seconds": seconds, "load": load, **found}))
        short = {k: v for k, v in found.items() if k in ("failed", "skipped", "resume_equal")}
        print(f"{deadline - time.monotonic():5.0f} {piece} {seconds} {short}"[:300], flush=True)

    append(conditions)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(run, pieces))
    return 0


def run_in_process(piece: str, seconds: float) -> dict[str, Any]:
    """Run one measurement; return its result, or how it failed."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__, "--one", piece],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=make_environment(),
        start_new_session=True,
    )
    try:
        printed, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its children too; the session is its own
        process.communicate()
        return {"failed": f"not finished after {seconds:.0f} s"}
    lines = printed.strip().splitlines()
    if process.returncode or not lines:
        return {"failed": errors.strip()[-1500:]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def make_environment() -> dict[str, str]:
    """Return the environment of a measurement: one thread, and a reproducible cuBLAS."""
    threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    settings = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", **dict.fromkeys(threads, "1")}
    return add_project_to_path({**os.environ, **settings})


def measure_one(
    kind: str, framework: str, algorithm: str, acceleration: str = ""
) -> dict[str, Any]:
    """Return the result of one measurement; `skipped` with a reason where it is impossible."""
    adapter = load_adapter(framework)
    if not adapter.supports(algorithm):
        return {"skipped": f"{framework} has no {algorithm}"}
    if reason := adapter.why_unsupported_device(algorithm, CUDA, True):
        return {"skipped": f"device={CUDA}: {reason}"}
    variant = f"{CUDA}+{acceleration}" if acceleration else CUDA
    if kind == "train":
        return measure_training(framework, algorithm)
    if kind == "speed":
        return {"speed": measure_speed(framework, algorithm, CUDA)}
    if kind == "accelerate":
        name = acceleration
        if reason := adapter.why_unsupported_acceleration(algorithm, name, CUDA, True):
            return {"skipped": reason}
        return {
            "equality": compare_in_lockstep(framework, algorithm, variant, probes=False),
            "speed": measure_speed(framework, algorithm, variant),
        }
    with_probes = kind == "probe"
    return {"equality": compare_in_lockstep(framework, algorithm, CUDA, probes=with_probes)}


def measure_training(framework: str, algorithm: str) -> dict[str, Any]:
    """Train twice, and once with a kill; evaluate the policy on the CPU."""
    options = argparse.Namespace(steps=STEPS, wrappers="none", n_envs=1)
    spec = a_spec(framework, algorithm, options, device=CUDA)
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / name for name in ("once", "again", "killed")]
        for folder, minutes in zip(folders, (0.0, 0.0, CHECKPOINT_MINUTES), strict=True):
            begun(spec, minutes, folder)
        processes = [start_worker(folder) for folder in folders]
        was_killed = kill_after_checkpoint(processes[2], folders[2])
        for process in processes:
            process.wait()
        if was_killed:
            start_worker(folders[2]).wait()
        once = read_run(folders[0])
        if not once.complete:
            log = folders[0].with_suffix(".txt")
            failure = once.content.get("failure") or once.reason
            return {"failed": f"{failure}; {log.read_text()[-1200:]}"}
        killed = read_run(folders[2])
        resumed = killed.content.get("resumed_from")
        policy = load_policy(folders[0])
        evaluated, recorded = (
            evaluate_loaded_policy(policy, EvaluationConditions()),
            get_recorded_returns(policy),
        )
        same = result(folders[0])
        record = once.record
        assert record is not None
        return {
            "steps": STEPS,
            "training_seconds": record.timings.seconds,
            "repeat_equal": same == result(folders[1]),
            "was_killed": was_killed,
            "resumed_from": resumed,
            "resume_equal": killed.complete and same == result(folders[2]),
            "resume_notes": killed.content.get("resume_notes", []),
            "resume_failure": killed.content.get("failure"),
            "cpu_returns_equal": has_same_returns(evaluated, recorded),
            "cpu_returns_difference": float(np.abs(evaluated.returns - recorded).max()),
            "returns": [float(value) for value in recorded],
        }


def start_worker(folder: Path) -> subprocess.Popen[bytes]:
    """Start the process that trains a pending run; it writes its output beside the folder."""
    with folder.with_suffix(".txt").open("ab") as log:
        command = [sys.executable, "-W", "ignore", "-m", "parallax.harness.worker", str(folder)]
        return subprocess.Popen(command, stdout=log, stderr=log)


def kill_after_checkpoint(process: subprocess.Popen[bytes], folder: Path) -> bool:
    """Kill a training once it has a checkpoint; return whether it was still running."""
    while process.poll() is None:
        if any((folder / CHECKPOINT_FOLDER).glob("*.state")):
            time.sleep(0.2)
            process.kill()
            return process.wait() == -signal.SIGKILL
        time.sleep(0.02)
    return False


def describe_machine() -> dict[str, Any]:
    """Return the device, the processor and the versions."""
    import torch

    names = ("torch", "jax", "numpy", "gymnasium", "mujoco", "stable-baselines3", "cleanrl")
    names += ("torchrl", "tensordict", "tianshou", "skrl", "sbx-rl", "flax", "optax", "triton")
    has_gpu = torch.cuda.is_available()
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = version(name)
        except ImportError:
            found[name] = "missing"
    found["torch"] = torch.__version__
    return {
        "device": torch.cuda.get_device_name(0) if has_gpu else "no GPU",
        "cuda": torch.version.cuda,
        "driver": _read_driver() if has_gpu else None,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": found,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _read_driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the results of a file; the last line may be cut off."""
    for line in path.read_text("utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def render_json(stored: Mapping[str, Any]) -> str:
    """Return JSON with one measurement per line."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(stored[name])}" for name in sorted(stored))
    return f"{{\n{lines}\n}}\n"


def render_page(stored: Mapping[str, Any]) -> str:
    """Return the reference page."""
    return ""


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=Path, help="measure, and append results to this file")
    parser.add_argument("--jobs", type=int, default=4, help="measurements at the same time")
    parser.add_argument("--seconds", type=float, default=3600, help="time for all of them")
    parser.add_argument("--only", default="", help="measurements with one of these texts (;)")
    parser.add_argument("--merge", type=Path, nargs="+", help="files of results to store")
    parser.add_argument("--output", type=Path, default=Path("docs/gpu.json"))
    parser.add_argument("--markdown", type=Path, default=Path("docs/reference/gpu.md"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
