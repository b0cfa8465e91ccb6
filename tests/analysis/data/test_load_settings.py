"""Runs that were requested with different settings are neither pooled nor compared."""

import json

import numpy as np
import pytest

from parallax.analysis.data.load import load_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_runs
from parallax.harness.cli.main import main

DIFFERENT = {
    "hyperparameters": ({"learning_rate": 0.1}, {"learning_rate": 1e-5}),
    "alignment": ("exact", "common"),
    "threads": (1, 8),
    "evaluation_seed": (0, 1),
    "wrappers": ("none", "normalized"),
    "n_envs": (1, 8),
    "eval_every": (2000, 1000),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_frameworks_with_different_requested_settings_are_not_compared(results, make_run, name):
    for framework, value in zip(("sb3", "cleanrl"), DIFFERENT[name], strict=True):
        for seed in range(3):
            make_run(framework=framework, seed=seed, score=100 + seed, **{name: value})
    loaded = load_runs(results)
    assert loaded.used == 6
    assert not judge_runs(loaded, VerdictOptions(resamples=50)).consistency
    (text,) = loaded.conflicts
    assert name.split(".")[0] in text or "learning_rate" in text


@pytest.mark.parametrize("name", DIFFERENT)
def test_seeds_with_different_requested_settings_are_not_pooled(results, make_run, name):
    for seed in range(4):
        make_run(seed=seed, **{name: DIFFERENT[name][seed % 2]})
    groups = judge_runs(load_runs(results), VerdictOptions(resamples=50)).groups
    assert [group.n for group in groups] == [2, 2]
    assert len({group.cell for group in groups}) == 2


def test_runs_with_different_numbers_of_episodes_are_separated(results, make_run):
    for framework, episodes in (("sb3", 3), ("cleanrl", 30)):
        for seed in range(2):
            returns = np.ones((12, episodes))
            make_run(framework=framework, seed=seed, returns=returns)
    assert not judge_runs(load_runs(results), VerdictOptions(resamples=50)).consistency


def test_fields_added_by_a_later_version_do_not_separate_runs(results, make_run):
    make_run(seed=0, score=0, hyperparameters={"gamma": 0.99})
    make_run(seed=1, score=1, hyperparameters={"gamma": 0.99, "new": 1})
    make_run(seed=2, score=2, hyperparameters={"gamma": 0.99}, study="demo")
    loaded = load_runs(results)
    assert not loaded.conflicts
    (group,) = judge_runs(loaded, VerdictOptions(resamples=50)).groups
    assert group.n == 3


def test_equal_numbers_in_different_notation_are_equal(results, make_run):
    make_run(seed=0, score=0, hyperparameters={"tau": 1})
    make_run(seed=1, score=1, hyperparameters={"tau": 1.0})
    assert not load_runs(results).conflicts


def test_the_same_seed_under_two_settings_is_two_runs(results, make_run):
    make_run(seed=0, threads=1)
    make_run(seed=0, threads=8, variant="other")
    make_run(seed=1, threads=1, variant="other")
    loaded = load_runs(results)
    assert loaded.used == 3
    assert len(loaded.cells) == 3


def test_verdict_reports_unequal_seeds_versions_and_values(results, make_run):
    for framework, seeds, torch in (("sb3", (0, 1), "2.12.0"), ("cleanrl", (5, 6), "2.13.0")):
        for seed in seeds:
            path = make_run(framework=framework, seed=seed, score=seed) / "run.json"
            record = json.loads(path.read_text())
            record["provenance"] = {"packages": {"torch": torch, framework: "1"}}
            record["hyperparameters"] = {"clip": seed if framework == "sb3" else 0}
            path.write_text(json.dumps(record))
    (item,) = judge_runs(load_runs(results), VerdictOptions(resamples=50)).consistency
    assert item.caveats == (
        "no seed in common, so neither are the initial states",
        "versions differ: torch 2.12.0 and 2.13.0",
        "sb3 was trained with: clip 0 and 1",
    )


def test_commands_name_settings_that_are_judged_separately(results, make_run, capsys):
    for seed in range(2):
        make_run(framework="sb3", seed=seed, threads=1, score=seed)
        make_run(framework="cleanrl", seed=seed, threads=8, score=seed)
    for command in ("study verdicts", "compare", "study plan"):
        main([*command.split(), str(results)])
        said = " ".join("".join(capsys.readouterr()).split())
        assert "threads 1 (2), 8 (2)" in said, command


def test_a_plan_does_not_add_to_places_with_several_settings(results, make_run, capsys):
    for framework in ("sb3", "cleanrl"):
        for seed in range(4):
            threads = 1 if seed < 2 else 8
            make_run(
                framework=framework, seed=seed, threads=threads, score=100 * seed + len(framework)
            )
    assert main(["study", "plan", str(results)]) == 0
    assert "Nothing to run." in capsys.readouterr().out
