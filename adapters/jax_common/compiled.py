"""Lets watchers see into updates that a framework compiles, without changing what is trained.

A compiled update is one call: its steps, gradients and targets cannot be seen from outside. An
adapter names the classes that the framework's compiled functions belong to, those that learn and
those that only ask networks:

    with visible(learning=[sbx.PPO], asking=[sbx.ppo.policies.PPOPolicy]):
        model.learn(...)

Where nobody watches, the framework's functions are called as ever. Where somebody watches from
before the training on, as conformance does, updates are computed operation by operation in place
of the compiled ones. Who comes later and for a short while, as the diagnosis does, is shown each
update computed a second time, from the same arguments and operation by operation; the training
goes on with what the compiled one returned, so that no bit of it differs. What only asks networks
is compiled in any case: a call is told as one layer that computes.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from adapters.jax_common import lineage, loops

Hooks = Callable[[], contextlib.AbstractContextManager[None]]
Asked = Callable[[tuple[Any, ...]], None]


class _Now:
    """What the functions of this process are called for at the moment."""

    def __init__(self) -> None:
        self.watched: list[tuple[Hooks, Asked]] = []
        self.whole = self.opened = False
        self.depth = 0


_now = _Now()


@contextlib.contextmanager
def watched_with(hooks: Hooks, asked: Asked) -> Iterator[None]:
    """Has a watcher see.

    Args:
        hooks: Entered around updates that are computed operation by operation.
        asked: Told the arguments of each call that only asks networks.
    """
    watcher = hooks, asked
    _now.watched.append(watcher)
    try:
        yield
    finally:
        _now.watched.remove(watcher)


@contextlib.contextmanager
def visible(learning: Sequence[Any], asking: Sequence[Any]) -> Iterator[None]:
    """Lets watchers see within what is compiled.

    Args:
        learning: Classes whose compiled functions make gradient steps or move targets.
        asking: Classes whose compiled functions compute with networks and change nothing.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(lineage.forget)
        for owner in learning:
            _replace(stack, owner, _learns)
        for owner in asking:
            _replace(stack, owner, _asks)
        if _now.watched:
            stack.callback(setattr, _now, "whole", _now.whole)
            _now.whole = True
            _enter(stack)
        else:
            stack.enter_context(loops.replaced(_loop))
        yield


def _replace(stack: contextlib.ExitStack, owner: Any, made: Callable[[Any], Any]) -> None:
    for name, raw in tuple(vars(owner).items()):
        function = getattr(raw, "__func__", raw)
        if isinstance(function, type(jax.jit(abs))):
            wrap = type(raw) if isinstance(raw, staticmethod | classmethod) else _as_it_is
            stack.callback(setattr, owner, name, raw)
            setattr(owner, name, wrap(made(function)))


def _as_it_is(function: Any) -> Any:
    return function


def _enter(stack: contextlib.ExitStack) -> None:
    stack.enter_context(loops.replaced(loops.plain))
    for hooks, _ in tuple(_now.watched):
        stack.enter_context(hooks())


@functools.cache  # JAX knows by the function what it has compiled
def _learns(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _now.whole or _now.opened:
            return _noted(function.__wrapped__, args, kwargs)
        if _now.watched and not _now.depth:
            _again(function.__wrapped__, args, kwargs)
        return _deeper(function, args, kwargs)

    return call


@functools.cache
def _asks(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _now.watched and not loops.is_traced(args, kwargs):
            for state in lineage.states_in(args, kwargs):
                lineage.note(state)
            for _, asked in tuple(_now.watched):
                asked(args)
        return function(*args, **kwargs)

    return call


def _loop(original: Any) -> Any:
    # A loop that upstream runs outside of any compiled function is compiled as one.
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _now.watched and not (_now.depth or _now.opened or loops.is_traced(args, kwargs)):
            _again(loops.plain(original), args, kwargs)
        return _deeper(original, args, kwargs)

    return call


def _deeper(function: Any, args: Any, kwargs: Any) -> Any:
    _now.depth += 1
    try:
        return function(*args, **kwargs)
    finally:
        _now.depth -= 1


def _noted(function: Any, args: Any, kwargs: Any) -> Any:
    # What an outermost call is given counts: upstream's own object has it by then, unless a loop
    # that is made in Python hands it on.
    outermost = not _now.depth
    if outermost:
        lineage.forget_steps()
    for state in lineage.states_in(args, kwargs):
        (lineage.advance if outermost else lineage.note)(state)
    return _deeper(function, args, kwargs)


def _again(function: Any, args: Any, kwargs: Any) -> None:
    # What comes out is not used: all that the function depends on is in its arguments.
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, _now, "opened", False)
        stack.callback(lineage.forget_steps)
        _now.opened = True
        _enter(stack)
        _noted(function, *loops.fresh((args, kwargs)))
