"""What each run is doing: its folder first, then what Slurm says."""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from harness.holder import read_beat
from harness.lease import read_holder
from harness.recording import incompleteness, read_progress, read_run
from slurm.listings import Job

STATES = {
    "completed": "status, evaluations and returns are as they must be",
    "running": "a process holds the run and its heart beats",
    "queued": "Slurm has a job for it",
    "pending": "set up, but no job has it",
    "interrupted": "stopped from outside, and no job has it",
    "timeout": "stopped at the time limit, and no job has it",
    "failed": "ended with an error",
    "lost": "the folder says running, but no process and no job has it",
    "broken": "a file is missing, truncated or not finite",
}
ALIVE = ("running", "queued")
OPEN = tuple(state for state in STATES if state not in (*ALIVE, "completed"))


@dataclasses.dataclass(frozen=True)
class RunState:
    """One run.

    Attributes:
        folder: Its folder.
        state: A key of `STATES`.
        study: Name of its study.
        framework: Name of its framework.
        algorithm: Name of its algorithm.
        env: Name of its task.
        hps: Name of its recipe.
        seed: Training seed; -1 where it is not known.
        step: Environment steps so far.
        steps: Environment steps that are due.
        rate: Steps per second of a run that is going on; None where it is not known.
        reason: Why it is not complete, in a line; empty where there is nothing to say.
        job: Slurm's job that has or had it last.
    """

    folder: Path
    state: str
    study: str = "?"
    framework: str = "?"
    algorithm: str = "?"
    env: str = "?"
    hps: str = "?"
    seed: int = -1
    step: int = 0
    steps: int = 0
    rate: float | None = None
    reason: str = ""
    job: str | None = None

    @property
    def title(self) -> str:
        """Short name for people."""
        return f"{self.framework} {self.algorithm} {self.env} {self.hps} seed={self.seed}"


def assess(folder: Path, job: Job | None) -> RunState:
    """The state of one run.

    Args:
        folder: The run folder.
        job: What Slurm says of the last job it was submitted with; None for nothing.
    """
    try:
        run = read_run(folder)
        known = _known(folder, run)
        state, reason = _judge(folder, run, job)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return RunState(folder, "broken", *_from_path(folder), reason="no readable run.json")
    if state == "running":
        known |= _progress(folder, run)
    job_id = job.job_id if job else run.get("job")
    return RunState(folder, state, **known, reason=reason, job=job_id)


def _judge(folder: Path, run: dict[str, Any], job: Job | None) -> tuple[str, str]:
    status, failure = run["status"], (run["failure"] or "").strip().partition("\n")[0]
    if status == "completed":
        reason = incompleteness(folder)
        return ("broken", reason) if reason else ("completed", "")
    holder = read_holder(folder)
    if holder is not None and holder.is_alive(folder):
        return "running", ""
    if status == "failed":
        return "failed", failure
    if job is not None and job.is_alive:
        return "queued", f"job {job.job_id} is {job.state}"
    end = f"Slurm says {job.state}" if job else ""
    if status == "running":
        if job is not None and job.state == "TIMEOUT":
            return "timeout", end
        beat = read_beat(folder)[0]
        silent = f"silent for {_span(time.time() - beat)}" if beat else "silent"
        return "lost", f"{silent}; {end}" if end else silent
    if status == "interrupted":
        return ("timeout" if run.get("stopped_by") == "time limit" else status), failure
    if status == "pending":
        return "pending", end
    return "broken", f"run.json has the unknown status {status!r}"


def _known(folder: Path, run: dict[str, Any]) -> dict[str, Any]:
    names = ("study", "framework", "algorithm", "env", "hps", "seed")
    steps = run["steps"]
    return {name: run["spec"][name] for name in names} | {
        "step": steps["taken"] or read_progress(folder),
        "steps": steps["scheduled"],
    }


def _progress(folder: Path, run: dict[str, Any]) -> dict[str, Any]:
    try:
        beat = json.loads((folder / "progress.json").read_text())
        seconds = beat["time"] - run["timings"]["started"]
        return {"step": beat["step"], "rate": beat["step"] / seconds if seconds > 0 else None}
    except (OSError, ValueError, KeyError):
        return {}  # it has just started or just ended


def _from_path(folder: Path) -> tuple[str, str, str, str, str]:
    study, env, algorithm, hps, framework = (("?",) * 7 + folder.parts)[-7:-2]
    return study, framework, algorithm, env, hps


def _span(seconds: float) -> str:
    minutes = int(seconds) // 60
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
