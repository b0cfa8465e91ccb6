"""Tries one step of everything that differs between runs, before anything is queued."""

import dataclasses
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import joblib
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from harness.fields import SpecError
from harness.interpreter import lend_project
from harness.process import THREAD_VARIABLES
from harness.run import initialize
from harness.run_spec import RunSpec
from harness.sweep import prepare_all


def preflight(specs: Sequence[RunSpec], processes: int = -1) -> int:
    """Takes one step with each distinct framework, algorithm, task and hyperparameters.

    Args:
        specs: Runs that have passed all other checks.
        processes: How many to use; -1 is one per core.

    Returns:
        Number of settings that were tried.

    Raises:
        SpecError: Some could not take a step; names each with its error.
    """
    trials = list(dict.fromkeys(_shorten(spec) for spec in specs))
    with tempfile.TemporaryDirectory(prefix="parallax-preflight-") as scratch:
        folders = {}
        for prepared in prepare_all(trials):
            folder = prepared.spec.folder(Path(scratch))
            initialize(prepared, folder)
            folders[str(folder)] = prepared.spec
        failures = _try_all(folders, joblib.effective_n_jobs(processes))
    if failures:
        lines = [f"  {folders[name].title}: {text}" for name, text in failures.items()]
        raise SpecError(
            f"{len(failures)} of {len(trials)} settings cannot take a single step, so nothing was "
            "queued:\n" + "\n".join(lines)
        )
    return len(trials)


def _shorten(spec: RunSpec) -> RunSpec:
    # PPO trains by whole rollouts; nothing shorter runs.
    steps = getattr(spec.hyperparameters, "rollout_steps", 1) * spec.n_envs
    return dataclasses.replace(
        spec,
        study="preflight",
        seed=0,
        steps=steps,
        eval_every=steps,
        eval_episodes=1,
        evaluation_seed=0,
    )


def _try_all(folders: dict[str, RunSpec], processes: int) -> dict[str, str]:
    """What failed, by folder."""
    failures: dict[str, str] = {}
    chunks: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
    for chunk in _chunks(folders, processes):
        chunks.put(chunk)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task("Trying one step of each setting", total=len(folders))

        def work() -> None:
            while True:
                try:
                    chunk = chunks.get_nowait()
                except queue.Empty:
                    return
                for name, failure in _try_chunk(chunk, folders[chunk[0]]):
                    progress.advance(task)
                    if failure:
                        failures[name] = failure

        threads = [threading.Thread(target=work) for _ in range(processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return failures


def _chunks(folders: dict[str, RunSpec], processes: int) -> list[list[str]]:
    """Settings that share a process: loading a framework takes longer than a step."""
    groups: dict[tuple[str, str | None, int], list[str]] = {}
    for name, spec in folders.items():
        groups.setdefault((spec.framework, spec.python, spec.threads), []).append(name)
    size = max(4, min(12, len(folders) // (2 * processes)))
    return [
        names[start : start + size]
        for names in groups.values()
        for start in range(0, len(names), size)
    ]


def _try_chunk(names: list[str], spec: RunSpec) -> list[tuple[str, str | None]]:
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(spec.threads))
    if spec.python:
        environment = lend_project(environment)
    command = [spec.python or sys.executable, "-m", "slurm.preflight_worker", *names]
    process = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    told = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    outcomes = {line["folder"]: line["failure"] for line in told}
    last = (process.stderr.strip().splitlines() or ["it ended without a word"])[-1]
    # Where one run took the process with it, those behind it were not tried.
    return [(name, outcomes.get(name, f"not tried or ended the process: {last}")) for name in names]
