"""`parallax watch FOLDER`: the last values and the findings of a run, as it goes on or after."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from harness.contract.fields import SpecError
from harness.record.diagnosis import read_diagnosis
from harness.record.files import Unusable, read_bounded, visible
from harness.record.layout import DIAGNOSIS_FILE
from harness.record.lease import read_beat
from harness.record.reading import read_run

_LARGEST = 2**22


def main(arguments: Sequence[str]) -> int:
    """Command line.

    Returns:
        0, 2 for a folder that is no run's, 130 for Ctrl-C.
    """
    parser = argparse.ArgumentParser(prog="parallax watch", description=__doc__)
    parser.add_argument("folder", type=Path, help="a run folder")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between looks")
    parser.add_argument("--once", action="store_true", help="looks once and ends")
    options = parser.parse_args(arguments)
    try:
        return watch(options.folder, max(options.every, 0.2), once=options.once)
    except SpecError as error:
        print(f"Error: {visible(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def watch(folder: Path, every: float, *, once: bool) -> int:
    """Shows the run until it has ended; what did not change is not shown again.

    Raises:
        SpecError: The folder is no run's.
    """
    shown = ""
    while True:
        text, going_on = page(folder)
        if text != shown:
            print(text, flush=True)
            shown = text
        if once or not going_on:
            return 0
        time.sleep(every)


def page(folder: Path) -> tuple[str, bool]:
    """What there is to be shown, and whether the run is going on.

    Raises:
        SpecError: The folder is no run's.
    """
    reading = read_run(folder)
    record = reading.record
    if record is None:
        raise SpecError(f"{folder} is no run's folder that can be read: {reading.reason}.")
    beat = read_beat(folder)
    step = beat.step if beat else record.steps.taken
    lines = [f"{folder}: {record.status}, step {step} of {record.steps.scheduled}"]
    run = read_diagnosis(folder)
    if run.reason:
        lines.append(f"No diagnosis: {run.reason}.")
    for finding in run.findings:
        lines.append(f"  {finding['level']} {finding['id']} from step {finding['first_step']}, ")
        lines[-1] += f"{finding.get('count', 1)} looks: {finding['seen']}"
    if not run.reason and not run.findings:
        lines.append("  nothing was found")
    rows = _values(folder)
    lines += ["", tabulate(rows, ("signal", "last value", "values so far"))] if rows else []
    return "\n".join(visible(line) for text in lines for line in text.split("\n")), (
        record.status in ("pending", "running")
    )


def _values(folder: Path) -> list[tuple[str, Any, Any]]:
    try:
        signals = json.loads(read_bounded(folder / DIAGNOSIS_FILE, _LARGEST))["signals"]
        return [(name, one["last"], one["count"]) for name, one in sorted(signals.items())]
    except (OSError, Unusable, ValueError, KeyError, TypeError, AttributeError):
        return []
