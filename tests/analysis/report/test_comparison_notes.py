import json
import math

import numpy as np
import pytest

from parallax.analysis.data.load import load_runs
from parallax.analysis.report.sections.comparison import (
    compare_frameworks,
    find_largest_difference,
    make_notes,
)
from parallax.analysis.verdicts.failures import count_failed_as_bottom
from parallax.analysis.verdicts.groups import group_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.harness.cli.main import main

OPTIONS = VerdictOptions()


def compared(results, method="t"):
    groups = group_runs(load_runs(results))
    treated = count_failed_as_bottom(groups, OPTIONS)
    return compare_frameworks(groups, treated, OPTIONS, method, np.random.default_rng(0))


def noted(results, method="t"):
    return make_notes(load_runs(results), compared(results, method), OPTIONS, method)


def test_the_final_score_is_the_mean_of_the_last_evaluation(results, make_run):
    make_run(seed=0, timesteps=[10, 20], scheduled=20, returns=[[99, 99], [1, 3]])
    make_run(seed=1, timesteps=[10, 20], scheduled=20, returns=[[99, 99], [5, 7]])
    ((score,),) = [row.scores for row in compared(results)]
    assert score.mean.mean == 4
    assert (score.group.requested, score.group.completed, score.group.n) == (2, 2, 2)
    assert score.group.steps == (20,)


def test_every_unused_folder_counts_as_requested_only(results, make_run):
    make_run(seed=0)
    make_run(seed=1, status="failed")
    (make_run(seed=2) / "run.json").write_text("{")
    (row,) = compared(results)
    score = row.scores[0]
    assert (score.group.requested, score.group.completed, score.group.n) == (3, 1, 1)


def test_framework_without_a_used_run_is_listed(results, make_run):
    make_run(framework="sb3")
    make_run(framework="cleanrl", status="running")
    (row,) = compared(results)
    assert [(score.group.framework, score.group.n) for score in row.scores] == [
        ("cleanrl", 0),
        ("sb3", 1),
    ]
    assert math.isnan(row.scores[0].mean.mean)
    assert row.largest_difference is None


@pytest.mark.parametrize("name", ["study", "env", "algorithm", "hps", "variant"])
def test_runs_are_pooled_only_within_one_setting(results, make_run, name):
    make_run()
    make_run(**{name: "other"})
    assert len(compared(results)) == 2


def test_largest_difference_is_found_with_a_positive_sign():
    finals = {
        "a": np.array([1.0, 3.0]),
        "b": np.array([9.0, 11.0]),
        "c": np.array([4.0, 6.0]),
        "d": np.array([]),
    }
    pair = find_largest_difference(finals)
    assert pair is not None
    assert (pair.higher, pair.lower) == ("b", "a")
    assert pair.difference.mean == 8
    assert pair.difference.low < 8 < pair.difference.high


def test_one_framework_has_no_largest_difference():
    assert find_largest_difference({"a": np.array([1.0])}) is None


def test_last_evaluations_at_different_steps_are_noted_once_for_all_rows(results, make_run):
    for env in ("Hopper-v5", "Ant-v5"):
        make_run(env=env, framework="sb3", scheduled=20_480, steps=18_000)
        make_run(env=env, framework="torchrl", scheduled=20_480, steps=18_000)
        make_run(env=env, framework="cleanrl", scheduled=18_432, steps=18_000)
    notes = noted(results)
    assert notes.numbered_notes == (
        "The last evaluations are not at the same environment step: "
        "18,432 (CleanRL), 20,480 (SB3, TorchRL).",
    )
    assert set(notes.note_numbers.values()) == {(1,)}


def test_equal_last_steps_need_no_note(results, make_run):
    make_run(framework="sb3")
    make_run(framework="cleanrl")
    assert noted(results).numbered_notes == ()


def test_versions_in_which_frameworks_differ_are_printed(results, make_run, tmp_path, capsys):
    for framework, version in (("sb3", "2.3"), ("cleanrl", "3.1")):
        for seed in range(2):
            file = make_run(framework=framework, seed=seed, score=100.0 + seed) / "run.json"
            made = {"provenance": {"packages": {"mujoco": version}}}
            file.write_text(json.dumps(json.loads(file.read_text()) | made))
    text = "Compared runs have different versions of mujoco 2.3 and 3.1."
    assert noted(results).numbered_notes == (text,)
    output = ["--output", str(tmp_path / "out")]
    assert main(["study", "verdicts", str(results), *output]) == 0
    assert f"\n{text}\n" in capsys.readouterr().out


def test_runs_that_differ_in_unnamed_settings_are_noted(results, make_run):
    make_run(seed=0)
    make_run(seed=1, hyperparameters={"gamma": 0.9})
    notes = noted(results)
    assert len(notes.note_numbers) == 2
    assert "hyperparameters" not in " ".join(notes.numbered_notes)
    assert "gamma 0.9 (1), 0.99 (1)" in notes.general[-1]


@pytest.mark.parametrize(
    ("method", "words"), [("t", "huge"), ("thesis", "60.2% at n = 2"), ("bootstrap", "too narrow")]
)
def test_two_seeds_cause_a_warning(results, make_run, method, words):
    make_run(seed=0)
    make_run(seed=1)
    text = " ".join(noted(results, method).general)
    assert words in text
    assert "With n = 2" in text


def test_many_seeds_cause_no_warning(results, make_run):
    for seed in range(3):
        make_run(seed=seed)
    assert not any("With n = 2" in note for note in noted(results).general)
