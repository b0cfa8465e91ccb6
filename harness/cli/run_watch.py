"""`parallax run watch`: curves and findings of runs in the terminal, during or after training."""

import argparse
import collections
import dataclasses
import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from parallax.harness.cli.arguments import check_used_options, find_run_folders
from parallax.harness.contract.fields import SpecError
from parallax.harness.record.completeness import RunReading
from parallax.harness.record.files import UnusableError, escape_unprintable
from parallax.harness.record.layout import find_runs, parse_run_path
from parallax.harness.record.lock import read_heartbeat, read_lock_owner
from parallax.harness.record.reading import (
    FINDING_LEVELS,
    DiagnosisReading,
    read_diagnosis,
    read_evaluations,
    read_run,
)

ScalarCurve = tuple[tuple[int, float], ...]

FIRST_CURVES = (
    *("evaluation", "return", "return_deviation", "entropy", "uncertainty"),
    *("value_size", "loss", "gradient_norm"),
)
"""Curves that are shown before all others, in this order."""

_BLOCK_CHARACTERS = "▁▂▃▄▅▆▇█"
_MIN_INTERVAL, _MAX_INTERVAL = 0.2, 86_400  # seconds
_MAX_SHOWN = 1e300  # sums of larger values are not finite
ABANDONED = "abandoned"
"""Status of a run whose record says `running` and that no process trains."""


@dataclasses.dataclass(frozen=True)
class RunSnapshot:
    """State of a run at one time.

    Attributes:
        status: Status in `run.json`, `abandoned`, or the damage of a complete run.
        findings: Findings as mappings, in the format of `diagnosis.json`.
        curves: Steps and values by name, in the order they are shown.
        reason: Why there is no diagnosis; empty where there is one.
    """

    folder: Path
    status: str
    step: int
    steps: int
    findings: tuple[dict[str, Any], ...]
    curves: dict[str, ScalarCurve]
    reason: str

    @property
    def is_active(self) -> bool:
        """Return whether the run can still change."""
        return self.status in ("pending", "running")


def read_snapshot(folder: Path) -> RunSnapshot:
    """Read the current state of a run."""
    reading, abandoned = _read_run(folder), _is_abandoned(folder)
    if abandoned:
        reading = _read_run(folder)  # it may have ended between the two reads
    record = reading.record
    assert record is not None
    status = ABANDONED if abandoned and record.status == "running" else record.status
    heartbeat = read_heartbeat(folder)
    run = read_diagnosis(folder)
    # Evaluations of a complete run with another hash may be those of another run.
    is_foreign = reading.damaged and not reading.failed
    evaluations = () if is_foreign else _read_evaluation_curve(folder)
    curves = dict(run.curves) | {"evaluation": evaluations}
    order = {name: place for place, name in enumerate(FIRST_CURVES)}
    names = [name for name, curve in curves.items() if curve]
    names.sort(key=lambda name: (order.get(name, len(order)), name))
    return RunSnapshot(
        folder=folder,
        status=f"broken: {reading.reason}" if is_foreign else status,
        step=heartbeat.step if heartbeat else record.steps.taken,
        steps=record.steps.scheduled,
        findings=run.findings,
        curves={name: curves[name] for name in names},
        reason=run.reason,
    )


def _read_run(folder: Path) -> RunReading:
    reading = read_run(folder)
    if reading.record is None:
        raise SpecError(f"{folder} is not a run folder that can be read: {reading.reason}.")
    return reading


def _is_abandoned(folder: Path) -> bool:
    owner = read_lock_owner(folder)
    return owner is None or (owner.is_local and not owner.is_running())


def _read_evaluation_curve(folder: Path) -> ScalarCurve:
    try:
        found = read_evaluations(folder)
    except UnusableError:
        return ()
    means = found.results.mean(axis=1)
    return tuple(zip(map(int, found.timesteps), map(float, means), strict=True))


def format_snapshot_lines(snapshot: RunSnapshot, width: int) -> Iterator[str]:
    """Yield a snapshot as lines of text, `width` characters each."""
    yield f"{snapshot.folder}"
    yield f"{snapshot.status}, step {snapshot.step:,} of {snapshot.steps:,}"
    if snapshot.reason:
        yield f"No diagnosis: {snapshot.reason}."
    elif not snapshot.findings:
        yield "Nothing was found."
    for finding in snapshot.findings:
        yield (
            f"  {finding['level']} {finding['id']} from step {finding['first_step']:,}, "
            f"{finding['count']} checks: {finding['seen']}"
        )
    if not snapshot.curves:
        return
    name_width = max(len(name) for name in snapshot.curves)
    plot_width = max(min(width - name_width - 44, 60), 8)
    yield ""
    steps = f"step 1 to {snapshot.step:,}"
    columns = " ".join(f"{name:>10}" for name in ("last", "lowest", "highest"))
    yield f"{'':{name_width}}  {steps:{plot_width}}  {columns}"
    for name, curve in snapshot.curves.items():
        values = [value for _, value in curve if math.isfinite(value)]
        if values:
            numbers = " ".join(f"{v:>10.4g}" for v in (curve[-1][1], min(values), max(values)))
            line = format_sparkline(curve, snapshot.step, plot_width)
            yield f"{name:{name_width}}  {line:{plot_width}}  {numbers}"
    if marked := [f for f in snapshot.findings if f["level"] != "note"]:
        markers = _format_finding_markers(marked, snapshot.step, plot_width)
        yield f"{'findings':{name_width}}  {markers}"


def format_sparkline(curve: ScalarCurve, until: int, width: int) -> str:
    """Return a curve as a line of blocks from low to high; blank where there is no value."""
    cells: list[list[float]] = [[] for _ in range(width)]
    for step, value in curve:
        if abs(value) < _MAX_SHOWN:
            cells[_compute_column(step, until, width)].append(value)
    means = [sum(cell) / len(cell) if cell else None for cell in cells]
    known = [mean for mean in means if mean is not None]
    if not known:
        return ""
    low, spread = min(known), max(known) - min(known)
    text = ""
    blocks = len(_BLOCK_CHARACTERS)
    for mean in means:
        if mean is None:
            text += " "
            continue
        share = (mean - low) / spread if spread else 0.5
        text += _BLOCK_CHARACTERS[min(int(share * blocks), blocks - 1)]
    return text


def _format_finding_markers(findings: Sequence[dict[str, Any]], until: int, width: int) -> str:
    text = [" "] * width
    for finding in findings:
        cell = _compute_column(finding["first_step"], until, width)
        text[cell] = "E" if "E" in (text[cell], finding["level"][0].upper()) else "w"
    return "".join(text)


def _compute_column(step: int, until: int, width: int) -> int:
    return min(max(int(step / max(until, 1) * width), 0), width - 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("folder", type=Path, help="a run folder, or a study for all of its runs")
    parser.add_argument(
        "--every",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="time between two reads of the folder (default: %(default)s)",
    )
    parser.add_argument("--once", action="store_true", help="print the current state and exit")
    parser.add_argument(
        "--findings",
        action="store_true",
        help="print a table of the findings of the diagnosis in all runs, and exit",
    )
    parser.add_argument("--notes", action="store_true", help="with --findings: list notes as well")


def run(options: argparse.Namespace) -> int:
    """Show the run, or the runs of a study, until they end."""
    if options.findings:
        used = ("folder", "findings", "notes")
        check_used_options(options, used, "--findings prints one table")
        for line in format_findings(options.folder, notes=options.notes).splitlines():
            print(escape_unprintable(line))
        return 0
    if options.notes:
        raise SpecError("--notes needs --findings: add --findings, or drop --notes.")
    if not 0 <= options.every <= _MAX_INTERVAL:
        raise SpecError(f"--every={options.every} must be from 0 to {_MAX_INTERVAL:,} seconds.")
    return watch_folder(options.folder, max(options.every, _MIN_INTERVAL), options.once)


def watch_folder(folder: Path, every: float, once: bool) -> int:
    """Show a run or a study until it has ended; print only changes after the first time."""
    console = Console(highlight=False)
    width = console.width if console.is_terminal else 100
    several = find_runs(folder).runs not in ((), (folder.absolute(),))
    shown: list[str] | None = None
    while True:
        if several:
            lines, is_active = summarize_study(folder)
        else:
            snapshot = read_snapshot(folder)
            lines, is_active = list(format_snapshot_lines(snapshot, width)), snapshot.is_active
        if lines != shown:
            if console.is_terminal and shown is not None:
                console.clear()
            for line in lines:
                console.print(escape_unprintable(line), markup=False, soft_wrap=True)
            sys.stdout.flush()
            shown = lines
        if once or not is_active:
            return 0
        time.sleep(every)


def summarize_study(folder: Path) -> tuple[list[str], bool]:
    """Return a line for each run of a study, and whether any of them can still change.

    Runs that can change come first. A line has status, steps, the mean return of the last
    evaluation, the number of findings, and the folder below the study's.
    """
    rows, problems = [], []
    for path in find_runs(folder).runs:
        try:
            rows.append(read_snapshot(path))
        except SpecError as error:
            problems.append(str(error))
    rows.sort(key=lambda row: (not row.is_active, row.folder))
    counts = collections.Counter(row.status for row in rows)
    active = any(row.is_active for row in rows)
    lines = [f"{folder}: {', '.join(f'{n} {status}' for status, n in sorted(counts.items()))}"]
    lines.append(f"{'status':<11}  {'steps':>21}  {'last return':>11}  {'findings':>8}  run")
    base = folder.absolute()
    for row in rows:
        curve = row.curves.get("evaluation", ())
        last = f"{curve[-1][1]:.4g}" if curve else ""
        found = sum(finding["level"] != "note" for finding in row.findings)
        steps = f"{row.step:,} / {row.steps:,}"
        place = row.folder.relative_to(base)
        lines.append(f"{row.status:<11}  {steps:>21}  {last:>11}  {found:>8}  {place}")
    if not active:
        lines.append(f"Curves and findings of one run: parallax run watch {folder}/RUN")
    return lines + problems, active


def format_findings(root: Path, *, notes: bool) -> str:
    """Return a table of checks and frameworks, and an explanation of each finding."""
    runs = [read_diagnosis(folder) for folder in find_run_folders(root)]
    if not runs:
        raise SpecError(f"{root} holds no runs.")
    diagnosed = [run for run in runs if not run.reason]
    lines = [f"{len(runs)} runs, {len(diagnosed)} of them with a diagnosis."]
    reasons = collections.Counter(run.reason for run in runs if run.reason)
    lines += [f"{count} without: {reason}." for reason, count in sorted(reasons.items())]
    if not diagnosed:
        return "\n".join([*lines, "Train with diagnosis=on to get one."])
    levels = FINDING_LEVELS if notes else FINDING_LEVELS[:2]
    rows = list(_count_findings(diagnosed, levels))
    if not rows:
        return "\n".join([*lines, "Nothing was found at these levels: " + ", ".join(levels) + "."])
    from tabulate import tabulate  # watching needs no table

    header = ("level", "check", "framework", "algorithm", "task", "runs", "of", "from step", "seen")
    table = tabulate(rows, header, disable_numparse=True)
    return "\n".join([*lines, "", table, "", *_explain_findings(diagnosed, levels)])


def _count_findings(
    runs: Sequence[DiagnosisReading], levels: Sequence[str]
) -> Iterable[tuple[str, ...]]:
    members: collections.Counter[tuple[str, ...]] = collections.Counter()
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = collections.defaultdict(list)
    for run in runs:
        place = parse_run_path(run.folder.absolute())
        group = place.framework, place.algorithm, place.env
        members[group] += 1
        for finding in run.findings:
            if (level := finding["level"]) in levels:
                found[levels.index(level), finding["id"], group].append(finding)
    for (number, name, group), hits in sorted(found.items()):
        first = min(hits, key=lambda finding: int(finding["first_step"]))
        counts = str(len(hits)), str(members[group])
        yield (levels[number], name, *group, *counts, str(first["first_step"]), first["seen"])


def _explain_findings(runs: Sequence[DiagnosisReading], levels: Sequence[str]) -> Iterable[str]:
    first_findings: dict[str, dict[str, Any]] = {}
    for run in runs:
        for finding in run.findings:
            if finding["level"] in levels:
                first_findings.setdefault(finding["id"], finding)
    for name, finding in sorted(first_findings.items()):
        yield f"{name}: {finding['name']}. Probably: {finding['causes']}"
        yield f"  Try: {finding['remedies']} It may be wrong for: {finding['may_be_wrong']}"
