"""Events of flax and optax in a training, wherever it is computed operation by operation.

That is all of a training that is watched from its beginning; otherwise, it is the calls that are
computed a second time: see `jax_common.eager_execution`. No framework is named here.
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np
from flax.training.train_state import TrainState
from numpy.typing import NDArray

from parallax.adapters.jax_common import eager_execution
from parallax.adapters.jax_common.eager_execution import add_watcher
from parallax.harness.contract.events import (
    AfterOptimizerStep,
    BeforeOptimizerStep,
    LayerForward,
    LossBackward,
    ParameterGroup,
    TrainedParameter,
    TrainingEvents,
)
from parallax.harness.contract.probing.protocol import STATE_STEPS

_SETTING_NAMES = {
    **{"step_size": "lr", "eps": "eps", "b1": "beta1", "b2": "beta2"},
    **{"eps_root": "eps_root", "nesterov": "nesterov", "weight_decay": "weight_decay"},
}
_INJECTED_NAMES = {"learning_rate": "lr", "eps": "eps", "b1": "beta1", "b2": "beta2"}
_OPTIMIZER_NAMES = {
    "scale_by_adam": "Adam",
    "scale_by_amsgrad": "AMSGrad",
    "scale_by_rms": "RMSProp",
    "trace": "SGD",
}


def read_optimizer_settings(tx: Any, opt_state: Any) -> tuple[str, dict[str, float]]:
    """Return an optimizer's name, and those of `lr`, `eps`, `beta1` and `beta2` that it has.

    Numbers that can change during training are in the optimizer's state
    (`optax.inject_hyperparams`), all others in the closures of its functions.
    """
    settings, optimizer = {}, ""
    for maker, numbers in _find_closures(tx.update):
        optimizer = optimizer or _OPTIMIZER_NAMES.get(maker, "")
        for own, value in numbers.items():
            if own in _SETTING_NAMES and isinstance(value, int | float):
                # optax adds updates, so that its step size is minus the learning rate.
                number = abs(float(value)) if own == "step_size" else float(value)
                settings[_SETTING_NAMES[own]] = number
    for injected in _find_injected_settings(opt_state):
        for own, value in injected.items():
            if own in _INJECTED_NAMES:
                settings[_INJECTED_NAMES[own]] = float(value)
        if not optimizer and "b1" in injected:
            optimizer = "Adam"
    return optimizer or "optax", settings


def clip_gradients(tx: Any, opt_state: Any, gradients: Any, parameters: Any) -> Any:
    """Clip gradients with the transformations that precede the optimizer in a chain."""
    numbers = next((cells for _, cells in _find_closures(tx.update, 1)), {})
    parts = numbers.get("update_fns", ())
    for update, state in zip(itertools.takewhile(_is_clipping, parts), opt_state, strict=False):
        gradients, _ = update(gradients, state, parameters)
    return gradients


def _is_clipping(update: Any) -> bool:
    return any(
        maker.startswith(("clip", "adaptive_grad_clip")) for maker, _ in _find_closures(update)
    )


def _find_closures(function: Any, depth: int = 6) -> Iterator[tuple[str, Mapping[str, Any]]]:
    # The functions that an update consists of: the maker of each, and the values in its closure.
    code = getattr(function, "__code__", None)
    if code is None or not depth:
        return
    cells = {
        name: cell.cell_contents
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)
    }
    yield function.__qualname__.partition(".")[0], cells
    for value in cells.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            yield from _find_closures(getattr(one, "update", one), depth - 1)


def _find_injected_settings(opt_state: Any) -> Iterator[Mapping[str, Any]]:
    if hasattr(opt_state, "hyperparams"):
        yield opt_state.hyperparams
    elif isinstance(opt_state, tuple):
        for part in opt_state:
            yield from _find_injected_settings(part)


class FlaxLayer(NamedTuple):
    """A flax layer in the form that watchers of networks expect.

    Attributes:
        weight: float[outputs, inputs], or None where it has no matrix.
        bias: float[outputs], or None.
        module: The flax module.
        differentiated: Whether a gradient is taken through it.
    """

    weight: NDArray[Any] | None
    bias: NDArray[Any] | None
    module: Any
    differentiated: bool


@contextlib.contextmanager
def watch_training(events: TrainingEvents) -> Iterator[None]:
    """Report events within the context; remove all hooks afterwards."""
    publishers = {
        kind: publish
        for kind in (BeforeOptimizerStep, AfterOptimizerStep, LayerForward, LossBackward)
        if (publish := events.get_publisher(kind))
    }
    with add_watcher(lambda: hook_events(publishers), lambda args: _report_query(publishers, args)):
        try:
            yield
        finally:
            publishers.clear()  # a call that is being computed again reports nothing more


def _report_query(publishers: dict[Any, Callable[[Any], None]], args: tuple[Any, ...]) -> None:
    # A compiled call that evaluates networks, as one layer of all their parameters.
    if publish := publishers.get(LayerForward):
        leaves = [
            leaf
            for state in eager_execution.find_states(args)
            for leaf in jax.tree_util.tree_leaves(state.params)
        ]
        arrays = tuple(a for a in args if isinstance(a, np.ndarray | jax.Array) and a.ndim > 1)
        publish(
            LayerForward(
                None, arrays, tuple(eager_execution.get_parameter_id(leaf) for leaf in leaves)
            )
        )


@contextlib.contextmanager
def hook_events(publishers: dict[Any, Callable[[Any], None]]) -> Iterator[None]:
    """Report everything that is computed operation by operation within the context."""
    with contextlib.ExitStack() as stack:
        for kind in (TrainState, *_find_subclasses(TrainState)):
            for name, wrapped in (
                ("apply_gradients", _wrap_apply_gradients),
                ("replace", _wrap_replace),
            ):
                if name in vars(kind):
                    stack.enter_context(
                        _patch_attribute(kind, name, wrapped(vars(kind)[name], publishers))
                    )
        if LossBackward in publishers:
            watched = _wrap_value_and_grad(jax.value_and_grad, publishers)
            stack.enter_context(_patch_attribute(jax, "value_and_grad", watched))
        if LayerForward in publishers:
            stack.enter_context(nn.intercept_methods(_CallInterceptor(publishers)))
        yield


class ConcreteValue(NamedTuple):
    """The numbers behind a value within JAX's transformations.

    Attributes:
        array: JAX's array.
        axis: Batch axis of the array, of which the value is one element; None without one.
        differentiated: Whether a gradient is taken through it.
    """

    array: Any
    axis: int | None
    differentiated: bool


def get_concrete_value(value: Any) -> ConcreteValue | None:
    """Return the numbers of a value; None where there are none yet, as in compilation."""
    axis, differentiated = None, False
    while isinstance(value, jax.core.Tracer):
        if hasattr(value, "batch_dim"):
            axis, value = value.batch_dim, value.val
        elif hasattr(value, "primal"):
            value, differentiated = value.primal, True
        else:
            return None
    return ConcreteValue(value, axis if isinstance(axis, int) else None, differentiated)


def unbatch_arrays(found: ConcreteValue | None, count: int) -> list[NDArray[Any] | None]:
    """Return the arrays that a value stands for, `count` of them."""
    if found is None:
        return [None] * count
    array = np.asarray(found.array)
    return [array if found.axis is None else np.take(array, i, found.axis) for i in range(count)]


class _CallInterceptor:
    # flax calls this for each call of a module's method.
    def __init__(self, publishers: dict[Any, Callable[[Any], None]]) -> None:
        self._publishers, self._linear = publishers, list[Any]()

    def __call__(self, call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        publish = self._publishers.get(LayerForward)
        if publish is None or context.method_name != "__call__":
            return call(*args, **kwargs)
        own = context.module.variables.get("params", {})
        for forward in self._make_forward_events(context.module, args, own):
            publish(forward)
        result = call(*args, **kwargs)
        if "kernel" in own:
            self._linear = [*self._linear[-7:], result]  # stored, so that no id is reused
        return result

    def _make_forward_events(self, module: Any, args: Any, own: Any) -> Iterator[LayerForward]:
        found = {
            name: get_concrete_value(leaf)
            for name, leaf in own.items()
            if not isinstance(leaf, dict)
        }
        places = tuple(
            place
            for leaf in found.values()
            if leaf and (place := eager_execution.get_parameter_id(leaf.array))
        )
        inputs = [get_concrete_value(argument) for argument in args]
        values = [value for value in (*found.values(), *inputs) if value]
        batched = [value for value in values if value.axis is not None]
        learns = any(value.differentiated for value in values)
        count = batched[0].array.shape[batched[0].axis] if batched else 1
        kernels = unbatch_arrays(found.get("kernel"), count)
        biases = unbatch_arrays(found.get("bias"), count)
        input_arrays = [unbatch_arrays(value, count) for value in inputs]
        direct = any(args and args[0] is output for output in self._linear) if learns else None
        for i in range(count):
            kernel = kernels[i]
            layer = FlaxLayer(None if kernel is None else kernel.T, biases[i], module, learns)
            own_inputs = tuple(arrays[i] for arrays in input_arrays)
            yield LayerForward(layer, own_inputs, places, lambda: direct)


def _wrap_apply_gradients(apply: Any, publishers: dict[Any, Callable[[Any], None]]) -> Any:
    @functools.wraps(apply)
    def watched(state: TrainState, *, grads: Any, **more: Any) -> TrainState:
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(grads)):
            return apply(state, grads=grads, **more)  # it is being compiled
        eager_execution.track_state(state)
        if BeforeOptimizerStep in publishers:
            publishers[BeforeOptimizerStep](_make_step_event(state, grads))
        after: TrainState = apply(state, grads=grads, **more)
        if AfterOptimizerStep in publishers:
            publishers[AfterOptimizerStep](AfterOptimizerStep())
        return after

    return watched


def _wrap_replace(replace: Any, publishers: Any) -> Any:
    @functools.wraps(replace)
    def watched(state: TrainState, **changes: Any) -> TrainState:
        after: TrainState = replace(state, **changes)
        leaves = jax.tree_util.tree_leaves(changes)
        if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            eager_execution.set_newest_state(after)
        return after

    return watched


def _make_step_event(state: TrainState, grads: Any) -> BeforeOptimizerStep:
    name, settings = read_optimizer_settings(state.tx, state.opt_state)
    settings[STATE_STEPS] = max(_find_step_counts(state.opt_state), default=0.0)

    @functools.cache  # computed once per parameter, or never
    def gradients() -> list[Any]:
        found = clip_gradients(state.tx, state.opt_state, grads, state.params)
        return list(jax.tree_util.tree_leaves(found))

    def gradient(number: int) -> NDArray[Any]:
        return np.asarray(gradients()[number])

    parameters = tuple(
        TrainedParameter(
            eager_execution.get_parameter_id(leaf), int(leaf.size), functools.partial(gradient, i)
        )
        for i, leaf in enumerate(jax.tree_util.tree_leaves(state.params))
    )
    return BeforeOptimizerStep(name, (ParameterGroup(state.tx, settings, parameters),))


def _find_step_counts(opt_state: Any) -> Iterator[float]:
    if hasattr(opt_state, "mu") and hasattr(opt_state, "count"):
        yield float(opt_state.count)
    elif isinstance(opt_state, tuple):
        for part in opt_state:
            yield from _find_step_counts(part)


def _wrap_value_and_grad(value_and_grad: Any, publishers: dict[Any, Callable[[Any], None]]) -> Any:
    @functools.wraps(value_and_grad)
    def watched(function: Any, *settings: Any, **named: Any) -> Any:
        differentiated = value_and_grad(function, *settings, **named)

        @functools.wraps(differentiated)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = differentiated(*args, **kwargs)
            loss = get_concrete_value(jax.tree_util.tree_leaves(result[0])[0])
            if LossBackward in publishers and loss is not None and np.size(loss.array) == 1:
                publishers[LossBackward](LossBackward(float(loss.array)))
            return result

        return call

    return watched


@contextlib.contextmanager
def _patch_attribute(owner: Any, name: str, function: Any) -> Iterator[None]:
    before = vars(owner)[name]
    setattr(owner, name, function)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _find_subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from _find_subclasses(one)
