"""JAX's loops and branches as Python's, for what is computed operation by operation."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def is_traced(*trees: Any) -> bool:
    """Whether anything in it has no numbers yet, or stands for others."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(trees))


def fresh(tree: Any) -> Any:
    """The same numbers in other containers: what is compiled may write into those it is given."""
    return jax.tree_util.tree_map(lambda leaf: leaf, tree)


@contextlib.contextmanager
def replaced(by: Callable[[Any], Any]) -> Iterator[None]:
    """Has every loop and branch that is asked of `jax.lax` made otherwise within."""
    before = {name: getattr(jax.lax, name) for name in _PLAIN}
    for name, original in before.items():
        setattr(jax.lax, name, by(original))
    try:
        yield
    finally:
        for name, original in before.items():
            setattr(jax.lax, name, original)


def plain(original: Any) -> Any:
    """What runs in Python where there are numbers, and is JAX's own elsewhere."""
    stands_for = _PLAIN[original.__name__]

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_traced(args, kwargs):
            return original(*args, **kwargs)
        return stands_for(*args, **kwargs)

    return call


def _scan(
    body: Any, init: Any, xs: Any = None, length: int | None = None, **settings: Any
) -> tuple[Any, Any]:
    assert not settings.get("reverse"), "a scan from the end is not known here"
    leaves = jax.tree_util.tree_leaves(xs)
    carry, outputs = init, []
    for i in range(len(leaves[0]) if leaves else int(length or 0)):
        carry, output = body(fresh(carry), jax.tree_util.tree_map(lambda leaf, i=i: leaf[i], xs))
        outputs.append(output)
    if not outputs:
        return carry, None
    return carry, jax.tree_util.tree_map(lambda *parts: jnp.stack(parts), *outputs)


def _fori_loop(lower: Any, upper: Any, body: Any, init: Any, **settings: Any) -> Any:
    value = init
    for i in range(int(lower), int(upper)):
        value = body(np.int32(i), value)
    return value


def _while_loop(condition: Any, body: Any, init: Any) -> Any:
    value = init
    while bool(condition(value)):
        value = body(value)
    return value


def _cond(predicate: Any, if_true: Any, if_false: Any, *operands: Any) -> Any:
    return (if_true if bool(predicate) else if_false)(*operands)


_PLAIN: dict[str, Callable[..., Any]] = {
    "scan": _scan,
    "fori_loop": _fori_loop,
    "while_loop": _while_loop,
    "cond": _cond,
}
