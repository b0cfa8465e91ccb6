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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # also in processes with PYTHONSAFEPATH
from benchmarks.accelerations import compare_in_lockstep, describe_equality, measure_speed
from benchmarks.resume_after_kill import initialize_training, make_spec, read_result
from parallax.harness.contract.adapter_discovery import load_adapter
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
        return run_measurements(list_measurements(options.only), options)
    stored = json.loads(options.output.read_text("utf-8")) if options.output.exists() else {}
    for path in options.merge or ():
        # A failure, such as for lack of time, does not replace a result.
        found = {item.pop("measurement"): item for item in read_lines(path)}
        machine = found.pop("conditions")
        stored.setdefault("conditions", machine)
        made = {key: machine[key] for key in ("device", "date")}
        stored |= {name: made | item for name, item in found.items() if is_result(item)}
    write_text(options.output, render_json(stored))
    write_text(options.markdown, render_page(stored))
    return 0


def list_measurements(only: str = "") -> list[str]:
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
        measurement: next((n for n, part in enumerate(parts) if part in measurement), None)
        for measurement in found
    }
    return sorted((p for p in found if order[p] is not None), key=lambda p: order[p] or 0)


def run_measurements(measurements: Sequence[str], options: argparse.Namespace) -> int:
    """Run measurements side by side until the time is over, and append what they return."""
    deadline, lock = time.monotonic() + options.seconds, threading.Lock()
    conditions = json.dumps(
        {"measurement": "conditions", **describe_machine(), "jobs": options.jobs}
    )

    def append(text: str) -> None:
        with lock, options.lines.open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def run(measurement: str) -> None:
        left = deadline - time.monotonic()
        if left < LAST_START:
            return
        began, load = time.monotonic(), os.getloadavg()[0]
        found = run_in_process(measurement, min(left, LIMITS[measurement.partition(",")[0]]))
        seconds = round(time.monotonic() - began, 1)
        append(json.dumps({"measurement": measurement, "seconds": seconds, "load": load, **found}))
        short = {k: v for k, v in found.items() if k in ("failed", "skipped", "resume_equal")}
        print(
            f"{deadline - time.monotonic():5.0f} {measurement} {seconds} {short}"[:300], flush=True
        )

    append(conditions)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(run, measurements))
    return 0


def run_in_process(measurement: str, seconds: float) -> dict[str, Any]:
    """Run one measurement; return its result, or how it failed."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__, "--one", measurement],
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
    spec = make_spec(framework, algorithm, options, device=CUDA)
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / name for name in ("once", "again", "killed")]
        for folder, minutes in zip(folders, (0.0, 0.0, CHECKPOINT_MINUTES), strict=True):
            initialize_training(spec, minutes, folder)
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
        same = read_result(folders[0])
        record = once.record
        assert record is not None
        return {
            "steps": STEPS,
            "training_seconds": record.timings.seconds,
            "repeat_equal": same == read_result(folders[1]),
            "was_killed": was_killed,
            "resumed_from": resumed,
            "resume_equal": killed.complete and same == read_result(folders[2]),
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

    names = (
        *("torch", "jax", "numpy", "gymnasium", "mujoco", "stable-baselines3", "cleanrl"),
        *("torchrl", "tensordict", "tianshou", "skrl", "sbx-rl", "flax", "optax", "triton"),
    )
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


def is_result(item: Mapping[str, Any]) -> bool:
    """Return whether a measurement ended with a result."""
    return "failed" not in item and "skipped" not in item


def render_json(stored: Mapping[str, Any]) -> str:
    """Return JSON with one measurement per line."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(stored[name])}" for name in sorted(stored))
    return f"{{\n{lines}\n}}\n"


def render_page(stored: Mapping[str, Any]) -> str:
    """Return the reference page."""
    machine, stored = stored["conditions"], dict(sorted(stored.items(), key=_order_measurement))
    versions = ", ".join(f"{name} {text}" for name, text in machine["versions"].items())
    trained = {
        name: item for name, item in stored.items() if name.startswith("train,") and "steps" in item
    }
    for item in trained.values():
        item.setdefault("device", machine["device"])
    torch_runs = [item for name, item in trained.items() if ",sbx," not in name]
    equal = [sum(item[key] for item in torch_runs) for key in ("repeat_equal", "resume_equal")]
    missing = [
        f"`{framework}` {algorithm}"
        for framework, algorithm in CASES
        if f"train,{framework},{algorithm}" not in trained
    ]
    return _PAGE.format(
        **{key: machine[key] for key in ("device", "cuda", "driver", "cores", "python", "date")},
        others=", ".join(
            sorted({f"{one['device']}, {one['date']}" for one in trained.values() if "date" in one})
        ),
        versions=versions,
        trainings=render_trainings(trained),
        updates=render_updates(stored),
        speeds=render_speeds(stored),
        accelerations=render_accelerations(stored),
        count=len(torch_runs),
        repeated=equal[0],
        resumed=equal[1],
        missing=", ".join(missing) or "none",
    )


def _order_measurement(item: tuple[str, Any]) -> list[str]:
    return [*item[0].split(",")[2:], item[0]]


def select_measurements(
    stored: Mapping[str, Any], kind: str, part: str
) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Yield the names and the result of each measurement of a kind that has a part."""
    for name, item in stored.items():
        words = name.split(",")
        if words[0] == kind and part in item:
            yield words[1:], item


def _render_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (f"| {' | '.join(row)} |" for row in (head, *rows))
    return "\n".join([next(lines), f"|{'---|' * len(head)}", *lines])


def render_trainings(trained: Mapping[str, Any]) -> str:
    """Return the table of trainings that were repeated, killed and resumed."""
    head = (
        *("framework", "algorithm", "GPU", "steps", "trained again", "killed and resumed"),
        "returns of the saved policy on the CPU",
    )
    rows = []
    for name, item in trained.items():
        _, framework, algorithm = name.split(",")
        resumed = "same bytes" if item["resume_equal"] else "**other bytes**"
        returns = f"differ by up to {item['cpu_returns_difference']:.1g}"
        rows.append(
            (
                framework,
                algorithm,
                item["device"].removeprefix("NVIDIA ").split()[0],
                str(item["steps"]),
                "same bytes" if item["repeat_equal"] else "**other bytes**",
                f"{resumed} (from step {item['resumed_from']})",
                "the same" if item["cpu_returns_equal"] else returns,
            )
        )
    return _render_table(head, rows)


def render_updates(stored: Mapping[str, Any]) -> str:
    """Return the table of updates that were compared with the CPU's."""
    compared: dict[tuple[str, str], dict[str, Any]] = {}
    for kind in ("lockstep", "probe"):
        for (framework, algorithm), item in select_measurements(stored, kind, "equality"):
            compared[framework, algorithm] = item["equality"]
    rows = []
    for pair, found in compared.items():
        probes = found["probes"]
        changes = "not run"
        if probes:
            names = ", ".join(probes["changed"]) or "none"
            changes = f"of {probes['asked']} answers these change: {names}"
        rows.append((*pair, describe_equality(found), f"{found['rounding']:.1g}", changes))
    return _render_table(("framework", "algorithm", "equality", "rounding", "probes"), rows)


def render_speeds(stored: Mapping[str, Any]) -> str:
    """Return the table of the times on CPU and GPU."""
    ratio = "time on the CPU / time on the GPU: median of pairs [range]"
    speeds = select_measurements(stored, "speed", "speed")
    rows = [(*pair, _format_ratio(item["speed"])) for pair, item in speeds]
    return _render_table(("framework", "algorithm", ratio), rows)


def render_accelerations(stored: Mapping[str, Any]) -> str:
    """Return the table of accelerated updates, both sides on the GPU."""
    head = ("framework", "algorithm", "acceleration", "equality", "speed: median of pairs [range]")
    rows = [
        (*pair, f"`{name}`", describe_equality(item["equality"]), _format_ratio(item["speed"]))
        for (*pair, name), item in select_measurements(stored, "accelerate", "equality")
    ]
    return _render_table(head, rows)


def _format_ratio(speed: Mapping[str, Any]) -> str:
    low, high = speed["wall_ratios"][0], speed["wall_ratios"][-1]
    return f"{speed['wall_ratio']:.2f} [{low:.2f}, {high:.2f}]"


_PAGE = """\
# Runs on a GPU

This page shows which trainings and updates were run on a GPU, and which of their results are
bit-identical. Everything here was run once. Written by `benchmarks/gpu.py` from `docs/gpu.json`.

- GPU: {device}, driver {driver}, CUDA {cuda}; {cores} processor cores; {date}. Some trainings, on
  a machine of the same versions: {others}.
- Python {python}; {versions}.
- The machine had these versions installed, not those that this project pins (Python 3.11,
  PyTorch 2.13). The source was imported from a folder, without installing the package.

## Trainings
Each row is a short training with `device=cuda` and small networks, in Hopper-v4 or CartPole-v1. It
is run twice in separate processes. A third process gets SIGKILL after its first checkpoint, and a
fourth process resumes from it. "Same bytes" means that weights, evaluations and trace equal those
of the first process. The saved policy then repeats its last evaluation on the CPU.

{trainings}

With the frameworks in PyTorch, {repeated} of {count} trainings gave the same bytes when repeated,
and {resumed} of {count} when killed and resumed. This holds on one GPU model with one set of
versions; a checkpoint stores both, and is refused on another.

**With sbx (JAX), trainings are not always reproducible.** A resumed PPO training and a repeated
DDPG training gave other bytes; the cause was not found. These trainings are valid, but not
identical. XLA's autotuning chooses kernels by their time, so two processes can compute with
different kernels: with autotuning, a repeated TD3 training gave other bytes too. The adapter
therefore sets `--xla_gpu_autotune_level=0`, as in the table. The larger difference of PPO's returns
on the CPU may come from JAX's default precision of matrix products on a GPU, which may be TF32;
this was not measured.

## The same updates as on the CPU?
`parallax lockstep` and `parallax probe` with `--acceleration cuda` use the same weights, data and
random numbers on both devices. "Rounding" is the difference between two copies on the CPU that
start one bit apart, as a share of the largest weight.

{updates}

No update is bit-identical to the CPU's, and none differs by more than rounding.

## Speed
Pendulum-v1, `hps=original` (two hidden layers of 256 and minibatches of 256; PPO 64 and 64), one
thread, environment included. CPU and GPU alternate. A ratio above 1 means that the GPU is faster.
Up to four such measurements shared the GPU, so times vary.

{speeds}

Networks of this size are too small for a GPU: launching kernels takes longer than computing them.
Train them on CPUs, one run per core.

## Accelerations
Accelerated updates compared with plain updates, both on the GPU (`--acceleration cuda+NAME`).

{accelerations}

`compile` was measured while over a dozen other processes trained, and `fused-adam` while three did.
`cuda-graphs` was tried with Stable-Baselines3's TD3 through torch.compile's option
`triton.cudagraphs`, and is refused: PyTorch ended the training with "accessing tensor output of
CUDAGraphs that has been overwritten by a subsequent run". Networks are compiled separately, and
replaying one network overwrites values that the backward pass of the previous network needs.

## What was not run
- Frameworks and algorithms that the first table lacks: {missing}.
- Lockstep of sbx: operation by operation, JAX had not finished after 95 s on the GPU.
- Probes of cases that are not in the table; `bfloat16`, `matmul-medium`, `foreach-adam` and
  `no-vmap` on a GPU; images, prioritized replay, several environments, normalization and several
  GPUs.
- R2D2 of TorchRL is refused on a GPU: its sequences and priorities are computed with NumPy.
- `mps`.

## Commands
    python benchmarks/gpu.py --lines gpu.jsonl --jobs 6 --seconds 500
    python benchmarks/gpu.py --merge gpu.jsonl

On a machine without a GPU, each measurement is recorded as skipped, with the reason. Use few jobs
at a time, since processes that share a GPU take turns.
"""


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
