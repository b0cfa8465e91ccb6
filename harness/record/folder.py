"""Writes one run's files, under its lock."""

import contextlib
import functools
import hashlib
import io
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from parallax.harness.record.checkpoints import CheckpointStore
from parallax.harness.record.completeness import RunReading
from parallax.harness.record.files import make_bytes_writer, make_json_writer, to_plain_json
from parallax.harness.record.layout import (
    CHECKPOINT_FOLDER,
    DIAGNOSIS_FILE,
    EVALUATIONS_FILE,
    LOG_FILE,
    LOGGER_FOLDERS,
    POLICY_FILE,
    PROGRESS_FILE,
    RUN_FILE,
    SCRIPT_DIFF_FILE,
    TRACE_FILE,
)
from parallax.harness.record.lock import (
    EXIT_LOCKED,
    LOCK_FOLDER,
    MAX_HEARTBEAT_PERIOD,
    FolderDeletedError,
    LockLostError,
    RunLock,
    read_heartbeat,
)
from parallax.harness.record.npz_files import StoredPolicy, pack_policy
from parallax.harness.record.reading import read_run
from parallax.harness.record.run_json import CHECKSUM_FIELD, SCHEMA, compute_checksum

if TYPE_CHECKING:
    from parallax.harness.record.trace import AppendFile, TraceWriter

LOG_PREFIX = ".log-"
"""Prefix of a log's name until the process that writes it owns the run."""

_RESERVE_FILE = ".reserve"
_RESERVED_BYTES = 2**16
# Of the time since the start: heartbeats are dense at first, and sparse in long runs.
_HEARTBEAT_SHARE = 0.02
_MIN_HEARTBEAT_PERIOD = 1.0  # seconds


class CheckpointExtras:
    """Further parts of a run's checkpoint, by name."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self._parts: dict[str, Any] = {}

    def add(self, name: str, part: Any) -> None:
        """Add an object with `state` and `load_state`; replace an object of the same name."""
        self._parts[name] = part

    def state(self) -> dict[str, Any]:
        """Return the states of all parts."""
        return {name: part.state() for name, part in self._parts.items()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the parts in the checkpoint."""
        for name, part in self._parts.items():
            if name in state:
                part.load_state(state[name])


class RunFolder:
    """Contents of one run's files, and their only writer while it owns the lock.

    Changes that others make to the files meanwhile have no effect: they are never read again.

    Attributes:
        checkpoint_extras: Parts of checkpoints that are not results: loggers' files, findings.
    """

    def __init__(self, lock: RunLock, content: Mapping[str, Any] | None = None) -> None:
        """Open a run folder for writing; nothing is written yet.

        Args:
            lock: The lock that allows writing it.
            content: New content of `run.json`; None for its current content.
        """
        self.path = lock.folder
        self.content = dict(read_run(lock.folder).content if content is None else content)
        self._lock = lock
        self._timesteps: list[int] = []
        self._returns: list[NDArray[Any]] = []
        self._lengths: list[NDArray[Any]] = []
        self._hashes: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self.checkpoints = CheckpointStore(lock)
        self.checkpoint_extras = CheckpointExtras()

    # pyarrow takes as long to load as a run takes to set up, and only trainings need it.
    @functools.cached_property
    def _trace(self) -> "TraceWriter":
        from parallax.harness.record.trace import TraceWriter

        return TraceWriter(self._lock.staging)

    @property
    def evaluations(self) -> int:
        """Number of evaluations so far."""
        return len(self._timesteps)

    def clear(self) -> None:
        """Remove the files of an earlier attempt, except its checkpoints and findings."""
        links = [name for name in LOGGER_FOLDERS if (self.path / name).is_symlink()]
        for name in (EVALUATIONS_FILE, TRACE_FILE, POLICY_FILE, *links):
            self._lock.remove(name)
        self._remove_leftovers(CHECKPOINT_FOLDER)

    def write_script_diff(self, diff: str) -> None:
        """Write the differences of a user's own script from the one that it replaces."""
        self._lock.write(SCRIPT_DIFF_FILE, make_bytes_writer(diff.encode()))

    def tidy(self) -> None:
        """Remove the files that only a running process needs, and none of a complete run."""
        self._remove_leftovers()

    def _remove_leftovers(self, *spared: str) -> None:
        for name in list_leftovers(self.path):
            if not name.startswith(LOCK_FOLDER) and name not in spared:  # `RunLock` removes its own
                self._lock.remove(name)

    def state(self) -> dict[str, Any]:
        """Return evaluations and trace so far, as plain values and arrays."""
        return {
            "timesteps": list(self._timesteps),
            "returns": [np.array(returns) for returns in self._returns],
            "lengths": [np.array(lengths) for lengths in self._lengths],
            "trace": self._trace.state(),
            "beside": self.checkpoint_extras.state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Replace evaluations and trace by those in `state`."""
        self._trace.close()
        del self._trace
        self._timesteps = list(state["timesteps"])
        self._returns, self._lengths = list(state["returns"]), list(state["lengths"])
        self._trace.load_state(state["trace"])
        self.checkpoint_extras.load_state(state.get("beside", {}))
        if self._timesteps:
            self._write_evaluations()

    def discard_results(self) -> None:
        """Discard evaluations and trace, to start again."""
        self._timesteps, self._returns, self._lengths = [], [], []
        self._trace.close()
        del self._trace
        self._hashes.clear()
        self._sizes.clear()
        self._lock.remove(EVALUATIONS_FILE)

    def rename_damaged_files(self) -> None:
        """Rename the files of a damaged run, so that they can still be repaired."""
        for name in (RUN_FILE, EVALUATIONS_FILE, TRACE_FILE, POLICY_FILE):
            taken = {path.name for path in self.path.glob(f"{name}.damaged*")}
            free = (f"{name}.damaged{number or ''}" for number in itertools.count())
            self._lock.move(name, next(new for new in free if new not in taken))

    def reserve_space(self) -> None:
        """Reserve disk space for the last `run.json`, while there is room for it."""
        self._lock.write(_RESERVE_FILE, make_bytes_writer(bytes(_RESERVED_BYTES)))

    def release_space(self) -> None:
        """Release the reserved space, so that the last status can be written on a full disk."""
        self._lock.remove(_RESERVE_FILE)

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add values to the trace; `flush` writes them."""
        self._trace.record(step, metrics)

    def add_evaluation(self, step: int, returns: NDArray[Any], lengths: NDArray[Any]) -> None:
        """Add an evaluation and write all files up to now.

        Args:
            step: Environment steps taken.
            returns: float[episodes].
            lengths: int[episodes].
        """
        self._timesteps.append(step)
        self._returns.append(returns)
        self._lengths.append(lengths)
        self._write_evaluations()
        self.flush()

    def _write_evaluations(self) -> None:
        file = io.BytesIO()
        np.savez(
            file,
            timesteps=np.array(self._timesteps, dtype=np.int64),
            results=np.stack(self._returns).astype(np.float32),
            ep_lengths=np.stack(self._lengths).astype(np.int32),
        )
        self._write_guarded(EVALUATIONS_FILE, file.getvalue())

    def flush(self) -> None:
        """Append new values to the file of the trace."""
        self._trace.append()

    def finish_trace(self) -> None:
        """Write the whole trace as one Parquet file."""
        self._trace.append()
        self._trace.close()
        file = io.BytesIO()
        self._trace.write_parquet(file)
        self._write_guarded(TRACE_FILE, file.getvalue())

    def save_policy(self, policy: StoredPolicy) -> None:
        """Write the policy that the run has learned."""
        self._write_guarded(POLICY_FILE, pack_policy(policy))

    def remove_diagnosis(self) -> None:
        """Remove the findings of an attempt whose steps are repeated, and loggers' files."""
        for name in (DIAGNOSIS_FILE, *LOGGER_FOLDERS):
            self._lock.remove(name)

    def open_append_file(self, name: str, resumes: bool) -> "AppendFile":
        """Open a file that others can read while it grows; see `AppendFile`."""
        from parallax.harness.record.trace import AppendFile

        return AppendFile(self._lock, name, resumes)

    def save_diagnosis(self, report: Mapping[str, Any]) -> None:
        """Write the current report of the diagnosis, which is not part of the results."""
        self._lock.write(DIAGNOSIS_FILE, make_json_writer(report))

    def write_heartbeat(self, step: int, period: float) -> None:
        """Publish the progress of the run and the seconds until the next heartbeat."""
        beat = {"step": step, "time": time.time(), "period": period}
        self._lock.write(PROGRESS_FILE, make_json_writer(beat | self._list_resumption_fields()))

    def _list_resumption_fields(self) -> dict[str, int]:
        """Return the step from which this attempt resumed, and the number of resumptions."""
        step = self.content.get("resumed_from")
        if step is None:
            return {}
        past = self.content.get("attempts", ())
        earlier = sum(attempt.get("resumed_from") is not None for attempt in past)
        return {"resumed_from": step, "resumptions": earlier + 1}

    def remove_heartbeat(self) -> None:
        """Remove the file of `write_heartbeat`."""
        self._lock.remove(PROGRESS_FILE)

    def update_run(self, **changes: Any) -> None:
        """Replace top-level entries of `run.json` and write it."""
        own = {"schema": SCHEMA, "files": self._hashes, "sizes": self._sizes}
        content = self.content | changes | own
        content.pop(CHECKSUM_FIELD, None)
        # Encoded and decoded first: the hash must be of the values that a reader will see.
        content = msgspec.json.decode(msgspec.json.encode(to_plain_json(content)))
        content[CHECKSUM_FIELD] = compute_checksum(content)
        self._lock.write(RUN_FILE, make_json_writer(content))
        self.content = content

    def begin_log(self, new: str) -> None:
        """Make the file `new` the log and number the one of the last attempt."""
        numbers = [path.name.split(".")[1] for path in self.path.glob("log.*.txt")]
        last = max((int(number) for number in numbers if number.isdecimal()), default=0)
        self._lock.move(LOG_FILE, f"log.{last + 1}.txt")
        self._lock.move(new, LOG_FILE)

    def _write_guarded(self, name: str, content: bytes) -> None:
        self._lock.write(name, make_bytes_writer(content))
        self._hashes[name] = hashlib.sha256(content).hexdigest()
        self._sizes[name] = len(content)


def list_leftovers(folder: Path) -> list[str]:
    """Return the names of files that killed processes left in a run folder."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError:
        return []
    passing = (_RESERVE_FILE, PROGRESS_FILE, CHECKPOINT_FOLDER)
    begins = (LOG_PREFIX, LOCK_FOLDER)
    return [name for name in names if name in passing or name.startswith(begins)]


def collect_attempts(reading: RunReading) -> list[dict[str, Any]]:
    """Return the earlier attempts at a run, the last one included if it ever started."""
    record = reading.record
    if record is None:
        return []
    attempts: list[dict[str, Any]] = [msgspec.to_builtins(attempt) for attempt in record.attempts]
    if record.timings.started is None:
        return attempts
    beat = read_heartbeat(reading.folder)
    last = {
        "status": "lost" if record.status == "running" else record.status,
        "failure": record.failure,
        "steps": record.steps.taken or (beat.step if beat else 0),
        "started": record.timings.started,
        "ended": record.timings.ended,
        "host": record.host,
        "job": record.job,
        "stopped_by": record.stopped_by,
        "resumed_from": record.resumed_from,
    }
    return [*attempts, last]


class HeartbeatWriter:
    """Writes `progress.json` from a separate thread, whatever the training does."""

    def __init__(self, folder: RunFolder, steps: Callable[[], int]) -> None:
        """Create the thread without starting it."""
        self._folder = folder
        self._steps = steps
        self._begun = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_over, daemon=True)

    def __enter__(self) -> "HeartbeatWriter":
        """Write one heartbeat now, then more of them regularly."""
        self._beat()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the thread and remove the heartbeat."""
        self._over.set()
        self._thread.join()
        with contextlib.suppress(OSError, LockLostError):
            self._folder.remove_heartbeat()

    def _beat_until_over(self) -> None:
        while not self._over.wait(self._period()):
            try:
                self._beat()
            except LockLostError as error:
                self._end_process(str(error), EXIT_LOCKED)
            except FolderDeletedError as error:
                self._end_process(str(error.strerror), 1)

    def _end_process(self, why: str, code: int) -> None:
        # The training may be in code that cannot be interrupted. It can no longer write, so
        # nothing needs to be cleaned up.
        print(f"Ended: {why}.", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(code)

    def _beat(self) -> None:
        try:
            self._folder.write_heartbeat(self._steps(), self._period())
        except FolderDeletedError:
            raise
        except OSError:
            return  # a full disk: writing the evaluations will raise

    def _period(self) -> float:
        share = (time.monotonic() - self._begun) * _HEARTBEAT_SHARE
        return min(max(share, _MIN_HEARTBEAT_PERIOD), MAX_HEARTBEAT_PERIOD)
