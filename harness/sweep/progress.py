"""The progress of a sweep on the terminal."""

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.record.files import escape_unprintable
from parallax.harness.record.lock import describe_resumption, read_heartbeat
from parallax.harness.record.reading import read_diagnosis, read_run
from parallax.harness.train.prepare import PreparedRun


def estimate_remaining_seconds(
    left: Sequence[tuple[str, str, int]], speeds: Mapping[tuple[str, str], float], jobs: int
) -> float | None:
    """Return the expected time until all runs have ended; None while no speed is known.

    Args:
        left: Framework, algorithm and steps still to take of each run.
        speeds: Environment steps per second of (framework, algorithm). A pair not seen yet
            is expected to be as fast as the slowest seen of its algorithm, or of all.
        jobs: Runs at a time.
    """
    if not speeds:
        return None
    total = 0.0
    for framework, algorithm, steps in left:
        same = [speed for (_, name), speed in speeds.items() if name == algorithm]
        speed = speeds.get((framework, algorithm), min(same or speeds.values()))
        total += steps / speed
    return total / min(jobs, max(len(left), 1))


_MAX_FAILURE_LINES = 3
_REFRESH_SECONDS = 1.0
_MIN_SPEED_SECONDS = 3.0
_SUCCESSFUL_STATUSES = ("completed", "skipped")


class SweepDisplay:
    """One bar over all runs, a line per run in progress, and a line per run that ended.

    Without a terminal, only the lines of ended runs and findings of a diagnosis are printed.
    """

    def __init__(self, pending: Mapping[Path, PreparedRun], jobs: int) -> None:
        self._runs = pending
        self._jobs = jobs
        self._ended: dict[Path, str] = {}
        self._printed_findings: dict[Path, set[str]] = {}
        self._printing = threading.Lock()
        self._first: dict[Path, tuple[int, float]] = {}
        self._speeds: dict[tuple[str, str], float] = {}
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, refresh_per_second=4, transient=True)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._refresh, daemon=True)
        self._begun = time.monotonic()

    def __enter__(self) -> "SweepDisplay":
        """Start drawing."""
        is_watched = any(run.spec.diagnosis["mode"] != "off" for run in self._runs.values())
        if self._console.is_terminal:
            self._live.start()
        if self._console.is_terminal or is_watched:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop drawing."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._console.is_terminal:
            self._live.stop()

    def print_outcome(self, folder: Path, status: str, failure: str | None) -> None:
        """Print that a run has ended."""
        self._print_findings(folder)
        self._ended[folder] = status
        count = f"[{len(self._ended)}/{len(self._runs)}]"
        text = f"{count} {status:<11} {self._runs[folder].spec.title}"
        if words := describe_run_resumptions(folder):
            text += f" ({words})"
        if status == "completed" and (result := describe_run_result(folder)):
            text += f"\n        {result}"
        if failure:
            # Messages of distributions hold the tensor, a line for each of its rows.
            shown = "\n        ".join(failure.splitlines()[:_MAX_FAILURE_LINES])
            text += f"\n        {shown}\n        see {folder / 'log.txt'}"
        style = "" if status in _SUCCESSFUL_STATUSES else "red"
        self._console.print(Text(text, style=style), soft_wrap=True)

    def _refresh(self) -> None:
        while not self._closing.wait(_REFRESH_SECONDS):
            for folder in self._runs:
                if folder not in self._ended:
                    self._print_findings(folder)
            if self._console.is_terminal:
                self._live.update(self._draw())

    def _print_findings(self, folder: Path) -> None:
        """Print errors and warnings of a run that were not printed before."""
        spec = self._runs[folder].spec
        if spec.diagnosis["mode"] == "off":
            return
        with self._printing:
            printed = self._printed_findings.setdefault(folder, set())
            for finding in read_diagnosis(folder).findings:
                if finding["level"] != "note" and finding["id"] not in printed:
                    printed.add(finding["id"])
                    text = (
                        f"        {finding['level']} {finding['id']} at step "
                        f"{finding['first_step']:,} of {spec.title}: {finding['seen']}"
                    )
                    style = "red" if finding["level"] == "error" else "yellow"
                    self._console.print(Text(escape_unprintable(text), style=style), soft_wrap=True)

    def _draw(self) -> Group:
        beats = {
            folder: beat
            for folder in self._runs
            if folder not in self._ended and (beat := read_heartbeat(folder))
        }
        running = Table.grid(padding=(0, 2))
        for folder, beat in beats.items():
            if beat.step >= (beat.resumed_from or 0):  # else the checkpoint is not loaded yet
                self._update_speed(folder, beat.step)
            total = self._runs[folder].native.total_steps
            running.add_row(
                "  running",
                self._runs[folder].spec.title,
                ProgressBar(total, beat.step, width=20),
                f"{beat.step:,} / {total:,} steps",
                Text(beat.resumption, style="dim"),
            )
        return Group(running, self._draw_summary({f: beat.step for f, beat in beats.items()}))

    def _draw_summary(self, steps: Mapping[Path, int]) -> Table:
        """Return one row on all runs; `steps` are those of the runs in progress."""
        totals = {folder: self._runs[folder].native.total_steps for folder in steps}
        partial = sum(step / totals[folder] for folder, step in steps.items())
        failed = sum(status not in _SUCCESSFUL_STATUSES for status in self._ended.values())
        summary = Table.grid(padding=(0, 2))
        summary.add_row(
            ProgressBar(len(self._runs), len(self._ended) + partial, width=30),
            f"{len(self._ended)} of {len(self._runs)} runs",
            Text(f"{failed} failed", style="red" if failed else ""),
            f"{_format_clock(time.monotonic() - self._begun)} elapsed",
            f"{_format_clock(self._estimate_remaining(steps))} left",
        )
        return summary

    def _update_speed(self, folder: Path, step: int) -> None:
        now = time.monotonic()
        first_step, first_seen = self._first.setdefault(folder, (step, now))
        if step > first_step and now - first_seen >= _MIN_SPEED_SECONDS:
            spec = self._runs[folder].spec
            speed = (step - first_step) / (now - first_seen)
            self._speeds[spec.framework, spec.algorithm] = speed

    def _estimate_remaining(self, steps: Mapping[Path, int]) -> float | None:
        left = [
            (run.spec.framework, run.spec.algorithm, run.native.total_steps - steps.get(folder, 0))
            for folder, run in self._runs.items()
            if folder not in self._ended
        ]
        return estimate_remaining_seconds(left, self._speeds, self._jobs)


def describe_run_resumptions(folder: Path) -> str:
    """Return from which step and how often an ended run resumed; empty if it did not."""
    record = read_run(folder).record
    return describe_resumption(record.resumed_from, record.resumptions) if record else ""


def describe_run_result(folder: Path) -> str:
    """Return final score, updates and seconds of a run that has completed, as its record has them.

    Empty where the record cannot be read.
    """
    record = read_run(folder).record
    if record is None:
        return ""
    parts = [] if record.final_score is None else [f"final score {record.final_score:,.1f}"]
    counts = record.update_schedule
    # Early stopping by divergence ends epochs before all of their minibatches were used.
    bound = "at most " if record.hyperparameters.get("target_kl") is not None else ""
    if updates := counts.get("total_gradient_steps"):
        parts.append(f"{bound}{_format_count(updates, 'gradient update')}")
    if ALGORITHMS[record.spec.algorithm].has_targets:
        parts.append(_format_count(counts.get("target_updates", 0), "target update"))
    if record.timings.seconds is not None:
        parts.append(f"{record.timings.seconds:,.1f} s")
    return ", ".join(parts)


def _format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _format_clock(seconds: float | None) -> str:
    if seconds is None:
        return "--:--"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
