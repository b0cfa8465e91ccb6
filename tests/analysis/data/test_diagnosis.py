"""Findings of the diagnosis are collected over run folders; damage is counted, not raised."""

import json
from types import SimpleNamespace

import pytest

from parallax.analysis.data.diagnosis import read_diagnosis_summary
from parallax.analysis.data.load import load_runs
from parallax.analysis.report.sections.runs import describe_diagnosis, make_diagnosis_table
from parallax.harness.cli.main import main


def finding(check="bad-weights", level="warning", step=100, **more):
    words = {name: f"{name} of {check}" for name in ("name", "seen", "causes", "remedies")}
    words |= {"may_be_wrong": "never", "first_step": step, "last_step": step, "count": 1}
    return {"id": check, "level": level} | words | more


def put(folder, *findings):
    (folder / "diagnosis.json").write_text(json.dumps({"findings": findings}))


@pytest.fixture
def gathered(results, make_run):
    for seed, steps in enumerate(((), (300,), (100, 200))):
        run = make_run(framework="sb3", seed=seed)
        put(run, *(finding(check, step=step) for check, step in zip("ab", steps, strict=False)))
    put(make_run(framework="cleanrl", seed=0), finding("a", "error", 7), finding("n", "note"))
    (make_run(framework="cleanrl", seed=1) / "diagnosis.json").write_text("{")
    make_run(framework="cleanrl", seed=2)
    return read_diagnosis_summary(load_runs(results))


def test_findings_are_counted_by_check_and_framework(gathered):
    sentences = [
        (f.level, f.check, f.framework, f.runs, f.watched, f.first_step) for f in gathered.findings
    ]
    assert sentences == [
        ("error", "a", "cleanrl", 1, 1, 7),
        ("warning", "a", "sb3", 2, 3, 100),
        ("warning", "b", "sb3", 1, 3, 200),
    ]
    assert (gathered.folders, gathered.watched) == (6, 4)
    assert gathered.runs_with_findings == {"error": 1, "warning": 2, "note": 1}
    assert gathered.notes == (("n", 1),)


def test_damaged_diagnosis_is_counted_and_missing_one_is_not(gathered):
    ((reason, count),) = gathered.unread
    assert "diagnosis.json cannot be read" in reason and count == 1


def test_page_describes_findings_in_text_and_a_table(gathered):
    words = " ".join(describe_diagnosis(gathered))
    assert "4 of 6 run folders have a diagnosis" in words
    assert "1 with errors, 2 with warnings" in words and "n in 1 run" in words
    table = make_diagnosis_table(gathered, SimpleNamespace(groups=()))
    assert [values[8].text for values, _ in table.make_page_rows()] == ["7", "100", "200"]
    assert all(len(values) == len(table.page_columns) for values, _ in table.make_page_rows())


def test_report_without_a_diagnosis_has_no_text(results, make_run):
    make_run()
    found = read_diagnosis_summary(load_runs(results))
    assert found.watched == 0 and describe_diagnosis(found) == ()


def test_runs_of_a_packed_file_have_no_diagnosis_and_no_error(results, make_run, tmp_path):
    for seed in range(2):
        make_run(seed=seed)
    assert main(["study", "pack", str(results), "--output", str(tmp_path / "runs.parquet")]) == 0
    found = read_diagnosis_summary(load_runs(tmp_path / "runs.parquet"))
    assert found.folders == 2 and found.unread == ()


def test_unreadable_diagnosis_is_counted_without_its_path(results, make_run):
    (make_run() / "diagnosis.json").mkdir()
    folder = make_run(seed=1)
    (folder / "diagnosis.json").write_text("{}")
    found = read_diagnosis_summary(load_runs(results))
    assert len(found.unread) == 2 and str(results) not in str(found.unread)


def test_the_earliest_finding_of_a_check_is_shown_with_all_settings(results, make_run):
    late, early = finding("a", step=300), finding("a", step=20)
    early |= {"name": "early\x1b name", "seen": "early seen", "remedies": "early remedy"}
    for seed, (found, env) in enumerate(((late, "A-v1"), (early, "A-v1"), (late, "B-v1"))):
        put(make_run(env=env, seed=seed, variant=f"steps=20000,x={seed}"), found)
    first, second = read_diagnosis_summary(load_runs(results)).findings
    words = first.name, first.seen, first.remedies
    assert words == (r"early\x1b name", "early seen", "early remedy")
    assert (first.task, first.algorithm, first.first_step) == ("A-v1", "ppo", 20)
    assert (first.runs, first.watched, second.task, second.runs) == (2, 2, "B-v1", 1)
    variants = [cell.variant for cell in first.cells]
    assert variants == [f"steps=20000,alignment=common,x={seed}" for seed in (0, 1)]
