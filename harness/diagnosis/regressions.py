"""What networks are fitted to, found again in what the environment told: targets and returns."""

import dataclasses
from collections import deque
from collections.abc import Callable

import numpy as np

from harness.contract.events import Backward, Compared, Forward
from harness.diagnosis.signals import Array, Signals
from harness.diagnosis.stored import Found, Stored

MINIBATCHES = 48
"""That are kept, the last ones of several windows."""

_ROWS = 256
_HEADS = 6


@dataclasses.dataclass(frozen=True)
class Head:
    """What a last layer said of a minibatch, where nothing was differentiated.

    Attributes:
        outputs: float64[rows, outputs].
        places: Of the layer's parameters.
        trained: Whether an optimiser steps them.
    """

    outputs: Array
    places: tuple[int, ...]
    trained: bool = False


@dataclasses.dataclass(frozen=True)
class Regression:
    """The rows of a minibatch that were found in what is stored.

    Attributes:
        kind: As `Compared.kind`.
        window: Number of the window; steps are those of one window.
        first: Whether no optimiser had stepped since the environment did.
        targets: float64[rows].
        predictions: float64[rows], or None.
        found: What the environment told of them.
        heads: Of networks that were asked just before, as of the same rows.
    """

    kind: str
    window: int
    first: bool
    targets: Array
    predictions: Array | None
    found: Found
    heads: tuple[Head, ...]


class Regressions:
    """Collects them in a window; the checks do all arithmetic."""

    def __init__(self, signals: Signals, stored: Callable[[], Stored]) -> None:
        """Collects nothing yet.

        Args:
            signals: Regressions go into its value `regressions`.
            stored: The last transitions.
        """
        self._signals, self._stored = signals, stored
        self._kept: deque[Regression] = deque(maxlen=MINIBATCHES)
        self._memory: Stored | None = None
        self._heads: list[Head] = []
        self._window, self._open, self._steps = 0, False, 0

    def begin(self) -> None:
        """A window is waited for."""
        self._window, self._open, self._steps = self._window + 1, True, 0
        self._heads, self._memory = [], None

    def end(self, trained: set[int]) -> None:
        """The window is over.

        Args:
            trained: Places of all parameters that optimisers step.
        """
        self._open, self._heads, self._memory = False, [], None
        if not self._kept:
            return
        told = [
            dataclasses.replace(
                one,
                heads=tuple(
                    dataclasses.replace(head, trained=not trained.isdisjoint(head.places))
                    for head in one.heads
                ),
            )
            if one.window == self._window
            else one
            for one in self._kept
        ]
        self._kept = deque(told, maxlen=MINIBATCHES)
        self._signals.values["regressions"] = tuple(told)

    def stepped(self) -> None:
        """An optimiser has stepped: what networks said before does not count for what follows."""
        self._steps += 1
        self._heads = []

    def head(self, forward: Forward, given: Array) -> None:
        """Notes what a last layer says; of those that are differentiated the loss tells."""
        made_by = getattr(forward.inputs[0], "grad_fn", None)
        if not self._open or made_by is not None or len(self._heads) >= _HEADS:
            return
        weight, bias = forward.layer.weight, getattr(forward.layer, "bias", None)
        if isinstance(weight, np.ndarray):  # another library's: what is differentiated is not told
            return
        outputs = given @ weight.detach().cpu().numpy().T
        if bias is not None:
            outputs = outputs + bias.detach().cpu().numpy()
        self._heads.append(Head(np.asarray(outputs, float), forward.places))

    def note(self, told: Backward) -> None:
        """Notes what a loss compares."""
        if not self._open:
            return
        if self._memory is None:
            self._memory = self._stored()
        known: dict[int, Found | None] = {}
        bootstraps = self._signals.facts.has_targets
        for one in told.compared():
            if bootstraps and one.kind == "advantages":  # noise of a reparametrised action
                continue
            key = id(one.inputs)
            if key not in known:
                known[key] = self._memory.find(one.inputs[:_ROWS])
            found = known[key]
            if found is not None:
                self._kept.append(self._regression(one, found))

    def _regression(self, one: Compared, found: Found) -> Regression:
        rows = found.rows
        heads = tuple(
            Head(head.outputs[rows], head.places)
            for head in self._heads
            if len(head.outputs) == len(one.targets)
        )
        return Regression(
            *(one.kind, self._window, self._steps == 0, one.targets[rows]),
            *(None if one.predictions is None else one.predictions[rows], found, heads),
        )
