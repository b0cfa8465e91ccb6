"""Watching a run: its curves, its end, and an abandoned run."""

import json
import shutil
from pathlib import Path

import pytest
import recorded

from parallax.harness.cli.main import main
from parallax.harness.cli.run_watch import format_sparkline, read_snapshot
from parallax.harness.record.lock import RunLock


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return recorded.complete_run(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def folder(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "seed=0"))


def set_status(folder, status):
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"status": status}))


def test_an_ended_run_is_shown_once(folder, capsys):
    assert main(["run", "watch", str(folder)]) == 0
    assert "completed, step" in capsys.readouterr().out
    assert read_snapshot(folder).curves["evaluation"]


def test_abandoned_run_ends_the_watch(folder, capsys):
    set_status(folder, "running")
    assert main(["run", "watch", str(folder)]) == 0
    assert "abandoned, step" in capsys.readouterr().out


def test_a_run_is_active_while_it_is_locked(folder):
    set_status(folder, "running")
    with RunLock.acquire(folder):
        assert read_snapshot(folder).status == "running" and read_snapshot(folder).is_active


def test_no_run_and_damaged_evaluations(folder, tmp_path, capsys):
    (folder / "evaluations.npz").write_bytes(b"PK")
    assert "evaluation" not in read_snapshot(folder).curves
    assert main(["run", "watch", str(tmp_path / "nothing")]) == 2
    assert "is not a run folder" in capsys.readouterr().err


def test_evaluations_of_another_run_are_not_shown(folder, capsys):
    other = recorded.complete_run(folder.parent / "others", seed=1)
    shutil.copy(other / "evaluations.npz", folder / "evaluations.npz")
    assert main(["run", "watch", str(folder)]) == 0
    text = capsys.readouterr().out
    assert "broken: corrupted evaluations.npz: it is not what the run wrote" in text
    assert "evaluation " not in text


def test_texts_of_a_diagnosis_are_cut_and_long_names_refused(folder, capsys):
    texts = dict.fromkeys(("id", "name", "seen", "causes", "remedies", "may_be_wrong"), "x")
    finding = {**texts, "level": "error", "first_step": 1, "last_step": 1, "count": 1}
    findings = [{**finding, "id": f"{number}"} for number in range(1000)]
    findings.append({**finding, "seen": "L" * 500_000})
    file = folder / "diagnosis.json"
    file.write_text(json.dumps({"findings": findings}))
    assert main(["run", "watch", str(folder), "--findings"]) == 0
    assert len(capsys.readouterr().out) < 10_000_000
    curves = {name: {"curve": [[1, 1.0]]} for name in ("short", "L" * 500_000)}
    file.write_text(json.dumps({"findings": [], "signals": curves}))
    assert main(["run", "watch", str(folder)]) == 0
    assert "a signal has a name of more than 255 characters" in capsys.readouterr().out


def test_bar_heights_follow_the_curve():
    drawn = format_sparkline(((1, 0.0), (50, 5.0), (100, 10.0), (60, float("nan"))), 100, 3)
    assert drawn[0] < drawn[1] < drawn[2]


def test_curves_are_drawn_without_values_of_infinite_sum():
    drawn = format_sparkline(((1, 0.0), (50, 1e308), (60, 1e308), (70, -1e308), (100, 2.0)), 100, 3)
    assert drawn[1] == " " and drawn[0] < drawn[2]


@pytest.mark.parametrize("every", ["nan", "inf", "86401", "-3"])
def test_the_time_between_two_reads_has_a_bound(folder, every, capsys):
    assert main(["run", "watch", str(folder), "--every", every]) == 2
    assert "must be from 0 to 86,400 seconds" in capsys.readouterr().err


def test_a_study_has_a_line_for_each_run(folder, capsys):
    study = folder.parent
    shutil.copytree(folder, study / "seed=1")
    set_status(study / "seed=1", "failed")
    assert main(["run", "watch", str(study)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("1 completed, 1 failed")
    assert [line.split()[-1] for line in lines[2:4]] == ["seed=0", "seed=1"]


def test_findings_of_all_runs_are_printed_under_both_spellings(folder, tmp_path, capsys):
    assert main(["run", "watch", str(tmp_path), "--findings"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("1 runs, ")
    assert main(["run", "diagnosis", str(tmp_path)]) == 0
    assert capsys.readouterr().out == text
    assert main(["run", "watch", str(folder), "--notes"]) == 2
    assert "--notes needs --findings" in capsys.readouterr().err
