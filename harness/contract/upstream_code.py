"""Rewriting of upstream's source text in adapters that execute scripts themselves.

An adapter that runs a script of upstream's, rather than importing modules, passes the text through
`rewrite_source`. It is returned unchanged unless a rewriter is set for this training.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar

SourceRewriter = Callable[[str, str], str]
"""Takes a script's dotted name, such as `cleanrl.ppo`, and its text; returns the text to run."""

_ACTIVE_REWRITER: ContextVar[SourceRewriter | None] = ContextVar("rewrite", default=None)


def rewrite_source(name: str, text: str) -> str:
    """Return the text to execute in place of upstream's script `name`, such as `cleanrl.ppo`."""
    rewrite = _ACTIVE_REWRITER.get()
    return text if rewrite is None else rewrite(name, text)


@contextlib.contextmanager
def use_source_rewriter(rewriter: SourceRewriter) -> Iterator[None]:
    """Apply `rewriter` to scripts that are executed within the context, and only there."""
    token = _ACTIVE_REWRITER.set(rewriter)
    try:
        yield
    finally:
        _ACTIVE_REWRITER.reset(token)


@contextlib.contextmanager
def silence_future_warnings() -> Iterator[None]:
    """Silence warnings about deprecated or changing interfaces between libraries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        yield


@contextlib.contextmanager
def silence_output() -> Iterator[None]:
    """Keep the frameworks' progress messages off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
