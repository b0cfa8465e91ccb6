"""`parallax probe`: asks the installed implementations what one update does."""

import argparse
import sys
from collections.abc import Sequence

from harness.cli.errors import HANDLED, exit_code
from harness.fields import SpecError
from harness.probes import baseline, drift, fleet, output, registry, report
from harness.probes.options import parse
from harness.probes.parties import drifting, find
from harness.probes.probe import Probe
from harness.probes.progress import Progress
from harness.probes.results import Report

SAME, CHANGED, FAILED = 0, 1, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0; 1 where an answer changed; 2 for bad input; 3 where a probe failed to run.
    """
    try:
        return run(parse(arguments))
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
    output.check(options)
    new = options.update_baseline and not options.baseline.exists()
    stored = baseline.read(options.baseline) if options.baseline and not new else None
    found = reread(probes, options) if options.answers else ask(probes, options)
    print("\n".join(report.lines(found, options.all)))
    output.write(output.files(found, options))
    changed = compare(found, stored, options)
    if any(answer.failed for result in found.results for answer in result.answers.values()):
        return FAILED
    return CHANGED if changed else SAME


def reread(probes: Sequence[Probe], options: argparse.Namespace) -> Report:
    """Stored answers to the probes by the implementations that are asked for.

    Raises:
        SpecError: There are none.
    """
    stored = baseline.read(options.answers)
    names = list(stored.versions) if options.frameworks is None else options.frameworks
    found = baseline.restricted(stored, [probe.name for probe in probes], names)
    if not found.results or not found.versions:
        raise SpecError(f"--answers {options.answers}: no such answers are stored there.")
    return found


def ask(probes: Sequence[Probe], options: argparse.Namespace) -> Report:
    """Puts the probes to the implementations, with progress on standard error.

    Raises:
        SpecError: An implementation is not known or not installed.
    """
    if options.drift:
        parties, not_probed = drifting(options.drift, options.python)
    else:
        parties, not_probed = find(options.frameworks, options.python)
    output.check_ledger(options, [p.label for p in parties], [probe.name for probe in probes])
    with Progress(len(parties) * len(probes)) as progress:
        return fleet.ask(parties, probes, progress.tell, not_probed)


def compare(found: Report, stored: Report | None, options: argparse.Namespace) -> bool:
    """Prints what changed against the stored answers, and stores the new ones if asked to."""
    if options.drift:
        print("", *drift.lines(found), sep="\n")
        return bool(drift.changes(found))
    changes = baseline.changes(found, stored) if stored else []
    if stored:
        print(f"\nAgainst {options.baseline}: {len(changes)} answers changed.", end="")
        print(*("", *changes, *baseline.other_versions(found, stored)), sep="\n  ")
    if options.update_baseline:
        output.write(output.baseline(found, stored, options))
        print(f"Stored in {options.baseline}.")
        return False
    return bool(changes)


if __name__ == "__main__":
    sys.exit(main())
