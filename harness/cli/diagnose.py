"""`parallax diagnose RESULTS`: what the diagnosis found in many runs, check by check."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from harness.contract.fields import SpecError
from harness.record.diagnosis import LEVELS, Diagnosed, read_diagnosis
from harness.record.files import visible
from harness.record.layout import find_runs, place_of


def main(arguments: Sequence[str]) -> int:
    """Command line.

    Returns:
        0, or 2 for a folder that is not there.
    """
    parser = argparse.ArgumentParser(prog="parallax diagnose", description=__doc__)
    parser.add_argument("results", type=Path, help="a run folder, a study, or anything in between")
    parser.add_argument("--notes", action="store_true", help="tells of notes too")
    options = parser.parse_args(arguments)
    try:
        print(visible_lines(describe(options.results, notes=options.notes)))
    except SpecError as error:
        print(f"Error: {visible(str(error))}", file=sys.stderr)
        return 2
    return 0


def describe(root: Path, *, notes: bool) -> str:
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
    levels = LEVELS if notes else LEVELS[:2]
    rows = list(_rows(watched, levels))
    if not rows:
        return "\n".join([*lines, "Nothing was found at these levels: " + ", ".join(levels) + "."])
    header = ("level", "check", "framework", "algorithm", "task", "runs", "of", "from step", "seen")
    table = tabulate(rows, header, disable_numparse=True)
    return "\n".join([*lines, "", table, "", *_words(watched, levels)])


def _rows(runs: Sequence[Diagnosed], levels: Sequence[str]) -> Iterable[tuple[str, ...]]:
    groups: dict[tuple[str, ...], list[Diagnosed]] = {}
    for run in runs:
        place = place_of(run.folder.absolute())
        groups.setdefault((place.framework, place.algorithm, place.env), []).append(run)
    for level in levels:
        for name in sorted(_ids(runs, level)):
            for group, members in sorted(groups.items()):
                hits = [f for run in members for f in run.findings if _is(f, name, level)]
                if hits:
                    first = min(hits, key=lambda finding: int(finding["first_step"]))
                    step = str(first["first_step"])
                    counts = str(len(hits)), str(len(members))
                    yield (level, name, *group, *counts, step, first["seen"])


def _words(runs: Sequence[Diagnosed], levels: Sequence[str]) -> Iterable[str]:
    told: dict[str, dict[str, Any]] = {}
    for run in runs:
        for finding in run.findings:
            if finding["level"] in levels:
                told.setdefault(finding["id"], finding)
    for name, finding in sorted(told.items()):
        yield f"{name}: {finding['name']}. Probably: {finding['causes']}"
        yield f"  Try: {finding['remedies']} It may be wrong for: {finding['may_be_wrong']}"


def _ids(runs: Sequence[Diagnosed], level: str) -> set[str]:
    return {f["id"] for run in runs for f in run.findings if f["level"] == level}


def _is(finding: dict[str, Any], name: str, level: str) -> bool:
    return bool(finding["id"] == name and finding["level"] == level)


def visible_lines(text: str) -> str:
    """The text, line by line, without what a terminal would act on."""
    return "\n".join(visible(line) for line in text.splitlines())
