"""Tells of what flax and optax do in a training, wherever it is computed operation by operation.

That is all of a training that is watched from its beginning, and calls that are computed again
beside a compiled one: `adapters.jax_common.compiled`. Nothing of a framework is named here.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np
from flax.training.train_state import TrainState
from numpy.typing import NDArray

from adapters.jax_common import lineage
from adapters.jax_common.compiled import watched_with
from adapters.jax_common.optimizers import clipped, name_and_settings
from harness.contract.events import (
    Backward,
    Events,
    Forward,
    Group,
    OptimizerStep,
    OptimizerStepped,
    Parameter,
)


class Layer(NamedTuple):
    """A layer of flax's as who looks at networks knows layers.

    Attributes:
        weight: float[outputs, inputs], or None where it has no matrix.
        bias: float[outputs], or None.
        module: Flax's own.
        differentiated: Whether a gradient is taken through it.
    """

    weight: NDArray[Any] | None
    bias: NDArray[Any] | None
    module: Any
    differentiated: bool


@contextlib.contextmanager
def watching(events: Events) -> Iterator[None]:
    """Tells within; leaves nothing behind."""
    tellers = {
        kind: tell
        for kind in (OptimizerStep, OptimizerStepped, Forward, Backward)
        if (tell := events.teller(kind))
    }
    with watched_with(lambda: hooked(tellers), lambda args: _asked(tellers, args)):
        try:
            yield
        finally:
            tellers.clear()  # a call that is being computed again tells nothing more


def _asked(tellers: dict[Any, Callable[[Any], None]], args: tuple[Any, ...]) -> None:
    # A compiled call that asks networks, as one layer of all their parameters.
    if tell := tellers.get(Forward):
        leaves = [
            leaf
            for state in lineage.states_in(args)
            for leaf in jax.tree_util.tree_leaves(state.params)
        ]
        arrays = tuple(a for a in args if isinstance(a, np.ndarray | jax.Array) and a.ndim > 1)
        tell(Forward(None, arrays, tuple(lineage.place(leaf) for leaf in leaves)))


@contextlib.contextmanager
def hooked(tellers: dict[Any, Callable[[Any], None]]) -> Iterator[None]:
    """Tells of everything that is computed operation by operation within."""
    with contextlib.ExitStack() as stack:
        for kind in (TrainState, *_all_subclasses(TrainState)):
            for name, wrapped in (("apply_gradients", _stepping), ("replace", _replacing)):
                if name in vars(kind):
                    stack.enter_context(_patched(kind, name, wrapped(vars(kind)[name], tellers)))
        if Backward in tellers:
            told = _differentiating(jax.value_and_grad, tellers)
            stack.enter_context(_patched(jax, "value_and_grad", told))
        if Forward in tellers:
            stack.enter_context(nn.intercept_methods(_Calls(tellers)))
        yield


class Concrete(NamedTuple):
    """The numbers that stand for a value within JAX's transformations.

    Attributes:
        array: JAX's array.
        axis: Along which it holds many, of which the value is one; None where it does not.
        differentiated: Whether a gradient is taken by it.
    """

    array: Any
    axis: int | None
    differentiated: bool


def concrete(value: Any) -> Concrete | None:
    """The numbers of a value; None where there are none yet, as in what is being compiled."""
    axis, differentiated = None, False
    while isinstance(value, jax.core.Tracer):
        if hasattr(value, "batch_dim"):
            axis, value = value.batch_dim, value.val
        elif hasattr(value, "primal"):
            value, differentiated = value.primal, True
        else:
            return None
    return Concrete(value, axis if isinstance(axis, int) else None, differentiated)


def each(found: Concrete | None, count: int) -> list[NDArray[Any] | None]:
    """The arrays that a value stands for, `count` of them."""
    if found is None:
        return [None] * count
    array = np.asarray(found.array)
    return [array if found.axis is None else np.take(array, i, found.axis) for i in range(count)]


class _Calls:
    # Told of each call of a module's method by flax.
    def __init__(self, tellers: dict[Any, Callable[[Any], None]]) -> None:
        self._tellers, self._linear = tellers, list[Any]()

    def __call__(self, call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        tell = self._tellers.get(Forward)
        if tell is None or context.method_name != "__call__":
            return call(*args, **kwargs)
        own = context.module.variables.get("params", {})
        for forward in self._forwards(context.module, args, own):
            tell(forward)
        result = call(*args, **kwargs)
        if "kernel" in own:
            self._linear = [*self._linear[-7:], result]  # held, so that none is another's place
        return result

    def _forwards(self, module: Any, args: Any, own: Any) -> Iterator[Forward]:
        found = {name: concrete(leaf) for name, leaf in own.items() if not isinstance(leaf, dict)}
        places = tuple(
            place for leaf in found.values() if leaf and (place := lineage.place(leaf.array))
        )
        inputs = [concrete(argument) for argument in args]
        both = [one for one in (*found.values(), *inputs) if one]
        several = [one for one in both if one.axis is not None]
        learns = any(one.differentiated for one in both)
        count = several[0].array.shape[several[0].axis] if several else 1
        kernels, biases = each(found.get("kernel"), count), each(found.get("bias"), count)
        given = [each(one, count) for one in inputs]
        direct = any(args and args[0] is output for output in self._linear) if learns else None
        for i in range(count):
            kernel = kernels[i]
            layer = Layer(None if kernel is None else kernel.T, biases[i], module, learns)
            yield Forward(layer, tuple(one[i] for one in given), places, lambda: direct)


def _stepping(apply: Any, tellers: dict[Any, Callable[[Any], None]]) -> Any:
    @functools.wraps(apply)
    def told(state: TrainState, *, grads: Any, **more: Any) -> TrainState:
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(grads)):
            return apply(state, grads=grads, **more)  # it is being compiled
        lineage.note(state)
        if OptimizerStep in tellers:
            tellers[OptimizerStep](_step(state, grads))
        after: TrainState = apply(state, grads=grads, **more)
        if OptimizerStepped in tellers:
            tellers[OptimizerStepped](OptimizerStepped())
        return after

    return told


def _replacing(replace: Any, tellers: Any) -> Any:
    @functools.wraps(replace)
    def told(state: TrainState, **changes: Any) -> TrainState:
        after: TrainState = replace(state, **changes)
        leaves = jax.tree_util.tree_leaves(changes)
        if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            lineage.advance(after)
        return after

    return told


def _step(state: TrainState, grads: Any) -> OptimizerStep:
    name, settings = name_and_settings(state.tx, state.opt_state)

    @functools.cache  # asked for once per parameter, or never
    def gradients() -> list[Any]:
        found = clipped(state.tx, state.opt_state, grads, state.params)
        return list(jax.tree_util.tree_leaves(found))

    def gradient(number: int) -> NDArray[Any]:
        return np.asarray(gradients()[number])

    parameters = tuple(
        Parameter(lineage.place(leaf), int(leaf.size), functools.partial(gradient, i))
        for i, leaf in enumerate(jax.tree_util.tree_leaves(state.params))
    )
    return OptimizerStep(name, (Group(state.tx, settings, parameters),))


def _differentiating(value_and_grad: Any, tellers: dict[Any, Callable[[Any], None]]) -> Any:
    @functools.wraps(value_and_grad)
    def told(function: Any, *settings: Any, **named: Any) -> Any:
        differentiated = value_and_grad(function, *settings, **named)

        @functools.wraps(differentiated)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = differentiated(*args, **kwargs)
            loss = concrete(jax.tree_util.tree_leaves(result[0])[0])
            if Backward in tellers and loss is not None and np.size(loss.array) == 1:
                tellers[Backward](Backward(float(loss.array)))
            return result

        return call

    return told


@contextlib.contextmanager
def _patched(owner: Any, name: str, function: Any) -> Iterator[None]:
    before = vars(owner)[name]
    setattr(owner, name, function)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _all_subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from _all_subclasses(one)
