"""`python -m slurm`: looks after studies on a cluster, or on any machine with their folders."""

import argparse
import contextlib
import gc
import io
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from parallax.harness.contract.fields import HANDLED_ERRORS, SpecError, report_error
from parallax.harness.record.files import escape_unprintable
from parallax.harness.record.layout import find_runs
from parallax.harness.record.reading import find_damage
from parallax.slurm.states import RESUBMITTABLE_STATES

_WATCH_SECONDS = 10.0


def main(arguments: Sequence[str]) -> int:
    """Command line.

    Returns:
        0 when it was done, 1 when Slurm refused or files are damaged, 2 for bad input.
    """
    options = _make_parser().parse_args(arguments)
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "status": _run_status,
        "resubmit": _run_resubmit,
        "cancel": _run_cancel,
        "validate": _run_validate,
        "lab": _run_lab,
    }
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files can be any bytes
    try:
        if options.command != "lab":
            _check_folder(options.folder)
        code = commands[options.command](options)
        sys.stdout.flush()
        return code
    except HANDLED_ERRORS as error:
        return report_error(error)
    except BrokenPipeError:
        # The reader has seen enough, as `head` has. Python would complain again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return report_error(SpecError(escape_unprintable(f"{where}{error.strerror or error}.")))


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise SpecError(
            f"{escape_unprintable(str(folder))} is not a folder: name one with results."
        )


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m slurm", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    status = commands.add_parser("status", help="what is there, what is missing and why")
    status.add_argument("--json", action="store_true", help="for programs")
    status.add_argument("--watch", action="store_true", help="again every 10 seconds")
    status.add_argument(
        "--list",
        type=_make_number_parser(0, 10**9),
        default=20,
        metavar="N",
        help="most runs to name",
    )
    again = commands.add_parser("resubmit", help="submits what is neither complete nor alive")
    again.add_argument("--only", metavar="STATES", help=f"some of {','.join(RESUBMITTABLE_STATES)}")
    again.add_argument("--profile", help="another profile than the last submission's")
    again.add_argument("--time", metavar="HH:MM:SS", help="another time limit for each run")
    again.add_argument("--mem-gb", type=float, help="another size of memory")
    again.add_argument("--dry-run", action="store_true", help="only shows what it would do")
    again.add_argument(
        "--trust", action="store_true", help="runs what the folder names without asking"
    )
    cancel = commands.add_parser("cancel", help="cancels the queued and running jobs of a study")
    validate = commands.add_parser("validate", help="reads every file whole and names damage")
    for command in (again, cancel):
        command.add_argument("--yes", action="store_true", help="does not ask first")
    for command in (status, again, cancel, validate):
        command.add_argument("folder", type=Path, help="results, a study, or anything deeper")
    _add_lab_arguments(
        commands.add_parser("lab", help="a real cluster on this machine, to try things on")
    )
    return parser


def _add_lab_arguments(lab: argparse.ArgumentParser) -> None:
    lab.add_argument(
        "--nodes", type=_make_number_parser(1, 1000), default=2, help="number of nodes"
    )
    lab.add_argument(
        "--cpus", type=_make_number_parser(1, 1000), default=4, help="processors of each"
    )
    lab.add_argument("--folder", type=Path, help="keeps its files, empty at first")
    lab.add_argument("--accounting", action="store_true", help="with a database behind sacct")
    lab.add_argument(
        "program", nargs="*", metavar="-- COMMAND", help="runs inside; without: until Ctrl-C"
    )


def _make_number_parser(least: int, most: int) -> Callable[[str], int]:
    """What reads a whole number for argparse."""

    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text[:12]) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} must be from {least} to {most}")
        return int(text)

    return read


@contextlib.contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Spares Python the search for garbage while thousands of records are read, which make none."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _run_status(options: argparse.Namespace) -> int:
    from rich.console import Console  # help and other commands do without

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


def _run_resubmit(options: argparse.Namespace) -> int:
    from parallax.harness.contract.algorithms import ALGORITHMS  # which status can do without
    from parallax.slurm.resubmit import resubmit_runs  # takes a third of the time of `status`

    only = RESUBMITTABLE_STATES if options.only is None else tuple(options.only.split(","))
    for state in only:
        if state not in RESUBMITTABLE_STATES:
            raise SpecError(
                f"--only={escape_unprintable(state)} is not a state to submit: choose {', '.join(RESUBMITTABLE_STATES)}."
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


def _run_cancel(options: argparse.Namespace) -> int:
    from parallax.slurm.resubmit import cancel_jobs

    return cancel_jobs(options.folder, confirm=_make_confirmation(options))


def _print_warning(text: str) -> None:
    print(escape_unprintable(text), file=sys.stderr)


def _run_validate(options: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.progress import track

    found = find_runs(options.folder)
    folders = found.runs
    if found.links:
        _print_warning(found.describe_skipped_links())
    damaged = 0
    with _pause_garbage_collection():
        for folder in track(folders, "Reading", console=Console(stderr=True), transient=True):
            for name, problem in find_damage(folder).items():
                damaged += 1
                print(escape_unprintable(f"{folder / name}: {problem}"))
    print(f"{len(folders)} runs were read: {damaged or 'no'} files are damaged.")
    return 1 if damaged else 0


def _run_lab(options: argparse.Namespace) -> int:
    from tests.slurm_cluster.session import run_cluster_session

    return run_cluster_session(
        options.folder,
        options.nodes,
        options.cpus,
        accounting=options.accounting,
        command=options.program,
    )


def _make_confirmation(options: argparse.Namespace) -> Callable[[str], bool]:
    def ask(question: str) -> bool:
        from parallax.harness.train.trust import confirm_on_terminal

        if options.yes:
            return True
        if not sys.stdin.isatty():
            raise SpecError("Nobody can be asked here: add --yes to go ahead.")
        return confirm_on_terminal(question)

    return ask


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
