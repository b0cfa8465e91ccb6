import dataclasses
import json
import math
import os
import shutil

import pytest
import recorded

from parallax.analysis.data import load
from parallax.analysis.data.load import _remove_copies, load_runs
from parallax.analysis.data.runs import RunId, StudyCell
from parallax.analysis.labels import format_run_counts, shorten_run_path
from parallax.harness.record.run_json import ReferenceReturns


def only_reason(results):
    loaded = load_runs(results)
    assert loaded.runs == ()
    assert len(loaded.excluded) == 1
    return loaded.excluded[0].reason


def test_reads_a_complete_run_as_it_was_written(results, make_run):
    make_run(timesteps=[10, 20], returns=[[1, 2], [3, 5]], scheduled=20, seed=4)
    loaded = load_runs(results)
    (run,) = loaded.runs
    variant = "steps=20,alignment=common,eval_every=10,eval_episodes=2"  # not that of its folder
    assert run.id == RunId(StudyCell("demo", "Hopper-v5", "ppo", "original", variant), "sb3", 4)
    assert run.timesteps.tolist() == [10, 20]
    assert run.results.tolist() == [[1, 2], [3, 5]]
    assert run.ep_lengths.shape == (2, 2)
    assert run.final_score == 4
    assert run.spec["hyperparameters"] == {"gamma": 0.99}
    assert (loaded.requested, loaded.completed, loaded.used) == (1, 1, 1)


def test_a_renamed_folder_of_settings_changes_no_setting(results, make_run):
    """A copy under another name is the same run, not one with other settings."""
    first = make_run().parent
    settings = "steps=20000,alignment=common,eval_every=2000,eval_episodes=4"
    folder = first.rename(first.with_name(settings))
    shutil.copytree(folder, folder.with_name(folder.name.replace("20000", "30000")))
    shutil.copytree(folder, folder.with_name(f"{folder.name},gamma=0.5"))
    loaded = load_runs(results)
    assert [cell.variant for cell in loaded.cells] == [folder.name]
    assert loaded.used == 1
    assert all("same run as" in item.reason for item in loaded.excluded)


def test_evaluations_of_all_runs_have_a_largest_size(results, make_run, monkeypatch):
    for seed in range(3):
        make_run(timesteps=[10, 20], returns=[[1, 2], [3, 5]], scheduled=20, seed=seed)
    monkeypatch.setattr(load, "_MAX_BYTES", 3 * 64)
    assert load_runs(results).used == 3
    monkeypatch.setattr(load, "_MAX_BYTES", 3 * 64 - 1)
    loaded = load_runs(results)
    assert (loaded.requested, loaded.completed, loaded.used) == (3, 3, 2)
    assert "take more than 191 bytes together: read fewer runs" in loaded.excluded[0].reason


def test_arrays_cannot_be_changed(results, make_run):
    make_run()
    (run,) = load_runs(results).runs
    with pytest.raises(ValueError, match="read-only"):
        run.results[0, 0] = 1


@pytest.mark.parametrize("depth", range(8))
def test_results_are_read_from_any_parent_folder_of_a_run(results, make_run, depth):
    folder = make_run()
    root = [folder, *folder.parents][depth]
    (run,) = load_runs(root).runs
    assert run.id.cell.variant == "steps=20000,alignment=common"


def test_relative_and_unnormalized_paths_find_the_same_run(results, make_run, monkeypatch):
    folder = make_run()
    monkeypatch.chdir(folder)
    for root in (results.__class__("."), folder / "..", folder / ".." / folder.name):
        assert load_runs(root).runs[0].id.cell.variant == "steps=20000,alignment=common"


def test_copied_run_counts_once_and_names_its_original(results, make_run):
    folder = make_run(seed=0)
    shutil.copytree(folder, folder.with_name("seed=1"))
    loaded = load_runs(results)
    assert [run.path.name for run in loaded.runs] == ["seed=0"]
    assert loaded.excluded[0].reason.endswith("steps=20000/seed=0, which is used")
    assert (loaded.requested, loaded.completed, loaded.used) == (2, 2, 1)


def test_control_characters_in_names_of_folders_are_escaped(results, make_run):
    folder = make_run(seed=0)
    shutil.move(folder, first := folder.with_name("a\x1b[2J\u202e"))
    shutil.copytree(first, second := folder.with_name("b\n# c"))
    loaded = load_runs(results)
    assert loaded.excluded[0].reason.endswith(r"a\x1b[2J\u202e, which is used")
    (copy,) = loaded.excluded
    assert shorten_run_path(copy, loaded).endswith(r"/b\n# c") and copy.path == second


def test_seeds_are_ordered_as_numbers(results, make_run):
    for seed in (10, 2, 1):
        make_run(seed=seed)
    assert [run.id.seed for run in load_runs(results).runs] == [1, 2, 10]


def test_output_folder_is_skipped(results, make_run):
    folder = make_run()
    shutil.copytree(folder, results / "analysis" / "seed=5")
    shutil.copytree(folder, results / "demo" / "analysis" / "seed=6")
    assert load_runs(results).requested == 1


def test_links_to_folders_are_counted_and_not_followed(results, make_run, tmp_path):
    folder = make_run()
    (folder.parent / "loop").symlink_to(results)
    folder.with_name("seed=9").symlink_to(results / "gone")
    loaded = load_runs(results)
    assert (loaded.requested, loaded.used, len(loaded.links)) == (1, 1, 2)
    (tmp_path / "link").symlink_to(results / "demo")
    assert load_runs(tmp_path / "link").used == 1  # one that is named is where one looks
    assert "2 links to folders were not followed" in format_run_counts(loaded)


def test_unlistable_folder_is_excluded_with_a_reason(results, make_run, monkeypatch):
    folder, scandir = make_run(), os.scandir

    def refuse(path):
        if str(path) == str(folder):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    (folder / "run.json").unlink()
    assert only_reason(results) == "missing run.json"


@pytest.mark.parametrize(
    ("given", "expected"),
    [((9.5, 1.5, 30.0), (9.5, 1.5, 30.0)), ((-1.0, None, -0.5), (math.nan,) * 3)],
)
def test_times_values_and_origin_are_those_of_the_record(results, make_run, given, expected):
    path = make_run() / "run.json"
    record = json.loads(path.read_text())
    names = ("seconds", "evaluation_seconds", "training_cpu_seconds")
    record["timings"] = dict(zip(names, given, strict=True))
    record["hyperparameters"] = {"gamma": 0.9}
    record["interventions"] = {"huber-loss": {}, "patch.gamma": 0.9}
    record["references"] = {"do nothing": {"mean": 1.0, "sd": 2.0, "episodes": 3}}
    record["provenance"] = {"python": "3.11.7"}
    path.write_text(json.dumps(record))
    (run,) = load_runs(results).runs
    assert [getattr(run, name) for name in names] == pytest.approx(expected, nan_ok=True)
    assert run.effective_hyperparameters == {"gamma": 0.9}
    assert run.interventions == {"huber-loss", "patch.gamma"}
    assert run.references == {"do nothing": ReferenceReturns(1.0, 2.0, 3)}
    assert (run.provenance.python, run.imported, run.record) == ("3.11.7", None, None)
    assert run.path == path.parent and not run.is_imputed and not run.has_conflicting_settings


def test_costs_that_no_run_has_exclude_it(results, make_run):
    path = make_run() / "run.json"
    record = json.loads(path.read_text())
    record["timings"] = {"parts": {"replay": {"draw": 1e300}}}
    path.write_text(json.dumps(record))
    assert "timings.parts" in only_reason(results)


def test_names_of_folders_can_be_shown(results, make_run):
    folder = make_run(seed=3)
    (folder / "run.json").write_text("{")
    odd = folder.parents[1] / "steps=5\x1b"
    folder.parent.rename(odd)
    (item,) = load_runs(results).excluded
    assert item.id.cell.variant == r"steps=5\x1b" and item.path == odd / "seed=3"


def test_runs_without_a_seed_and_with_the_same_evaluations_are_copies(results, make_run):
    for seed, score in enumerate((1.0, 1.0, 2.0)):
        make_run(seed=seed, score=score)
    runs = [
        dataclasses.replace(run, id=dataclasses.replace(run.id, seed=None))
        for run in load_runs(results).runs
    ]
    used, copies = _remove_copies(runs, results)
    assert [run.path.name for run in used] == ["seed=0", "seed=2"]
    assert [item.path.name for item in copies] == ["seed=1"]


def test_runs_with_equal_evaluations_under_several_names_are_named(results, make_run):
    for seed, score in enumerate((5.0, 6.0, 5.0)):
        make_run(framework="sb3", seed=seed, score=score)
    make_run(framework="cleanrl", seed=0, score=5.0)  # starts where the other's seed 0 starts
    loaded = load_runs(results)
    (sentence,) = loaded.conflicts
    assert loaded.used == 4 and sentence.startswith("demo/Hopper-v5/ppo/original/")
    assert sentence.endswith(": seed=0, seed=2 of sb3 have equal evaluations; one may be a copy")


def test_runs_with_equal_weights_under_several_seeds_are_named(results, make_run):
    for framework, seed, weights in (
        *(("sb3", 0, "a"), ("sb3", 1, "b"), ("sb3", 2, "a")),
        *(("cleanrl", 0, "a"), ("cleanrl", 1, None), ("cleanrl", 2, None)),
        *(("skrl", 0, "d"), ("skrl", 1, "d")),
    ):
        score = 7.0 if framework == "skrl" else 10.0 * seed + len(framework)
        recorded.edit(make_run(framework=framework, seed=seed, score=score), weights_sha256=weights)
    copies, ignored = load_runs(results).conflicts
    end = "; one may be a copy"
    assert copies.endswith(f": seed=0, seed=1 of skrl have equal evaluations{end}")
    words = f": seed=0, seed=2 of sb3 have equal weights{end}, or training may ignore the seed"
    assert ignored.endswith(words)


def test_copy_with_other_returns_is_named(results, make_run):
    folder = make_run(seed=0, score=100)
    shutil.move(folder, folder.with_name("first"))
    make_run(seed=0, score=300)
    (copy,) = load_runs(results).excluded
    assert copy.reason.endswith("/first, which is used, with other returns")
