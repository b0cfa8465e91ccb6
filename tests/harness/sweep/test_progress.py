"""The display of a sweep in progress."""

import io
import types
from pathlib import Path

import pytest
from constants import compare_with_stored
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
        (
            {"update_schedule": {"total_gradient_steps": 1}, "final_score": None},
            "1 gradient update, 0 target updates, 12.3 s",
        ),
        (
            {"update_schedule": {"target_updates": 1}, "final_score": 0.0},
            "final score 0.0, 1 target update, 12.3 s",
        ),
        (None, ""),
    ],
)
def test_the_result_of_a_run_is_score_updates_and_time(monkeypatch, changes, text):
    record = None if changes is None else make_record(**changes)
    reading = types.SimpleNamespace(record=record)
    monkeypatch.setattr(progress, "read_run", lambda folder: reading)
    assert progress.describe_run_result(Path("/nowhere")) == text


@pytest.mark.parametrize(
    ("left", "jobs", "seconds"),
    [
        ([("sb3", "ppo", 100)], 1, 10),  # as measured
        ([("sb3", "ppo", 100), ("sb3", "td3", 100)], 1, 110),
        ([("sb3", "ppo", 100), ("sb3", "td3", 100)], 2, 55),
        ([("sb3", "ppo", 100), ("sb3", "td3", 100)], 8, 55),  # only two runs are left
        ([("sb3", "ppo", 100)], 4, 10),  # one run has no use for the others' processes
        ([("new", "ppo", 100)], 1, 20),  # as the slowest of its algorithm
        ([("new", "sac", 100)], 1, 100),  # as the slowest of all
        ([], 4, 0),
    ],
)
def test_remaining_time_without_measurements_is_that_of_the_slowest_framework(left, jobs, seconds):
    speeds = {("sb3", "ppo"): 10.0, ("slow", "ppo"): 5.0, ("sb3", "td3"): 1.0}
    assert progress.estimate_remaining_seconds(left, speeds, jobs) == pytest.approx(seconds)
    assert progress.estimate_remaining_seconds(left, {}, jobs) is None


def make_display(monkeypatch, runs=2, beats=(), jobs=1):
    now = types.SimpleNamespace(value=1e6)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now.value)
    beats = dict(beats)
    monkeypatch.setattr(progress, "read_heartbeat", lambda folder: beats.get(folder.name))
    spec = types.SimpleNamespace(
        title="a run", framework="sb3", algorithm="ppo", diagnosis={"mode": "off"}
    )
    run = types.SimpleNamespace(spec=spec, native=types.SimpleNamespace(total_steps=1000))
    display = progress.SweepDisplay({Path(str(i)): run for i in range(runs)}, jobs)
    display._console = Console(width=200, record=True, file=io.StringIO())
    return display, now, beats


def make_beat(step, resumed_from=None):
    return types.SimpleNamespace(step=step, resumed_from=resumed_from, resumption="")


def show(display):
    display._console.print(display._draw())
    return display._console.export_text()


def test_running_runs_have_a_line_and_a_share_of_the_time_left(monkeypatch):
    display, now, beats = make_display(monkeypatch, 2, {"0": make_beat(100)})
    assert "100 / 1,000 steps" in show(display)
    now.value += 10
    beats["0"] = make_beat(300)  # 20 steps a second, and 1,700 are left
    shown = show(display)
    assert "300 / 1,000 steps" in shown and "0 of 2 runs" in shown and "0 failed" in shown
    assert "00:10 elapsed" in shown and "01:25 left" in shown
    display.print_outcome(Path("1"), "failed", None)
    shown = show(display)
    assert "1 of 2 runs" in shown and "1 failed" in shown and "00:35 left" in shown


def test_the_display_has_a_bar_per_run_and_one_over_all(monkeypatch):
    display, _, _ = make_display(monkeypatch, 2, {"0": make_beat(500)})
    running, summary = show(display).splitlines()
    bar, all_bar = "━" * 10 + " " * 10, "━" * 7 + "╸" + " " * 22
    assert running.rstrip() == f"  running  a run  {bar}  500 / 1,000 steps"
    words = "0 of 2 runs  0 failed  00:00 elapsed  --:-- left"
    assert summary.rstrip() == f"{all_bar}  {words}"


@pytest.mark.parametrize(("later", "known"), [(2.9, False), (3.0, True)])
def test_a_speed_needs_three_seconds_and_steps(monkeypatch, later, known):
    display, now, _ = make_display(monkeypatch)
    display._update_speed(Path("0"), 100)
    now.value += later
    display._update_speed(Path("0"), 100)
    assert display._speeds == {}
    display._update_speed(Path("0"), 101)
    assert bool(display._speeds) == known


def test_a_resumed_run_has_no_speed_until_its_checkpoint_is_loaded(monkeypatch):
    display, _, beats = make_display(monkeypatch, 1, {"0": make_beat(0, 500)})
    show(display)
    assert display._first == {}
    beats["0"] = make_beat(500, 500)
    show(display)
    assert display._first == {Path("0"): (500, 1e6)}


def test_line_of_an_ended_run_has_number_outcome_and_reason(monkeypatch, tmp_path):
    display, _, _ = make_display(monkeypatch, 3)
    monkeypatch.setattr(progress, "describe_run_result", lambda folder: "final score 5.0")
    monkeypatch.setattr(progress, "describe_run_resumptions", lambda folder: "")
    display.print_outcome(Path("0"), "completed", None)
    display.print_outcome(Path("1"), "failed", "it broke:\n[0.\n0.\n0.]")
    monkeypatch.setattr(progress, "describe_run_resumptions", lambda folder: "resumed once")
    display.print_outcome(Path("2"), "skipped", None)
    lines = display._console.export_text().splitlines()
    assert lines == [
        "[1/3] completed   a run",
        "        final score 5.0",
        "[2/3] failed      a run",
        "        it broke:",
        "        [0.",
        "        0.",
        "        see 1/log.txt",
        "[3/3] skipped     a run (resumed once)",
    ]


def test_failures_are_red_and_warnings_are_yellow(monkeypatch):
    display, _, _ = make_display(monkeypatch, 3)
    styles = []
    printing = types.SimpleNamespace(print=lambda text, soft_wrap: styles.append(text.style))
    display._console = printing
    monkeypatch.setattr(progress, "describe_run_result", lambda folder: "")
    monkeypatch.setattr(progress, "describe_run_resumptions", lambda folder: "")
    for number, status in enumerate(("completed", "skipped", "failed")):
        display.print_outcome(Path(str(number)), status, None)
    assert styles == ["", "", "red"]
    display._runs[Path("0")].spec.diagnosis["mode"] = "on"
    findings = [
        {"id": level, "level": level, "first_step": 7, "seen": "x"}
        for level in ("error", "warning")
    ]
    found = types.SimpleNamespace(findings=findings)
    monkeypatch.setattr(progress, "read_diagnosis", lambda folder: found)
    display._print_findings(Path("0"))
    assert styles[3:] == ["red", "yellow"]


@pytest.mark.parametrize(
    ("is_terminal", "mode", "draws", "looks"),
    [(True, "off", True, True), (False, "on", False, True), (False, "off", False, False)],
)
def test_the_display_draws_on_terminals_and_watches_watched_runs(
    monkeypatch, is_terminal, mode, draws, looks
):
    display, _, _ = make_display(monkeypatch)
    for run in display._runs.values():
        run.spec.diagnosis["mode"] = mode
    calls = []
    display._console = types.SimpleNamespace(is_terminal=is_terminal)
    display._live = types.SimpleNamespace(
        start=lambda: calls.append("start"), stop=lambda: calls.append("stop")
    )
    display._thread = types.SimpleNamespace(
        start=lambda: calls.append("watch"),
        is_alive=lambda: looks,
        join=lambda: calls.append("join"),
    )
    with display as entered:
        assert entered is display
        assert calls == ["start"] * draws + ["watch"] * looks
        assert not display._closing.is_set()
    assert display._closing.is_set()
    assert calls[draws + looks :] == ["join"] * looks + ["stop"] * draws


def test_findings_of_running_runs_are_looked_for_every_second(monkeypatch):
    display, _, _ = make_display(monkeypatch, 2)
    waited, looked, drawn = [], [], []
    answers = iter([False, True])
    display._closing = types.SimpleNamespace(wait=lambda s: waited.append(s) or next(answers))
    display._ended = {Path("1"): "completed"}
    monkeypatch.setattr(display, "_print_findings", looked.append)
    display._console = types.SimpleNamespace(is_terminal=True)
    display._live = types.SimpleNamespace(update=drawn.append)
    monkeypatch.setattr(display, "_draw", lambda: "drawn")
    display._refresh()
    assert (waited, looked, drawn) == ([1.0, 1.0], [Path("0")], ["drawn"])


def test_resumptions_of_a_run_that_ended_are_those_of_its_record(monkeypatch):
    record = types.SimpleNamespace(resumed_from=300, resumptions=2)
    readings = iter([record, None])
    monkeypatch.setattr(
        progress, "read_run", lambda folder: types.SimpleNamespace(record=next(readings))
    )
    assert "300" in progress.describe_run_resumptions(Path("0"))
    assert progress.describe_run_resumptions(Path("0")) == ""


def test_constants_and_defaults_change_on_purpose_only():
    assert compare_with_stored("harness.sweep") == []
