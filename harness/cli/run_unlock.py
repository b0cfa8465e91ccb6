"""`parallax run unlock`: releases the locks of run folders."""

import argparse
import sys
import time
from pathlib import Path

from parallax.harness.cli.arguments import RUNS_HELP
from parallax.harness.contract.fields import SpecError
from parallax.harness.record.files import escape_unprintable
from parallax.harness.record.layout import find_runs
from parallax.harness.record.lock import read_heartbeat, read_lock_owner, unlock_folder
from parallax.harness.record.lock_owner import LockOwner
from parallax.harness.train.trust import confirm_on_terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax run unlock`."""
    parser.add_argument("folder", type=Path, help=RUNS_HELP)
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def run(options: argparse.Namespace) -> int:
    """Release locks after confirmation.

    Returns:
        0 where every lock was released; 1 where the user declined, a process is alive, or a lock
        could not be released.
    """
    return unlock_runs(options.folder, yes=options.yes)


def unlock_runs(root: Path, *, yes: bool) -> int:
    """Release the locks at or below a folder, after printing who owns them."""
    if not root.is_dir():
        raise SpecError(f"{root} is not a folder: name a run folder or one above.")
    found = find_runs(root)
    if found.links:
        print(escape_unprintable(found.describe_skipped_links()), file=sys.stderr)
    owners = {f: owner for f in found.runs if (owner := read_lock_owner(f)) is not None}
    if not owners:
        print("No run there is locked.")
        return 0
    alive = {f: owner for f, owner in owners.items() if owner.is_local and owner.is_running()}
    for folder, owner in owners.items():
        print(escape_unprintable(str(folder)))
        print(f"    {escape_unprintable(_describe_owner(folder, owner))}")
    for owner in alive.values():
        print(f"Process {owner.pid} of this machine is alive: end it with `kill {owner.pid}`.")
    rest = {folder: owner for folder, owner in owners.items() if folder not in alive}
    if not rest or not (
        yes
        or _confirm_unlock(
            f"Release {len(rest)} locks? A run that is still alive elsewhere will stop."
        )
    ):
        return 1
    released = sum(_unlock_run(folder, owner) for folder, owner in rest.items())
    print(f"{released} locks were released. Run the same sweep again to resume incomplete runs.")
    return 1 if alive or released < len(rest) else 0


def _unlock_run(folder: Path, owner: LockOwner) -> bool:
    """Release one lock; return False and print why where that fails."""
    try:
        unlock_folder(folder, owner)
    except OSError as error:
        words = f"{folder}: its lock cannot be released ({error.strerror})."
        print(escape_unprintable(words), file=sys.stderr)
        return False
    return True


def _describe_owner(folder: Path, owner: LockOwner) -> str:
    beat = read_heartbeat(folder)
    try:
        seen = time.strftime("%a %d %b %Y %H:%M:%S", time.localtime(beat.time)) if beat else ""
    except (OverflowError, ValueError, OSError):
        seen = "an impossible time"
    last = f"last heartbeat at {seen} by its own clock" if seen else "no heartbeat"
    return f"locked by {owner.describe()}, {last}"


def _confirm_unlock(question: str) -> bool:
    if not sys.stdin.isatty():
        raise SpecError("There is no terminal to confirm on: add --yes.")
    return confirm_on_terminal(question)
