"""Counts of runs, missing seeds, and runs as they are read from folders and packed files."""

import dataclasses
import math
from pathlib import Path

import pytest
from score_groups import make_curve_run

from parallax.analysis.data.runs import (
    ExcludedRun,
    LoadedRuns,
    MissingSeeds,
    RunId,
    StudyCell,
    find_missing_seeds,
    get_duration,
    make_loaded_run,
)
from parallax.harness.record.completeness import RunReading

CELL = StudyCell("s", "A-v1", "ppo", "original", "steps=9")
OTHER = dataclasses.replace(CELL, env="B-v1")
SAC = dataclasses.replace(CELL, algorithm="sac")


def make_folder(framework, seed, cell=CELL, **changes):
    path = Path(f"{cell.env}-{framework}-{seed}")
    return ExcludedRun(RunId(cell, framework, seed), path, "running", **changes)


def test_folders_are_counted_by_outcome():
    used = make_curve_run(OTHER, "sb3", 0, [100], [3.0])
    gone = make_folder("sb3", 1), make_folder("sb3", 2, completed=True), make_folder("sb3", None)
    loaded = LoadedRuns(Path(), (used,), gone)
    assert loaded.folders == (used, *gone) and loaded.cells == (CELL, OTHER)
    assert (loaded.requested, loaded.completed, loaded.used) == (4, 2, 1)
    assert used.final_score == 3.0 and (loaded.links, loaded.conflicts) == ((), ())


def test_seeds_are_missing_where_another_framework_of_the_algorithm_has_them():
    folders = [
        *(make_folder("sb3", seed) for seed in (2, 0, 1)),
        make_folder("cleanrl", 1),
        make_folder("skrl", 5, OTHER),
        make_folder("skrl", None),
        make_folder("torchrl", 7, SAC),
    ]
    assert find_missing_seeds(folders) == (
        MissingSeeds(CELL, "cleanrl", (0, 2), whole=False),
        MissingSeeds(CELL, "skrl", (0, 1, 2), whole=True),
        MissingSeeds(OTHER, "cleanrl", (5,), whole=True),
        MissingSeeds(OTHER, "sb3", (5,), whole=True),
    )
    assert LoadedRuns(Path(), (), tuple(folders)).missing_seeds == find_missing_seeds(folders)


def test_missing_seeds_name_their_place():
    missing = MissingSeeds(CELL, "cleanrl", (0, 2), whole=False)
    assert str(missing) == "s/A-v1/ppo/original/cleanrl, steps=9: seeds 0, 2"
    bare = dataclasses.replace(CELL, hps="", study="")
    assert str(MissingSeeds(bare, "sb3", (4,), whole=True)) == "A-v1/ppo/sb3, steps=9: seed 4"


@pytest.mark.parametrize(
    ("seconds", "expected"), [(None, math.nan), (-0.1, math.nan), (0.0, 0.0), (2.5, 2.5)]
)
def test_durations_below_zero_are_unknown(seconds, expected):
    assert get_duration(seconds) == pytest.approx(expected, nan_ok=True)


def test_a_run_without_evaluations_or_record_is_excluded_with_its_reason():
    place = RunId(CELL, "sb3", 0)
    for failed in (False, True):
        reading = RunReading(Path("x"), reason="why", failed=failed)
        found = make_loaded_run(place, Path("x"), reading, "text")
        assert found == ExcludedRun(place, Path("x"), "why", failed=failed, record="text")
        assert not found.completed and found.spec == {}
