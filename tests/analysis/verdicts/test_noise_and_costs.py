"""Parts of verdicts by themselves: pairs that depend on each other, noise, costs and words."""

import dataclasses
import itertools
import math
import types

import numpy as np
import pytest
from score_groups import make_score_group

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.stats.decomposition import VarianceComponents
from parallax.analysis.stats.two_sample import MeanContrast
from parallax.analysis.verdicts import evaluation_noise, sequential
from parallax.analysis.verdicts.endpoints import get_recorded_endpoints, settle_options
from parallax.analysis.verdicts.evaluation_noise import measure_evaluation_noise
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.overall import _connect_pairs, _index_groups
from parallax.analysis.verdicts.sequential import SequentialSchedule, compute_paired_change
from parallax.analysis.verdicts.statements import compute_tolerated_failures, format_rate

CELL = StudyCell("s", "A-v0", "ppo", "own", "")


def list_components(pairs):
    """Return the connected components of pairs, by merging until nothing changes."""
    parts = [{*pair} for pair in pairs]
    for one, two in itertools.combinations(parts, 2):
        if one & two:
            rest = [part for part in parts if part not in (one, two)]
            return list_components([*rest, one | two])
    return sorted(map(sorted, parts))


@pytest.mark.parametrize("seed", range(8))
def test_pairs_that_share_a_group_are_in_one_component(seed):
    rng = np.random.default_rng(seed)
    groups = [types.SimpleNamespace(number=number) for number in range(12)]
    pairs = [tuple(rng.choice(groups, 2, replace=False)) for _ in range(9)]
    found = _connect_pairs(pairs)
    assert sorted(map(id, itertools.chain(*found))) == sorted(map(id, pairs))
    numbers = [sorted({group.number for pair in part for group in pair}) for part in found]
    named = [tuple(group.number for group in pair) for pair in pairs]
    assert sorted(numbers) == list_components(named)


def test_components_that_a_later_pair_joins_become_one_and_stay_so():
    a, b, c, d, e, f, g, h = (types.SimpleNamespace(name=name) for name in "abcdefgh")
    for pairs in (
        [(a, b), (c, d), (e, f), (b, c), (d, e), (f, g), (a, g)],
        [(a, b), (c, d), (b, c), (d, h), (a, h)],
    ):
        (members,) = _connect_pairs(pairs)
        assert sorted(map(id, members)) == sorted(map(id, pairs))
    assert _connect_pairs([(a, b), (c, d)]) == [[(a, b)], [(c, d)]]
    groups, places = _index_groups([(a, b), (b, c)])
    assert groups == [a, b, c] and places == [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        *((0.0, "0.0%"), (0.0049, "0.4%"), (0.00999, "0.9%"), (0.01, "1%"), (0.049, "4%")),
        *((0.0044, "0.4%"), (0.0399, "3%"), (1.0, "100%"), (1.2, "100%"), (1.5, "100%")),
    ],
)
def test_rates_are_rounded_down(rate, text):
    assert format_rate(rate) == text


def test_tolerated_failures_use_the_margin_left_by_the_limit():
    contrast = MeanContrast(np.array([1.0, -1.0, 1.0]), np.full(3, 0.5), np.full(3, np.inf))
    margins, distances = np.array([10.0, 10.0, 10.0]), np.array([20.0, 40.0, 0.0])
    limit = 1 + 1.6448536 * 0.5
    found = compute_tolerated_failures(contrast, margins, distances, 0.05)
    np.testing.assert_allclose(found, [(10 - limit) / 20, (10 - limit) / 40, np.nan], rtol=1e-6)


def make_noise_group(seeds, episodes, seconds=100.0, evaluation_seconds=1.0):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=seeds)
    group = make_score_group(CELL, "sb3", scores, {})
    runs = tuple(
        dataclasses.replace(
            run,
            results=rng.normal(size=(1, episodes)),
            seconds=seconds,
            evaluation_seconds=evaluation_seconds,
        )
        for run in group.runs
    )
    return dataclasses.replace(group, runs=runs)


@pytest.mark.parametrize(
    ("seeds", "episodes", "is_measured"), [(3, 2, True), (2, 2, False), (3, 1, False)]
)
def test_noise_needs_three_seeds_and_two_episodes(seeds, episodes, is_measured):
    found = measure_evaluation_noise([make_noise_group(seeds, episodes)], VerdictOptions())
    assert len(found) == is_measured
    steps = VerdictOptions(endpoint="steps-50")
    assert measure_evaluation_noise([make_noise_group(seeds, episodes)], steps) == ()


def test_noise_needs_every_run_and_its_score():
    group = make_noise_group(4, 2)
    less = dataclasses.replace(group, runs=group.runs[:3])
    without = dataclasses.replace(group, scores=None)
    assert measure_evaluation_noise([less, without], VerdictOptions()) == ()


@pytest.mark.parametrize(
    ("seconds", "evaluation_seconds", "cost"),
    [
        *((100.0, 10.0, 0.1), (100.0, 0.0, 0.0), (10.0, 20.0, 1.0)),
        *((math.nan, 10.0, math.nan), (0.0, 10.0, math.nan), (100.0, math.nan, math.nan)),
    ],
)
def test_the_cost_of_evaluations_is_their_share_of_the_time(seconds, evaluation_seconds, cost):
    run = types.SimpleNamespace(seconds=seconds, evaluation_seconds=evaluation_seconds)
    assert evaluation_noise._get_cost(run) == pytest.approx(cost, nan_ok=True)


def combine(cost, *parts):
    run = types.SimpleNamespace(seconds=100.0, evaluation_seconds=100.0 * cost)
    return evaluation_noise._combine_components(CELL, [(part, (run,)) for part in parts])


def test_noise_of_frameworks_is_averaged_by_their_degrees_of_freedom():
    few, many = VarianceComponents(2, 10, 4.0, 1.0), VarianceComponents(4, 5, 8.0, 3.0)
    found = combine(0.01, few, many)
    assert found.components.n == 6 and found.components.episodes == 5
    assert found.components.total == pytest.approx((4 + 3 * 8) / 4)
    assert found.components.noise == pytest.approx((1 + 3 * 3) / 4)
    assert (found.frameworks, found.cell) == (2, CELL)
    assert found.cost == pytest.approx(0.01)


def test_proposed_episodes_are_limited_by_two_percent_of_training():
    noisy = VarianceComponents(5, 10, 4.0, 2.0)
    needed = noisy.propose_episodes(0.1)
    assert needed > 40
    cheap = combine(0.0001, noisy)
    assert (cheap.proposed, cheap.is_limited_by_cost) == (needed, False)
    dear = combine(0.01, noisy)  # 10 episodes took 1 of 100 s
    assert (dear.proposed, dear.is_limited_by_cost) == (math.floor(10 * 0.02 * 99), True)
    most = combine(0.5, noisy)
    assert (most.proposed, most.is_limited_by_cost) == (10, True)  # those that there are
    assert combine(0.0, noisy).proposed == needed


def test_endpoints_that_runs_were_started_with_are_counted():
    runs = [types.SimpleNamespace(spec=spec) for spec in ({}, {"endpoint": "auc"}, {})]
    loaded = types.SimpleNamespace(runs=runs)
    assert get_recorded_endpoints(loaded) == {"final": 2, "auc": 1}
    settled = VerdictOptions(endpoint="auc", endpoint_source="fixed before")
    assert settle_options(loaded, settled) is settled


@pytest.mark.parametrize(
    ("values", "limit", "side", "p"),
    [
        ([2.0, 2.0], 1.0, "greater", 0.0),
        ([2.0, 2.0], 1.0, "less", 1.0),
        ([2.0, 2.0], 2.0, "greater", 1.0),
        ([2.0, 2.0], 3.0, "less", 0.0),
        ([1.0, 3.0], 2.0, "greater", 0.5),
        ([1.0, 3.0], 1.0, "greater", 0.25),  # t = 1 with one degree of freedom
        ([1.0, 3.0], 1.0, "less", 0.75),
    ],
)
def test_one_sided_t_tests_of_single_samples(values, limit, side, p):
    found = sequential._compute_one_sample_p(np.array(values), limit, side)
    assert found == pytest.approx(p)


def test_pairs_before_the_first_check_have_a_mean_and_no_interval():
    schedule = SequentialSchedule(5, 20)
    found = compute_paired_change([1.0, 2.0], [2.0, 4.0], schedule)
    assert found.difference == 1.5 and math.isnan(found.low) and math.isnan(found.high)
    assert math.isnan(compute_paired_change([], [], schedule).difference)
