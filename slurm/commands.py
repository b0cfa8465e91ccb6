"""The commands `parallax status`, `slurm resubmit` and `slurm cancel`.

They need only the folders of a study; on a machine without Slurm nothing is queued or cancelled.
"""

import argparse
import contextlib
import functools
import gc
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from parallax.harness.contract.fields import SpecError
from parallax.harness.record.files import escape_unprintable, make_number_parser
from parallax.harness.record.layout import find_runs
from parallax.harness.record.reading import find_damage
from parallax.slurm.states import RESUBMITTABLE_STATES

_WATCH_SECONDS = 10.0
_LISTED_RUNS = 20


def add_status_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax status`."""
    _add_folder_argument(parser)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--json", action="store_true", help="print everything as JSON")
    mode.add_argument(
        "--watch",
        action="store_true",
        help=f"repeat every {_WATCH_SECONDS:.0f} seconds until no run is queued or running",
    )
    parser.add_argument(
        "--list",
        type=make_number_parser(0, 10**9),
        default=_LISTED_RUNS,
        metavar="N",
        help="name at most N incomplete runs (default: %(default)s)",
    )
    mode.add_argument(
        "--files",
        action="store_true",
        help="instead, read every file of all runs and name the damaged files",
    )


def add_resubmit_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax slurm resubmit`."""
    _add_folder_argument(parser)
    add = parser.add_argument
    add(
        "--only",
        metavar="STATES",
        help=f"only runs in these states, of {','.join(RESUBMITTABLE_STATES)} (default: all)",
    )
    add("--profile", help="cluster profile (default: that of the last submission)")
    add("--time", metavar="HH:MM:SS", help="time limit of each run (default: as before)")
    add("--mem-gb", type=float, metavar="GB", help="memory of each run (default: as before)")
    add("--dry-run", action="store_true", help="print what would be submitted; submit nothing")
    _add_yes_argument(parser)
    add(
        "--trust",
        action="store_true",
        help="do not ask before running code that stored runs name (tasks, adapters, interpreters)",
    )


def add_cancel_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax slurm cancel`."""
    _add_folder_argument(parser)
    _add_yes_argument(parser)


def _add_folder_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=_check_folder, help="results, a study, or a folder in it")


def _add_yes_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _check_folder(text: str) -> Path:
    """Return a folder given on the command line, for argparse."""
    if not text or not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder: name one with results")
    return Path(text)


@contextlib.contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Disable garbage collection: thousands of records make no cycles, only objects to scan."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def run_status(options: argparse.Namespace) -> int:
    """Print the state of all runs, once or until none is queued or running.

    Returns:
        0; with `--files` 1 where a file is damaged.
    """
    if (options.json or options.files) and options.list != _LISTED_RUNS:
        raise SpecError(f"--{'json' if options.json else 'files'} names all runs: drop --list.")
    if options.files:
        return _print_damaged_files(options.folder)
    from rich.console import Console  # help and other commands do not need it

    from parallax.slurm.states import survey_runs
    from parallax.slurm.status import render_status, status_to_json

    with _pause_garbage_collection():
        runs, queue = survey_runs(options.folder, _print_warning)
    if options.json:
        print(status_to_json(runs, queue, options.folder))
        return 0
    console = Console()
    if not options.watch:
        console.print(render_status(runs, queue, options.folder, options.list))
        return 0
    from rich.live import Live

    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            live.update(render_status(runs, queue, options.folder, options.list), refresh=True)
            if runs and not any(run.state in ("running", "queued") for run in runs):
                break
            time.sleep(_WATCH_SECONDS)
            runs, queue = survey_runs(options.folder)
    console.print(render_status(runs, queue, options.folder, options.list))
    return 0


def run_resubmit(options: argparse.Namespace) -> int:
    """Submit incomplete runs again, after confirmation.

    Raises:
        SpecError: An option cannot be used.
    """
    from parallax.harness.contract.algorithms import ALGORITHMS  # status does not need it
    from parallax.slurm.resubmit import resubmit_runs  # takes a third of the time of `status`

    only = RESUBMITTABLE_STATES if options.only is None else tuple(options.only.split(","))
    for state in only:
        if state not in RESUBMITTABLE_STATES:
            raise SpecError(
                f"--only={escape_unprintable(state)} is not a state to submit: "
                f"choose {', '.join(RESUBMITTABLE_STATES)}."
            )
    overrides = {
        "time": dict.fromkeys(("default", *ALGORITHMS), options.time),
        "mem_gb": options.mem_gb,
    }
    return resubmit_runs(
        options.folder,
        only,
        overrides,
        profile=options.profile,
        confirm=_make_confirmation(options),
        dry_run=options.dry_run,
        trust=options.trust,
    )


def run_cancel(options: argparse.Namespace) -> int:
    """Cancel jobs, after confirmation."""
    from parallax.slurm.resubmit import cancel_jobs

    return cancel_jobs(options.folder, confirm=_make_confirmation(options))


def _print_warning(text: str) -> None:
    print(escape_unprintable(text), file=sys.stderr)


def _print_damaged_files(root: Path) -> int:
    from rich.console import Console
    from rich.progress import track

    found = find_runs(root)
    if found.links:
        _print_warning(found.describe_skipped_links())
    damaged = 0
    with _pause_garbage_collection():
        for folder in track(found.runs, "Reading", console=Console(stderr=True), transient=True):
            for name, problem in find_damage(folder).items():
                damaged += 1
                print(escape_unprintable(f"{folder / name}: {problem}"))
    print(f"{len(found.runs)} runs were read: {damaged or 'no'} files are damaged.")
    return 1 if damaged else 0


def _make_confirmation(options: argparse.Namespace) -> Callable[[str], bool]:
    from parallax.harness.train.trust import request_confirmation

    return functools.partial(request_confirmation, yes=options.yes)
