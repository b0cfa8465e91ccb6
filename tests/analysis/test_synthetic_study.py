import dataclasses
import json

import pytest

from benchmarks.synthetic_returns import PLANTED, StudySize, list_plans
from benchmarks.synthetic_study import main, write_study
from parallax.analysis.data.load import load_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_runs
from parallax.harness.contract.run_spec import RunSpec

SMALL = StudySize(tasks=("Hopper", "Walker2d"), evaluations=6, episodes=3, eval_every=1000)


def test_default_synthetic_study_has_the_size_of_the_thesis():
    assert len(list(list_plans(StudySize()))) == 1440
    assert (StudySize().evaluations, StudySize().episodes, StudySize().steps) == (
        300,
        30,
        3_000_000,
    )


def test_equal_options_give_equal_files(tmp_path):
    contents = []
    for name in ("one", "two"):
        folder = tmp_path / name / "study"
        write_study(folder, dataclasses.replace(SMALL, seeds=1, variants=True))
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        contents.append([(str(path.relative_to(folder)), path.read_bytes()) for path in files])
    assert contents[0] == contents[1]


def test_every_outcome_is_found_by_the_analysis(tmp_path):
    size = dataclasses.replace(SMALL, seeds=4)
    counts = write_study(tmp_path / "study", size)
    assert min(counts.values()) >= 1
    loaded = load_runs(tmp_path)
    assert loaded.used == counts["completed"]
    reasons = sorted(item.reason.partition(":")[0] for item in loaded.excluded)
    assert reasons == ["failed"] * counts["failed"] + ["too short"] * counts["short"]
    assert loaded.requested == sum(counts.values()) - counts["absent"]


def test_differences_that_were_planted_are_found_and_no_others(tmp_path):
    write_study(tmp_path / "study", dataclasses.replace(SMALL, seeds=6, flawless=True))
    verdicts = judge_runs(load_runs(tmp_path), VerdictOptions()).consistency
    assert {verdict.verdict == "different" for verdict in verdicts} == {True, False}
    for verdict in verdicts:
        task = verdict.cell.env.removesuffix("-v4")
        pair = (verdict.first.framework, verdict.second.framework)
        planted = [PLANTED.get((verdict.cell.algorithm, name, task), 0.0) for name in pair]
        assert (verdict.verdict == "different") == (planted[0] != planted[1]), verdict.cell


def test_run_json_has_the_fields_of_a_real_run(tmp_path):
    write_study(tmp_path / "study", dataclasses.replace(SMALL, seeds=1))
    record = json.loads(next(tmp_path.rglob("run.json")).read_text())
    assert set(record["spec"]) == {field.name for field in dataclasses.fields(RunSpec)}


def test_an_existing_folder_is_refused(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "exists. Give a folder that does not." in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--seeds", "1"], ["--flawless"]])
def test_command_reports_the_number_of_runs(tmp_path, capsys, words):
    sizes = ["--tasks", "Hopper", "--evaluations", "3", "--episodes", "2"]
    assert main([str(tmp_path / "study"), *sizes, *words]) == 0
    assert f"{36 if '1' in words else 180} runs" in capsys.readouterr().out
