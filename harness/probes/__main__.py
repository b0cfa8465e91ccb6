"""`python -m harness probe`: asks the installed implementations what one update does."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.errors import HANDLED, exit_code
from harness.fields import SpecError
from harness.files import write_json
from harness.probes import baseline, drift, fleet, registry, report
from harness.probes.options import parse
from harness.probes.parties import drifting, find
from harness.probes.progress import Progress
from harness.probes.results import Report, to_json

SAME, CHANGED, FAILED = 0, 1, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0; 1 where an answer changed; 2 for bad input; 3 where a probe failed to run.
    """
    try:
        options = parse(arguments)
        return run(options)
    except HANDLED as error:
        return exit_code(error)


def run(options: argparse.Namespace) -> int:
    """Asks, prints and writes what the options say.

    Raises:
        SpecError: Bad input.
    """
    probes = registry.select(options.algorithm, options.probe)
    if options.list:
        print(*(f"{probe.name:28} {probe.question}" for probe in probes), sep="\n")
        return SAME
    for path in (options.json, options.baseline):
        check_folder(path)
    stored = None
    if options.baseline and not (options.update_baseline and not options.baseline.exists()):
        stored = baseline.read(options.baseline)
    if options.drift:
        parties = drifting(options.drift, options.python)
        not_probed: dict[str, str] = {}
    else:
        parties, not_probed = find(options.frameworks, options.python)
    with Progress(len(parties) * len(probes)) as progress:
        found = fleet.ask(parties, probes, progress.tell, not_probed)
    show(found, options)
    failed = any(a.failed for r in found.results for a in r.answers.values())
    changed = compare(found, stored, options)
    return FAILED if failed else CHANGED if changed else SAME


def show(found: Report, options: argparse.Namespace) -> None:
    """Prints the report and writes the files that were asked for."""
    print("\n".join(report.lines(found, options.all)))
    if options.json:
        write_json(options.json, to_json(found))


def compare(found: Report, stored: Report | None, options: argparse.Namespace) -> bool:
    """Prints what changed against the stored answers, and stores the new ones if asked to."""
    if options.drift:
        print("", *drift.lines(found), sep="\n")
        return bool(drift.changes(found))
    changes = baseline.changes(found, stored) if stored else []
    if stored:
        print(f"\nAgainst {options.baseline}: {len(changes)} answers changed.", end="")
        print(*("", *changes), sep="\n  ")
    if options.update_baseline:
        baseline.write(options.baseline, baseline.merged(found, stored) if stored else found)
        print(f"Stored in {options.baseline}.")
        return False
    return bool(changes)


def check_folder(path: Path | None) -> None:
    """Finds out before the probes run that a file cannot be written.

    Raises:
        SpecError: Its folder is not there.
    """
    if path is not None and not path.absolute().parent.is_dir():
        raise SpecError(f"{path}: the folder {path.parent} is not there.")


if __name__ == "__main__":
    sys.exit(main())
