"""Power and seeds for verdicts over all tasks of an algorithm."""

import itertools
import re

import numpy as np
import pytest

from parallax.analysis.data.load import load_runs
from parallax.analysis.plan import suite_needs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_runs
from parallax.analysis.verdicts.suite import SuiteSample, judge_suite
from parallax.harness.cli.main import main

TASKS = ("Hopper-v4", "Walker2d-v4", "HalfCheetah-v4")


def sample(gap, sd, n, tasks=4, seed=0):
    rng = np.random.default_rng(seed)
    names = tuple(f"task{i}" for i in range(tasks))
    scores = {
        name: tuple(rng.normal(0.5 + shift, sd, n) for _ in names)
        for name, shift in (("sb3", gap), ("skrl", 0.0))
    }
    return SuiteSample(("s", "ppo", "original", ""), names, scores, (0.0, 1.0), ())


def need_of(monkeypatch, one):
    monkeypatch.setattr(suite_needs, "collect_suites", lambda *_: (one,))
    (need,) = suite_needs.estimate_suite_needs(
        (), judge_suite(one, VerdictOptions()), VerdictOptions()
    )
    return need


@pytest.mark.parametrize(("gap", "sd"), [(0.25, 0.2), (0.0, 0.05)])
def test_estimated_seeds_reach_the_stated_power(monkeypatch, gap, sd):
    # Measured at a size that makes the measured values nearly the true ones.
    needed = int(need_of(monkeypatch, sample(gap, sd, 400)).needed)
    words = [
        judge_suite(sample(gap, sd, needed, seed=i), VerdictOptions())[0].verdict
        for i in range(1, 41)
    ]
    decided = sum(word != "inconclusive" for word in words)
    assert decided >= 26  # 80% of 40 minus two standard errors
    if needed > 3:
        fewer = [
            judge_suite(sample(gap, sd, needed // 2, seed=i), VerdictOptions())[0].verdict
            for i in range(1, 41)
        ]
        assert sum(word != "inconclusive" for word in fewer) < decided


def test_range_of_seeds_needed_narrows_with_more_pilot_seeds(monkeypatch):
    few, many = (need_of(monkeypatch, sample(0.12, 0.2, n, seed=2)) for n in (5, 100))
    assert few.low < few.high
    assert few.high / few.low > many.high / many.low
    assert few.size == 5
    assert 0 <= few.power <= 1


def test_equal_runs_give_no_range_and_no_power(results, make_run, capsys):
    for env, framework, seed in itertools.product(TASKS, ("sb3", "skrl"), range(4)):
        make_run(env=env, framework=framework, seed=seed, score=1500.0)
    assert main(["study", "plan", str(results), "--suite"]) == 0
    out = capsys.readouterr().out
    assert "a range is not known, as no two runs of a framework differ" in out
    assert "power with" not in out and "80% range;" not in out


def test_the_command_plans_seeds_for_all_tasks(results, make_run, capsys):
    rng = np.random.default_rng(1)
    for framework in ("sb3", "skrl"):
        for env in TASKS:
            for seed in range(4):
                score = 1200 + 100 * (framework == "sb3") + rng.normal(0, 500)
                make_run(framework=framework, env=env, seed=seed, score=score)
    (item,) = judge_runs(load_runs(results), VerdictOptions()).suites
    assert item.verdict == "inconclusive"
    assert main(["study", "plan", str(results), "--suite", "--max-seeds", "1000"]) == 0
    said = capsys.readouterr().out
    assert "Score: mean return over the episodes of the last evaluation" in said
    assert re.search(r"3 tasks, 4 seeds each: 0 of 1 pairs decided; 80% power", said)
    assert "Pairs of frameworks: 0 decided, 1 to go on with" in said
    for env in TASKS:
        assert f"  {env}, ppo, original" in said
    assert main(["study", "plan", str(results), "--suite", "--sequential"]) == 2
    assert "give one of them" in capsys.readouterr().err


def test_command_with_one_task_names_what_is_missing(results, make_run, capsys):
    for framework in ("sb3", "skrl"):
        for seed in range(3):
            make_run(framework=framework, seed=seed)
    assert main(["study", "plan", str(results), "--suite"]) == 2
    assert "each of two tasks" in capsys.readouterr().err
