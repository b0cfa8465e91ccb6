"""The display of a sweep in progress."""

import io
import types
from pathlib import Path

import pytest
from rich.console import Console

from parallax.harness.sweep import progress


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "00:00"), (59.9, "00:59"), (61, "01:01"), (7_322, "2:02:02")]
)
def test_the_clock_shows_the_time_since_the_sweep_began(monkeypatch, seconds, text):
    now = types.SimpleNamespace(value=1e6)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now.value)
    spec = types.SimpleNamespace(title="a run", framework="sb3", algorithm="ppo")
    run = types.SimpleNamespace(spec=spec, native=types.SimpleNamespace(total_steps=100))
    display = progress.SweepDisplay({Path("/nowhere"): run}, 1)
    now.value += seconds
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(display._draw())
    shown = console.export_text()
    assert f"{text} elapsed" in shown and "--:-- left" in shown and "0 of 1 runs" in shown


def test_findings_of_a_run_are_printed_once_and_notes_never(monkeypatch):
    levels = {"loss-diverges": "error", "low-entropy": "warning", "slow": "note"}
    findings = [
        {"id": name, "level": level, "first_step": 7, "seen": "seen"}
        for name, level in levels.items()
    ]
    diagnosis = types.SimpleNamespace(findings=findings)
    monkeypatch.setattr(progress, "read_diagnosis", lambda folder: diagnosis)
    spec = types.SimpleNamespace(title="a run", diagnosis={"mode": "on"})
    run = types.SimpleNamespace(spec=spec, native=types.SimpleNamespace(total_steps=100))
    display = progress.SweepDisplay({Path("/nowhere"): run}, 1)
    display._console = Console(width=120, record=True, file=io.StringIO())
    for _ in range(3):
        display._print_findings(Path("/nowhere"))
    shown = display._console.export_text()
    assert shown.count("error loss-diverges at step 7 of a run: seen") == 1
    assert shown.count("warning low-entropy") == 1 and "slow" not in shown


def test_speed_is_steps_per_second_since_the_run_was_first_seen(monkeypatch):
    now = types.SimpleNamespace(value=1e6)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now.value)
    spec = types.SimpleNamespace(title="a run", framework="sb3", algorithm="ppo")
    run = types.SimpleNamespace(spec=spec, native=types.SimpleNamespace(total_steps=1000))
    folder = Path("/nowhere")
    display = progress.SweepDisplay({folder: run}, 1)
    display._update_speed(folder, 100)
    now.value += 50
    display._update_speed(folder, 600)
    assert display._speeds["sb3", "ppo"] == 10


def make_record(**changes):
    values = {
        "final_score": 1234.56,
        "update_schedule": {"total_gradient_steps": 2000, "target_updates": 50},
        "hyperparameters": {"target_kl": None},
        "spec": types.SimpleNamespace(algorithm="td3"),
        "timings": types.SimpleNamespace(seconds=12.34),
    }
    return types.SimpleNamespace(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "final score 1,234.6, 2,000 gradient updates, 50 target updates, 12.3 s"),
        (
            {"final_score": None, "timings": types.SimpleNamespace(seconds=None)},
            "2,000 gradient updates, 50 target updates",
        ),
        (
            {"hyperparameters": {"target_kl": 0.1}, "spec": types.SimpleNamespace(algorithm="ppo")},
            "final score 1,234.6, at most 2,000 gradient updates, 12.3 s",
        ),
        (None, ""),
    ],
)
def test_the_result_of_a_run_is_score_updates_and_time(monkeypatch, changes, text):
    record = None if changes is None else make_record(**changes)
    reading = types.SimpleNamespace(record=record)
    monkeypatch.setattr(progress, "read_run", lambda folder: reading)
    assert progress.describe_run_result(Path("/nowhere")) == text
