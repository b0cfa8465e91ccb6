"""The scripts behind the claims still run, in small."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from loops import iterate_some

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.verdicts.consistency import judge_family
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions

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


def test_intervals_compare_equal_quantities(script, capsys):
    intervals = script("intervals")
    own = intervals.measure_harness(2000)
    assert own and all(side["same_bits"] for side in own.values())
    theirs = {name: {**side, "cpu": 200 * side["cpu"]} for name, side in own.items()}
    intervals.print_comparison(own, theirs, 2000)
    output = capsys.readouterr().out
    assert "| 200 | 0e+00 | 0.0000 | 72 of 72 |" in output
    assert "1458 of 1458" in output
    shifted = np.array(own["aggregates"]["values"])
    shifted[1] += 0.2
    theirs["aggregates"]["values"] = shifted.tolist()
    intervals.print_comparison(own, theirs, 2000)
    assert "| 0.2000 | 36 of 72 |" in capsys.readouterr().out


def test_false_equivalence_is_rare_on_a_small_case(script):
    benchmark = script("false_equivalence")
    cases = benchmark.list_margin_cases(97.4)
    for case in iterate_some(cases[4:7]):
        before, after = benchmark.measure_rates(case, 5, 40)
        assert after == 0 < before


def test_words_of_the_error_rates_are_those_of_verdicts(script, monkeypatch):
    benchmark = script("verdict_error_rates")
    monkeypatch.setattr(benchmark, "SPLITS", 4_999)
    options = VerdictOptions(ranges=(("T-v0", 0.0, 1.0),))
    names = {"different in mean": "mean", "different in distribution": "distr"}
    names |= {"equivalent": "equiv", "inconclusive": "inconclusive"}
    cell = StudyCell("s", "T-v0", "ppo", "original", "")
    for group in iterate_some(benchmark.list_groups()):
        for shape in group.shapes[::4]:
            scores = shape.first(rng(), 6), shape.second(rng(), 6 * shape.factor)
            pair = [
                ScoreGroup(cell, name, compute_moments(x), 0.0, x, (), len(x), len(x), (1,))
                for name, x in zip("ab", scores, strict=True)
            ]
            (found,) = judge_family([tuple(pair)], "f", options)
            ((word, q),) = benchmark.find_words(*([x] for x in scores))
            assert word == names.get(found.statement.text, "unless"), shape.name
            if word == "unless":
                assert q == pytest.approx(found.statement.tolerated_failures)


def test_omnibus_and_planning_scripts_run_on_a_small_case(script, monkeypatch):
    omnibus = script("omnibus_rates")
    monkeypatch.setattr(omnibus, "SETTINGS", 8)
    study = omnibus.draw_study(omnibus.CASES["one framework apart by a deviation"], rng())
    assert len(omnibus.find_differences(study, 0)) == 2
    planning = script("planning")
    assert planning.compute_seeds_needed(3.0, (1.0, 1.0), 1) == 4
    alone, holm = planning.measure_decided_shares(3.0, 4, 1, 40)
    assert 0.6 < alone <= holm


def test_pooling_ranking_and_aggregate_scripts_run_on_a_small_case(script):
    pooling = script("pooling")
    mean, pooled, alone, width = pooling.simulate_study(pooling.draw_normal, 0.05, rng())
    assert isinstance(mean, bool) and pooled <= 1 and alone <= 1 and 0 < width < 1.5
    assert len(pooling.measure_power(0.3, 5, 2, rng())) == 4
    rankings = script("tied_rankings")
    assert len(rankings.find_verdicts(rankings.draw_groups(rng(), (1.0, 1.0, 1.0), 5))) == 4
    seeds = script("unequal_seeds")
    tasks = [rng().normal(size=n) for n in seeds.SEEDS]
    point, low, high = seeds.bootstrap_pooled(tasks, rng(), 20)
    assert (low <= high).all() and len(point) == 4


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(("evaluations", "expected"), [(300, 180), (30, 36)])
def test_timed_study_loads_completely(script, tmp_path, monkeypatch, evaluations, expected):
    loading = script("loading")
    monkeypatch.setattr(loading, "TASKS", ("Hopper",))
    count = loading.write_study(tmp_path, expected // 36, evaluations)
    assert count == expected
    found = loading.measure_reading(tmp_path)
    assert found["used"] == count


def test_studies_whose_status_is_timed_are_complete(script, tmp_path):
    status_cost = script("status_cost")
    for schema in (1, 2):
        results = tmp_path / str(schema)
        status_cost.write_study(results, 2, schema)
        for command in ("status", "status --files"):
            assert status_cost.measure_cpu_seconds(command, results) > 0
