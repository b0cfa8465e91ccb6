"""The run folder: what is in it, how it is written, and when a run counts as complete."""

import json
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from harness.evaluation import Evaluation
from harness.files import json_writer
from harness.lease import Lease

SCHEMA = 1
_RESERVE = ".reserve"
_RESERVED_BYTES = 2**16
STATUSES = ("pending", "running", "completed", "failed", "interrupted")


class RunFolder:
    """Writes one run's files under its lease; holds what has not been written yet."""

    def __init__(self, lease: Lease) -> None:
        self.path = lease.folder
        self._lease = lease
        self._timesteps: list[int] = []
        self._returns: list[np.ndarray[Any, Any]] = []
        self._lengths: list[np.ndarray[Any, Any]] = []
        self._trace: list[tuple[int, str, float]] = []

    @property
    def evaluations(self) -> int:
        """Number of evaluations so far."""
        return len(self._timesteps)

    def clear(self) -> None:
        """Removes what an earlier attempt left."""
        for name in ("evaluations.npz", "trace.parquet", "progress.json", _RESERVE):
            self._lease.remove(name)

    def hold_room(self) -> None:
        """Takes what the last `run.json` will need, while there is room for it."""
        self._lease.write(_RESERVE, lambda file: file.write(bytes(_RESERVED_BYTES)))

    def release_room(self) -> None:
        """Gives it back, so that a full disk cannot keep the last status from being written."""
        self._lease.remove(_RESERVE)

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Adds values to the trace; `flush` writes them."""
        self._trace += [(step, name, value) for name, value in metrics.items()]

    def add_evaluation(self, step: int, evaluation: Evaluation) -> None:
        """Adds an evaluation and writes all files up to now."""
        self._timesteps.append(step)
        self._returns.append(evaluation.returns)
        self._lengths.append(evaluation.lengths)
        arrays: dict[str, Any] = {
            "timesteps": np.array(self._timesteps, dtype=np.int64),
            "results": np.stack(self._returns).astype(np.float32),
            "ep_lengths": np.stack(self._lengths).astype(np.int32),
        }
        self._lease.write("evaluations.npz", lambda file: np.savez(file, **arrays))
        self.flush()

    def flush(self) -> None:
        """Writes the trace."""
        steps, names, values = zip(*self._trace, strict=True) if self._trace else ((), (), ())
        table = pyarrow.table(
            {
                "step": pyarrow.array(steps, pyarrow.int64()),
                "metric": pyarrow.array(names, pyarrow.string()),
                "value": pyarrow.array(values, pyarrow.float64()),
            }
        )
        self._lease.write("trace.parquet", lambda file: pyarrow.parquet.write_table(table, file))

    def heartbeat(self, step: int, period: float) -> None:
        """Tells others how far the run is and in how many seconds they hear of it again."""
        content = {"step": step, "time": time.time(), "period": period}
        self._lease.write("progress.json", json_writer(content))

    def stop_heartbeat(self) -> None:
        """Removes what `heartbeat` wrote."""
        self._lease.remove("progress.json")

    def write_run(self, content: Mapping[str, Any]) -> None:
        """Writes `run.json`."""
        self._lease.write("run.json", json_writer(content))

    def update_run(self, **changes: Any) -> None:
        """Replaces top-level entries of `run.json`."""
        self.write_run(read_run(self.path) | changes)

    def begin_log(self, new: str) -> None:
        """Makes the file `new` the log and numbers the one of the last attempt."""
        count = sum(1 for _ in self.path.glob("log.*.txt"))
        self._lease.move("log.txt", f"log.{count + 1}.txt")
        self._lease.move(new, "log.txt")


def read_run(path: Path) -> dict[str, Any]:
    """The content of `run.json`.

    Raises:
        ValueError: The file is not valid.
        OSError: It cannot be read.
    """
    content = json.loads((path / "run.json").read_text())
    if not isinstance(content, dict):
        raise ValueError(f"{path / 'run.json'} holds no mapping")
    return content


def past_attempts(path: Path) -> list[dict[str, Any]]:
    """What became of earlier attempts at a run, the last one included if it ever started."""
    try:
        run = read_run(path)
        attempts: list[dict[str, Any]] = list(run.get("attempts", []))
        timings = run["timings"]
        if "started" not in timings:
            return attempts
        status = run["status"]
        last = {
            "status": "lost" if status == "running" else status,
            "failure": run["failure"],
            "steps": run["steps"]["taken"] or read_progress(path),
            "started": timings["started"],
            "ended": timings.get("ended"),
            "host": run.get("host"),
            "job": run.get("job"),
            "stopped_by": run.get("stopped_by"),
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return [*attempts, last]


def read_progress(path: Path) -> int:
    """Environment steps at the last heartbeat; 0 before the first."""
    try:
        return int(json.loads((path / "progress.json").read_text())["step"])
    except (OSError, ValueError, KeyError):
        return 0


def incompleteness(path: Path, run: Mapping[str, Any] | None = None) -> str | None:
    """Why a run does not count as complete, or None where it does.

    A run is complete when its status says so, its evaluations reach the last scheduled
    step, and every return is finite.

    Args:
        path: The run folder.
        run: The content of its `run.json`, where that has been read.
    """
    try:
        run = read_run(path) if run is None else run
    except (OSError, ValueError):
        return "no readable run.json"
    status = run.get("status")
    if status != "completed":
        return f"{status}: {run['failure']}" if run.get("failure") else str(status)
    try:
        with np.load(path / "evaluations.npz") as file:
            timesteps, returns = file["timesteps"], file["results"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        return f"evaluations.npz cannot be read: {error}"
    steps = run.get("steps")
    scheduled = steps.get("scheduled") if isinstance(steps, Mapping) else None
    if not len(timesteps) or timesteps[-1] != scheduled:
        return "the evaluations do not reach the last scheduled step"
    if not np.isfinite(returns).all():
        return "a return is not finite"
    return None
