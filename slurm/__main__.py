"""`python -m slurm`: looks after studies on a cluster, or on any machine with their folders."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.progress import track

from harness.errors import HANDLED, exit_code
from harness.fields import SpecError
from harness.record.layout import find_runs
from harness.record.reading import find_damage
from slurm.states import OPEN
from slurm.status import as_json, render
from slurm.survey import survey

_WATCH_SECONDS = 10.0


def main(arguments: Sequence[str]) -> int:
    """Command line.

    Returns:
        0 when it was done, 1 when Slurm refused or files are damaged, 2 for bad input.
    """
    options = _parser().parse_args(arguments)
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "status": _status,
        "resubmit": _resubmit,
        "cancel": _cancel,
        "validate": _validate,
    }
    try:
        if not options.folder.is_dir():
            raise SpecError(f"{options.folder} is not a folder: name one with results.")
        return commands[options.command](options)
    except HANDLED as error:
        return exit_code(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m slurm", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    status = commands.add_parser("status", help="what is there, what is missing and why")
    status.add_argument("--json", action="store_true", help="for programs")
    status.add_argument("--watch", action="store_true", help="again every 10 seconds")
    status.add_argument("--list", type=int, default=20, metavar="N", help="most runs to name")
    again = commands.add_parser("resubmit", help="submits what is neither complete nor alive")
    again.add_argument("--only", metavar="STATES", help=f"some of {','.join(OPEN)}")
    again.add_argument("--profile", help="another profile than the last submission's")
    again.add_argument("--time", metavar="HH:MM:SS", help="another time limit for each run")
    again.add_argument("--mem-gb", type=float, help="another size of memory")
    again.add_argument("--dry-run", action="store_true", help="only shows what it would do")
    cancel = commands.add_parser("cancel", help="cancels the queued and running jobs of a study")
    validate = commands.add_parser("validate", help="reads every file whole and names damage")
    for command in (again, cancel):
        command.add_argument("--yes", action="store_true", help="does not ask first")
    for command in (status, again, cancel, validate):
        command.add_argument("folder", type=Path, help="results, a study, or anything deeper")
    return parser


def _status(options: argparse.Namespace) -> int:
    if options.json:
        print(as_json(*survey(options.folder), options.folder))
        return 0
    console = Console()
    if not options.watch:
        console.print(render(*survey(options.folder), options.folder, options.list))
        return 0
    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            runs, queue = survey(options.folder)
            live.update(render(runs, queue, options.folder, options.list), refresh=True)
            if runs and not any(run.state in ("running", "queued") for run in runs):
                break
            time.sleep(_WATCH_SECONDS)
    console.print(render(runs, queue, options.folder, options.list))
    return 0


def _resubmit(options: argparse.Namespace) -> int:
    from slurm.resubmit import resubmit  # takes a third of the time of `status`

    only = tuple(options.only.split(",")) if options.only else OPEN
    for state in only:
        if state not in OPEN:
            raise SpecError(f"--only={state} is not a state to submit: choose {', '.join(OPEN)}.")
    overrides = {
        "time": dict.fromkeys(("default", "ppo", "td3", "sac"), options.time),
        "mem_gb": options.mem_gb,
    }
    return resubmit(
        options.folder,
        only,
        overrides,
        profile=options.profile,
        confirm=_confirm(options),
        dry_run=options.dry_run,
    )


def _cancel(options: argparse.Namespace) -> int:
    from slurm.resubmit import cancel

    return cancel(options.folder, confirm=_confirm(options))


def _validate(options: argparse.Namespace) -> int:
    folders = find_runs(options.folder).runs
    damaged = 0
    for folder in track(folders, "Reading", console=Console(stderr=True), transient=True):
        for name, problem in find_damage(folder).items():
            damaged += 1
            print(f"{folder / name}: {problem}")
    print(f"{len(folders)} runs were read: {damaged or 'no'} files are damaged.")
    return 1 if damaged else 0


def _confirm(options: argparse.Namespace) -> Callable[[str], bool]:
    def ask(question: str) -> bool:
        if options.yes:
            return True
        if not sys.stdin.isatty():
            raise SpecError("Nobody can be asked here: add --yes to go ahead.")
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")

    return ask


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
