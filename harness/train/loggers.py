"""Writes all signals of a training as they come, in the files of other tools."""

import importlib
import importlib.util
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from harness.contract.events import End, EpisodeEnd, Evaluation, Events, Metrics
from harness.contract.fields import SpecError

PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb"}
"""What each kind of file needs; both are optional extras of this project."""


class Sink(Protocol):
    """Something that values are written to."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Writes values of one step."""

    def close(self) -> None:
        """Makes sure that all is on the disk."""


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
        events.subscribe(End, lambda _: self.close())

    def signals(self, step: int, name: str, value: float) -> None:
        """Takes a signal of the diagnosis."""
        self._write({f"diagnosis/{name}": value})

    def close(self) -> None:
        """Writes no more."""
        sink, self._sink = self._sink, None
        if sink is not None:
            self._guard(sink.close)

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
        except Exception as error:  # another tool's trouble must not end a training
            self._sink = None
            self._say(f"The logger has failed and writes no more: {type(error).__name__}: {error}")


def join(logger: str, folder: Path, events: Events, say: Callable[[str], None]) -> Logging | None:
    """Has a training logged; None where nobody wants that.

    Args:
        logger: `none`, `tensorboard` or `wandb`.
        folder: The run's; files go into the folder `tensorboard` or `wandb` in it.
        events: Of the training.
        say: Told what fails.
    """
    if logger == "none":
        return None
    try:
        sink: Sink = _TensorBoard(folder) if logger == "tensorboard" else _Wandb(folder)
    except Exception as error:
        say(f"logger={logger} cannot begin: {type(error).__name__}: {error}")
        return None
    return Logging(sink, events, say)


class _TensorBoard:
    """Event files, by TensorBoard's own writer; no library that trains is needed for it."""

    def __init__(self, folder: Path) -> None:
        writer = importlib.import_module("tensorboard.summary.writer.event_file_writer")
        self._event = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
        self._summary = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
        self._writer = writer.EventFileWriter(str(folder / "tensorboard"), flush_secs=10)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        told = [self._summary.Value(tag=name, simple_value=v) for name, v in values.items()]
        summary = self._summary(value=told)
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    """Offline files, which `wandb sync` sends where a user wants; nothing is sent from here."""

    def __init__(self, folder: Path) -> None:
        wandb: Any = importlib.import_module("wandb")
        self._run = wandb.init(
            project="parallax",
            name="/".join(folder.parts[-6:]),
            dir=str(folder),
            mode="offline",
            settings=wandb.Settings(silent=True, console="off"),
        )
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({**values, "step": step})

    def close(self) -> None:
        self._run.finish()
