"""`parallax diagnose RESULTS`: what the diagnosis found in many runs, check by check."""

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from parallax.harness.contract.fields import SpecError
from parallax.harness.record.diagnosis import FINDING_LEVELS, DiagnosisReading, read_diagnosis
from parallax.harness.record.files import escape_unprintable
from parallax.harness.record.layout import find_runs, parse_run_path
from parallax.harness.record.lock import read_heartbeat, read_lock_owner, unlock_folder
from parallax.harness.record.lock_owner import LockOwner
from parallax.harness.train.trust import confirm_on_terminal


def run_diagnosis_command(arguments: Sequence[str]) -> int:
    """Command line.

    Returns:
        0, or 2 for a folder that is not there.
    """
    parser = argparse.ArgumentParser(prog="parallax diagnose", description=__doc__)
    parser.add_argument("results", type=Path, help="a run folder, a study, or anything in between")
    parser.add_argument("--notes", action="store_true", help="tells of notes too")
    options = parser.parse_args(arguments)
    try:
        print(escape_lines(format_diagnosis(options.results, notes=options.notes)))
    except SpecError as error:
        print(f"Error: {escape_unprintable(str(error))}", file=sys.stderr)
        return 2
    return 0


def format_diagnosis(root: Path, *, notes: bool) -> str:
    """One table of checks and frameworks, and the words of each finding.

    Raises:
        SpecError: There is no such folder, or no run in it.
    """
    if not root.is_dir():
        raise SpecError(f"{root} is not a folder: name a run folder or one above.")
    found = find_runs(root)
    if not found.runs:
        raise SpecError(f"{root} holds no runs.")
    runs = [read_diagnosis(folder) for folder in found.runs]
    watched = [run for run in runs if not run.reason]
    lines = [f"{len(runs)} runs, {len(watched)} of them with a diagnosis."]
    reasons = {run.reason for run in runs if run.reason}
    for reason in sorted(reasons):
        lines.append(f"{sum(run.reason == reason for run in runs)} without: {reason}.")
    if not watched:
        return "\n".join([*lines, "diagnosis=on has a training watched."])
    levels = FINDING_LEVELS if notes else FINDING_LEVELS[:2]
    rows = list(_count_findings(watched, levels))
    if not rows:
        return "\n".join([*lines, "Nothing was found at these levels: " + ", ".join(levels) + "."])
    header = ("level", "check", "framework", "algorithm", "task", "runs", "of", "from step", "seen")
    table = tabulate(rows, header, disable_numparse=True)
    return "\n".join([*lines, "", table, "", *_explain_findings(watched, levels)])


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
    told: dict[str, dict[str, Any]] = {}
    for run in runs:
        for finding in run.findings:
            if finding["level"] in levels:
                told.setdefault(finding["id"], finding)
    for name, finding in sorted(told.items()):
        yield f"{name}: {finding['name']}. Probably: {finding['causes']}"
        yield f"  Try: {finding['remedies']} It may be wrong for: {finding['may_be_wrong']}"


def _collect_finding_ids(runs: Sequence[DiagnosisReading], level: str) -> set[str]:
    return {f["id"] for run in runs for f in run.findings if f["level"] == level}


def _has_id_and_level(finding: dict[str, Any], name: str, level: str) -> bool:
    return bool(finding["id"] == name and finding["level"] == level)


def escape_lines(text: str) -> str:
    """The text, line by line, without what a terminal would act on."""
    return "\n".join(escape_unprintable(line) for line in text.splitlines())


def run_unlock_command(arguments: Sequence[str]) -> int:
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
        return unlock_runs(options.folder, yes=options.yes)
    except SpecError as error:
        print(f"Error: {escape_unprintable(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def unlock_runs(root: Path, *, yes: bool) -> int:
    """Ends the leases at or below a folder, after saying whose they are.

    Raises:
        SpecError: There is no such folder, or nobody can be asked.
    """
    if not root.is_dir():
        raise SpecError(f"{root} is not a folder: name a run folder or one above.")
    found = find_runs(root)
    if found.links:
        print(escape_unprintable(found.describe_skipped_links()), file=sys.stderr)
    held = {f: holder for f in found.runs if (holder := read_lock_owner(f)) is not None}
    if not held:
        print("No lease is held there.")
        return 0
    alive = {f: holder for f, holder in held.items() if holder.is_local and holder.is_running()}
    for folder, holder in held.items():
        print(
            f"{escape_unprintable(str(folder))}\n    {escape_unprintable(_describe_owner(folder, holder))}"
        )
    for holder in alive.values():
        print(f"Process {holder.pid} of this machine is alive: end it with `kill {holder.pid}`.")
    rest = {folder: holder for folder, holder in held.items() if folder not in alive}
    if not rest or not (
        yes or _confirm_unlock(f"End {len(rest)} leases? What is alive after all will stop.")
    ):
        return 1
    ended = sum(_unlock_run(folder, holder) for folder, holder in rest.items())
    print(f"{ended} leases were ended. Start the sweep again to run what is not complete.")
    return 1 if alive or ended < len(rest) else 0


def _unlock_run(folder: Path, holder: LockOwner) -> bool:
    """Whether a lease could be ended; says why where not."""
    try:
        unlock_folder(folder, holder)
    except OSError as error:
        words = f"{folder}: its lease cannot be ended ({error.strerror})."
        print(escape_unprintable(words), file=sys.stderr)
        return False
    return True


def _describe_owner(folder: Path, holder: LockOwner) -> str:
    beat = read_heartbeat(folder)
    try:
        seen = time.strftime("%a %d %b %Y %H:%M:%S", time.localtime(beat.time)) if beat else ""
    except (OverflowError, ValueError, OSError):
        seen = "a time that no calendar has"
    last = f"last heard of at {seen} by its own clock" if seen else "never heard of"
    return f"held by {holder.describe()}, {last}"


def _confirm_unlock(question: str) -> bool:
    if not sys.stdin.isatty():
        raise SpecError("Nobody can be asked here: add --yes to go ahead.")
    return confirm_on_terminal(question)


if __name__ == "__main__":
    sys.exit(run_unlock_command(sys.argv[1:]))
