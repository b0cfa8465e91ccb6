"""Upstream's text on its way to being executed, where an adapter executes it itself.

An adapter that runs a script of upstream's, rather than importing modules, passes the text through
`rewritten`. It comes back as it is unless somebody rewrites it for this training.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

Rewrite = Callable[[str, str], str]
"""From a script's dotted name, such as `cleanrl.ppo`, and its text to the text that runs."""

_REWRITE: ContextVar[Rewrite | None] = ContextVar("rewrite", default=None)


def rewritten(name: str, text: str) -> str:
    """The text that is to be executed in place of `text`.

    Args:
        name: The script as a dotted name below its distribution's folder.
        text: As upstream ships it.
    """
    rewrite = _REWRITE.get()
    return text if rewrite is None else rewrite(name, text)


@contextlib.contextmanager
def rewriting(rewrite: Rewrite) -> Iterator[None]:
    """Lets scripts that are executed within pass through `rewrite`; leaves nothing behind."""
    token = _REWRITE.set(rewrite)
    try:
        yield
    finally:
        _REWRITE.reset(token)
