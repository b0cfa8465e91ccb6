"""`parallax free FOLDER`: ends the lease of a process that nobody can ask any more.

A process on this machine is looked for, and one on another machine is watched by whoever wants its
run, so a lease seldom has to be ended by hand: where one is in doubt and nobody wants to wait.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness.cli.trust import says_yes
from harness.contract.fields import SpecError
from harness.record.files import visible
from harness.record.holder import Holder
from harness.record.layout import find_runs
from harness.record.lease import free, read_beat, read_holder


def main(arguments: Sequence[str]) -> int:
    """Command line.

    Returns:
        0 when every lease was ended, 1 when the user said no, a holder is alive or a lease could
        not be ended, 2 for bad input.
    """
    parser = argparse.ArgumentParser(prog="parallax free", description=__doc__)
    parser.add_argument("folder", type=Path, help="a run folder, a study, or anything in between")
    parser.add_argument("--yes", action="store_true", help="does not ask first")
    options = parser.parse_args(arguments)
    try:
        return free_below(options.folder, yes=options.yes)
    except SpecError as error:
        print(f"Error: {visible(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def free_below(root: Path, *, yes: bool) -> int:
    """Ends the leases at or below a folder, after saying whose they are.

    Raises:
        SpecError: There is no such folder, or nobody can be asked.
    """
    if not root.is_dir():
        raise SpecError(f"{root} is not a folder: name a run folder or one above.")
    found = find_runs(root)
    if found.links:
        print(visible(found.passed_over()), file=sys.stderr)
    held = {f: holder for f in found.runs if (holder := read_holder(f)) is not None}
    if not held:
        print("No lease is held there.")
        return 0
    alive = {f: holder for f, holder in held.items() if holder.is_local and holder.is_running()}
    for folder, holder in held.items():
        print(f"{visible(str(folder))}\n    {visible(_whose(folder, holder))}")
    for holder in alive.values():
        print(f"Process {holder.pid} of this machine is alive: end it with `kill {holder.pid}`.")
    rest = {folder: holder for folder, holder in held.items() if folder not in alive}
    if not rest or not (yes or _ask(f"End {len(rest)} leases? What is alive after all will stop.")):
        return 1
    ended = sum(_free(folder, holder) for folder, holder in rest.items())
    print(f"{ended} leases were ended. Start the sweep again to run what is not complete.")
    return 1 if alive or ended < len(rest) else 0


def _free(folder: Path, holder: Holder) -> bool:
    """Whether a lease could be ended; says why where not."""
    try:
        free(folder, holder)
    except OSError as error:
        words = f"{folder}: its lease cannot be ended ({error.strerror})."
        print(visible(words), file=sys.stderr)
        return False
    return True


def _whose(folder: Path, holder: Holder) -> str:
    beat = read_beat(folder)
    try:
        seen = time.strftime("%a %d %b %Y %H:%M:%S", time.localtime(beat.time)) if beat else ""
    except (OverflowError, ValueError, OSError):
        seen = "a time that no calendar has"
    last = f"last heard of at {seen} by its own clock" if seen else "never heard of"
    return f"held by {holder.describe()}, {last}"


def _ask(question: str) -> bool:
    if not sys.stdin.isatty():
        raise SpecError("Nobody can be asked here: add --yes to go ahead.")
    return says_yes(question)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
