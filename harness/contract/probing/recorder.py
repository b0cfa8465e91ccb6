"""Recording a training, whatever library it computes with.

Nothing of a library or of a framework is named here: each library has its own recorder, in
`adapters/<library>_common/recording.py`, which says where arrays lie and dictates random numbers.
Weights are written once all networks are there; what the optimisers do is told by the same watcher
that conformance listens to.
"""

import abc
import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.events import (
    AfterOptimizerStep,
    BeforeOptimizerStep,
    EnvStep,
    EpisodeBegin,
    LayerForward,
    LossBackward,
    TargetNetworkUpdate,
)
from parallax.harness.contract.probing.protocol import (
    LossRecord,
    OptimizerStepRecord,
    Parameters,
    ProbeMonitor,
    ProbeRecord,
    ProbeScript,
)
from parallax.harness.contract.watchers import TargetUpdateDetector

LIBRARY_PACKAGES = frozenset(
    {
        *("torch", "numpy", "gymnasium", "tensordict", "scipy", "hydra"),
        *("jax", "jaxlib", "flax", "optax", "tensorflow_probability"),
    }
)
"""Libraries that frameworks stand on."""
SITE_PACKAGES = "site-packages/"
SKIPPED_PATHS = (
    "vec_env",
    "/env/",
    "/envs/",
    "monitor.py",
    "algorithm_base.py",
    "common/utils.py",
    "objectives/utils.py",
    "/trainers/",
)
"""Parts of upstream's files that only pass on what others made."""


def find_upstream_line() -> str:
    """The innermost line of a framework, as `package/file.py:line`; empty outside of any."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if place := _get_framework_path(frame.f_code.co_filename):
            return f"{place}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@functools.cache
def _get_framework_path(file: str) -> str:
    # Its place in the package; empty where it is no framework's, or only passes on.
    _, found, place = file.rpartition(SITE_PACKAGES)
    of_framework = found and place.split("/")[0] not in LIBRARY_PACKAGES
    return place if of_framework and not any(part in place for part in SKIPPED_PATHS) else ""


ReadStored = Callable[[], Mapping[str, NDArray[Any]]]
"""Reads what a framework stores, in canonical names."""


class RecordableNetworks(Protocol):
    """A framework's networks by canonical names of their arrays."""

    @property
    def names(self) -> Iterable[str]:
        """Of all arrays."""

    def read(self, names: Iterable[str] | None = None) -> dict[str, Array]:
        """Canonical arrays, of all names unless some are given; they cannot be written to."""

    def write(self, weights: Parameters) -> None:
        """Overwrites the framework's values."""

    def place(self, name: str) -> int:
        """Of the parameter that an array is, or is a part of: see `parallax.harness.contract.events`."""

    def part(self, name: str, whole: NDArray[Any]) -> Array:
        """The canonical array, where `whole` is the framework's, or its gradient."""

    def order_columns(self, pairs: Array) -> Array:
        """What critics saw, with columns in canonical order."""


class TrainingRecorder(abc.ABC):
    """Records one training.

    Args of the constructor:
        script: What is dictated.
        watch: The training's monitor.
        stored: Reads what the framework stores.
        early: Whether it is read before the first optimiser step that follows steps of the
            environment, each time, and not at the end.
    """

    def __init__(
        self,
        script: ProbeScript,
        watch: ProbeMonitor,
        stored: ReadStored,
        read_before_update: bool = False,
    ) -> None:
        self._script, self._watch, self._events = script, watch, script.world.events
        self._stored, self._early = stored, read_before_update
        self._targets = TargetUpdateDetector(self._events, self._read_targets)
        self._networks: RecordableNetworks | None = None
        self._targeted = tuple[str, ...]()
        self._created: Parameters = {}
        self._steps: list[OptimizerStepRecord] = []
        self._losses: list[LossRecord] = []
        self._moves: list[tuple[int, int, str]] = []
        self._seen: Array = np.empty((0, 0))
        self._pairs: list[Array] = []
        self._loss_line = ""
        self._places: dict[str, str] = {}
        self._rollouts: list[Mapping[str, NDArray[Any]]] = []
        self._rounds, self._kept = 0, dict[int, Parameters]()

    @abc.abstractmethod
    def _find_networks(self) -> RecordableNetworks | None:
        """The networks; None where they are not there yet. Asked at each reset until they are."""

    @abc.abstractmethod
    def _start_scripted_rng(self) -> None:
        """Random numbers are dictated from here on: what networks begin with is upstream's own."""

    @abc.abstractmethod
    def _get_input_size(self, event: LayerForward) -> int:
        """Inputs of a linear layer whose call is differentiated; 0 for anything else."""

    @abc.abstractmethod
    def _read_layer_input(self, event: LayerForward) -> Array:
        """What such a layer sees, float[..., rows, inputs]."""

    def _find_loss_line(self, event: LossBackward) -> str:
        """Where a loss was made."""
        return find_upstream_line()

    def _get_draw_lines(self) -> Mapping[str, str]:
        """Where random numbers of actions and minibatches were drawn, by event."""
        return {}

    def _subscribe(self, around: tuple[Callable[..., None], Callable[..., None]] | None) -> None:
        # `around` is what is called before and after each optimiser step.
        subscribe = self._events.subscribe
        subscribe(EpisodeBegin, self._attach_networks)
        subscribe(EnvStep, self._targets.look)
        subscribe(EnvStep, lambda event: self._note_place("action"))
        if self._script.kept:
            subscribe(EnvStep, self._save_weights)
        subscribe(BeforeOptimizerStep, self._targets.look)
        subscribe(BeforeOptimizerStep, self._before)
        if around:
            subscribe(BeforeOptimizerStep, around[0])
            subscribe(AfterOptimizerStep, around[1])
        subscribe(AfterOptimizerStep, self._after)
        subscribe(TargetNetworkUpdate, self._note_move)
        subscribe(LayerForward, self._observe)
        subscribe(LossBackward, self._note_loss)

    def record(self, upstream_settings: Mapping[str, float] | None = None) -> ProbeRecord:
        """What was seen.

        Args:
            upstream_settings: Settings that upstream's own objects hold, by unified name.
        """
        self._targets.look()
        self._save_weights()
        return ProbeRecord(
            created=self._created,
            steps=tuple(self._steps),
            losses=tuple(self._losses),
            target_moves=tuple(self._moves),
            stored=self._rollouts[0] if self._rollouts else self._stored(),
            final=self._read(),
            metrics=tuple(self._watch.metrics),
            rollouts=tuple(self._rollouts),
            told=upstream_settings or {},
            places={**(self._get_draw_lines() if self._script.places else {}), **self._places},
            kept=self._kept,
        )

    def _attach_networks(self, event: EpisodeBegin) -> None:
        if self._networks:
            return
        networks = self._find_networks()
        if not networks:
            return
        self._networks = networks
        self._script.world.started = True
        self._start_scripted_rng()
        self._targeted = tuple(
            name for name in networks.names if "_target." in name and name.endswith(".out.weight")
        )
        self._created = networks.read()
        networks.write(self._script.weights)
        self._targets.look()

    def _read(self, names: Iterable[str] | None = None) -> dict[str, Array]:
        return self._networks.read(names) if self._networks else {}

    def _read_targets(self) -> dict[str, Array]:
        found = self._read(self._targeted)
        return {name.split(".")[0]: array for name, array in found.items()}

    def _note_move(self, event: TargetNetworkUpdate) -> None:
        self._moves += [(self._events.steps, len(self._steps), name) for name in event.moved]

    def _note_loss(self, event: LossBackward) -> None:
        self._losses.append(LossRecord(event.loss, len(self._steps)))
        if self._script.places:
            self._loss_line = self._find_loss_line(event)

    def _note_place(self, what: str, line: str | None = None) -> None:
        # What the policy does later may be what counts: random actions come first.
        if not self._script.places:
            return
        found = find_upstream_line() if line is None else line
        if found:
            self._places[what] = found

    def _observe(self, event: LayerForward) -> None:
        # The policy's first layer sees observations alone, that of critics actions as well.
        world = self._script.world.scripted_data
        size, both = world.observations.shape[1], world.observations.shape[1] + len(world.low)
        width = self._get_input_size(event)
        if width not in (size, both):
            return
        seen = self._read_layer_input(event)
        if width == size:
            self._seen = seen.reshape(-1, size)
            if world.choices and len(self._steps) < self._script.snapshots:
                self._pairs.append(self._seen)
        elif len(self._steps) < self._script.snapshots:
            assert self._networks
            for pairs in seen.reshape(-1, *seen.shape[-2:]):
                self._pairs.append(self._networks.order_columns(pairs))

    def _before(self, event: BeforeOptimizerStep) -> None:
        keep = len(self._steps) < self._script.snapshots
        last = self._steps[-1].env_steps if self._steps else -1
        if last != self._events.steps:
            self._rounds += 1
            if self._early:
                self._rollouts.append(self._stored())
        settings, gradients = self._read_step(event, keep)
        for network in settings:
            self._note_place(f"loss of {network}", self._loss_line)
            self._note_place(f"step of {network}")
        step = OptimizerStepRecord(
            env_steps=self._events.steps,
            networks=tuple(settings),
            optimizer=event.optimizer,
            settings=settings,
            observations=self._seen,
            gradients=gradients,
            before=self._read() if keep else {},
            after={},
            pairs=tuple(self._pairs),
        )
        self._pairs = []
        self._steps.append(step)

    def _read_step(
        self, event: BeforeOptimizerStep, keep: bool
    ) -> tuple[dict[str, Mapping[str, float]], dict[str, Array]]:
        # Settings by network, and gradients by array if they are to be kept.
        stepped = {p.place: (group, p) for group in event.groups for p in group.parameters}
        settings: dict[str, Mapping[str, float]] = {}
        gradients: dict[str, Array] = {}
        networks = self._networks
        for name in networks.names if networks else ():
            assert networks
            group, parameter = stepped.get(networks.place(name), (None, None))
            if group is None or parameter is None or parameter.gradient is None:
                continue  # what has no gradient does not move
            settings[name.split(".")[0]] = group.settings
            if keep:
                gradients[name] = networks.part(name, parameter.gradient())
        return settings, gradients

    def _save_weights(self, event: object = None) -> None:
        # The round is over as soon as the environment goes on: targets have followed by then.
        if self._rounds in self._script.kept and self._rounds not in self._kept:
            self._kept[self._rounds] = self._read()

    def _after(self, event: AfterOptimizerStep) -> None:
        if self._steps[-1].before:
            self._steps[-1] = dataclasses.replace(self._steps[-1], after=self._read())


@contextlib.contextmanager
def capture_calls(owner: Any, name: str, argument: int | None = None) -> Iterator[list[Any]]:
    """Keeps what a function returns, or one of its arguments, while it goes on working."""
    function, kept = getattr(owner, name), []

    def keeping(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        kept.append(result if argument is None else args[argument])
        return result

    setattr(owner, name, keeping)
    try:
        yield kept
    finally:
        setattr(owner, name, function)
