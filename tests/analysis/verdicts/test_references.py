"""Learned, or better than random: by which margin, over which policies, with which degrees."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from score_groups import make_curve_run

from parallax.analysis.data.published import read_table
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.verdicts.groups import make_group
from parallax.analysis.verdicts.margins import compute_margin
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.references import (
    LEARNED,
    NOT_SHOWN,
    NOT_TESTED,
    find_references,
    judge_learning,
    judge_vs_random,
)
from parallax.harness.record.run_json import ReferenceReturns

CELL = StudyCell("s", "Pendulum-v1", "sac", "original", "")
SCORES = (-900.0, -800.0, -1000.0, -700.0)


def make_runs(scores=SCORES, cell=CELL, start=-1300.0, **more):
    runs = [
        make_curve_run(cell, "sb3", seed, [0, 100], [start + seed, score], **more)
        for seed, score in enumerate(scores)
    ]
    return make_group(cell, "sb3", runs)


def find_row(table):
    (row,) = [row for row in read_table(table) if (row.env, row.version) == ("Pendulum", "v1")]
    return row


def test_learned_means_above_every_reference_policy_by_the_margin():
    group, options = make_runs(), VerdictOptions()
    margin = compute_margin((group,), options).size
    (found,) = judge_learning([group, make_runs(())], options)
    names = [one.name for one in found.references]
    assert names == ["do nothing", "random actions", "untrained policy"]
    samples = [
        (row.mean, row.spread**2 / row.trials) for row in map(find_row, ("do_nothing", "random"))
    ]
    untrained = np.array([-1300.0, -1299, -1298, -1297])
    samples.append((untrained.mean(), untrained.var(ddof=1) / 4))
    scores = np.array(SCORES)
    tails = [
        stats.t.sf((scores.mean() - mean - margin) / np.sqrt(scores.var(ddof=1) / 4 + error), df=3)
        for mean, error in samples
    ]
    assert found.p == pytest.approx(max(tails)) and found.margin == margin
    assert found.difference == pytest.approx(scores.mean() - max(mean for mean, _ in samples))
    assert found.is_learned and found.verdict == LEARNED
    for alpha, word in ((found.p, NOT_SHOWN), (found.p * 1.001, LEARNED)):
        (again,) = judge_learning([group], VerdictOptions(alpha=alpha))
        assert (again.verdict, again.is_learned) == (word, word == LEARNED)
    steps = VerdictOptions(endpoint="steps-90")  # final returns have a margin of returns
    assert judge_learning([group], steps)[0].margin == margin


def test_one_run_and_tasks_without_a_policy_are_not_tested():
    (found,) = judge_learning([make_runs(SCORES[:1])], VerdictOptions())
    assert (found.verdict, len(found.references)) == (NOT_TESTED, 2)  # one run is no sample
    assert np.isnan(found.p) and not found.is_learned
    (two,) = judge_learning([make_runs(SCORES[:2])], VerdictOptions())
    assert len(two.references) == 3 and two.verdict == NOT_SHOWN
    unknown = dataclasses.replace(CELL, env="Mine-v1")
    runs = [make_curve_run(unknown, "sb3", seed, [100], [1.0 * seed]) for seed in range(3)]
    (found,) = judge_learning([make_group(unknown, "sb3", runs)], VerdictOptions())
    assert (found.verdict, found.references) == (NOT_TESTED, ())
    assert np.isnan([found.p, found.difference]).all()


def test_measured_policies_replace_unpublished_ones():
    measured = {"random actions": ReferenceReturns(2.0, 1.0, 4)}
    mine = dataclasses.replace(CELL, env="Mine-v1")
    group = make_runs(cell=mine, references=measured, start=0.0)
    found = find_references(mine, group.runs)
    assert [(one.name, one.mean) for one in found] == [
        *(("random actions", 2.0), ("untrained policy", 1.5))
    ]
    assert [one.name for one in find_references(mine, group.runs, untrained=False)] == [
        "random actions"
    ]
    own = make_runs(references=measured)
    published = {one.name: one.mean for one in find_references(CELL, own.runs)}
    assert published["random actions"] == find_row("random").mean
    (verdict,) = judge_vs_random([group, make_runs((), mine)], VerdictOptions())
    assert (verdict.random.mean, verdict.group) == (2.0, group)


def test_a_difference_from_random_actions_counts_strictly_below_the_level():
    group = make_runs(np.array(SCORES) + find_row("random").mean + 1100.0)
    p = judge_vs_random([group], VerdictOptions())[0].p
    words = [judge_vs_random([group], VerdictOptions(alpha=p * k))[0].verdict for k in (1, 1.001)]
    assert words == ["inconclusive", "better than random"]
