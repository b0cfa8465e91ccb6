"""Writes all signals of a training as they come, in the files of other tools."""

import importlib
import importlib.util
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from harness.contract.events import End, EpisodeEnd, Evaluation, Events, Metrics
from harness.contract.fields import SpecError
from harness.record.folder import RunFolder
from harness.record.lease import FolderGone, LeaseLost

PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb"}
"""What each kind of file needs; both are optional extras of this project."""

EVENTS_FILE = "events.out.tfevents.0.parallax"
_HELD = 50_000


class Sink(Protocol):
    """Something that values are written to, and that a resumed run goes on with."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Writes values of one step."""

    def state(self) -> Any:
        """For a checkpoint: what is told by now is kept from then on."""

    def lay_in(self, state: Any) -> None:
        """Goes on from there; what was told since the start of this attempt does not count."""

    def close(self, ended: bool) -> None:
        """Makes sure that all is on the disk; `ended` is whether the training is over."""


def check_logger(logger: str) -> None:
    """Makes sure that what a logger needs is installed.

    Raises:
        SpecError: It is not; says how to install it.
    """
    package = PACKAGES.get(logger)
    if package and importlib.util.find_spec(package) is None:
        raise SpecError(
            f"logger={logger} needs the package {package}, which is not installed: "
            f'python -m pip install "parallax-rl[{logger}]", or logger=none.'
        )


class Logging:
    """One training's values on their way to a sink; no result is made of them."""

    def __init__(self, sink: Sink, events: Events, say: Callable[[str], None]) -> None:
        """Joins a training.

        Args:
            sink: What writes.
            events: Of the training.
            say: Told once where the sink fails; the training goes on.
        """
        self._sink: Sink | None = sink
        self._events, self._say = events, say
        events.subscribe(EpisodeEnd, self._episode)
        events.subscribe(Metrics, lambda told: self._write(told.values))
        events.subscribe(Evaluation, self._evaluation)
        events.subscribe(End, lambda _: self.close(ended=True))

    def signals(self, step: int, name: str, value: float) -> None:
        """Takes a signal of the diagnosis."""
        self._write({f"diagnosis/{name}": value})

    def state(self) -> Any:
        """For a checkpoint; None where the sink has failed."""
        kept: list[Any] = [None]
        if self._sink is not None:
            self._guard(lambda sink=self._sink: kept.append(sink.state()))  # type: ignore[misc]
        return kept[-1]

    def lay_in(self, state: Any) -> None:
        """Goes on from a checkpoint."""
        if self._sink is not None:
            self._guard(lambda sink=self._sink: sink.lay_in(state))  # type: ignore[misc]

    def close(self, ended: bool = False) -> None:
        """Writes no more."""
        sink, self._sink = self._sink, None
        if sink is not None:
            self._guard(lambda: sink.close(ended))

    def _episode(self, end: EpisodeEnd) -> None:
        self._write({"episode/return": end.episode_return, "episode/length": float(end.length)})

    def _evaluation(self, told: Evaluation) -> None:
        values = {"evaluation/return": float(np.mean(told.returns))}
        self._write(values | {"evaluation/length": float(np.mean(told.lengths))})

    def _write(self, values: Mapping[str, float]) -> None:
        sink = self._sink
        if sink is not None:
            self._guard(lambda: sink.write(self._events.steps, values))

    def _guard(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (LeaseLost, FolderGone):
            raise
        except Exception as error:  # another tool's trouble must not end a training
            self._sink = None
            self._say(f"The logger has failed and writes no more: {type(error).__name__}: {error}")


def join(
    logger: str, folder: RunFolder, events: Events, say: Callable[[str], None], resumes: bool
) -> Logging | None:
    """Has a training logged; None where nobody wants that.

    Args:
        logger: `none`, `tensorboard` or `wandb`.
        folder: The run's; files go into the folder `tensorboard` or `wandb` in it.
        events: Of the training.
        say: Told what fails.
        resumes: Whether the run goes on from a checkpoint.
    """
    if logger == "none":
        return None
    kind = _TensorBoard if logger == "tensorboard" else _Wandb
    try:
        sink: Sink = kind(folder, resumes)
    except (LeaseLost, FolderGone):
        raise
    except Exception as error:
        say(f"logger={logger} cannot begin: {type(error).__name__}: {error}")
        return None
    logging = Logging(sink, events, say)
    folder.beside.add(logger, logging)
    return logging


class _TensorBoard:
    """An event file in TensorBoard's format; no library that trains is needed for it."""

    def __init__(self, folder: RunFolder, resumes: bool) -> None:
        record_writer = importlib.import_module("tensorboard.summary.writer.record_writer")
        self._event = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
        self._summary = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
        self._file = folder.growing(f"tensorboard/{EVENTS_FILE}", resumes)
        self._writer = record_writer.RecordWriter(self._file)
        if not resumes:
            self._put(self._event(wall_time=time.time(), file_version="brain.Event:2"))

    def write(self, step: int, values: Mapping[str, float]) -> None:
        told = [self._summary.Value(tag=name, simple_value=v) for name, v in values.items()]
        summary = self._summary(value=told)
        self._put(self._event(wall_time=time.time(), step=step, summary=summary))

    def _put(self, event: Any) -> None:
        self._writer.write(event.SerializeToString())

    def state(self) -> int:
        return self._file.state()

    def lay_in(self, state: Any) -> None:
        self._file.lay_in(state or 0)
        if not state:
            self._put(self._event(wall_time=time.time(), file_version="brain.Event:2"))

    def close(self, ended: bool) -> None:
        self._file.close()


class _Wandb:
    """Offline files, which `wandb sync` sends where a user wants; nothing is sent from here.

    These cannot be shortened. Values are held back until a checkpoint has them, so that a run
    that is killed and goes on tells none twice; where there are too many to hold, they are
    written at once. A run that goes on has the same id, and a further folder.
    """

    def __init__(self, folder: RunFolder, resumes: bool) -> None:
        wandb: Any = importlib.import_module("wandb")
        known = sorted(folder.path.glob("wandb/offline-run-*-*")) if resumes else []
        self._held: list[tuple[int, dict[str, float]]] = []
        self._is_kept = resumes
        self._run = wandb.init(
            project="parallax",
            id=known[-1].name.rpartition("-")[2] if known else None,
            name="/".join(folder.path.parts[-6:]),
            dir=str(folder.path),
            mode="offline",
            settings=wandb.Settings(silent=True, console="off"),
        )
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._held.append((step, dict(values)))
        if len(self._held) > _HELD:
            self._hand_over()

    def state(self) -> None:
        self._is_kept = True
        self._hand_over()

    def lay_in(self, state: Any) -> None:
        self._held.clear()

    def close(self, ended: bool) -> None:
        if ended or not self._is_kept:  # else the steps since the checkpoint are taken anew
            self._hand_over()
        self._run.finish()

    def _hand_over(self) -> None:
        for step, values in self._held:
            self._run.log({**values, "step": step})
        self._held.clear()
