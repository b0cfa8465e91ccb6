"""Equivalence that bounds what runs not observed could do, margins, and failed runs."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep

from parallax.analysis.data.published import (
    get_random_score,
    get_reference_score,
    list_tables,
    read_table,
)
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.stats import two_sample as proportions
from parallax.analysis.stats import unobserved_failures as unseen
from parallax.analysis.stats.effect_size_and_power import compute_equivalence_power
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.verdicts.consistency import judge_consistency
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.margins import (
    choose_unobserved_distances,
    compute_failure_threshold,
    compute_margin,
    compute_min_runs,
    compute_unobserved_distances,
    compute_unobserved_p,
    find_score_range,
)
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.sequential import SequentialSchedule, judge_sequentially


def group(framework, scores, env="InvertedPendulum-v4", algorithm="ppo"):
    scores = np.asarray(scores, dtype=np.float64)
    n = len(scores)
    cell = StudyCell("s", env, algorithm, "original", "")
    return ScoreGroup(cell, framework, compute_moments(scores), 0.0, scores, (), n, n, (100,))


def verdict(first, second, env="InvertedPendulum-v4", **options):
    (item,) = judge_consistency(
        [group("a", first, env), group("b", second, env)], VerdictOptions(**options)
    )
    return item


@pytest.mark.parametrize("n", [2, 3, 5, 10, 20, 29])
def test_fewer_than_thirty_perfect_runs_are_inconclusive(n):
    item = verdict(np.full(n, 1000.0), np.full(n, 1000.0))
    assert item.p_tost == 0
    assert item.verdict == "inconclusive"
    assert item.is_limited_by_unobserved_failures
    # One framework may fail as often as just gives the margin, and none of n shows it.
    assert item.p_unobserved_failures == pytest.approx((1 - item.margin.size / 1000) ** n, rel=1e-6)


def test_thirty_runs_without_a_failure_are_equivalent_as_planned():
    few, many = (verdict(np.full(n, 1000.0), np.full(n, 1000.0)) for n in (5, 30))
    assert many.verdict == "equivalent"
    assert few.seeds_needed == 30


@pytest.mark.parametrize("mean", [0.0, 400.0, 1000.0])
def test_equal_runs_below_the_minimum_number_are_not_equivalent(mean):
    options = VerdictOptions()
    least = compute_min_runs((group("a", [mean] * 2), group("b", [mean] * 2)), options)
    few = verdict(np.full(int(least) - 1, mean), np.full(int(least) - 1, mean))
    assert 10 < least <= 30 and few.verdict == "inconclusive" and few.p_unobserved_failures > 0.05
    assert verdict(np.full(60, mean), np.full(60, mean)).verdict == "equivalent"


def test_no_number_of_runs_suffices_without_a_known_range():
    pair = group("a", [1.0, 2.0], "Unknown-v1"), group("b", [1.0, 2.0], "Unknown-v1")
    assert compute_min_runs(pair, VerdictOptions()) == math.inf


@pytest.mark.parametrize(("share", "least"), [(0.5, 5), (0.7, 3), (0.9, 2), (1.0, 2), (2.0, 2)])
def test_wider_margins_need_fewer_runs_and_at_least_two(share, least):
    pair = group("a", [0.0, 0.0]), group("b", [0.0, 0.0])
    assert compute_min_runs(pair, VerdictOptions(margin_share=share)) == least


@pytest.mark.parametrize(("rate", "n"), [(0.2, 3), (0.2, 5), (0.2, 10), (0.1, 5), (0.1, 20)])
def test_framework_with_rare_failures_is_not_called_equivalent(rate, n):
    rng = np.random.default_rng(0)
    words = []
    for _ in range(150):
        second = np.where(rng.random(n) < rate, 5.0, 1000.0)
        pair = group("a", np.full(n, 1000.0)), group("b", second)
        (item,) = judge_sequentially(pair, VerdictOptions(), SequentialSchedule(n, n))
        words.append(item.verdict)
    assert words.count("equivalent") / 150 <= 0.05


def test_the_bound_of_values_of_two_kinds_is_clopper_and_pearsons():
    sample = np.r_[np.zeros(3), np.ones(17)]
    steady = np.full(2_000, 1.0)  # as good as known
    limit = stats.beta.ppf(0.95, 4, 17)  # of the rate at which runs fail
    assert unseen.compute_exceedance_p(steady, sample, (0, 1), limit) == pytest.approx(
        0.05, abs=0.002
    )


def test_equal_samples_have_a_p_value_of_one():
    sample = np.array([0.2, 0.5, 0.8])
    assert unseen.compute_equal_means_p(sample, sample, (0, 1)) == 1.0


def test_bound_is_symmetric_in_the_frameworks():
    rng = np.random.default_rng(0)
    first, second = rng.uniform(0, 1, 12), rng.uniform(0, 1, 7)
    p = unseen.compute_difference_p(first, second, (0, 1), 0.4)
    assert p == unseen.compute_difference_p(second, first, (0, 1), 0.4)
    assert 0 < p < 1


def test_allowance_is_the_quantile_over_possible_unobserved_runs():
    n, level, rng = 30, 0.05, np.random.default_rng(0)
    shares = rng.beta(1, n, (2, 1_000_000))
    for rooms in ((1000.0, 0.0), (1000.0, 500.0), (700.0, 700.0)):
        expected = np.quantile(rooms[0] * shares[0] + rooms[1] * shares[1], 1 - level)
        assert unseen.compute_unobserved_allowance(n, level, rooms) == pytest.approx(
            expected, rel=0.03
        )


def test_without_a_known_range_nothing_is_equivalent_until_one_is_given():
    same = np.full(60, 7.0)
    item = verdict(same, same, env="Unknown-v0")
    assert (item.verdict, item.p_unobserved_failures, item.range.known) == (
        "inconclusive",
        1.0,
        False,
    )
    given = verdict(same, same, env="Unknown-v0", ranges=(("Unknown-v0", 0.0, 10.0),))
    assert given.verdict == "equivalent"
    assert given.margin.size == pytest.approx(1.0)


def test_power_of_equivalence_allows_for_unobserved_failures():
    alone = compute_equivalence_power(0.0, (10.0, 10.0), 10, 0.05, 97.4)
    assert alone > 0.99
    assert compute_equivalence_power(0.0, (10.0, 10.0), 10, 0.05, 97.4, (1000.0, 0.0)) < 0.01
    assert compute_equivalence_power(0.0, (10.0, 10.0), 40, 0.05, 97.4, (1000.0, 0.0)) > 0.8
    assert compute_equivalence_power(0.0, (10.0, 10.0), 40, 0.05, 97.4, (np.inf, 0.0)) == 0


def test_five_runs_of_the_published_tables_show_no_equivalence(published):
    verdicts = [item.verdict for item in published.consistency]
    assert len(verdicts) == 288 and "equivalent" not in verdicts


@pytest.mark.parametrize(
    ("env", "algorithm", "size"),
    [
        ("Reacher-v4", "td3", 0.1 * (-4 + 42.98)),
        ("Ant-v4", "td3", 0.1 * (4100 + 58.28)),
        ("InvertedPendulum-v5", "ppo", 0.1 * (980 - 5.37)),
    ],
)
def test_a_margin_is_a_share_of_the_way_from_random_to_published(env, algorithm, size):
    pair = [group("a", [1.0, 2.0], env, algorithm)]
    assert compute_margin(pair, VerdictOptions()).size == pytest.approx(size)
    old = compute_margin(pair, VerdictOptions(margin_of="score"))
    assert old.size == pytest.approx(0.1 * abs(old.reference))
    assert old.zero == 0


def test_a_range_holds_the_task_s_own_ends_and_every_run():
    ends = find_score_range([group("a", [-3.0, 40.0])], VerdictOptions())
    assert (ends.low, ends.high) == (-3, 1000)
    reacher = find_score_range([group("a", [-5.0, -4.0], "Reacher-v4")], VerdictOptions())
    assert (reacher.low, reacher.high) == (-42.98, 0)


def test_failed_runs_are_counted_and_compared():
    item = verdict([1000.0] * 10, [5.0] * 6 + [1000.0] * 4)
    found = item.failures
    assert found.threshold == pytest.approx(6.37 + 0.25 * (980 - 6.37))
    assert found.counts == ("0/10", "6/10")
    table = [[0, 10], [6, 4]]
    assert found.p == pytest.approx(stats.fisher_exact(table).pvalue)
    assert found.p_holm == pytest.approx(found.p)
    theirs = confint_proportions_2indep(0, 10, 6, 10, method="newcomb", compare="diff")
    assert (found.low, found.high) == pytest.approx(theirs)
    assert found.difference == pytest.approx(-0.6)


def test_failed_runs_of_an_unknown_task_get_no_score():
    found = verdict([1.0, 2.0], [3.0, 4.0], env="Unknown-v0").failures
    assert not found.known
    assert math.isnan(found.p)
    assert found.counts == ("-", "-")


def test_no_runs_give_no_interval():
    assert all(math.isnan(end) for end in proportions.compute_newcombe_interval((0, 0), (0, 3)))
    assert math.isnan(proportions.compute_fisher_p((0, 0), (0, 3)))


@pytest.mark.parametrize(
    ("first", "second", "room"),
    [(400, 600, 400), (600, 400, 400), (100, 150, 850), (950, 700, 700)],
)
def test_required_runs_would_show_a_failure_as_rare_as_the_margin_allows(first, second, room):
    pair = group("a", [float(first)] * 2), group("b", [float(second)] * 2)
    for alpha in (0.05, 0.01):
        options = VerdictOptions(margin_share=0.1, alpha=alpha)
        n = compute_min_runs(pair, options)
        rare = compute_margin(pair, options).size / room
        assert (1 - rare) ** n <= alpha < (1 - rare) ** (n - 1)
    # No unobserved run can shift the mean by so much.
    assert compute_min_runs(pair, VerdictOptions(margin_share=0.9)) == 2.0
    unknown = [dataclasses.replace(one, cell=UNKNOWN) for one in pair]
    assert compute_min_runs(unknown, VerdictOptions()) == math.inf


UNKNOWN = StudyCell("s", "Unknown-v0", "ppo", "original", "")


def test_ranges_name_their_source():
    def find(env, algorithm="ppo", **options):
        ends = find_score_range([group("a", [], env, algorithm)], VerdictOptions(**options))
        return ends.low, ends.high, ends.source

    given = {"ranges": (("Hopper-v4", 1.0, 2.0),)}
    assert find("Hopper-v4", **given) == (1.0, 2.0, "given")
    assert find("Hopper-v4", endpoint="steps-90", **given) == (0.0, 1.0, "length of training")
    assert find(PENDULUM) == (0.0, 1000.0, "what the task's rewards allow")
    best = max(row.mean for row in list_published("ppo", "Hopper"))
    assert find("Hopper-v4") == (17.89, best, "random actions to the best published score")
    random, source = (
        get_random_score("Hopper-v4")[0],
        "random actions to the score of a solved task",
    )
    assert find("Hopper-v4", "dqn") == (random, 3800.0, source)
    reacher = find("Reacher-v4", "dqn")
    assert reacher == (-42.98, 0.0, "what the task's rewards allow, and random actions")
    unknown = find_score_range([group("a", [1.0], "Mine-v1")], VerdictOptions())
    assert math.isnan(unknown.low) and math.isnan(unknown.high) and not unknown.known
    assert unknown.source == "not known"
    printed = dataclasses.replace(group("a", [5000.0, 9000.0], PENDULUM), scores=None)
    assert find_score_range([printed, group("b", [])], VerdictOptions()).high == 7000.0


PENDULUM = "InvertedPendulum-v4"


def list_published(algorithm, task):
    rows = [row for name in list_tables() for row in read_table(name)]
    return [row for row in rows if (row.algorithm, row.env) == (algorithm, task)]


def test_margins_state_their_reference():
    def find(env, *scores, **options):
        groups = [group("a", one, env) for one in scores]
        found = compute_margin(groups, VerdictOptions(**options))
        return found.size, found.reference, found.zero, found.source

    given = {"ranges": (("Hopper-v4", -100.0, 300.0),)}
    whole = 300.0, -100.0, "the range given for the task"
    assert find("Hopper-v4", [1.0], **given) == (40.0, *whole)
    assert find("Hopper-v4", [1.0], margin_share=0.5, **given) == (200.0, *whole)
    steps = find("Hopper-v4", [1.0], endpoint="steps-90", **given)
    assert steps == (0.1, 1.0, 0.0, "length of training")
    own = find("Mine-v1", [-40.0], [10.0, 30.0], margin_share=0.25)
    assert own == (7.5, 30.0, 0.0, "compared runs")


def test_failure_threshold_is_a_share_of_the_published_score():
    def find(env, **options):
        return compute_failure_threshold([group("a", [1.0], env)], VerdictOptions(**options))

    published = get_reference_score("ppo", "Hopper-v4")[0]
    assert find("Hopper-v4") == pytest.approx(17.89 + 0.25 * (published - 17.89))
    given = {"ranges": (("Hopper-v4", 100.0, 300.0),), "failed_share": 0.1}
    assert find("Hopper-v4", **given) == pytest.approx(120.0)
    assert math.isnan(find("Mine-v1"))
    measured = (("Mine-v1", "random actions", 5.0, "runs"),)
    assert math.isnan(find("Mine-v1", references=measured))  # no score of a solved task


@pytest.mark.parametrize(
    ("means", "distances"),
    [
        ((50.0, 50.0), (50.0, 50.0)),
        ((10.0, 30.0), (90.0, 30.0)),  # the first could be better, the second worse
        ((30.0, 10.0), (30.0, 90.0)),
        ((90.0, 20.0), (90.0, 80.0)),
        ((20.0, 90.0), (80.0, 90.0)),
        ((95.0, 80.0), (95.0, 20.0)),
        ((80.0, 95.0), (20.0, 95.0)),
    ],
)
def test_unobserved_runs_are_bounded_in_the_wider_direction(means, distances):
    assert choose_unobserved_distances(means, (0.0, 100.0)) == distances
    pair = group("a", [means[0]] * 3, "Mine-v1"), group("b", [means[1]] * 3, "Mine-v1")
    options = VerdictOptions(ranges=(("Mine-v1", 0.0, 100.0),))
    empty = group("c", [], "Mine-v1")
    pairs = [pair, (pair[0], empty), (empty, pair[1])]
    one, two = compute_unobserved_distances(pairs, ranges_of(pairs, options))
    assert (one.tolist(), two.tolist()) == (
        [distances[0]] + [math.inf] * 2,
        [distances[1]] + [math.inf] * 2,
    )
    one, two = compute_unobserved_distances([pair], ranges_of([pair], VerdictOptions()))
    assert (one.tolist(), two.tolist()) == ([math.inf], [math.inf])
    assert [end.shape for end in compute_unobserved_distances([], [])] == [(0,), (0,)]


def ranges_of(pairs, options):
    return [find_score_range(pair, options) for pair in pairs]


def bound(pair, options, size=None):
    (ends,) = ranges_of([pair], options)
    return compute_unobserved_p(pair, ends, compute_margin(pair, options).size, size)


def test_a_bound_uses_the_first_seeds_and_needs_two_of_each():
    options = VerdictOptions(ranges=(("Mine-v1", 0.0, 100.0),))
    first = group("a", [50.0, 52.0, 51.0, 0.0, 100.0], "Mine-v1")
    second = group("b", [50.0, 49.0, 53.0, 50.0], "Mine-v1")
    few = [group(one.framework, one.scores[:3], "Mine-v1") for one in (first, second)]
    assert bound((first, second), options, 3) == bound(few, options)
    assert bound((first, second), options) != bound(few, options)
    assert math.isnan(bound((first, second), options, 1))
    two = bound((first, second), options, 2)
    assert 0 < two <= 1 and not math.isnan(two)
    one = group("c", [50.0], "Mine-v1")
    assert math.isnan(bound((first, one), options))
    assert bound((first, second), VerdictOptions()) == 1.0
    expected = unseen.compute_difference_p(first.scores, second.scores, (0.0, 100.0), 10.0)
    assert bound((first, second), options) == expected


def test_without_a_margin_no_number_of_runs_shows_equivalence():
    options = VerdictOptions(ranges=(("Mine-v1", 0.0, 100.0),), margin_share=0.0)
    pair = group("a", [50.0] * 3, "Mine-v1"), group("b", [50.0] * 3, "Mine-v1")
    assert compute_min_runs(pair, options) == math.inf
    equal = dataclasses.replace(options, margin_share=0.5)  # the margin is all there is room for
    assert compute_min_runs(pair, equal) == 2.0
