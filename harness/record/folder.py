"""Writes one run's files, under its lease."""

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
from types import TracebackType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.record.checkpoints import Checkpoints
from harness.record.files import bytes_writer, json_writer, plain_json
from harness.record.growing import GrowingFile, Together
from harness.record.layout import (
    CHECKPOINT_FOLDER,
    DIAGNOSIS_FILE,
    EVALUATIONS_FILE,
    LOG_FILE,
    LOGGER_FOLDERS,
    POLICY_FILE,
    PROGRESS_FILE,
    RUN_FILE,
    TRACE_FILE,
)
from harness.record.lease import (
    EXIT_NOT_MINE,
    LEASE_FOLDER,
    LONGEST_PERIOD,
    FolderGone,
    Lease,
    LeaseLost,
    read_beat,
)
from harness.record.policy import StoredPolicy, pack
from harness.record.reading import Reading, read_run
from harness.record.run_json import CHECKSUM, SCHEMA, checksum
from harness.record.trace import TraceWriter

LOG_PREFIX = ".log-"
"""How the name of a log begins until the run is that of the process that writes it."""

_RESERVE = ".reserve"
_RESERVED_BYTES = 2**16
_SHARE = 0.02  # of the time since the start: heartbeats are dense at first, sparse in long runs
_SHORTEST_PERIOD = 1.0  # seconds


class RunFolder:
    """Holds what one run's files say, and writes it; it has the only say while it holds the lease.

    What others do to the files meanwhile changes nothing: they are never read again.

    Attributes:
        beside: What goes into checkpoints and is no result: loggers' files, findings.
    """

    def __init__(self, lease: Lease, content: Mapping[str, Any] | None = None) -> None:
        """Takes a run folder up.

        Args:
            lease: The right to write it.
            content: What `run.json` is to say; None is what it says. Nothing is written yet.
        """
        self.path = lease.folder
        self.content = dict(read_run(lease.folder).content if content is None else content)
        self._lease = lease
        self._timesteps: list[int] = []
        self._returns: list[NDArray[Any]] = []
        self._lengths: list[NDArray[Any]] = []
        self._hashes: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self.checkpoints = Checkpoints(lease)
        self.beside = Together()

    @functools.cached_property
    def _trace(self) -> TraceWriter:
        return TraceWriter(self._lease.staging)

    @property
    def evaluations(self) -> int:
        """Number of evaluations so far."""
        return len(self._timesteps)

    def clear(self) -> None:
        """Removes what an earlier attempt left, but the checkpoints and what was found by then."""
        for name in (EVALUATIONS_FILE, TRACE_FILE, POLICY_FILE):
            self._lease.remove(name)
        self._tidy(CHECKPOINT_FOLDER)

    def tidy(self) -> None:
        """Removes what only a living process needs; nothing that a complete run consists of."""
        self._tidy()

    def _tidy(self, *spared: str) -> None:
        for name in leftovers(self.path):
            if not name.startswith(LEASE_FOLDER) and name not in spared:  # the lease goes by itself
                self._lease.remove(name)

    def state(self) -> dict[str, Any]:
        """Evaluations and trace so far, as plain values and arrays."""
        return {
            "timesteps": list(self._timesteps),
            "returns": [np.array(returns) for returns in self._returns],
            "lengths": [np.array(lengths) for lengths in self._lengths],
            "trace": self._trace.state(),
            "beside": self.beside.state(),
        }

    def lay_in(self, state: Mapping[str, Any]) -> None:
        """Goes on from the evaluations and the trace that `state` told of, and no others."""
        self._trace.close()
        del self._trace
        self._timesteps = list(state["timesteps"])
        self._returns, self._lengths = list(state["returns"]), list(state["lengths"])
        self._trace.lay_in(state["trace"])
        self.beside.lay_in(state.get("beside", {}))
        if self._timesteps:
            self._write_evaluations()

    def forget(self) -> None:
        """Begins anew, without evaluations and trace."""
        self._timesteps, self._returns, self._lengths = [], [], []
        self._trace.close()
        del self._trace
        self._hashes.clear()
        self._sizes.clear()
        self._lease.remove(EVALUATIONS_FILE)

    def set_aside(self) -> None:
        """Keeps the files of a damaged run under other names, should somebody mend them."""
        for name in (RUN_FILE, EVALUATIONS_FILE, TRACE_FILE, POLICY_FILE):
            taken = {path.name for path in self.path.glob(f"{name}.damaged*")}
            free = (f"{name}.damaged{number or ''}" for number in itertools.count())
            self._lease.move(name, next(new for new in free if new not in taken))

    def hold_room(self) -> None:
        """Takes what the last `run.json` will need, while there is room for it."""
        self._lease.write(_RESERVE, bytes_writer(bytes(_RESERVED_BYTES)))

    def release_room(self) -> None:
        """Gives it back, so that a full disk cannot keep the last status from being written."""
        self._lease.remove(_RESERVE)

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Adds values to the trace; `flush` appends them to what is there."""
        self._trace.record(step, metrics)

    def add_evaluation(self, step: int, returns: NDArray[Any], lengths: NDArray[Any]) -> None:
        """Adds an evaluation and writes all files up to now.

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
        """Appends to the trace what is new."""
        self._trace.append()

    def finish_trace(self) -> None:
        """Makes one file of the trace."""
        self._trace.append()
        self._trace.close()
        file = io.BytesIO()
        self._trace.write_parquet(file)
        self._write_guarded(TRACE_FILE, file.getvalue())

    def keep_policy(self, policy: StoredPolicy) -> None:
        """Writes what the run has learned."""
        self._write_guarded(POLICY_FILE, pack(policy))

    def forget_diagnosis(self) -> None:
        """Removes what was found by an attempt whose steps are taken anew, and loggers' files."""
        for name in (DIAGNOSIS_FILE, *LOGGER_FOLDERS):
            self._lease.remove(name)

    def growing(self, name: str, resumes: bool) -> GrowingFile:
        """A file that others read while it grows; see `GrowingFile`."""
        return GrowingFile(self._lease, name, resumes)

    def keep_diagnosis(self, report: Mapping[str, Any]) -> None:
        """Writes what the diagnosis has found by now; no result is made of it."""
        self._lease.write(DIAGNOSIS_FILE, json_writer(report))

    def heartbeat(self, step: int, period: float) -> None:
        """Tells others how far the run is and in how many seconds they hear of it again."""
        beat = {"step": step, "time": time.time(), "period": period} | self._went_on()
        self._lease.write(PROGRESS_FILE, json_writer(beat))

    def _went_on(self) -> dict[str, int]:
        """From which step this attempt went on, and how often one did."""
        step = self.content.get("resumed_from")
        if step is None:
            return {}
        past = self.content.get("attempts", ())
        earlier = sum(attempt.get("resumed_from") is not None for attempt in past)
        return {"resumed_from": step, "resumptions": earlier + 1}

    def stop_heartbeat(self) -> None:
        """Removes what `heartbeat` wrote."""
        self._lease.remove(PROGRESS_FILE)

    def update_run(self, **changes: Any) -> None:
        """Replaces top-level entries of `run.json` and writes it."""
        content = (
            self.content | changes | {"schema": SCHEMA, "files": self._hashes, "sizes": self._sizes}
        )
        content.pop(CHECKSUM, None)
        # Through the encoder and back, so that the hash is of what a reader will see.
        content = msgspec.json.decode(msgspec.json.encode(plain_json(content)))
        content[CHECKSUM] = checksum(content)
        self._lease.write(RUN_FILE, json_writer(content))
        self.content = content

    def begin_log(self, new: str) -> None:
        """Makes the file `new` the log and numbers the one of the last attempt."""
        numbers = [path.name.split(".")[1] for path in self.path.glob("log.*.txt")]
        last = max((int(number) for number in numbers if number.isdecimal()), default=0)
        self._lease.move(LOG_FILE, f"log.{last + 1}.txt")
        self._lease.move(new, LOG_FILE)

    def _write_guarded(self, name: str, content: bytes) -> None:
        self._lease.write(name, bytes_writer(content))
        self._hashes[name] = hashlib.sha256(content).hexdigest()
        self._sizes[name] = len(content)


def leftovers(folder: Path) -> list[str]:
    """Names in a run folder that processes which are killed leave behind; none in a tidy one."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError:
        return []
    passing = (_RESERVE, PROGRESS_FILE, CHECKPOINT_FOLDER)
    begins = (LOG_PREFIX, LEASE_FOLDER)
    return [name for name in names if name in passing or name.startswith(begins)]


def past_attempts(reading: Reading) -> list[dict[str, Any]]:
    """What became of earlier attempts at a run, the last one included if it ever started."""
    record = reading.record
    if record is None:
        return []
    attempts: list[dict[str, Any]] = [msgspec.to_builtins(attempt) for attempt in record.attempts]
    if record.timings.started is None:
        return attempts
    beat = read_beat(reading.folder)
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


class Heartbeat:
    """Writes `progress.json` from a thread of its own, whatever the training does."""

    def __init__(self, folder: RunFolder, steps: Callable[[], int]) -> None:
        """Does not start yet.

        Args:
            folder: The run folder.
            steps: Environment steps so far.
        """
        self._folder = folder
        self._steps = steps
        self._begun = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_over, daemon=True)

    def __enter__(self) -> "Heartbeat":
        """Beats once, then regularly."""
        self._beat()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops."""
        self._over.set()
        self._thread.join()
        with contextlib.suppress(OSError, LeaseLost):
            self._folder.stop_heartbeat()

    def _beat_until_over(self) -> None:
        while not self._over.wait(self._period()):
            try:
                self._beat()
            except LeaseLost as error:
                self._end(str(error), EXIT_NOT_MINE)
            except FolderGone as error:
                self._end(str(error.strerror), 1)

    def _end(self, why: str, code: int) -> None:
        # The training may be deep in code that knows nothing of this. It can write no more, so
        # there is nothing to tidy up.
        print(f"Ended: {why}.", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(code)

    def _beat(self) -> None:
        try:
            self._folder.heartbeat(self._steps(), self._period())
        except FolderGone:
            raise
        except OSError:
            return  # a full disk: the evaluations will tell

    def _period(self) -> float:
        share = (time.monotonic() - self._begun) * _SHARE
        return min(max(share, _SHORTEST_PERIOD), LONGEST_PERIOD)
