"""Access for watchers to updates that a framework compiles, without changing the training.

A compiled update is one call: its steps, gradients and targets cannot be seen from outside. An
adapter names the classes that the framework's compiled functions belong to, those that learn and
those that only evaluate networks:

    with visible(learning=[sbx.PPO], asking=[sbx.ppo.policies.PPOPolicy]):
        model.learn(...)

Where nobody watches, the framework's functions are called as ever. Where somebody watches from
before the training on, as conformance does, updates are computed operation by operation in place
of the compiled ones. Who comes later and for a short while, as the diagnosis does, is shown each
update computed a second time, from the same arguments and operation by operation; the training
goes on with what the compiled one returned, so that no bit of it differs. Functions that only
evaluate networks stay compiled: a call is reported as one layer.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.training.train_state import TrainState


def is_traced(*trees: Any) -> bool:
    """Return whether anything in it has no numbers yet, or stands for others."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(trees))


def copy_containers(tree: Any) -> Any:
    """Copy containers of numbers: compiled functions may write into those they are given."""
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
    """Return a loop that runs in Python on concrete numbers and is JAX's own on traced ones."""
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


def get_newest_state(state: TrainState) -> TrainState:
    """Return the newest successor of a train state; itself where no later one is known."""
    return _newest_states.get(_get_optimizer_key(state), state)


def track_state(state: TrainState) -> None:
    """A train state has been made of another one, or is about to be computed with."""
    for field in ("params", "target_params"):
        for path, leaf in jax.tree_util.tree_leaves_with_path(getattr(state, field, ())):
            place = _parameter_ids.setdefault(
                (_get_optimizer_key(state), field, path), len(_parameter_ids) + 1
            )
            _ids_by_array[id(leaf)] = leaf, place  # stored, so that no id is reused


def set_newest_state(state: TrainState) -> None:
    """A later one of its kind."""
    _newest_states[_get_optimizer_key(state)] = state
    track_state(state)


def get_parameter_id(array: Any) -> int:
    """Return the number of the parameter that an array is, constant over steps; 0 for none."""
    return _ids_by_array.get(id(array), (None, 0))[1]


def find_states(*trees: Any) -> Iterator[TrainState]:
    """All train states in arguments of a function."""
    for leaf in jax.tree_util.tree_leaves(trees, is_leaf=_is_train_state):
        if _is_train_state(leaf):
            yield leaf


def clear_steps() -> None:
    """Upstream's objects are what counts again."""
    _newest_states.clear()
    _ids_by_array.clear()


def clear_lineage() -> None:
    """The training is over."""
    clear_steps()
    _parameter_ids.clear()


def _is_train_state(node: Any) -> bool:
    return isinstance(node, TrainState)


def _get_optimizer_key(state: TrainState) -> Any:
    return state.tx.update  # a function of this optimiser alone


HookFactory = Callable[[], contextlib.AbstractContextManager[None]]
QueryObserver = Callable[[tuple[Any, ...]], None]


class _WatchState:
    """Purpose of the current call of compiled functions in this process."""

    def __init__(self) -> None:
        self.watched: list[tuple[HookFactory, QueryObserver]] = []
        self.whole = self.opened = False
        self.depth = 0


_watch_state = _WatchState()


@contextlib.contextmanager
def add_watcher(hooks: HookFactory, asked: QueryObserver) -> Iterator[None]:
    """Register a watcher within the context.

    Args:
        hooks: Entered around updates that are computed operation by operation.
        asked: Receives the arguments of each call that only evaluates networks.
    """
    watcher = hooks, asked
    _watch_state.watched.append(watcher)
    try:
        yield
    finally:
        _watch_state.watched.remove(watcher)


@contextlib.contextmanager
def make_updates_visible(
    update_classes: Sequence[Any], query_classes: Sequence[Any]
) -> Iterator[None]:
    """Let watchers see within what is compiled.

    Args:
        update_classes: Classes whose compiled functions make gradient steps or move targets.
        query_classes: Classes whose compiled functions compute with networks and change nothing.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(clear_lineage)
        for owner in update_classes:
            _wrap_compiled_functions(stack, owner, _wrap_update)
        for owner in query_classes:
            _wrap_compiled_functions(stack, owner, _wrap_query)
        if _watch_state.watched:
            stack.callback(setattr, _watch_state, "whole", _watch_state.whole)
            _watch_state.whole = True
            _enter_eager_mode(stack)
        else:
            stack.enter_context(replace_control_flow(_wrap_loop))
        yield


def _wrap_compiled_functions(
    stack: contextlib.ExitStack, owner: Any, made: Callable[[Any], Any]
) -> None:
    for name, raw in tuple(vars(owner).items()):
        function = getattr(raw, "__func__", raw)
        if isinstance(function, type(jax.jit(abs))):
            wrap = type(raw) if isinstance(raw, staticmethod | classmethod) else _return_unchanged
            stack.callback(setattr, owner, name, raw)
            setattr(owner, name, wrap(made(function)))


def _return_unchanged(function: Any) -> Any:
    return function


def _enter_eager_mode(stack: contextlib.ExitStack) -> None:
    stack.enter_context(replace_control_flow(make_python_loop))
    for hooks, _ in tuple(_watch_state.watched):
        stack.enter_context(hooks())


@functools.cache  # JAX knows by the function what it has compiled
def _wrap_update(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _watch_state.whole or _watch_state.opened:
            return _call_tracked(function.__wrapped__, args, kwargs)
        if _watch_state.watched and not _watch_state.depth:
            _recompute_eagerly(function.__wrapped__, args, kwargs)
        return _call_nested(function, args, kwargs)

    return call


@functools.cache
def _wrap_query(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _watch_state.watched and not is_traced(args, kwargs):
            for state in find_states(args, kwargs):
                track_state(state)
            for _, asked in tuple(_watch_state.watched):
                asked(args)
        return function(*args, **kwargs)

    return call


def _wrap_loop(original: Any) -> Any:
    # A loop that upstream runs outside of any compiled function is compiled as one.
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _watch_state.watched and not (
            _watch_state.depth or _watch_state.opened or is_traced(args, kwargs)
        ):
            _recompute_eagerly(make_python_loop(original), args, kwargs)
        return _call_nested(original, args, kwargs)

    return call


def _call_nested(function: Any, args: Any, kwargs: Any) -> Any:
    _watch_state.depth += 1
    try:
        return function(*args, **kwargs)
    finally:
        _watch_state.depth -= 1


def _call_tracked(function: Any, args: Any, kwargs: Any) -> Any:
    # What an outermost call is given counts: upstream's own object has it by then, unless a loop
    # that is made in Python hands it on.
    outermost = not _watch_state.depth
    if outermost:
        clear_steps()
    for state in find_states(args, kwargs):
        (set_newest_state if outermost else track_state)(state)
    return _call_nested(function, args, kwargs)


def _recompute_eagerly(function: Any, args: Any, kwargs: Any) -> None:
    # What comes out is not used: all that the function depends on is in its arguments.
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, _watch_state, "opened", False)
        stack.callback(clear_steps)
        _watch_state.opened = True
        _enter_eager_mode(stack)
        _call_tracked(function, *copy_containers((args, kwargs)))
