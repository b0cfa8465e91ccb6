"""Kills trainings at random times and compares their results with undisturbed trainings.

    python benchmarks/resume_after_kill.py --kills 3 --frameworks cleanrl --algorithms ppo,td3
    python benchmarks/resume_after_kill.py --kills 30 --steps 1024 --checkpoint-every 20 --within 12

Each implementation trains once undisturbed, then again in processes that get SIGKILL, which nothing
can catch, after a random part of the time that an undisturbed training takes, wherever they are
then: in a step, an update, an evaluation or while a checkpoint is written. The next process resumes
from the saved state. The hash of the weights and the bytes of evaluations and trace must be the
same in the end; otherwise the exit code is 1.

Without `--checkpoint-every` a training has about twenty checkpoints, however short it is. With it
(in minutes), they are as in any run, where the default is 20. With `--within` each process is
killed after a random part of so many seconds. The last line is the share of
attempts after a kill that resumed from a checkpoint.
"""

import argparse
import dataclasses
import importlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from parallax.harness.conformance.trainings import make_base_hyperparameters
from parallax.harness.contract.adapter_discovery import find_adapter_entry_points, load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.run_spec import RUN_DEFAULTS, RunSpec, make_run_spec
from parallax.harness.record.folder import RunFolder
from parallax.harness.record.lock import RunLock
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.sweep import initialize_run
from parallax.harness.train.prepare import PreparedRun, prepare_run
from parallax.harness.train.run import execute_run

ENVS = {"continuous": "Hopper-v4", "discrete": "CartPole-v1"}
CHECKPOINTS = 20
"""Approximate number in an undisturbed training."""


@dataclasses.dataclass(frozen=True)
class KillOutcome:
    """Outcome of one training.

    Attributes:
        kills: Number of its processes that were killed.
        resumed: Steps from which attempts resumed; None for an attempt from the beginning.
        same: Whether weights, evaluations and trace equal those of the undisturbed training.
        notes: Why a checkpoint could not be used, if so.
    """

    kills: int
    resumed: list[int | None]
    same: bool
    notes: list[str]


def main() -> int:
    """Print a row per implementation and a count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frameworks", default=",".join(sorted(find_adapter_entry_points())))
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument(
        "--checkpoint-every", type=float, help="minutes; none makes 20 checkpoints per training"
    )
    parser.add_argument("--within", type=float, help="seconds in which each process is killed")
    parser.add_argument("--wrappers", default="none")
    parser.add_argument("--n-envs", type=int, default=1)
    parser.add_argument("--diagnosis", default="off", help="of the trainings that are killed")
    parser.add_argument("--seed", type=int, default=0, help="of the times of the kills")
    options = parser.parse_args()
    rng, outcomes = np.random.default_rng(options.seed), []
    print("| framework | algorithm | kills | resumed from steps | same bytes |", flush=True)
    print("|---|---|---|---|---|", flush=True)
    for framework in options.frameworks.split(","):
        adapter = load_adapter(framework)
        for algorithm in filter(adapter.supports, options.algorithms.split(",")):
            for module in adapter.training_modules(algorithm):
                importlib.import_module(module)  # once, for all processes that will be killed
            spec = make_spec(framework, algorithm, options)
            diagnosis = {"mode": options.diagnosis}
            outcome = train_with_kills(
                spec, options.kills, rng, diagnosis, options.checkpoint_every, options.within
            )
            outcomes.append(outcome)
            steps = ", ".join("its start" if s is None else f"{s:,}" for s in outcome.resumed)
            row = [framework, algorithm, outcome.kills, steps, "yes" if outcome.same else "NO"]
            print(f"| {' | '.join(map(str, row))} |", *outcome.notes, flush=True)
    same = sum(outcome.kills for outcome in outcomes if outcome.same)
    total = sum(outcome.kills for outcome in outcomes)
    print(f"\n{same} of {total} kills are in trainings that ended byte-equal.")
    said = [step for outcome in outcomes for step in outcome.resumed]
    resumed = sum(step is not None for step in said)
    print(f"{resumed} of {len(said)} attempts after a kill resumed from a checkpoint.")
    return 0 if all(outcome.same for outcome in outcomes) else 1


def make_spec(framework: str, algorithm: str, options: argparse.Namespace, **more: Any) -> RunSpec:
    """Return a short training that updates, evaluates and ends episodes many times."""
    base = dataclasses.asdict(make_base_hyperparameters(framework, algorithm))
    values = {
        "study": "kills",
        "framework": framework,
        "algorithm": algorithm,
        "env": ENVS[ALGORITHMS[algorithm].actions],
        "hps": framework,
        "seed": 3,
        "steps": options.steps,
        "alignment": "exact",
        "eval_every": options.steps // 4,
        "eval_episodes": 2,
        "wrappers": options.wrappers,
        "n_envs": options.n_envs,
    }
    return make_run_spec(RUN_DEFAULTS | values | more, base, base)


def train_with_kills(
    spec: RunSpec,
    kills: int,
    rng: np.random.Generator,
    diagnosis: Mapping[str, Any],
    every: float | None,
    within: float | None = None,
) -> KillOutcome:
    """Train undisturbed and without diagnosis, then with kills, and compare.

    Args:
        spec: The training.
        kills: Processes to kill.
        rng: Generator of the times of the kills.
        diagnosis: Diagnosis settings of the trainings that are killed.
        every: Minutes between checkpoints; None chooses them by the training's duration.
        within: Longest time until a kill in seconds; None chooses it by the training's duration.
    """
    with tempfile.TemporaryDirectory() as scratch:
        whole, killed = Path(scratch) / "whole", Path(scratch) / "broken"
        prepared = initialize_training(spec, 0.0, whole)
        train_until_killed(prepared, whole, None)  # also loads modules for the second one
        record = read_run(whole).record
        assert record is not None and record.status == "completed", read_run(whole).reason
        seconds = record.timings.seconds or 1.0
        watched = dataclasses.replace(spec, diagnosis=diagnosis)
        prepared = initialize_training(watched, every or seconds / 60 / CHECKPOINTS, killed)
        done, resumed, notes = 0, [], []
        complete = False
        while not complete:
            longest = within or seconds / (kills + 1) * 2
            part = rng.uniform(0, longest) if done < kills else None
            done += train_until_killed(prepared, killed, part)
            reading = read_run(killed)
            complete = reading.complete
            # None for an attempt that was killed before it recorded where it resumed.
            resumed.append(reading.content.get("resumed_from"))
            notes += reading.content.get("resume_notes", ())
            assert complete or part is not None, reading.reason
        return KillOutcome(done, resumed[1:], read_result(whole) == read_result(killed), notes)


def initialize_training(spec: RunSpec, every: float, folder: Path) -> PreparedRun:
    """Return the run with its folder set up."""
    spec = dataclasses.replace(spec, checkpoint_every=every)
    prepared = prepare_run(spec, load_adapter(spec.framework))
    initialize_run(prepared, folder)
    return prepared


def train_until_killed(prepared: PreparedRun, folder: Path, seconds: float | None) -> bool:
    """Train in a process that is killed after some seconds; return whether it was."""
    child = os.fork()
    if child == 0:
        try:
            with RunLock.acquire(folder) as run_lock:
                redirect_output(folder)
                execute_run(prepared, load_adapter(prepared.spec.framework), RunFolder(run_lock))
        finally:
            os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def redirect_output(folder: Path) -> None:
    """Redirect the output of a process to a file beside the run."""
    log = os.open(folder.with_suffix(".txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(log, number)


def read_result(folder: Path) -> tuple[str | None, bytes, bytes]:
    """Return the hash of the weights, the evaluations and the trace."""
    record = read_run(folder).record
    digest = record.weights_sha256 if record else None
    files = [(folder / name).read_bytes() for name in ("evaluations.npz", "trace.parquet")]
    return digest, files[0], files[1]


if __name__ == "__main__":
    sys.exit(main())
