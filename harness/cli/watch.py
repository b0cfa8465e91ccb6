"""`parallax watch FOLDER`: the curves and the findings of a run, as it goes on or after."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from harness.cli.watching import Watched, html_page, lines_of, look
from harness.contract.fields import SpecError
from harness.record.files import visible, write_text


def main(arguments: Sequence[str]) -> int:
    """Command line.

    Returns:
        0, 2 for a folder that is no run's or a file that cannot be written, 130 for Ctrl-C.
    """
    parser = argparse.ArgumentParser(prog="parallax watch", description=__doc__)
    parser.add_argument("folder", type=Path, help="a run folder")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between looks")
    parser.add_argument("--once", action="store_true", help="looks once and ends")
    parser.add_argument("--html", type=Path, metavar="FILE", help="writes a page, and rewrites it")
    options = parser.parse_args(arguments)
    try:
        return watch(options.folder, max(options.every, 0.2), options.once, options.html)
    except SpecError as error:
        print(f"Error: {visible(str(error))}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"Error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def watch(folder: Path, every: float, once: bool, html: Path | None) -> int:
    """Shows the run until it has ended; what did not change is not shown again.

    Raises:
        SpecError: The folder is no run's.
    """
    console, shown = Console(highlight=False), None
    while True:
        watched = look(folder)
        if watched != shown:
            if console.is_terminal and shown is not None:
                console.clear()
            _show(console, watched)
            if html is not None:
                write_text(html, html_page(watched, 0 if once else every))
                if shown is None:
                    print(f"The page is {html}.", flush=True)
            shown = watched
        if once or not watched.goes_on:
            return 0
        time.sleep(every)


def _show(console: Console, watched: Watched) -> None:
    for line in lines_of(watched, console.width if console.is_terminal else 100):
        console.print(visible(line), markup=False, soft_wrap=True)
    sys.stdout.flush()
