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
