"""Omnibus verdicts: named differences, unnamed ones, or none."""

import itertools
import types

import numpy as np
import pytest
from score_groups import make_score_group

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.overall import count_differences, judge_omnibus


def make_pairs(p, verdict="inconclusive", study="s", env="A-v1"):
    cell = StudyCell(study, env, "ppo", "original", "v")
    rng = np.random.default_rng(0)
    groups = [make_score_group(cell, name, rng.normal(size=5), {}) for name in "abc"]
    return [
        types.SimpleNamespace(cell=cell, first=one, second=two, p_welch=p, verdict=verdict)
        for one, two in itertools.combinations(groups, 2)
    ]


@pytest.mark.parametrize(
    ("p", "verdict", "word", "observed"),
    [
        (0.001, "different", "named differences", 3),
        (0.9, "different", "named differences", 0),
        (0.001, "inconclusive", "unnamed differences", 3),
        (0.001, "equivalent", "unnamed differences", 3),
        (0.05, "inconclusive", "no difference shown", 0),
    ],
)
def test_omnibus_names_differences_or_their_excess_over_chance(p, verdict, word, observed):
    (found,) = judge_omnibus(make_pairs(p, verdict), VerdictOptions(resamples=2000))
    assert (found.study, found.algorithm, found.variant) == ("s", "ppo", "v")
    assert (found.verdict, found.different) == (word, 3 * (verdict == "different"))
    count = found.count
    assert (count.observed, count.tests, count.simulated_studies) == (observed, 3, 2000)
    assert (count.p < 0.05) == (observed == 3) and (observed or count.p == 1)
    assert 0.02 < count.expected_under_null < 0.3


def test_all_tasks_of_a_study_count_together_and_studies_by_themselves():
    items = [*make_pairs(0.001, study="t"), *make_pairs(0.9), *make_pairs(0.9, env="B-v1")]
    found = judge_omnibus(items, VerdictOptions(resamples=500))
    assert [(one.study, one.count.tests, one.count.observed) for one in found] == [
        *(("s", 6, 0), ("t", 3, 3))
    ]
    expected = [one.count.expected_under_null for one in found]
    assert expected[0] == pytest.approx(2 * expected[1], abs=0.12)
    assert judge_omnibus((), VerdictOptions()) == ()


def test_untested_pairs_are_not_counted_and_simulations_are_bounded():
    items = make_pairs(0.001)
    pairs = [(item.first, item.second) for item in items]
    found = count_differences(pairs, [np.nan, 0.0499, 0.05], VerdictOptions(resamples=20_000))
    assert (found.tests, found.observed, found.simulated_studies) == (2, 1, 10_000)
    other = count_differences(pairs, [np.nan, 0.0499, 0.05], VerdictOptions(seed=1))
    assert other.expected_under_null != found.expected_under_null
    nothing = count_differences(pairs, [np.nan] * 3, VerdictOptions(resamples=10))
    assert (nothing.tests, nothing.observed, nothing.p) == (0, 0, 1.0)


def test_a_count_as_rare_as_the_level_shows_nothing():
    (found,) = judge_omnibus(make_pairs(1.0), VerdictOptions(resamples=50, alpha=1.0))
    assert (found.count.p, found.verdict) == (1.0, "no difference shown")


def test_every_pair_needs_a_p_value():
    pairs = [(item.first, item.second) for item in make_pairs(0.5)]
    with pytest.raises(ValueError, match="shorter"):
        count_differences(pairs, [0.5, 0.5], VerdictOptions(resamples=5))
