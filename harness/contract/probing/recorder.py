"""Recorder of a probed training, independent of the tensor library.

Each library has its own subclass, in `adapters/<library>_common/recording.py`, which says where
arrays are and replaces the random numbers. The scripted weights are written once all networks
exist. What the optimizers do arrives as events of `parallax.harness.contract.events`, the same
that the conformance suite listens to. Differences are traced to upstream's source lines by
walking up the call stack.
"""

import abc
import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
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
    TargetUpdateDetector,
)
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.probing.protocol import (
    ACTION,
    PROBED_SOURCE,
    LossRecord,
    OptimizerStepRecord,
    Parameters,
    ProbeMonitor,
    ProbeRecord,
    ProbeScript,
)
from parallax.harness.contract.probing.scripted_rng import RngWatch, WatchedFunctions

LIBRARY_PACKAGES = frozenset(
    {
        *("torch", "numpy", "gymnasium", "tensordict", "scipy", "hydra"),
        *("jax", "jaxlib", "flax", "optax", "tensorflow_probability"),
    }
)
"""Libraries that frameworks build on; their lines are not the framework's."""
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
"""Parts of paths of upstream's files that only pass on what other code computed."""


def find_upstream_line() -> str:
    """Return the innermost line of a framework, `package/file.py:line`, or an empty string."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if place := _get_framework_path(frame.f_code.co_filename):
            return f"{place}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@functools.cache
def _get_framework_path(file: str) -> str:
    # Path in the package; empty if it is not a framework's file or only passes values on.
    if file.endswith(".py") and "/" not in file.replace("\\", "/"):
        return file  # a user's own script is compiled under its name
    checkout = f"{os.environ.get(PROBED_SOURCE)}/"
    _, found, place = file.rpartition(checkout if checkout in file else SITE_PACKAGES)
    package = place.split("/")[0]
    of_framework = found and package not in LIBRARY_PACKAGES and not package.startswith("parallax")
    return place if of_framework and not any(part in place for part in SKIPPED_PATHS) else ""


ReadStored = Callable[[], Mapping[str, NDArray[Any]]]
"""Returns the arrays that a framework stores, by canonical name."""


class RecordableNetworks(Protocol):
    """A framework's networks, addressed by the canonical names of their arrays."""

    @property
    def names(self) -> Iterable[str]:
        """Names of all arrays."""

    def read(self, names: Iterable[str] | None = None) -> dict[str, Array]:
        """Return read-only canonical arrays, all of them unless `names` are given."""

    def write(self, weights: Parameters) -> None:
        """Overwrite the framework's values."""

    def place(self, name: str) -> int:
        """Return the address of the parameter that holds an array (see `contract.events`)."""

    def part(self, name: str, whole: NDArray[Any]) -> Array:
        """Return the canonical array from `whole`, the framework's parameter or its gradient."""

    def order_columns(self, inputs: Array) -> Array:
        """Return inputs of critics with their columns in canonical order."""


class TrainingRecorder(abc.ABC):
    """Records one training.

    Args of the constructor:
        script: The probe's instructions.
        monitor: The training's monitor.
        locate: Finds the networks; called at each reset until they are there.
        stored: Reads the arrays that the framework stores, under canonical names.
        read_before_update: Whether they are read before the first optimizer step after each
            rollout (on-policy buffers are overwritten), and not at the end.
    """

    def __init__(
        self,
        script: ProbeScript,
        monitor: ProbeMonitor,
        locate: Callable[[], RecordableNetworks | None],
        stored: ReadStored,
        read_before_update: bool = False,
    ) -> None:
        self._script, self._monitor, self._events = script, monitor, script.world.events
        self._locate_networks = locate
        self._read_stored, self._read_before_update = stored, read_before_update
        self._target_detector = TargetUpdateDetector(self._events, self._read_targets)
        self._networks: RecordableNetworks | None = None
        self._target_names = tuple[str, ...]()
        self._initial_weights: Parameters = {}
        self._steps: list[OptimizerStepRecord] = []
        self._losses: list[LossRecord] = []
        self._target_moves: list[tuple[int, int, str]] = []
        self._observations: Array = np.empty((0, 0))
        self._critic_inputs: list[Array] = []
        self._loss_line = ""
        self._source_lines: dict[str, str] = {}
        self._rollouts: list[Mapping[str, NDArray[Any]]] = []
        self._n_cycles, self._saved_weights = 0, dict[int, Parameters]()
        self._rng_watch: RngWatch | None = None

    @abc.abstractmethod
    def _start_scripted_rng(self) -> None:
        """Replace random numbers from here on; upstream's own initialisation is complete."""

    @abc.abstractmethod
    def _get_input_size(self, event: LayerForward) -> int:
        """Return the number of inputs of a differentiated linear layer, 0 for anything else."""

    @abc.abstractmethod
    def _read_layer_input(self, event: LayerForward) -> Array:
        """Return the input of such a layer, float[..., rows, inputs]."""

    def _find_loss_line(self, event: LossBackward) -> str:
        """Return the source line at which a loss was computed."""
        return find_upstream_line()

    def _get_draw_lines(self) -> Mapping[str, str]:
        """Return the source lines at which actions and minibatches were drawn, by event."""
        return {}

    @contextlib.contextmanager
    def _watch_rng(
        self,
        functions: WatchedFunctions,
        readers: Mapping[str, Callable[[], Hashable]],
        is_abstract: Callable[[Any], bool] = lambda made: False,
    ) -> Iterator[RngWatch]:
        """Let the framework draw its own random numbers within, and watch the generators.

        Args:
            functions: The library's functions that seed or make a generator; see `scripted_rng`.
            readers: Readers of the states of its generators, by name.
            is_abstract: See `RngWatch`.
        """
        watch = RngWatch(
            self._script.world, lambda: len(self._steps), find_upstream_line, readers, is_abstract
        )
        self._rng_watch = watch
        self._events.subscribe(EnvStep, watch.check_states)
        self._events.subscribe(BeforeOptimizerStep, watch.check_states)
        with watch.watch_functions(functions):
            yield watch

    def _subscribe_to_events(
        self, around: tuple[Callable[..., None], Callable[..., None]] | None
    ) -> None:
        # `around` are called before and after each optimizer step.
        subscribe = self._events.subscribe
        subscribe(EpisodeBegin, self._attach_networks)
        subscribe(EnvStep, lambda event: self._note_source_line(ACTION))
        if self._script.reads_actions_only:
            return
        subscribe(EnvStep, self._target_detector.detect)
        subscribe(BeforeOptimizerStep, self._target_detector.detect)
        subscribe(BeforeOptimizerStep, self._begin_optimizer_step)
        if around:
            subscribe(BeforeOptimizerStep, around[0])
            subscribe(AfterOptimizerStep, around[1])
        subscribe(AfterOptimizerStep, self._end_optimizer_step)
        subscribe(TargetNetworkUpdate, self._note_target_update)
        subscribe(LayerForward, self._note_layer_input)
        subscribe(LossBackward, self._note_loss)

    def record(
        self,
        upstream_settings: Mapping[str, float] | None = None,
        reloaded_settings: Mapping[str, tuple[float, float]] | None = None,
    ) -> ProbeRecord:
        """Return the recording; `ProbeRecord` says what the settings are."""
        self._target_detector.detect()
        self._save_weights()
        return ProbeRecord(
            created=self._initial_weights,
            steps=tuple(self._steps),
            losses=tuple(self._losses),
            target_moves=tuple(self._target_moves),
            stored=self._rollouts[0] if self._rollouts else self._read_stored(),
            final=self._read_weights(),
            metrics=tuple(self._monitor.metrics),
            rollouts=tuple(self._rollouts),
            upstream_settings=upstream_settings or {},
            reloaded_settings=reloaded_settings or {},
            source_lines={
                **(self._get_draw_lines() if self._script.traces_lines else {}),
                **self._source_lines,
            },
            saved_weights=self._saved_weights,
            generator_events=tuple(self._rng_watch.events) if self._rng_watch else (),
        )

    def _attach_networks(self, event: EpisodeBegin) -> None:
        if self._networks:
            return
        networks = self._locate_networks()
        if not networks:
            return
        self._networks = networks
        self._script.world.started = True
        if not self._script.world.scripted_data.own_rng:
            self._start_scripted_rng()
        self._target_names = tuple(name for name in networks.names if "_target." in name)
        self._initial_weights = networks.read()
        if missing := {name.split(".")[0] for name in {*self._script.weights} - {*networks.names}}:
            raise SpecError(f"its model has no {' and no '.join(sorted(missing))}")
        networks.write(self._script.weights)
        self._target_detector.detect()

    def _read_weights(self, names: Iterable[str] | None = None) -> dict[str, Array]:
        return self._networks.read(names) if self._networks else {}

    def _read_targets(self) -> dict[str, Array]:
        # Any array may move alone; arrays that did not change are the same objects as before.
        return self._read_weights(self._target_names)

    def _note_target_update(self, event: TargetNetworkUpdate) -> None:
        networks = dict.fromkeys(name.split(".")[0] for name in event.moved)
        self._target_moves += [(self._events.steps, len(self._steps), name) for name in networks]

    def _note_loss(self, event: LossBackward) -> None:
        self._losses.append(LossRecord(event.loss, len(self._steps)))
        if self._script.traces_lines:
            self._loss_line = self._find_loss_line(event)

    def _note_source_line(self, what: str, line: str | None = None) -> None:
        # Later lines replace earlier ones: warm-up actions come before the policy's actions.
        if not self._script.traces_lines:
            return
        found = find_upstream_line() if line is None else line
        if found:
            self._source_lines[what] = found

    def _note_layer_input(self, event: LayerForward) -> None:
        # The policy's first layer takes observations only, a critic's actions as well.
        world = self._script.world.scripted_data
        n_observations = world.observations.shape[1]
        size = self._get_input_size(event)
        if size not in (n_observations, n_observations + len(world.low)):
            return
        inputs = self._read_layer_input(event)
        is_saved = len(self._steps) < self._script.snapshots
        if size == n_observations:
            self._observations = inputs.reshape(-1, size)
            # With discrete actions the critic's input is the observation alone.
            if is_saved and world.n_discrete_actions:
                self._critic_inputs.append(self._observations)
        elif is_saved:
            assert self._networks
            # Ensembles compute several critics in one call, along leading axes.
            for rows in inputs.reshape(-1, *inputs.shape[-2:]):
                self._critic_inputs.append(self._networks.order_columns(rows))

    def _begin_optimizer_step(self, event: BeforeOptimizerStep) -> None:
        save = len(self._steps) < self._script.snapshots
        last = self._steps[-1].env_steps if self._steps else -1
        if last != self._events.steps:
            self._save_weights()
            self._n_cycles += 1
            if self._read_before_update:
                self._rollouts.append(self._read_stored())
        settings, gradients = self._read_optimizer_step(event, save)
        for network in settings:
            self._note_source_line(f"loss of {network}", self._loss_line)
            self._note_source_line(f"step of {network}")
        step = OptimizerStepRecord(
            env_steps=self._events.steps,
            networks=tuple(settings),
            optimizer=event.optimizer,
            settings=settings,
            observations=self._observations,
            gradients=gradients,
            before=self._read_weights() if save else {},
            after={},
            critic_inputs=tuple(self._critic_inputs),
            assigned=self._list_assigned_networks(event),
        )
        self._critic_inputs = []
        self._steps.append(step)

    def _list_assigned_networks(self, event: BeforeOptimizerStep) -> tuple[str, ...]:
        networks = self._networks
        places = {p.place for group in event.groups for p in group.parameters}
        assigned = [n for n in networks.names if networks.place(n) in places] if networks else ()
        return tuple(dict.fromkeys(name.split(".")[0] for name in assigned))

    def _read_optimizer_step(
        self, event: BeforeOptimizerStep, save: bool
    ) -> tuple[dict[str, Mapping[str, float]], dict[str, Array]]:
        # Settings by network, and gradients by array if they are saved.
        stepped = {p.place: (group, p) for group in event.groups for p in group.parameters}
        settings: dict[str, Mapping[str, float]] = {}
        gradients: dict[str, Array] = {}
        networks = self._networks
        for name in networks.names if networks else ():
            assert networks
            group, parameter = stepped.get(networks.place(name), (None, None))
            if group is None or parameter is None or parameter.gradient is None:
                continue  # an optimizer skips parameters without a gradient
            settings[name.split(".")[0]] = group.settings
            if save:
                gradients[name] = networks.part(name, parameter.gradient())
        return settings, gradients

    def _save_weights(self) -> None:
        # A cycle is over when the next one begins: all frameworks have updated targets by then.
        cycle = self._n_cycles
        if cycle in self._script.saved_cycles and cycle not in self._saved_weights:
            self._saved_weights[cycle] = self._read_weights()

    def _end_optimizer_step(self, event: AfterOptimizerStep) -> None:
        if self._steps[-1].before:
            self._steps[-1] = dataclasses.replace(self._steps[-1], after=self._read_weights())


@contextlib.contextmanager
def capture_calls(owner: Any, name: str, argument: int | None = None) -> Iterator[list[Any]]:
    """Replace a function by one that also appends its result, or one argument, to the list."""
    function, captured = getattr(owner, name), []

    def capturing(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        captured.append(result if argument is None else args[argument])
        return result

    setattr(owner, name, capturing)
    try:
        yield captured
    finally:
        setattr(owner, name, function)


@contextlib.contextmanager
def record_every_update(module: Any) -> Iterator[None]:
    """Let an adapter's module record every update in the trace, not one in `RECORD_EVERY`."""
    before, module.RECORD_EVERY = module.RECORD_EVERY, 1
    try:
        yield
    finally:
        module.RECORD_EVERY = before
