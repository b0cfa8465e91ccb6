"""CPU time of commands that have almost nothing to do, such as `parallax --help`.

    python benchmarks/start_up.py

runs each command in a separate process, `--repeats` times in turn, and prints the median, smallest
and largest processor time, user and system together. `--study` also expands the thesis' study
of 1,440 runs, in a fresh process each time: composing and checking its specs, and translating them
for the frameworks. `--sbx` trains each of sbx's algorithms for 600 steps, by turns without and with
the compiled code of an earlier training, and checks that results are equal.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {
    "parallax": ["parallax"],
    "parallax --help": ["parallax", "--help"],
    "parallax train --help": ["parallax", "train", "--help"],
    "parallax study --help": ["parallax", "study", "--help"],
    "parallax status --help": ["parallax", "status", "--help"],
}
EXPAND = """
import itertools, sys, time
from hydra import initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import OmegaConf
from parallax.harness.cli.hydra_app import register_config_groups
from parallax.harness.cli.sweep_composer import compose_sweep_specs
from parallax.harness.train.prepare import prepare_runs
register_config_groups()
with initialize_config_module("parallax.harness.conf", version_base="1.3"):
    loader = GlobalHydra.instance().config_loader()
    master = loader.load_configuration("config", ["study=thesis"], RunMode.MULTIRUN)
    swept = OmegaConf.to_container(master.hydra.sweeper.params)
    axes = [[f"{name}={choice}" for choice in str(v).split(",")] for name, v in swept.items()]
    jobs = [["study=thesis", *words] for words in itertools.product(*axes)]
    start = time.process_time()
    specs, _ = compose_sweep_specs(loader, master, jobs)
middle = time.process_time()
prepare_runs(specs)
assert len(set(specs)) == 1440
print(middle - start, time.process_time() - middle)
"""
TRAIN = """
import argparse, hashlib, sys, tempfile, time
from pathlib import Path
from benchmarks import resume_after_kill
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.record.folder import RunFolder
from parallax.harness.record.lock import RunLock
from parallax.harness.train.run import execute_run
options = argparse.Namespace(steps=600, wrappers="none", n_envs=1)
with tempfile.TemporaryDirectory() as scratch:
    folder = Path(scratch) / "run"
    adapter = load_adapter("sbx")
    prepared = resume_after_kill.initialize_training(
        resume_after_kill.make_spec("sbx", sys.argv[1], options), 0.0, folder
    )
    __import__("parallax.adapters.sbx.train")
    start = time.process_time()
    with RunLock.acquire(folder) as run_lock:
        execute_run(prepared, adapter, RunFolder(run_lock))
    spent = time.process_time() - start
    print(spent, hashlib.sha256(repr(resume_after_kill.read_result(folder)).encode()).hexdigest())
"""


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--study", action="store_true", help="expand the thesis' study too")
    parser.add_argument("--sbx", action="store_true", help="only sbx's trainings")
    options = parser.parse_args()
    if options.sbx:
        for algorithm in ("ppo", "td3", "sac", "ddpg", "dqn"):
            compare_trainings(algorithm, options.repeats)
        return 0
    for name, words in COMMANDS.items():
        command = [sys.executable, "-m", *words]
        print_row(name, [measure_command(command) for _ in range(options.repeats)])
    if options.study:
        found = [measure_expansion() for _ in range(options.repeats)]
        for name, times in zip(("composing", "translating"), zip(*found, strict=True), strict=True):
            print_row(f"1,440 runs, {name}", times)
    return 0


def print_row(name: str, times: Sequence[float]) -> None:
    """Print a line of the table."""
    middle = statistics.median(times)
    print(f"{name:28} {middle:6.2f} ({min(times):.2f} to {max(times):.2f})", flush=True)


def measure_command(command: Sequence[str]) -> float:
    """Return the CPU time of a process and those that it waits for."""
    return _measure_cpu_seconds(
        lambda: subprocess.run(command, env=_make_environment(), stdout=subprocess.DEVNULL)
    )


def measure_expansion() -> tuple[float, float]:
    """Return the CPU times of composing and of translating the thesis' study."""
    command = [sys.executable, "-c", EXPAND]
    output = subprocess.check_output(command, env=_make_environment(), text=True)
    composing, translating = map(float, output.split())
    return composing, translating


def compare_trainings(algorithm: str, repeats: int) -> None:
    """Train without and with stored compiled code, by turns, and print CPU times of both."""
    times: dict[str, list[float]] = {"without": [], "with": []}
    results = set()
    with tempfile.TemporaryDirectory() as cache:
        variables = {
            "without": {"JAX_COMPILATION_CACHE_DIR": ""},
            "with": {"XDG_CACHE_HOME": cache},
        }
        for number in range(repeats + 1):  # the first one fills the store
            for name, values in variables.items() if number else [("with", variables["with"])]:
                environment = _make_environment() | values
                command = [sys.executable, "-c", TRAIN, algorithm]
                output = subprocess.check_output(command, env=environment, text=True)
                spent, result = output.splitlines()[-1].split()
                results.add(result)
                if number:
                    times[name].append(float(spent))
    for name, found in times.items():
        print_row(f"sbx {algorithm} {name}", found)
    assert len(results) == 1, f"{algorithm}: results differ"


def _make_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def _measure_cpu_seconds(work: Callable[[], object]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
