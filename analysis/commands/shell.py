"""What all commands do alike: reading results, making the output folder, printing."""

import contextlib
import io
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import track

from analysis.load import load
from analysis.runs import Loaded

_WIDEST = 100  # columns
T = TypeVar("T")


class CommandError(Exception):
    """One plain message for the user; the command ends with status 2."""


def load_results(results: Path) -> Loaded:
    """Reads all runs under a folder.

    Raises:
        CommandError: There is no such folder, or no run folder in it.
    """
    if not results.is_dir():
        raise CommandError(f"{results}: no such folder. Give a results folder or a study in it.")
    loaded = load(results)
    if not loaded.requested:
        raise CommandError(
            f"{results}: no runs found, that is no folder named seed=<n> or holding a "
            "run.json. Give a results folder or a study in it."
        )
    return loaded


@contextlib.contextmanager
def writing_to(output: Path) -> Iterator[None]:
    """Makes the output folder; turns failures to write into one message.

    Raises:
        CommandError: The folder cannot be made or written to.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise CommandError(
            f"{output}: cannot be written: {error.strerror}. Choose another --output."
        ) from error


def progress(items: Iterable[T], total: int) -> Iterable[T]:
    """Passes items on and shows on standard error, if it is a terminal, how many are done."""
    return track(items, "Drawing", total, console=Console(stderr=True), transient=True)


def make_console() -> Console:
    """A console as wide as the terminal, 100 columns at most."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # where a terminal lacks a character
    return Console(width=min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns))
