"""Folders are found the same way by everyone, and links are not followed."""

import os

import pytest
import recorded

from parallax.analysis.data.load import load_runs
from parallax.harness.record.layout import RunPath, find_runs, parse_run_path
from parallax.slurm.states import survey_runs


@pytest.fixture
def results(tmp_path):
    for seed in (0, 2, 10):
        recorded.complete_run(tmp_path / "results", seed=seed)
    return tmp_path / "results"


def names(folders):
    return [folder.name for folder in folders]


def test_everyone_sees_the_same_runs(results):
    study = results / "test"
    (study / "analysis" / "seed=4").mkdir(parents=True)
    (study / "slurm" / "seed=5").mkdir(parents=True)
    (study / ".trash" / "seed=6").mkdir(parents=True)
    (results / "loop").symlink_to(results)
    (study / "again").symlink_to(find_runs(results).runs[0].parent)
    (study / "PPO" / "seed=7").mkdir(parents=True)  # set up, and then nothing
    (study / "PPO" / "seed=8").write_text("a file")
    (study / "PPO" / "seed=x").mkdir()
    found = find_runs(results)
    assert sorted(names(found.runs)) == ["seed=0", "seed=10", "seed=2", "seed=7", "seed=8"]
    assert sorted(names(found.links)) == ["again", "loop"]
    assert "Links are not followed" in found.describe_skipped_links()
    assert {run.folder for run in survey_runs(results)[0]} == set(found.runs)
    assert {item.path for item in load_runs(results).folders} == set(found.runs)


def test_link_that_is_named_is_where_one_looks(results, tmp_path):
    (tmp_path / "link").symlink_to(results)
    assert len(find_runs(tmp_path / "link").runs) == 3
    assert load_runs(tmp_path / "link").used == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list every folder")
def test_folder_that_may_not_be_listed_is_told(results):
    (results / "test" / "private").mkdir(mode=0)
    assert "private" in names(find_runs(results).runs)


def test_path_and_place_are_inverse(results):
    place = RunPath("s", "E-v0", "ppo", "h", "sb3", "steps=3", 7)
    assert parse_run_path(place.to_folder(results)) == place
    spaced = RunPath("s", "Space/E-v0", "ppo", "h", "sb3", "steps=3", 7)
    assert parse_run_path(spaced.to_folder(results)) == spaced
    assert len(spaced.to_folder(results).parts) == len(place.to_folder(results).parts)
    assert parse_run_path(results / "seed=3").seed == 3


def test_study_is_named_by_the_folder_it_lies_in(results):
    (results / "test").rename(results / "renamed")
    assert {run.study for run in survey_runs(results)[0]} == {"renamed"}
    assert {run.id.cell.study for run in load_runs(results).runs} == {"renamed"}


def test_runs_of_other_tools_and_links_in_a_circle_are_listed_apart(tmp_path):
    (tmp_path / "zoo" / "ppo_1").mkdir(parents=True)
    (tmp_path / "zoo" / "ppo_1" / "evaluations.npz").touch()
    (tmp_path / "zoo" / "ppo_1" / "seed=3").mkdir()  # what is below is part of it
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "nowhere").symlink_to("gone")
    (tmp_path / "seed=9").symlink_to("gone")
    found = find_runs(tmp_path)
    assert (found.runs, names(found.foreign)) == ((), ["ppo_1"])
    assert names(found.links) == ["circle", "seed=9"]
