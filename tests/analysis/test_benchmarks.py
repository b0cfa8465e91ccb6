"""The scripts behind the claims still run, in small."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))

    def load(name):
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def test_intervals_compare_like_with_like(script, capsys):
    intervals = script("intervals")
    own = intervals.ours(2000)
    assert all(side["same_bits"] for side in own.values())
    theirs = {name: {**side, "cpu": 200 * side["cpu"]} for name, side in own.items()}
    intervals.report(own, theirs, 2000)
    output = capsys.readouterr().out
    assert "| 200 | 0e+00 | 0.0000 | 72 of 72 |" in output
    assert "1458 of 1458" in output
    shifted = np.array(own["aggregates"]["values"])
    shifted[1] += 0.2
    theirs["aggregates"]["values"] = shifted.tolist()
    intervals.report(own, theirs, 2000)
    assert "| 0.2000 | 36 of 72 |" in capsys.readouterr().out


def test_false_equivalence_is_rare_in_small(script):
    benchmark = script("false_equivalence")
    cases = benchmark.cases(97.4)
    for case in cases[4:7]:
        before, after = benchmark.rates(case, 5, 40)
        assert after == 0 < before


def test_existence_and_planning_run_in_small(script, monkeypatch):
    existence = script("existence")
    monkeypatch.setattr(existence, "SETTINGS", 8)
    study = existence.study(existence.CASES["one framework apart by a deviation"], rng())
    assert len(existence.rejected(study, 0)) == 2
    planning = script("planning")
    assert planning.need(3.0, (1.0, 1.0), 1) == 4
    alone, holm = planning.decided(3.0, 4, 1, 40)
    assert 0.6 < alone <= holm


def rng():
    return np.random.default_rng(0)


def test_the_study_whose_loading_is_timed_loads_whole(script, tmp_path, monkeypatch):
    loading = script("loading")
    monkeypatch.setattr(loading, "TASKS", ("Hopper",))
    count = loading.write_study(tmp_path)
    assert count == 180
    found = loading.measure(tmp_path)
    assert found["used"] == count
