"""`parallax run diagnosis` and `parallax run unlock`: findings and locks of many run folders."""

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from parallax.harness.cli.arguments import RUNS_HELP
from parallax.harness.contract.fields import SpecError
from parallax.harness.record.diagnosis import FINDING_LEVELS, DiagnosisReading, read_diagnosis
from parallax.harness.record.files import escape_unprintable
from parallax.harness.record.layout import find_runs, parse_run_path
from parallax.harness.record.lock import read_heartbeat, read_lock_owner, unlock_folder
from parallax.harness.record.lock_owner import LockOwner
from parallax.harness.train.trust import confirm_on_terminal


def add_diagnosis_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax run diagnosis`."""
    parser.add_argument("results", type=Path, help=RUNS_HELP)
    parser.add_argument("--notes", action="store_true", help="list notes as well")


def run_diagnosis(options: argparse.Namespace) -> int:
    """Print a table of the findings.

    Raises:
        SpecError: The folder holds no runs.
    """
    print(escape_lines(format_diagnosis(options.results, notes=options.notes)))
    return 0


def format_diagnosis(root: Path, *, notes: bool) -> str:
    """Return a table of checks and frameworks, and an explanation of each finding.

    Raises:
        SpecError: There is no such folder, or no run in it.
    """
    if not root.is_dir():
        raise SpecError(f"{root} is not a folder: name a run folder or one above.")
    found = find_runs(root)
    if not found.runs:
        raise SpecError(f"{root} holds no runs.")
    runs = [read_diagnosis(folder) for folder in found.runs]
    diagnosed = [run for run in runs if not run.reason]
    lines = [f"{len(runs)} runs, {len(diagnosed)} of them with a diagnosis."]
    reasons = {run.reason for run in runs if run.reason}
    for reason in sorted(reasons):
        lines.append(f"{sum(run.reason == reason for run in runs)} without: {reason}.")
    if not diagnosed:
        return "\n".join([*lines, "Train with diagnosis=on to get one."])
    levels = FINDING_LEVELS if notes else FINDING_LEVELS[:2]
    rows = list(_count_findings(diagnosed, levels))
    if not rows:
        return "\n".join([*lines, "Nothing was found at these levels: " + ", ".join(levels) + "."])
    header = ("level", "check", "framework", "algorithm", "task", "runs", "of", "from step", "seen")
    table = tabulate(rows, header, disable_numparse=True)
    return "\n".join([*lines, "", table, "", *_explain_findings(diagnosed, levels)])


def _count_findings(
    runs: Sequence[DiagnosisReading], levels: Sequence[str]
) -> Iterable[tuple[str, ...]]:
    groups: dict[tuple[str, ...], list[DiagnosisReading]] = {}
    for run in runs:
        place = parse_run_path(run.folder.absolute())
        groups.setdefault((place.framework, place.algorithm, place.env), []).append(run)
    for level in levels:
        for name in sorted(_collect_finding_ids(runs, level)):
            for group, members in sorted(groups.items()):
                hits = [
                    f for run in members for f in run.findings if _has_id_and_level(f, name, level)
                ]
                if hits:
                    first = min(hits, key=lambda finding: int(finding["first_step"]))
                    step = str(first["first_step"])
                    counts = str(len(hits)), str(len(members))
                    yield (level, name, *group, *counts, step, first["seen"])


def _explain_findings(runs: Sequence[DiagnosisReading], levels: Sequence[str]) -> Iterable[str]:
    first_findings: dict[str, dict[str, Any]] = {}
    for run in runs:
        for finding in run.findings:
            if finding["level"] in levels:
                first_findings.setdefault(finding["id"], finding)
    for name, finding in sorted(first_findings.items()):
        yield f"{name}: {finding['name']}. Probably: {finding['causes']}"
        yield f"  Try: {finding['remedies']} It may be wrong for: {finding['may_be_wrong']}"


def _collect_finding_ids(runs: Sequence[DiagnosisReading], level: str) -> set[str]:
    return {f["id"] for run in runs for f in run.findings if f["level"] == level}


def _has_id_and_level(finding: dict[str, Any], name: str, level: str) -> bool:
    return bool(finding["id"] == name and finding["level"] == level)


def escape_lines(text: str) -> str:
    """Return the text with control characters escaped, line by line."""
    return "\n".join(escape_unprintable(line) for line in text.splitlines())


def add_unlock_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax run unlock`."""
    parser.add_argument("folder", type=Path, help=RUNS_HELP)
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def run_unlock(options: argparse.Namespace) -> int:
    """Release locks after confirmation.

    Returns:
        0 where every lock was released; 1 where the user declined, a process is alive, or a lock
        could not be released.

    Raises:
        SpecError: There is no such folder, or nobody can confirm.
    """
    return unlock_runs(options.folder, yes=options.yes)


def unlock_runs(root: Path, *, yes: bool) -> int:
    """Release the locks at or below a folder, after printing who owns them.

    Raises:
        SpecError: There is no such folder, or nobody can confirm.
    """
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
