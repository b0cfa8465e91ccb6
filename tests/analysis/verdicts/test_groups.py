"""Runs of a group are in the order of their seeds."""

import dataclasses
import types
from pathlib import Path

import numpy as np
import pytest
from score_groups import make_score_group

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.verdicts.groups import _get_seed_key


def test_runs_are_ordered_by_seed_and_those_without_a_known_one_come_first():
    runs = [types.SimpleNamespace(id=types.SimpleNamespace(seed=seed)) for seed in (3, None, 0, 2)]
    assert [run.id.seed for run in sorted(runs, key=_get_seed_key)] == [None, 0, 2, 3]


def test_runs_without_a_known_seed_or_score_are_not_paired():
    cell = StudyCell("s", "Hopper-v4", "ppo", "original", "")
    whole = make_score_group(cell, "a", np.array([1.0, 2.0, 3.0]), {})
    assert whole.scores_by_seed == {0: 1.0, 1: 2.0, 2: 3.0}
    assert whole.paths == (Path(), Path(), Path())
    unknown = dataclasses.replace(
        whole.runs[1], id=dataclasses.replace(whole.runs[1].id, seed=None)
    )
    runs = (whole.runs[0], unknown, whole.runs[2])
    changed = dataclasses.replace(whole, runs=runs)
    assert changed.scores_by_seed == {0: 1.0, 2: 3.0} and changed.seeds == (0, None, 2)
    assert dataclasses.replace(whole, scores=None).scores_by_seed == {}
    with pytest.raises(ValueError, match="longer"):
        dataclasses.replace(whole, scores=np.arange(4.0)).scores_by_seed  # noqa: B018
