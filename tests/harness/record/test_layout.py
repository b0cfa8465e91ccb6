"""Folders are found the same way by everyone, and links are not followed."""

import hashlib
import os
from pathlib import Path

import pytest
import recorded

from parallax.analysis.data.load import load_runs
from parallax.harness.record import layout
from parallax.harness.record.labels import get_label
from parallax.harness.record.layout import (
    RunPath,
    find_results_dir,
    find_runs,
    find_study_folder,
    format_task_name,
    parse_run_path,
    parse_seed_folder,
)
from parallax.slurm.states import survey_runs


@pytest.fixture
def results(tmp_path):
    for seed in (0, 2, 10):
        recorded.complete_run(tmp_path / "results", seed=seed)
    return tmp_path / "results"


def names(folders):
    return [folder.name for folder in folders]


def test_all_readers_find_the_same_runs(results):
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


def test_named_link_is_followed(results, tmp_path):
    (tmp_path / "link").symlink_to(results)
    assert len(find_runs(tmp_path / "link").runs) == 3
    assert load_runs(tmp_path / "link").used == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list every folder")
def test_unlistable_folder_is_reported(results):
    (results / "test" / "private").mkdir(mode=0)
    assert "private" in names(find_runs(results).runs)


def test_path_and_place_are_inverse(results):
    place = RunPath("s", "E-v0", "ppo", "h", "sb3", "steps=3", 7)
    assert parse_run_path(place.to_folder(results)) == place
    spaced = RunPath("s", "Space/E-v0", "ppo", "h", "sb3", "steps=3", 7)
    assert parse_run_path(spaced.to_folder(results)) == spaced
    assert len(spaced.to_folder(results).parts) == len(place.to_folder(results).parts)
    assert parse_run_path(results / "seed=3").seed == 3


def test_study_is_named_after_its_folder(results):
    (results / "test").rename(results / "renamed")
    assert {run.study for run in survey_runs(results)[0]} == {"renamed"}
    assert {run.id.cell.study for run in load_runs(results).runs} == {"renamed"}


def test_runs_of_other_tools_and_cyclic_links_are_listed_separately(tmp_path):
    (tmp_path / "zoo" / "ppo_1").mkdir(parents=True)
    (tmp_path / "zoo" / "ppo_1" / "evaluations.npz").touch()
    (tmp_path / "zoo" / "ppo_1" / "seed=3").mkdir()  # what is below is part of it
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "nowhere").symlink_to("gone")
    (tmp_path / "seed=9").symlink_to("gone")
    found = find_runs(tmp_path)
    assert (found.runs, names(found.foreign)) == ((), ["ppo_1"])
    assert names(found.links) == ["circle", "seed=9"]


def test_short_path_lacks_its_first_parts():
    whole = Path("/s/E-v0/ppo/h/sb3/steps=3/seed=7")
    assert parse_run_path(whole) == RunPath("s", "E-v0", "ppo", "h", "sb3", "steps=3", 7)
    assert parse_run_path(Path("/sb3/steps=3/x")) == RunPath(
        "?", "?", "?", "?", "sb3", "steps=3", None
    )
    assert parse_run_path(Path("/seed=7")) == RunPath("?", "?", "?", "?", "?", "?", 7)
    old = Path("/r/s/envs.a:E~v0/ppo/h/sb3/alignment=full/seed=07")
    assert parse_run_path(old) == RunPath(
        "s", "parallax.envs.a:E/v0", "ppo", "h", "sb3", "alignment=exact", 7
    )


def test_seeds_are_whole_numbers_of_at_most_20_digits():
    names = ["seed=0", "seed=" + "9" * 20, "seed=" + "9" * 21, "seed=-1", "seed=", "aseed=1"]
    assert [parse_seed_folder(name) for name in names] == [0, 10**20 - 1, None, None, None, None]


def test_studies_and_results_are_found_above_a_run(tmp_path):
    place = RunPath("s", "a/E-v0", "ppo", "h", "sb3", "steps=3", 7)
    folder = place.to_folder(tmp_path)
    assert find_study_folder(folder) == tmp_path / "s"
    assert find_results_dir(folder, place) == tmp_path
    renamed = RunPath("t", "a/E-v0", "ppo", "h", "sb3", "steps=4", 7)
    assert find_results_dir(folder, renamed) == tmp_path
    for field, value in (("env", "a/F-v0"), ("algorithm", "sac"), ("seed", 8), ("hps", "x")):
        other = {**vars(place), field: value}
        assert find_results_dir(folder, RunPath(**other)) is None
    shortest = Path("/s/E-v0/ppo/h/sb3/steps=3/seed=7")
    assert find_study_folder(shortest) == Path("/s")
    assert find_results_dir(shortest, parse_run_path(shortest)) == Path("/")
    assert find_study_folder(Path(*shortest.parts[1:])) == Path("s")
    short = Path("/E-v0/ppo/h/sb3/steps=3/seed=7")
    assert find_study_folder(short) is None
    assert find_results_dir(short, parse_run_path(short)) is None


def test_changes_of_a_task_are_in_its_name_or_hashed():
    assert format_task_name("A-v0", {}, []) == "A-v0"
    assert format_task_name("A-v0", {"b": 2, "a": True}, ["m:C", "n:D"]) == (
        "A-v0,a=true,b=2,wrappers=m:C+n:D"
    )
    longest = "x" * (layout._MAX_CHANGES_LENGTH - 2)
    assert format_task_name("A-v0", {"a": longest}, []) == f"A-v0,a={longest}"
    for kwargs, wrappers, exact in (
        ({"a": longest + "x"}, [], f'[{{"a": "{longest}x"}}, []]'),
        ({"b": None, "a": "x y"}, ("m:C",), '[{"a": "x y", "b": null}, ["m:C"]]'),
    ):
        digest = hashlib.sha256(exact.encode()).hexdigest()[:12]
        assert format_task_name("A-v0", kwargs, wrappers) == f"A-v0,changed={digest}"


def test_user_scripts_have_short_names_in_place_of_the_framework():
    label = layout.format_script_label("my.ppo.py", "0123456789")
    assert label == "my.ppo-01234567"
    assert layout.format_implementation("cleanrl", label) == "cleanrl@my.ppo-01234567"
    assert layout.format_implementation("cleanrl", "") == "cleanrl"
    assert get_label("cleanrl@my.ppo-01234567") == "CleanRL (my.ppo-01234567)"
    assert [get_label(name) for name in ("sb3", "r2d2", "theirs", "theirs@a")] == [
        "SB3",
        "R2D2",
        "theirs",
        "theirs (a)",
    ]


def test_runs_are_found_in_the_order_of_their_numbers(tmp_path):
    for name in ("b/seed=10", "b/seed=9", "a9/seed=1", "a10/seed=1", "b/other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "b" / "other" / "run.json").touch()
    (tmp_path / "b" / "note.txt").touch()
    (tmp_path / "b" / "link.txt").symlink_to("note.txt")
    found = find_runs(tmp_path)
    assert [str(run.relative_to(tmp_path)) for run in found.runs] == [
        "a9/seed=1",
        "a10/seed=1",
        "b/other",
        "b/seed=9",
        "b/seed=10",
    ]
    assert (found.foreign, found.links) == ((), ())
    assert find_runs(tmp_path / "b" / "seed=9").runs == (tmp_path / "b" / "seed=9",)
    gone = tmp_path / "gone"
    assert find_runs(gone).runs == (gone,)
