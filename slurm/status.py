"""Status of runs, with reasons why runs are incomplete: as a table, or as JSON for programs."""

import collections
import dataclasses
import datetime
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from parallax.harness.record.files import escape_unprintable
from parallax.harness.record.lock import describe_resumption
from parallax.harness.sweep.progress import estimate_remaining_seconds
from parallax.slurm.queue import SlurmQueue
from parallax.slurm.states import (
    PREFLIGHT_FAILED,
    PREFLIGHT_PASSED,
    RUN_STATES,
    RunState,
    find_study_folders,
    read_last_preflight,
)

_STYLES = {
    **{"completed": "green", "running": "cyan"},
    **dict.fromkeys(("timeout", "interrupted"), "yellow"),
    **dict.fromkeys(("failed", "lost", "broken"), "red"),
}
_MAX_SECONDS = 1e12  # seconds; nobody waits so long
_STATES_WITH_REASON = ("failed", "timeout", "interrupted", "lost", "broken")


def status_to_json(runs: Sequence[RunState], queue: SlurmQueue, root: Path) -> str:
    """Return counts and an entry per run; `estimate_seconds_left` is null if no rate is known."""
    content: dict[str, Any] = {
        "root": str(root),
        "answered": list(queue.answered),
        "counts": count_states(runs),
        "seconds_left": estimate_seconds_left(runs),
        "runs": [
            dataclasses.asdict(run) | {"folder": str(run.folder)}
            for run in sorted(runs, key=lambda run: str(run.folder))
        ],
    }
    return json.dumps(content, indent=1, allow_nan=False)


def count_states(runs: Iterable[RunState]) -> dict[str, int]:
    """Return the number of runs in each state, zeros included."""
    counts = collections.Counter(run.state for run in runs)
    return {state: counts[state] for state in RUN_STATES}


def estimate_seconds_left(runs: Sequence[RunState]) -> float | None:
    """Estimate the time until all running and queued runs end, at present rates and parallelism."""
    going = [run for run in runs if run.state == "running"]
    speeds: dict[tuple[str, str], float] = {}
    for run in going:
        if run.rate:
            key = (run.framework, run.algorithm)
            speeds[key] = min(run.rate, speeds.get(key, run.rate))
    left = [
        (run.framework, run.algorithm, max(run.steps - run.step, 0))
        for run in runs
        if run.state in ("running", "queued")
    ]
    if not speeds or not left:
        return None
    # Runs are parallel: at least the time that the slowest still needs.
    longest = max(max(run.steps - run.step, 0) / run.rate for run in going if run.rate)
    seconds = max(longest, estimate_remaining_seconds(left, speeds, len(going)) or 0.0)
    return seconds if seconds < _MAX_SECONDS else None


def render_status(runs: Sequence[RunState], queue: SlurmQueue, root: Path, longest: int) -> Group:
    """Return the status for the terminal, with at most `longest` runs named one by one."""
    if not runs:
        return Group(Text(f"No runs below {escape_unprintable(str(root))}."))
    parts: list[Any] = []
    for study in sorted({run.study for run in runs}):
        parts += _render_study(study, [run for run in runs if run.study == study])
    for study_folder in find_study_folders(run.folder for run in runs):
        parts += _render_preflight(study_folder)
    parts += _render_running([run for run in runs if run.state == "running"], longest)
    parts += _render_reasons([run for run in runs if _has_reason(run)], longest)
    if queue.answered:
        parts.append(Text(f"Slurm was queried with {', '.join(queue.answered)}.", style="dim"))
    else:
        parts.append(Text("Slurm was not queried: states are those of the folders.", style="dim"))
    return Group(*parts)


def _render_study(study: str, runs: list[RunState]) -> list[Any]:
    counts = count_states(runs)
    words = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
    shown = [state for state, number in counts.items() if number]
    table = Table("framework", "algorithm", "task", box=None, header_style="bold")
    for state in shown:
        table.add_column(state, justify="right", style=_STYLES.get(state))
    table.add_column("steps", justify="right")
    cells: dict[tuple[str, str, str], list[RunState]] = {}
    for run in runs:
        cells.setdefault((run.framework, run.algorithm, run.env), []).append(run)
    for names, members in sorted(cells.items()):
        numbers = count_states(members)
        taken = (r.steps if r.state == "completed" else min(r.step, r.steps) for r in members)
        done = sum(taken) / max(sum(run.steps for run in members), 1)
        table.add_row(
            *map(_to_plain_text, names),
            *(str(numbers[state] or "") for state in shown),
            f"{done:.0%}",
        )
    left = estimate_seconds_left(runs)
    end = f"; expected end {_format_end_time(left)}" if left and _format_end_time(left) else ""
    return [
        Text(f"{escape_unprintable(str(study))}: {len(runs)} runs: {words}{end}", style="bold"),
        table,
        Text(),
    ]


def _render_preflight(study_folder: Path) -> list[Text]:
    last = read_last_preflight(study_folder)
    if last is None or last[1].state == PREFLIGHT_PASSED:
        return []
    file, outcome = last
    said = f"preflight {outcome.state}{outcome.said and ': '}{escape_unprintable(outcome.said)}"
    style = "red" if outcome.state == PREFLIGHT_FAILED else ""
    return [Text(said, style=style), Text(f"    {escape_unprintable(str(file))}\n", style="dim")]


def _render_running(runs: list[RunState], longest: int) -> list[Any]:
    if not runs:
        return []
    heads = ("running", "steps", "a second", "end", "job", "")
    table = Table(*heads, box=None, header_style="bold")
    for run in sorted(runs, key=lambda run: run.step - run.steps)[:longest]:
        end = _format_end_time(max(run.steps - run.step, 0) / run.rate) if run.rate else ""
        rate = f"{run.rate:.1f}" if run.rate else ""
        table.add_row(
            _to_plain_text(run.title),
            f"{run.step:,} / {run.steps:,}",
            rate,
            end,
            _to_plain_text(run.job or ""),
            Text(_describe_resumption(run), style="dim"),
        )
    return [table, *_render_omitted(runs, longest), Text()]


def _has_reason(run: RunState) -> bool:
    """Return whether a run is listed with its reason; also one that is queued to resume."""
    return run.state in _STATES_WITH_REASON or (
        run.state == "queued" and run.resume_step is not None
    )


def _describe_resumption(run: RunState) -> str:
    return describe_resumption(run.resumed_from, run.resumptions)


def _render_reasons(runs: list[RunState], longest: int) -> list[Any]:
    parts: list[Any] = []
    order = list(RUN_STATES)
    runs = sorted(runs, key=lambda run: (order.index(run.state), str(run.folder)))
    for run in runs[:longest]:
        line = Text(f"{run.state:<12}", style=_STYLES.get(run.state, ""))
        resumption = _describe_resumption(run)
        more = f" ({resumption})" if resumption else ""
        line.append(escape_unprintable(f"{run.title}: {run.reason}{more}") + "\n", style="default")
        line.append(escape_unprintable(f"            {run.folder}"), style="dim")
        parts.append(line)
    return [*parts, *_render_omitted(runs, longest), Text()] if parts else []


def _render_omitted(runs: Sequence[RunState], longest: int) -> list[Text]:
    more = len(runs) - longest
    return [Text(f"... and {more} more: --json lists all", style="dim")] if more > 0 else []


def _to_plain_text(text: object) -> Text:
    """Return text that is shown literally, without markup of rich or codes of the terminal."""
    return Text(escape_unprintable(str(text)))


def _format_end_time(seconds: float) -> str:
    """Return the time `seconds` from now; empty if no date can represent it."""
    try:
        end = datetime.datetime.now() + datetime.timedelta(seconds=seconds)
        return end.strftime("%a %d %b %H:%M")
    except (OverflowError, ValueError):
        return ""
