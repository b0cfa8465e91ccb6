"""What there is to be seen of a run: curves and findings, as lines of text and as a page."""

import dataclasses
import html
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.contract.fields import SpecError
from harness.record.diagnosis import read_diagnosis
from harness.record.files import Unusable
from harness.record.lease import read_beat, read_holder
from harness.record.reading import read_evaluations, read_run
from harness.record.run_json import Record

Curve = tuple[tuple[int, float], ...]

FIRST = ("evaluation", "return", "entropy", "value_size", "loss", "gradient_norm")
"""Shown before all others, in this order."""

_TITLES = {
    "evaluation": "return of evaluations",
    "return": "return of training episodes",
    "entropy": "entropy of actions, share of its maximum",
    "value_size": "predicted values",
    "loss": "losses",
    "gradient_norm": "norms of gradients",
}
_BARS = "▁▂▃▄▅▆▇█"
_COLOURS = {"error": "#b3261e", "warning": "#a15c00", "note": "#5b6470"}


@dataclasses.dataclass(frozen=True)
class Watched:
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
    curves: dict[str, Curve]
    reason: str

    @property
    def goes_on(self) -> bool:
        """Whether there is more to come."""
        return self.status in ("pending", "running")


def look(folder: Path) -> Watched:
    """Reads what a run has written by now.

    Raises:
        SpecError: The folder is no run's.
    """
    record, left = _record(folder), _is_left(folder)
    if left:
        record = _record(folder)  # it may have ended between the two looks
    beat = read_beat(folder)
    run = read_diagnosis(folder)
    curves = dict(run.curves) | {"evaluation": _evaluations(folder)}
    names = sorted(
        (name for name, curve in curves.items() if curve),
        key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name),
    )
    return Watched(
        folder=folder,
        status="left" if left and record.status == "running" else record.status,
        step=beat.step if beat else record.steps.taken,
        steps=record.steps.scheduled,
        findings=run.findings,
        curves={name: curves[name] for name in names},
        reason=run.reason,
    )


def _record(folder: Path) -> Record:
    reading = read_run(folder)
    if reading.record is None:
        raise SpecError(f"{folder} is no run's folder that can be read: {reading.reason}.")
    return reading.record


def _is_left(folder: Path) -> bool:
    holder = read_holder(folder)
    return holder is None or (holder.is_local and not holder.is_running())


def _evaluations(folder: Path) -> Curve:
    try:
        found = read_evaluations(folder)
    except Unusable:
        return ()
    means = found.results.mean(axis=1)
    return tuple(zip(map(int, found.timesteps), map(float, means), strict=True))


def lines_of(watched: Watched, width: int) -> Iterator[str]:
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
            yield f"{name:{wide}}  {bars(curve, watched.step, room):{room}}  {numbers}"
    if marked := [f for f in watched.findings if f["level"] != "note"]:
        yield f"{'findings':{wide}}  {_marks(marked, watched.step, room)}"


def bars(curve: Curve, until: int, room: int) -> str:
    """A curve as a line of blocks from low to high; blank where there is no value."""
    cells: list[list[float]] = [[] for _ in range(room)]
    for step, value in curve:
        if math.isfinite(value):
            cells[_cell(step, until, room)].append(value)
    means = [sum(cell) / len(cell) if cell else None for cell in cells]
    known = [mean for mean in means if mean is not None]
    if not known:
        return ""
    low, spread = min(known), max(known) - min(known)
    text = ""
    for mean in means:
        share = 0.5 if mean is None or not spread else (mean - low) / spread
        text += " " if mean is None else _BARS[min(int(share * len(_BARS)), len(_BARS) - 1)]
    return text


def _marks(findings: Sequence[dict[str, Any]], until: int, room: int) -> str:
    text = [" "] * room
    for finding in findings:
        cell = _cell(finding["first_step"], until, room)
        text[cell] = "E" if "E" in (text[cell], finding["level"][0].upper()) else "w"
    return "".join(text)


def _cell(step: int, until: int, room: int) -> int:
    return min(max(int(step / max(until, 1) * room), 0), room - 1)


def html_page(watched: Watched, every: float) -> str:
    """As a page that needs nothing else.

    Args:
        watched: The run.
        every: Seconds after which a browser reads it again while the run goes on; 0 is never.
    """
    title = html.escape(watched.folder.name or str(watched.folder))
    again = every and watched.goes_on
    refresh = f'<meta http-equiv="refresh" content="{max(every, 1):.0f}">' if again else ""
    found = "".join(_finding(finding) for finding in watched.findings)
    nothing = f"No diagnosis: {watched.reason}." if watched.reason else "Nothing was found."
    plots = "".join(_plot(name, curve, watched) for name, curve in watched.curves.items())
    return _PAGE.format(
        title=title,
        refresh=refresh,
        folder=html.escape(str(watched.folder)),
        state=f"{html.escape(watched.status)}, step {watched.step:,} of {watched.steps:,}",
        findings=f"<ul>{found}</ul>" if found else f"<p>{html.escape(nothing)}</p>",
        plots=plots or "<p>There are no values yet.</p>",
    )


def _finding(finding: dict[str, Any]) -> str:
    told = {name: html.escape(str(value)) for name, value in finding.items()}
    return (
        f'<li><b class="{told["level"]}">{told["level"]} {told["id"]}: {told["name"]}</b> '
        f"from step {finding['first_step']:,}, {finding['count']} looks. {told['seen']}"
        f"<p><i>Probably</i> {told['causes']} <i>Try</i> {told['remedies']} "
        f"<i>It may be wrong for</i> {told['may_be_wrong']}</p></li>"
    )


_WIDE, _HIGH = 420, 130


def _plot(name: str, curve: Curve, watched: Watched) -> str:
    points = [(step, value) for step, value in curve if math.isfinite(value)]
    if not points:
        return ""
    values = [value for _, value in points]
    low, high = min(values), max(values)
    if high - low < 1e-12:
        low, high = low - 0.5, high + 0.5
    until = max(watched.step, points[-1][0], 1)

    def place(step: int, value: float) -> str:
        return f"{step / until * _WIDE:.1f},{(1 - (value - low) / (high - low)) * _HIGH:.1f}"

    marks = "".join(
        f'<line x1="{f["first_step"] / until * _WIDE:.1f}" '
        f'x2="{f["first_step"] / until * _WIDE:.1f}" y1="0" y2="{_HIGH}" '
        f'stroke="{_COLOURS[f["level"]]}" stroke-dasharray="3 3">'
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
        f'<svg viewBox="-2 -3 {_WIDE + 6} {_HIGH + 6}" role="img" aria-label="{title}">'
        f'<rect width="{_WIDE}" height="{_HIGH}"/>{marks}<polyline points="{line}"/>'
        f'<circle cx="{dot[0]}" cy="{dot[1]}" r="2.5"/></svg></div></figure>'
    )


_PAGE = """<!doctype html>
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
