"""Writes all signals of a training immediately to the files of other tools."""

import importlib
import importlib.util
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from parallax.harness.contract.events import (
    EpisodeEnd,
    EvaluationResult,
    ReportedMetrics,
    TrainingEnd,
    TrainingEvents,
)
from parallax.harness.contract.fields import SpecError
from parallax.harness.record.folder import RunFolder
from parallax.harness.record.lock import FolderDeletedError, LockLostError

LOGGER_PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb"}
"""Package that each logger needs; both are optional extras of this project."""

# TensorBoard reads files with `tfevents` in their name (`io_wrapper.IsTensorFlowEventsFile`).
EVENTS_FILE = "events.out.tfevents.0.parallax"
_MAX_BUFFERED_VALUES = 50_000


class LogSink(Protocol):
    """Target that values are written to, and that a resumed run continues."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Write values of one step."""

    def state(self) -> Any:
        """Return the state for a checkpoint; values logged until now are never discarded later."""

    def load_state(self, state: Any) -> None:
        """Continue from a state; discard what was logged since the start of this attempt."""

    def close(self, ended: bool) -> None:
        """Flush to disk; `ended` is whether the training is over."""


def check_logger_installed(logger: str) -> None:
    """Check that the package of a logger is installed.

    Raises:
        SpecError: It is not; says how to install it.
    """
    package = LOGGER_PACKAGES.get(logger)
    if package and importlib.util.find_spec(package) is None:
        raise SpecError(
            f"logger={logger} needs the package {package}, which is not installed: "
            f'python -m pip install "parallax-drl[{logger}]", or logger=none.'
        )


class TrainingLogger:
    """Passes the values of one training to a sink; they are not part of the results."""

    def __init__(self, sink: LogSink, events: TrainingEvents, say: Callable[[str], None]) -> None:
        """Subscribe to a training; if the sink fails, call `say` once and training goes on."""
        self._sink: LogSink | None = sink
        self._events, self._say = events, say
        events.subscribe(EpisodeEnd, self._write_episode)
        events.subscribe(ReportedMetrics, lambda event: self._write(event.values))
        events.subscribe(EvaluationResult, self._write_evaluation)
        events.subscribe(TrainingEnd, lambda _: self.close(ended=True))

    def log_signal(self, step: int, name: str, value: float) -> None:
        """Log a signal of the diagnosis."""
        self._write({f"diagnosis/{name}": value})

    def state(self) -> Any:
        """Return the state for a checkpoint; None where the sink has failed."""
        return self._call_sink(lambda sink: sink.state())

    def load_state(self, state: Any) -> None:
        """Continue from a checkpoint."""
        self._call_sink(lambda sink: sink.load_state(state))

    def close(self, ended: bool = False) -> None:
        """Close the sink; nothing is written after that."""
        try:
            self._call_sink(lambda sink: sink.close(ended))
        finally:
            self._sink = None

    def _write_episode(self, end: EpisodeEnd) -> None:
        self._write({"episode/return": end.episode_return, "episode/length": float(end.length)})

    def _write_evaluation(self, evaluation: EvaluationResult) -> None:
        values = {"evaluation/return": float(np.mean(evaluation.returns))}
        self._write(values | {"evaluation/length": float(np.mean(evaluation.lengths))})

    def _write(self, values: Mapping[str, float]) -> None:
        self._call_sink(lambda sink: sink.write(self._events.steps, values))

    def _call_sink(self, call: Callable[[LogSink], Any]) -> Any:
        """Return what the sink returns; None once it has failed or was closed."""
        try:
            return call(self._sink) if self._sink is not None else None
        except (LockLostError, FolderDeletedError):
            raise
        except Exception as error:  # an error of another tool must not end a training
            self._sink = None
            self._say(f"The logger failed and stops writing: {type(error).__name__}: {error}")
            return None


def start_logging(
    logger: str,
    folder: RunFolder,
    events: TrainingEvents,
    say: Callable[[str], None],
    resumes: bool,
) -> TrainingLogger | None:
    """Start logging a training below its folder; return None if no logger is configured."""
    if logger == "none":
        return None
    kind = _TensorBoardSink if logger == "tensorboard" else _WandbSink
    try:
        sink: LogSink = kind(folder, resumes)
    except (LockLostError, FolderDeletedError):
        raise
    except Exception as error:
        say(f"logger={logger} cannot begin: {type(error).__name__}: {error}")
        return None
    logging = TrainingLogger(sink, events, say)
    folder.checkpoint_extras.add(logger, logging)
    return logging


class _TensorBoardSink:
    """An event file in TensorBoard's format, written without TensorBoard."""

    def __init__(self, folder: RunFolder, resumes: bool) -> None:
        record_writer = importlib.import_module("tensorboard.summary.writer.record_writer")
        self._event = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
        self._summary = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
        self._file = folder.open_append_file(f"tensorboard/{EVENTS_FILE}", resumes)
        self._writer = record_writer.RecordWriter(self._file)
        if not resumes:
            self._write_version()

    def write(self, step: int, values: Mapping[str, float]) -> None:
        scalars = [self._summary.Value(tag=name, simple_value=v) for name, v in values.items()]
        summary = self._summary(value=scalars)
        self._write_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def _write_version(self) -> None:
        # First record of every event file (tensorboard, `event_file_writer.EventFileWriter`).
        self._write_event(self._event(wall_time=time.time(), file_version="brain.Event:2"))

    def _write_event(self, event: Any) -> None:
        self._writer.write(event.SerializeToString())

    def state(self) -> int:
        return self._file.state()

    def load_state(self, state: Any) -> None:
        self._file.load_state(state or 0)
        if not state:
            self._write_version()

    def close(self, ended: bool) -> None:
        self._file.close()


class _WandbSink:
    """Offline files, which a user can upload with `wandb sync`; this class uploads nothing.

    These files cannot be truncated. Values are buffered until a checkpoint contains them, so that
    a run that is killed and resumed logs no value twice; if there are too many to buffer, they are
    written immediately. A resumed run has the same id, but another folder.
    """

    def __init__(self, folder: RunFolder, resumes: bool) -> None:
        wandb: Any = importlib.import_module("wandb")
        known = sorted(folder.path.glob("wandb/offline-run-*-*")) if resumes else []
        self._buffered_values: list[tuple[int, dict[str, float]]] = []
        self._has_checkpoint = resumes
        self._run = wandb.init(
            project="parallax",
            id=known[-1].name.rpartition("-")[2] if known else None,
            name="/".join(folder.path.parts[-6:]),
            dir=str(folder.path),
            mode="offline",
            settings=wandb.Settings(n_without_record=True, console="off"),
        )
        # wandb's own step counts calls of `log`; charts use ours instead.
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._buffered_values.append((step, dict(values)))
        if len(self._buffered_values) > _MAX_BUFFERED_VALUES:
            self._flush_values()

    def state(self) -> None:
        self._has_checkpoint = True
        self._flush_values()

    def load_state(self, state: Any) -> None:
        self._buffered_values.clear()

    def close(self, ended: bool) -> None:
        if ended or not self._has_checkpoint:  # else the steps since the checkpoint are repeated
            self._flush_values()
        self._run.finish()

    def _flush_values(self) -> None:
        for step, values in self._buffered_values:
            self._run.log({**values, "step": step})
        self._buffered_values.clear()
