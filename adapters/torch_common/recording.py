"""Recording a training in torch: what the probing parts of several adapters share.

Nothing of a framework is named here. Weights are written once all networks are there; what the
optimisers do is told by the same watcher that conformance listens to.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from adapters.torch_common import watch as torch_watch
from adapters.torch_common.places import Scalars, upstream_line
from adapters.torch_common.precision import doubled
from adapters.torch_common.randomness import Dictated, Kernels, Undisturbed
from harness.contract.events import (
    Backward,
    EnvStep,
    EpisodeBegin,
    Forward,
    OptimizerStep,
    OptimizerStepped,
    TargetUpdate,
)
from harness.contract.watchers import TargetWatch
from harness.probes.contract import Loss, Parameters, Record, Script, Step, Watch
from harness.probes.results import Array
from harness.probes.world import dictated


@dataclasses.dataclass(frozen=True)
class Slot:
    """Where one canonical array lives.

    Attributes:
        tensor: The framework's tensor.
        index: Which part of it.
        columns: The framework's input columns in canonical order, or None for the same order.
    """

    tensor: torch.Tensor
    index: Any = ...
    columns: NDArray[np.int64] | None = None

    def read(self, whole: NDArray[Any]) -> Array:
        """The canonical array, where `whole` is the framework's, or its gradient."""
        array = np.array(whole[self.index], dtype=float)
        return array if self.columns is None else array[:, self.columns]

    def write(self, array: Array) -> None:
        """Overwrites the framework's values."""
        if self.columns is not None:
            array = array[:, np.argsort(self.columns)]
        with torch.no_grad():
            part = self.tensor.detach()[self.index]
            part.copy_(torch.as_tensor(array, dtype=part.dtype).reshape(part.shape))


Slots = Mapping[str, Slot]


class Reader:
    """Reads weights again and again: what has not changed is the same array as before.

    Args of the constructor:
        slots: Where they are.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._views: dict[str, tuple[int, NDArray[Any]]] = {}
        self._last: dict[str, tuple[NDArray[Any], Array]] = {}

    def read(self, names: Iterable[str] | None = None) -> dict[str, Array]:
        """Canonical arrays, of all slots unless some are named; they cannot be written to."""
        return {name: self._read(name) for name in (self._slots if names is None else names)}

    def _read(self, name: str) -> Array:
        slot = self._slots[name]
        now = self._view(name, slot.tensor)[slot.index]
        before, array = self._last.get(name, (None, None))
        if before is None or array is None or not np.array_equal(before, now):
            array = slot.read(self._view(name, slot.tensor))
            array.flags.writeable = False
            self._last[name] = np.array(now), array
        return array

    def _view(self, name: str, tensor: torch.Tensor) -> NDArray[Any]:
        # The numbers of a tensor where they lie; making a view takes longer than a look.
        place, view = self._views.get(name, (0, None))
        if view is None or place != tensor.data_ptr():
            view = tensor.detach().numpy()
            self._views[name] = tensor.data_ptr(), view
        return view


def linears(network: str, layers: Mapping[str, Any]) -> dict[str, Slot]:
    """Slots of layers that have a weight and a bias."""
    return {
        f"{network}.{name}.{kind}": Slot(getattr(layer, kind))
        for name, layer in layers.items()
        for kind in ("weight", "bias")
    }


class Recorder:
    """Records one training.

    Args of the constructor:
        script: What is dictated.
        watch: The training's monitor.
        locate: Finds the networks; called at each reset until they are there.
        stored: Reads what the framework stores, in canonical names.
        early: Whether it is read before the first optimiser step that follows steps of the
            environment, each time, and not at the end.
    """

    def __init__(
        self,
        script: Script,
        watch: Watch,
        locate: Callable[[], Slots],
        stored: Callable[[], Mapping[str, NDArray[Any]]],
        early: bool = False,
    ) -> None:
        self._script, self._watch, self._events = script, watch, script.world.events
        self._locate, self._stored, self._early = locate, stored, early
        self._targets = TargetWatch(self._events, self._read_targets)
        self._slots: Slots = {}
        self._reader, self._targeted = Reader({}), tuple[str, ...]()
        self._created: Parameters = {}
        self._steps: list[Step] = []
        self._losses: list[Loss] = []
        self._moves: list[tuple[int, int, str]] = []
        self._seen: Array = np.empty((0, 0))
        self._pairs: list[Array] = []
        self._scalars, self._loss_line = Scalars(), ""
        self._dictating: Dictated | Kernels = Kernels(script.world)
        self._places: dict[str, str] = {}
        self._rollouts: list[Mapping[str, NDArray[Any]]] = []

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Dictates and records within; leaves nothing behind."""
        subscribe, world = self._events.subscribe, self._script.world
        subscribe(EpisodeBegin, self._begin)
        subscribe(EnvStep, self._targets.look)
        subscribe(EnvStep, lambda event: self._note_place("action"))
        subscribe(OptimizerStep, self._targets.look)
        subscribe(OptimizerStep, self._before)
        pause = Undisturbed()
        if self._script.places or world.dictation.choices:
            self._dictating = Dictated(world)
            subscribe(OptimizerStep, pause.begin)
            subscribe(OptimizerStepped, pause.end)
        subscribe(OptimizerStepped, self._after)
        subscribe(TargetUpdate, self._note_move)
        subscribe(Forward, self._observe)
        subscribe(Backward, self._note_loss)
        self._scalars = self._dictating.scalars
        watched = torch_watch.watching(self._events)
        double = doubled(self._script.double)
        with double, watched, dictated(world), self._dictating, pause.closing():
            yield

    def record(self, told: Mapping[str, float] | None = None) -> Record:
        """What was seen.

        Args:
            told: Settings that upstream's own objects hold, by unified name.
        """
        self._targets.look()
        drawn = self._dictating.drawn if self._script.places else {}
        return Record(
            created=self._created,
            steps=tuple(self._steps),
            losses=tuple(self._losses),
            target_moves=tuple(self._moves),
            stored=self._rollouts[0] if self._rollouts else self._stored(),
            final=self._reader.read(),
            metrics=tuple(self._watch.metrics),
            rollouts=tuple(self._rollouts),
            told=told or {},
            places={**drawn, **self._places},
        )

    def _begin(self, event: EpisodeBegin) -> None:
        if self._slots:
            return
        self._slots = self._locate()
        if not self._slots:
            return
        self._script.world.started = True
        self._dictating.start()
        self._reader = Reader(self._slots)
        self._targeted = tuple(
            name for name in self._slots if "_target." in name and name.endswith(".out.weight")
        )
        self._created = self._reader.read()
        for name, array in self._script.weights.items():
            self._slots[name].write(array)
        self._targets.look()

    def _read_targets(self) -> dict[str, Array]:
        found = self._reader.read(self._targeted)
        return {name.split(".")[0]: array for name, array in found.items()}

    def _note_move(self, event: TargetUpdate) -> None:
        self._moves += [(self._events.steps, len(self._steps), name) for name in event.moved]

    def _note_loss(self, event: Backward) -> None:
        self._losses.append(Loss(event.loss, len(self._steps)))
        if self._script.places:
            self._loss_line = self._scalars.line(event.place) or upstream_line()

    def _note_place(self, what: str, line: str | None = None) -> None:
        # What the policy does later may be what counts: random actions come first.
        if not self._script.places:
            return
        found = upstream_line() if line is None else line
        if found:
            self._places[what] = found

    def _observe(self, event: Forward) -> None:
        # The policy's first layer sees observations alone, that of critics actions as well.
        if not (isinstance(event.layer, torch.nn.Linear) and event.inputs):
            return
        world = self._script.world.dictation
        size, both = world.observations.shape[1], world.observations.shape[1] + len(world.low)
        if event.layer.in_features not in (size, both) or not torch.is_grad_enabled():
            return
        seen = np.array(_whole(event.inputs[0]).detach().numpy(), dtype=float)
        if event.layer.in_features == size:
            self._seen = seen.reshape(-1, size)
            if world.choices and len(self._steps) < self._script.snapshots:
                self._pairs.append(self._seen)
        elif len(self._steps) < self._script.snapshots:
            columns = self._slots["critic1.0.weight"].columns
            for pairs in seen.reshape(-1, *seen.shape[-2:]):
                self._pairs.append(pairs if columns is None else pairs[:, columns])

    def _before(self, event: OptimizerStep) -> None:
        keep = len(self._steps) < self._script.snapshots
        last = self._steps[-1].env_steps if self._steps else -1
        if self._early and last != self._events.steps:
            self._rollouts.append(self._stored())
        stepped = {p.place: (group, p) for group in event.groups for p in group.parameters}
        settings: dict[str, Mapping[str, float]] = {}
        gradients: dict[str, Array] = {}
        for name, slot in self._slots.items():
            if found := stepped.get(slot.tensor.data_ptr()):
                group, parameter = found
                settings[name.split(".")[0]] = group.settings
                if keep and parameter.gradient:
                    gradients[name] = slot.read(parameter.gradient())
        for network in settings:
            self._note_place(f"loss of {network}", self._loss_line)
            self._note_place(f"step of {network}")
        step = Step(
            env_steps=self._events.steps,
            networks=tuple(settings),
            optimizer=event.optimizer,
            settings=settings,
            observations=self._seen,
            gradients=gradients,
            before=self._reader.read() if keep else {},
            after={},
            pairs=tuple(self._pairs),
        )
        self._pairs = []
        self._steps.append(step)

    def _after(self, event: OptimizerStepped) -> None:
        if self._steps[-1].before:
            self._steps[-1] = dataclasses.replace(self._steps[-1], after=self._reader.read())


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    # Within vmap a tensor stands for one of many; here are all.
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


@contextlib.contextmanager
def captured(owner: Any, name: str, argument: int | None = None) -> Iterator[list[Any]]:
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
