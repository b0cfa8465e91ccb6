"""Upstream's text on its way to being executed, where an adapter executes it itself.

An adapter that runs a script of upstream's, rather than importing modules, passes the text through
`rewritten`. It comes back as it is unless somebody rewrites it for this training.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar

SourceRewriter = Callable[[str, str], str]
"""From a script's dotted name, such as `cleanrl.ppo`, and its text to the text that runs."""

_ACTIVE_REWRITER: ContextVar[SourceRewriter | None] = ContextVar("rewrite", default=None)


def rewrite_source(name: str, text: str) -> str:
    """The text that is to be executed in place of `text`.

    Args:
        name: The script as a dotted name below its distribution's folder.
        text: As upstream ships it.
    """
    rewrite = _ACTIVE_REWRITER.get()
    return text if rewrite is None else rewrite(name, text)


@contextlib.contextmanager
def use_source_rewriter(rewriter: SourceRewriter) -> Iterator[None]:
    """Pass scripts that are executed within through `rewrite`; leaves nothing behind."""
    token = _ACTIVE_REWRITER.set(rewriter)
    try:
        yield
    finally:
        _ACTIVE_REWRITER.reset(token)


@contextlib.contextmanager
def silence_future_warnings() -> Iterator[None]:
    """Silences what libraries say of each other's interfaces to come."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        yield


@contextlib.contextmanager
def silence_output() -> Iterator[None]:
    """Keeps the frameworks' progress messages off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
