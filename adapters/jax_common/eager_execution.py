"""Makes compiled updates of a framework visible to watchers, without changing the training.

A compiled update is one call: its steps, gradients and targets cannot be seen from outside. An
adapter names the classes whose compiled functions make updates, and the classes whose compiled
functions only evaluate networks:

    with make_updates_visible(update_classes=[sbx.PPO], query_classes=[PPOPolicy]):
        model.learn(...)

Without a watcher, the framework's functions are called as usual. If a watcher, such as the
conformance suite, is registered before the training, updates are computed operation by operation
instead of by the compiled functions. If a watcher, such as the diagnosis, is registered later and
for a short time, each update is also computed operation by operation from the same arguments; the
training continues with the result of the compiled function, so that it stays bit-identical.
Functions that only evaluate networks stay compiled: a call is reported as one layer.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.core import Scope, meta
from flax.training.train_state import TrainState


def is_traced(*trees: Any) -> bool:
    """Return whether any leaf of the trees is a tracer instead of a concrete array."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(trees))


def copy_containers(tree: Any) -> Any:
    """Copy the containers of a tree, since compiled functions may write into their arguments."""
    return jax.tree_util.tree_map(lambda leaf: leaf, tree)


@contextlib.contextmanager
def replace_control_flow(by: Callable[[Any], Any]) -> Iterator[None]:
    """Replace all loops and branches of `jax.lax` within the context."""
    before = {name: getattr(jax.lax, name) for name in _PYTHON_LOOPS}
    for name, original in before.items():
        setattr(jax.lax, name, by(original))
    try:
        yield
    finally:
        for name, original in before.items():
            setattr(jax.lax, name, original)


def make_python_loop(original: Any) -> Any:
    """Return a loop that runs in Python on concrete numbers, and JAX's own on traced ones."""
    stands_for = _PYTHON_LOOPS[original.__name__]

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_traced(args, kwargs):
            return original(*args, **kwargs)
        return stands_for(*args, **kwargs)

    return call


def _scan_in_python(
    body: Any, init: Any, xs: Any = None, length: int | None = None, **settings: Any
) -> tuple[Any, Any]:
    assert not settings.get("reverse"), "a scan from the end is not known here"
    leaves = jax.tree_util.tree_leaves(xs)
    carry, outputs = init, []
    for i in range(len(leaves[0]) if leaves else int(length or 0)):
        carry, output = body(
            copy_containers(carry), jax.tree_util.tree_map(lambda leaf, i=i: leaf[i], xs)
        )
        outputs.append(output)
    if not outputs:
        return carry, None
    return carry, jax.tree_util.tree_map(lambda *parts: jnp.stack(parts), *outputs)


def _fori_loop_in_python(lower: Any, upper: Any, body: Any, init: Any, **settings: Any) -> Any:
    value = init
    for i in range(int(lower), int(upper)):
        value = body(np.int32(i), value)
    return value


def _while_loop_in_python(condition: Any, body: Any, init: Any) -> Any:
    value = init
    while bool(condition(value)):
        value = body(value)
    return value


def _cond_in_python(predicate: Any, if_true: Any, if_false: Any, *operands: Any) -> Any:
    return (if_true if bool(predicate) else if_false)(*operands)


_PYTHON_LOOPS: dict[str, Callable[..., Any]] = {
    "scan": _scan_in_python,
    "fori_loop": _fori_loop_in_python,
    "while_loop": _while_loop_in_python,
    "cond": _cond_in_python,
}

_newest_states: dict[Any, TrainState] = {}
_parameter_ids: dict[Any, int] = {}
_ids_by_array: dict[int, tuple[Any, int]] = {}
_checked_shapes: set[tuple[str, tuple[int, ...], str]] = set()


def get_newest_state(state: TrainState) -> TrainState:
    """Return the newest successor of a train state, or the state itself if none is known."""
    return _newest_states.get(_get_optimizer_key(state), state)


def track_state(state: TrainState) -> None:
    """Assign numbers to the parameters of a train state that is new or about to be used."""
    for field in ("params", "target_params"):
        for path, leaf in jax.tree_util.tree_leaves_with_path(getattr(state, field, ())):
            place = _parameter_ids.setdefault(
                (_get_optimizer_key(state), field, path), len(_parameter_ids) + 1
            )
            _ids_by_array[id(leaf)] = leaf, place  # stored, so that no id is reused


def set_newest_state(state: TrainState) -> None:
    """Record a train state as the newest one of its optimizer."""
    _newest_states[_get_optimizer_key(state)] = state
    track_state(state)


def get_parameter_id(array: Any) -> int:
    """Return the number of an array's parameter, constant over steps; 0 for other arrays."""
    return _ids_by_array.get(id(array), (None, 0))[1]


def find_states(*trees: Any) -> Iterator[TrainState]:
    """Yield all train states in arguments of a function."""
    for leaf in jax.tree_util.tree_leaves(trees, is_leaf=_is_train_state):
        if _is_train_state(leaf):
            yield leaf


def clear_steps() -> None:
    """Forget newer states: upstream's own objects are current again."""
    _newest_states.clear()
    _ids_by_array.clear()


def _is_train_state(node: Any) -> bool:
    return isinstance(node, TrainState)


def _get_optimizer_key(state: TrainState) -> Any:
    return state.tx.update  # a function that only this optimizer has


HookFactory = Callable[[], contextlib.AbstractContextManager[None]]
QueryObserver = Callable[[tuple[Any, ...]], None]


class _WatchState:
    """Watchers of this process, and the state of the current compiled call.

    Attributes:
        watchers: Hooks and query observer of each.
        is_eager: Whether all updates are computed operation by operation.
        is_recomputing: Whether an update is being computed a second time.
        depth: Number of compiled functions that are being called, each by the one before.
    """

    def __init__(self) -> None:
        self.watchers: list[tuple[HookFactory, QueryObserver]] = []
        self.is_eager = self.is_recomputing = False
        self.depth = 0


_watch_state = _WatchState()


@contextlib.contextmanager
def add_watcher(hooks: HookFactory, observe_query: QueryObserver) -> Iterator[None]:
    """Register a watcher within the context.

    Args:
        hooks: Entered around updates that are computed operation by operation.
        observe_query: Receives the arguments of each call that only evaluates networks.
    """
    watcher = hooks, observe_query
    _watch_state.watchers.append(watcher)
    try:
        yield
    finally:
        _watch_state.watchers.remove(watcher)


@contextlib.contextmanager
def make_updates_visible(
    update_classes: Sequence[Any], query_classes: Sequence[Any]
) -> Iterator[None]:
    """Let watchers see inside compiled functions within the context.

    Args:
        update_classes: Classes whose compiled functions make gradient steps or move targets.
        query_classes: Classes whose compiled functions compute with networks and change nothing.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(clear_steps)
        stack.callback(_parameter_ids.clear)
        for owner in update_classes:
            _wrap_compiled_functions(stack, owner, _wrap_update)
        for owner in query_classes:
            _wrap_compiled_functions(stack, owner, _wrap_query)
        if _watch_state.watchers:
            stack.callback(setattr, _watch_state, "is_eager", _watch_state.is_eager)
            _watch_state.is_eager = True
            _enter_eager_mode(stack)
        else:
            stack.enter_context(replace_control_flow(_wrap_loop))
        yield


def _wrap_compiled_functions(
    stack: contextlib.ExitStack, owner: Any, wrap: Callable[[Any], Any]
) -> None:
    for name, raw in tuple(vars(owner).items()):
        function = getattr(raw, "__func__", raw)
        if isinstance(function, type(jax.jit(abs))):
            wrapped = wrap(function)
            if isinstance(raw, staticmethod | classmethod):
                wrapped = type(raw)(wrapped)
            stack.callback(setattr, owner, name, raw)
            setattr(owner, name, wrapped)


def _enter_eager_mode(stack: contextlib.ExitStack) -> None:
    stack.enter_context(replace_control_flow(make_python_loop))
    stack.callback(setattr, Scope, "param", Scope.param)
    Scope.param = _check_shapes_once(Scope.param)
    for hooks, _ in tuple(_watch_state.watchers):
        stack.enter_context(hooks())


@functools.cache  # JAX caches compiled code by function
def _wrap_update(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _watch_state.is_eager or _watch_state.is_recomputing:
            return _call_tracked(function.__wrapped__, args, kwargs)
        if _watch_state.watchers and not _watch_state.depth:
            _recompute_eagerly(function.__wrapped__, args, kwargs)
        return _call_nested(function, args, kwargs)

    return call


@functools.cache
def _wrap_query(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _watch_state.watchers and not is_traced(args, kwargs):
            for state in find_states(args, kwargs):
                track_state(state)
            for _, observe_query in tuple(_watch_state.watchers):
                observe_query(args)
        return function(*args, **kwargs)

    return call


def _wrap_loop(original: Any) -> Any:
    # A loop that upstream runs outside of any compiled function is compiled as one.
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _watch_state.watchers and not (
            _watch_state.depth or _watch_state.is_recomputing or is_traced(args, kwargs)
        ):
            _recompute_eagerly(make_python_loop(original), args, kwargs)
        return _call_nested(original, args, kwargs)

    return call


def _check_shapes_once(check: Any) -> Any:
    # At each call of a layer, flax traces the initializers of its parameters to compare shapes,
    # which takes a fifth of an update that is computed operation by operation.
    @functools.wraps(check)
    def read(scope: Scope, name: str, *args: Any, unbox: bool = True, **kwargs: Any) -> Any:
        if not scope.has_variable("params", name):
            return check(scope, name, *args, unbox=unbox, **kwargs)
        value = scope.get_variable("params", name)
        key = name, np.shape(value), str((args[1:], kwargs))  # without the initializer
        if key not in _checked_shapes:
            value = check(scope, name, *args, unbox=unbox, **kwargs)
            _checked_shapes.add(key)
            return value
        scope.reserve(name, "params")
        return meta.unbox(value) if unbox else value

    return read


def _call_nested(function: Any, args: Any, kwargs: Any) -> Any:
    _watch_state.depth += 1
    try:
        return function(*args, **kwargs)
    finally:
        _watch_state.depth -= 1


def _call_tracked(function: Any, args: Any, kwargs: Any) -> Any:
    # The states that an outermost call gets are the newest: upstream's own object has them by
    # then, unless a loop in Python passes them on.
    outermost = not _watch_state.depth
    if outermost:
        clear_steps()
    for state in find_states(args, kwargs):
        (set_newest_state if outermost else track_state)(state)
    return _call_nested(function, args, kwargs)


def _recompute_eagerly(function: Any, args: Any, kwargs: Any) -> None:
    # The result is not used: the function depends on nothing but its arguments.
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, _watch_state, "is_recomputing", False)
        stack.callback(clear_steps)
        _watch_state.is_recomputing = True
        _enter_eager_mode(stack)
        _call_tracked(function, *copy_containers((args, kwargs)))
