"""The progress of a sweep on the terminal."""

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.record.diagnosis import read_diagnosis
from harness.record.files import visible
from harness.record.lease import read_beat, went_on
from harness.record.reading import read_run
from harness.sweep.eta import remaining_seconds
from harness.train.prepare import Prepared

_REFRESH_SECONDS = 1.0
_STEADY_SECONDS = 3.0
_FINE = ("completed", "skipped")


class SweepDisplay:
    """One bar over all runs, a line per run in progress, and a line per run that ended.

    Without a terminal only the lines of ended runs are printed, and what a diagnosis found.
    """

    def __init__(self, pending: Mapping[Path, Prepared], jobs: int) -> None:
        self._runs = pending
        self._jobs = jobs
        self._ended: dict[Path, str] = {}
        self._found: dict[Path, set[str]] = {}
        self._printing = threading.Lock()
        self._first: dict[Path, tuple[int, float]] = {}
        self._speeds: dict[tuple[str, str], float] = {}
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, refresh_per_second=4, transient=True)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._refresh, daemon=True)
        self._begun = time.monotonic()

    def __enter__(self) -> "SweepDisplay":
        """Starts drawing."""
        is_watched = any(run.spec.diagnosis["mode"] != "off" for run in self._runs.values())
        if self._console.is_terminal:
            self._live.start()
        if self._console.is_terminal or is_watched:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops drawing."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._console.is_terminal:
            self._live.stop()

    def finished(self, folder: Path, status: str, failure: str | None) -> None:
        """Prints that a run has ended."""
        self._tell_findings(folder)
        self._ended[folder] = status
        count = f"[{len(self._ended)}/{len(self._runs)}]"
        text = f"{count} {status:<11} {self._runs[folder].spec.title}"
        if words := went_on_of(folder):
            text += f" ({words})"
        if failure:
            text += f"\n        {failure}\n        see {folder / 'log.txt'}"
        style = "" if status in _FINE else "red"
        self._console.print(Text(text, style=style), soft_wrap=True)

    def _refresh(self) -> None:
        while not self._closing.wait(_REFRESH_SECONDS):
            for folder in self._runs:
                if folder not in self._ended:
                    self._tell_findings(folder)
            if self._console.is_terminal:
                self._live.update(self._draw())

    def _tell_findings(self, folder: Path) -> None:
        """Prints errors and warnings of a run that were not printed before."""
        spec = self._runs[folder].spec
        if spec.diagnosis["mode"] == "off":
            return
        with self._printing:
            told = self._found.setdefault(folder, set())
            for finding in read_diagnosis(folder).findings:
                if finding["level"] != "note" and finding["id"] not in told:
                    told.add(finding["id"])
                    text = (
                        f"        {finding['level']} {finding['id']} at step "
                        f"{finding['first_step']:,} of {spec.title}: {finding['seen']}"
                    )
                    style = "red" if finding["level"] == "error" else "yellow"
                    self._console.print(Text(visible(text), style=style), soft_wrap=True)

    def _draw(self) -> Group:
        beats = {
            folder: beat
            for folder in self._runs
            if folder not in self._ended and (beat := read_beat(folder))
        }
        steps = {folder: beat.step for folder, beat in beats.items()}
        running = Table.grid(padding=(0, 2))
        for folder, step in steps.items():
            if step >= (beats[folder].resumed_from or 0):  # before, nothing has been laid in
                self._observe(folder, step)
            run = self._runs[folder]
            running.add_row(
                "  running",
                run.spec.title,
                ProgressBar(run.native.total_steps, step, width=20),
                f"{step:,} / {run.native.total_steps:,} steps",
                Text(beats[folder].went_on, style="dim"),
            )
        partial = sum(
            step / self._runs[folder].native.total_steps for folder, step in steps.items()
        )
        failed = sum(status not in _FINE for status in self._ended.values())
        summary = Table.grid(padding=(0, 2))
        summary.add_row(
            ProgressBar(len(self._runs), len(self._ended) + partial, width=30),
            f"{len(self._ended)} of {len(self._runs)} runs",
            Text(f"{failed} failed", style="red" if failed else ""),
            f"{_clock(time.monotonic() - self._begun)} elapsed",
            f"{_clock(self._remaining(steps))} left",
        )
        return Group(running, summary)

    def _observe(self, folder: Path, step: int) -> None:
        now = time.monotonic()
        first_step, first_seen = self._first.setdefault(folder, (step, now))
        if step > first_step and now - first_seen >= _STEADY_SECONDS:
            spec = self._runs[folder].spec
            speed = (step - first_step) / (now - first_seen)
            self._speeds[spec.framework, spec.algorithm] = speed

    def _remaining(self, steps: Mapping[Path, int]) -> float | None:
        left = [
            (run.spec.framework, run.spec.algorithm, run.native.total_steps - steps.get(folder, 0))
            for folder, run in self._runs.items()
            if folder not in self._ended
        ]
        return remaining_seconds(left, self._speeds, self._jobs)


def went_on_of(folder: Path) -> str:
    """From where and how often a run that has ended went on; empty where it did not."""
    record = read_run(folder).record
    return went_on(record.resumed_from, record.resumptions) if record else ""


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "--:--"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
