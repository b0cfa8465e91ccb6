"""`parallax watch FOLDER`: the curves and the findings of a run, as it goes on or after."""

import argparse
import dataclasses
import html
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from parallax.harness.contract.fields import SpecError
from parallax.harness.record.diagnosis import read_diagnosis
from parallax.harness.record.files import UnusableError, escape_unprintable, write_text
from parallax.harness.record.lock import read_heartbeat, read_lock_owner
from parallax.harness.record.reading import read_evaluations, read_run
from parallax.harness.record.run_json import RunRecord

ScalarCurve = tuple[tuple[int, float], ...]

FIRST_CURVES = ("evaluation", "return", "entropy", "value_size", "loss", "gradient_norm")
"""Shown before all others, in this order."""

_TITLES = {
    "evaluation": "return of evaluations",
    "return": "return of training episodes",
    "entropy": "entropy of actions, share of its maximum",
    "value_size": "predicted values",
    "loss": "losses",
    "gradient_norm": "norms of gradients",
}
_BLOCK_CHARACTERS = "▁▂▃▄▅▆▇█"
_LEVEL_COLORS = {"error": "#b3261e", "warning": "#a15c00", "note": "#5b6470"}


@dataclasses.dataclass(frozen=True)
class RunSnapshot:
    """A run at one moment.

    Attributes:
        folder: Its folder.
        status: As `run.json` has it; `left` where it says `running` and nobody trains it.
        step: Environment steps taken.
        steps: Those it is to take.
        findings: One mapping each, as `diagnosis.json` has them.
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
        """Whether there is more to come."""
        return self.status in ("pending", "running")


def read_snapshot(folder: Path) -> RunSnapshot:
    """Reads what a run has written by now.

    Raises:
        SpecError: The folder is no run's.
    """
    record, left = _read_record(folder), _is_abandoned(folder)
    if left:
        record = _read_record(folder)  # it may have ended between the two looks
    beat = read_heartbeat(folder)
    run = read_diagnosis(folder)
    curves = dict(run.curves) | {"evaluation": _read_evaluation_curve(folder)}
    names = sorted(
        (name for name, curve in curves.items() if curve),
        key=lambda name: (
            FIRST_CURVES.index(name) if name in FIRST_CURVES else len(FIRST_CURVES),
            name,
        ),
    )
    return RunSnapshot(
        folder=folder,
        status="left" if left and record.status == "running" else record.status,
        step=beat.step if beat else record.steps.taken,
        steps=record.steps.scheduled,
        findings=run.findings,
        curves={name: curves[name] for name in names},
        reason=run.reason,
    )


def _read_record(folder: Path) -> RunRecord:
    reading = read_run(folder)
    if reading.record is None:
        raise SpecError(f"{folder} is no run's folder that can be read: {reading.reason}.")
    return reading.record


def _is_abandoned(folder: Path) -> bool:
    holder = read_lock_owner(folder)
    return holder is None or (holder.is_local and not holder.is_running())


def _read_evaluation_curve(folder: Path) -> ScalarCurve:
    try:
        found = read_evaluations(folder)
    except UnusableError:
        return ()
    means = found.results.mean(axis=1)
    return tuple(zip(map(int, found.timesteps), map(float, means), strict=True))


def format_snapshot_lines(watched: RunSnapshot, width: int) -> Iterator[str]:
    """As lines of text.

    Args:
        watched: The run.
        width: Characters that a line has room for.
    """
    yield f"{watched.folder}"
    yield f"{watched.status}, step {watched.step:,} of {watched.steps:,}"
    if watched.reason:
        yield f"No diagnosis: {watched.reason}."
    elif not watched.findings:
        yield "Nothing was found."
    for finding in watched.findings:
        yield (
            f"  {finding['level']} {finding['id']} from step {finding['first_step']:,}, "
            f"{finding['count']} looks: {finding['seen']}"
        )
    if not watched.curves:
        return
    wide = max(len(name) for name in watched.curves)
    room = max(min(width - wide - 44, 60), 8)
    yield ""
    yield f"{'':{wide}}  {f'step 1 to {watched.step:,}':{room}}  {'last':>10} {'least':>10} " + (
        f"{'most':>10}"
    )
    for name, curve in watched.curves.items():
        values = [value for _, value in curve if math.isfinite(value)]
        if values:
            numbers = " ".join(f"{v:>10.4g}" for v in (curve[-1][1], min(values), max(values)))
            yield f"{name:{wide}}  {format_sparkline(curve, watched.step, room):{room}}  {numbers}"
    if marked := [f for f in watched.findings if f["level"] != "note"]:
        yield f"{'findings':{wide}}  {_format_finding_markers(marked, watched.step, room)}"


def format_sparkline(curve: ScalarCurve, until: int, room: int) -> str:
    """A curve as a line of blocks from low to high; blank where there is no value."""
    cells: list[list[float]] = [[] for _ in range(room)]
    for step, value in curve:
        if math.isfinite(value):
            cells[_compute_column(step, until, room)].append(value)
    means = [sum(cell) / len(cell) if cell else None for cell in cells]
    known = [mean for mean in means if mean is not None]
    if not known:
        return ""
    low, spread = min(known), max(known) - min(known)
    text = ""
    for mean in means:
        share = 0.5 if mean is None or not spread else (mean - low) / spread
        text += (
            " "
            if mean is None
            else _BLOCK_CHARACTERS[
                min(int(share * len(_BLOCK_CHARACTERS)), len(_BLOCK_CHARACTERS) - 1)
            ]
        )
    return text


def _format_finding_markers(findings: Sequence[dict[str, Any]], until: int, room: int) -> str:
    text = [" "] * room
    for finding in findings:
        cell = _compute_column(finding["first_step"], until, room)
        text[cell] = "E" if "E" in (text[cell], finding["level"][0].upper()) else "w"
    return "".join(text)


def _compute_column(step: int, until: int, room: int) -> int:
    return min(max(int(step / max(until, 1) * room), 0), room - 1)


def format_html_page(watched: RunSnapshot, every: float) -> str:
    """As a page that needs nothing else.

    Args:
        watched: The run.
        every: Seconds after which a browser reads it again while the run goes on; 0 is never.
    """
    title = html.escape(watched.folder.name or str(watched.folder))
    again = every and watched.is_active
    refresh = f'<meta http-equiv="refresh" content="{max(every, 1):.0f}">' if again else ""
    found = "".join(_format_finding_html(finding) for finding in watched.findings)
    nothing = f"No diagnosis: {watched.reason}." if watched.reason else "Nothing was found."
    plots = "".join(
        _format_plot_html(name, curve, watched) for name, curve in watched.curves.items()
    )
    return _HTML_TEMPLATE.format(
        title=title,
        refresh=refresh,
        folder=html.escape(str(watched.folder)),
        state=f"{html.escape(watched.status)}, step {watched.step:,} of {watched.steps:,}",
        findings=f"<ul>{found}</ul>" if found else f"<p>{html.escape(nothing)}</p>",
        plots=plots or "<p>There are no values yet.</p>",
    )


def _format_finding_html(finding: dict[str, Any]) -> str:
    told = {name: html.escape(str(value)) for name, value in finding.items()}
    return (
        f'<li><b class="{told["level"]}">{told["level"]} {told["id"]}: {told["name"]}</b> '
        f"from step {finding['first_step']:,}, {finding['count']} looks. {told['seen']}"
        f"<p><i>Probably</i> {told['causes']} <i>Try</i> {told['remedies']} "
        f"<i>It may be wrong for</i> {told['may_be_wrong']}</p></li>"
    )


_PLOT_WIDTH, _PLOT_HEIGHT = 420, 130


def _format_plot_html(name: str, curve: ScalarCurve, watched: RunSnapshot) -> str:
    points = [(step, value) for step, value in curve if math.isfinite(value)]
    if not points:
        return ""
    values = [value for _, value in points]
    low, high = min(values), max(values)
    if high - low < 1e-12:
        low, high = low - 0.5, high + 0.5
    until = max(watched.step, points[-1][0], 1)

    def place(step: int, value: float) -> str:
        return f"{step / until * _PLOT_WIDTH:.1f},{(1 - (value - low) / (high - low)) * _PLOT_HEIGHT:.1f}"

    marks = "".join(
        f'<line x1="{f["first_step"] / until * _PLOT_WIDTH:.1f}" '
        f'x2="{f["first_step"] / until * _PLOT_WIDTH:.1f}" y1="0" y2="{_PLOT_HEIGHT}" '
        f'stroke="{_LEVEL_COLORS[f["level"]]}" stroke-dasharray="3 3">'
        f"<title>{html.escape(f['id'])}</title></line>"
        for f in watched.findings
        if f["level"] != "note"
    )
    line = " ".join(place(*point) for point in points)
    dot = place(*points[-1]).split(",")
    title = html.escape(_TITLES.get(name, name))
    return (
        f"<figure><figcaption>{title} <span>last {values[-1]:.4g}</span></figcaption>"
        f'<div><span class="y"><span>{high:.4g}</span><span>{low:.4g}</span></span>'
        f'<svg viewBox="-2 -3 {_PLOT_WIDTH + 6} {_PLOT_HEIGHT + 6}" role="img" aria-label="{title}">'
        f'<rect width="{_PLOT_WIDTH}" height="{_PLOT_HEIGHT}"/>{marks}<polyline points="{line}"/>'
        f'<circle cx="{dot[0]}" cy="{dot[1]}" r="2.5"/></svg></div></figure>'
    )


_HTML_TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">{refresh}<title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; color: #1c2126; margin: 2rem auto; max-width: 62rem;
  padding: 0 1rem; }}
h1 {{ font-size: 1.25rem; overflow-wrap: anywhere; }} h2 {{ font-size: 1.05rem; }}
.plots {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1rem; }}
figure {{ margin: 0; }} figcaption {{ font-size: .85rem; overflow-wrap: anywhere; }}
figcaption span, .y {{ color: #5b6470; }} .y {{ font-size: .7rem; min-width: 3.2rem;
  text-align: right; display: flex; flex-direction: column; justify-content: space-between; }}
figure div {{ display: flex; gap: .4rem; }} svg {{ flex: 1; min-width: 0; }}
rect {{ fill: #f4f6f8; }} polyline {{ fill: none; stroke: #1f5fa8; stroke-width: 1.5; }}
circle {{ fill: #1f5fa8; }}
.error {{ color: #b3261e; }} .warning {{ color: #a15c00; }} .note {{ color: #5b6470; }}
li p {{ margin: .2rem 0 .7rem; color: #3b434b; }}
</style></head><body>
<h1>{folder}</h1>
<p>{state}. Dashed lines mark where errors (red) and warnings (brown) were found first.</p>
<h2>Findings</h2>{findings}
<h2>Curves</h2><div class="plots">{plots}</div>
</body></html>
"""


def main(arguments: Sequence[str]) -> int:
    """Command line.

    Returns:
        0, 2 for a folder that is no run's or a file that cannot be written, 130 for Ctrl-C.
    """
    parser = argparse.ArgumentParser(prog="parallax watch", description=__doc__)
    parser.add_argument("folder", type=Path, help="a run folder")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between looks")
    parser.add_argument("--once", action="store_true", help="looks once and ends")
    parser.add_argument("--html", type=Path, metavar="FILE", help="writes a page, and rewrites it")
    options = parser.parse_args(arguments)
    try:
        return watch_run(
            options.folder, max(options.every, 0.2), options.get_or_compute, options.html
        )
    except SpecError as error:
        print(f"Error: {escape_unprintable(str(error))}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"Error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def watch_run(folder: Path, every: float, once: bool, html: Path | None) -> int:
    """Shows the run until it has ended; what did not change is not shown again.

    Raises:
        SpecError: The folder is no run's.
    """
    console, shown = Console(highlight=False), None
    while True:
        watched = read_snapshot(folder)
        if watched != shown:
            if console.is_terminal and shown is not None:
                console.clear()
            _print_snapshot(console, watched)
            if html is not None:
                write_text(html, format_html_page(watched, 0 if once else every))
                if shown is None:
                    print(f"The page is {html}.", flush=True)
            shown = watched
        if once or not watched.is_active:
            return 0
        time.sleep(every)


def _print_snapshot(console: Console, watched: RunSnapshot) -> None:
    for line in format_snapshot_lines(watched, console.width if console.is_terminal else 100):
        console.print(escape_unprintable(line), markup=False, soft_wrap=True)
    sys.stdout.flush()
