"""Damaged files of runs that say they are complete."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from harness.record.reading import find_damage, read_run
from slurm.states import assess

SCHEMA_1 = Path(__file__).parents[2] / "data" / "schema_1" / "results"


def damage_evaluations(folder, **changes):
    with np.load(folder / "evaluations.npz") as file:
        arrays = dict(file) | {name: f(file[name]) for name, f in changes.items()}
    np.savez(folder / "evaluations.npz", **arrays)


@pytest.mark.parametrize(
    ("damage", "file", "words"),
    [
        (lambda f: f.joinpath("run.json").write_text("{"), "run.json", "cannot be read"),
        (lambda f: f.joinpath("trace.parquet").write_bytes(b"PAR1"), "trace.parquet", "cannot"),
        (
            lambda f: f.joinpath("evaluations.npz").write_bytes(
                f.joinpath("evaluations.npz").read_bytes()[:-40]
            ),
            "evaluations.npz",
            "cannot be read",
        ),
        (lambda f: f.joinpath("evaluations.npz").unlink(), "evaluations.npz", "cannot be read"),
        (
            lambda f: damage_evaluations(f, results=lambda a: a * np.nan),
            "evaluations.npz",
            "not finite",
        ),
        (
            lambda f: damage_evaluations(f, timesteps=lambda a: a - 20),
            "evaluations.npz",
            "do not reach the last scheduled step",
        ),
        (
            lambda f: damage_evaluations(f, ep_lengths=lambda a: a[:1]),
            "evaluations.npz",
            "different sizes",
        ),
    ],
)
def test_damage_is_found_and_named(folder, damage, file, words):
    assert find_damage(folder) == {}
    damage(folder)
    (found,) = find_damage(folder).items()
    assert found[0] == file and words in found[1]
    if "trace" not in file and "sizes" not in words:
        assert assess(folder, None).state == "broken"
