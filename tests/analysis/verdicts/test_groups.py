"""Runs of a group are in the order of their seeds."""

import types

from parallax.analysis.verdicts.groups import _get_seed_key


def test_runs_are_ordered_by_seed_and_those_without_a_known_one_come_first():
    runs = [types.SimpleNamespace(id=types.SimpleNamespace(seed=seed)) for seed in (3, None, 0, 2)]
    assert [run.id.seed for run in sorted(runs, key=_get_seed_key)] == [None, 0, 2, 3]
