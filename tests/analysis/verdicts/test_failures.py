"""Failed runs: who has failed, and the run that takes the place of a failed one."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from score_groups import make_curve_run

from parallax.analysis.data.runs import ExcludedRun, RunId, StudyCell
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.stats.two_sample import compute_newcombe_interval
from parallax.analysis.verdicts.failures import (
    compare_failures,
    count_failed_as_bottom,
    count_failed_runs,
    find_bottom_score,
)
from parallax.analysis.verdicts.groups import ScoreGroup, make_group
from parallax.analysis.verdicts.options import VerdictOptions

CELL = StudyCell("s", "Mine-v1", "ppo", "original", "")
RANGE = VerdictOptions(ranges=(("Mine-v1", -50.0, 150.0),), failed_share=0.25)


def make_scores(*scores, env="Mine-v1", **changes):
    values = np.array(scores, dtype=float)
    cell = dataclasses.replace(CELL, env=env)
    sizes = (len(values), len(values), (100,))
    group = ScoreGroup(cell, "sb3", compute_moments(values), 0.0, values, (), *sizes)
    return dataclasses.replace(group, **changes)


def test_a_run_has_failed_below_the_threshold_and_not_at_it():
    assert count_failed_runs(make_scores(0.0, -0.001, 5.0, -9.0), 0.0) == 2
    assert count_failed_runs(make_scores(), 0.0) is None
    assert count_failed_runs(make_scores(1.0), math.nan) is None
    assert count_failed_runs(make_scores(1.0, scores=None), 0.0) is None
    by_steps = make_scores(0.5, 0.5, final_scores=np.array([-1.0, 3.0]))
    assert count_failed_runs(by_steps, 0.0) == 1  # final returns, whatever the endpoint


def test_failure_rates_of_a_family_are_compared_and_corrected_together():
    good, bad = make_scores(*[100.0] * 8), make_scores(*[-40.0] * 6, 0.0, -0.1)
    some = make_scores(*[100.0] * 6, -1.0, -1.0)
    unknown = make_scores(1.0, 2.0, scores=None)
    found = compare_failures([(good, bad), (good, some), (good, unknown)], RANGE)
    assert [one.threshold for one in found] == [0.0] * 3  # a quarter of the way from -50 to 150
    assert [one.counts for one in found] == [("0/8", "7/8"), ("0/8", "2/8"), ("-", "-")]
    p = [stats.fisher_exact([[0, 8], [k, 8 - k]]).pvalue for k in (7, 2)]
    assert [one.p for one in found[:2]] == pytest.approx(p)
    assert [one.p_holm for one in found[:2]] == pytest.approx(adjust_holm(p))
    assert [one.difference for one in found[:2]] == [-7 / 8, -2 / 8]
    assert all(one.low < one.difference < one.high <= 0.2 for one in found[:2])
    last = found[2]
    assert all(map(math.isnan, (last.p, last.p_holm, last.difference, last.low, last.high)))
    assert (last.known, last.failed, last.sizes) == (False, (), (8, 2))


def test_bottom_score_is_the_range_minimum_or_the_lowest_score():
    groups = [make_scores(3.0, 7.0), make_scores(), make_scores(2.0, 9.0), make_scores(1.0)]
    assert find_bottom_score(groups[:3], RANGE) == -50.0
    assert find_bottom_score([make_scores(-60.0)], RANGE) == -60.0
    assert find_bottom_score(groups[:3], VerdictOptions()) == 2.0
    assert find_bottom_score([groups[1]], RANGE) is None
    assert find_bottom_score([make_scores(1.0, scores=None)], RANGE) is None


def make_failed(framework, seed, cell=CELL):
    return ExcludedRun(RunId(cell, framework, seed), Path(f"gone-{seed}"), "broke", failed=True)


def test_failed_run_has_the_bottom_score_and_the_settings_of_others():
    steps = [100, 200]
    own = [
        make_curve_run(CELL, "sb3", 0, steps, [[-80.0, -70.0], [3.0, 5.0]], seconds=9.0),
        make_curve_run(CELL, "sb3", 1, [100, 300], [[-99.0, -99.0], [6.0, 6.0]]),
    ]
    other = [make_curve_run(CELL, "cleanrl", 0, [50], [8.0])]
    recipe = dataclasses.replace(CELL, hps="sb3")
    tuned = [make_curve_run(recipe, "sb3", 0, [70, 90], [8.0, 9.0])]
    groups = [
        make_group(recipe, "sb3", tuned, RANGE),
        make_group(CELL, "cleanrl", other, RANGE),
        make_group(CELL, "sb3", [*own, make_failed("sb3", 7)], RANGE),
        make_group(CELL, "skrl", [make_failed("skrl", 8)], RANGE),
        make_group(recipe, "skrl", [make_failed("skrl", 9, recipe)], RANGE),
    ]
    found = count_failed_as_bottom(groups, RANGE)
    assert found[0] is groups[0] and found[1] is groups[1]
    treated = found[2]
    assert treated.scores.tolist() == treated.final_scores.tolist() == [4.0, 6.0, -50.0]
    assert (treated.n, treated.seeds, treated.failed) == (3, (0, 1, 7), 1)
    assert float(treated.moments.mean) == pytest.approx(-40 / 3)
    run = treated.runs[2]
    assert (run.id, run.path, run.is_imputed) == (RunId(CELL, "sb3", 7), Path("gone-7"), True)
    assert run.timesteps.tolist() == steps  # those of the framework's own first run
    assert run.results.tolist() == [[-75.0, -75.0], [-50.0, -50.0]]  # never above another run
    assert math.isnan(run.seconds) and run.references == {}
    # Without a run of its own: those of the setting, then those of other recipes.
    assert found[3].runs[0].timesteps.tolist() == [50]
    assert found[4].runs[0].timesteps.tolist() == [70, 90]
    assert [one.scores.tolist() for one in found[3:]] == [[-50.0], [-50.0]]
    (again,) = count_failed_as_bottom([dataclasses.replace(groups[2], failed_runs=())], RANGE)
    assert again.runs == () and again.scores.tolist() == [4.0, 6.0, -50.0]


def test_groups_without_a_known_bottom_score_are_unchanged():
    group = make_group(CELL, "sb3", [make_failed("sb3", 0)], VerdictOptions())
    assert count_failed_as_bottom([group], VerdictOptions()) == (group,)
    elsewhere = make_group(
        dataclasses.replace(CELL, variant="steps=9"),
        "sb3",
        [make_curve_run(CELL, "sb3", 0, [100], [1.0])],
    )
    assert count_failed_as_bottom([group, elsewhere], RANGE)[0] is group
    printed = make_scores(1.0, 2.0, scores=None, failed=1)
    assert count_failed_as_bottom([printed, make_scores(1.0)], RANGE)[0] is printed


def test_failed_runs_are_censored_at_the_end_of_the_longest_run():
    options = dataclasses.replace(RANGE, endpoint="steps-50")
    cleanrl = [make_curve_run(CELL, "cleanrl", 0, [100, 900], [0.0, 60.0])]
    sb3 = [make_curve_run(CELL, "sb3", 0, [100, 200], [70.0, 0.0]), make_failed("sb3", 1)]
    groups = [make_group(CELL, "cleanrl", cleanrl, options), make_group(CELL, "sb3", sb3, options)]
    plain, treated = count_failed_as_bottom(groups, options)
    assert plain is groups[0] and plain.censored.times.tolist() == [900.0]
    assert treated.censored.times.tolist() == [100.0, 900.0]
    assert treated.censored.reached.tolist() == [True, False]
    assert treated.scores.tolist() == [0.5, 0.0]  # the share of training that is left
    assert treated.final_scores.tolist() == [0.0, -50.0]


def test_rates_are_of_the_runs_of_each_framework():
    first, second = make_scores(*[-40.0] * 3, 100.0), make_scores(-40.0, *[100.0] * 9)
    (found,) = compare_failures([(first, second)], RANGE)
    assert (found.failed, found.sizes) == ((3, 1), (4, 10))
    assert found.difference == pytest.approx(3 / 4 - 1 / 10)
    assert (found.low, found.high) == compute_newcombe_interval((3, 1), (4, 10))
    assert found.p == pytest.approx(stats.fisher_exact([[3, 1], [1, 9]]).pvalue)
