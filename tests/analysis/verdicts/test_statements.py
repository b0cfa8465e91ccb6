"""Statements, references, failed runs, suites and endpoints of studies."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies
from scipy import stats

from parallax.analysis.data.load import load_runs
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.report.sections.comparison import compare_frameworks, format_score_lines
from parallax.analysis.report.sections.consistency import (
    answer_consistency,
    describe_bottom_score,
    describe_intention_to_treat,
    describe_statements,
    describe_verdict_terms,
    name_statement,
)
from parallax.analysis.report.sections.headline import select_headline_findings
from parallax.analysis.report.sections.suite import describe_suites
from parallax.analysis.stats.moments import compute_moments, stack_moments
from parallax.analysis.stats.two_sample import (
    compute_contrast,
    compute_fisher_p,
    compute_stratified_fisher_p,
)
from parallax.analysis.stats.unobserved_failures import compute_equal_means_p
from parallax.analysis.verdicts.consistency import judge_consistency
from parallax.analysis.verdicts.endpoints import describe_mixed_endpoints, settle_options
from parallax.analysis.verdicts.failures import FailureComparison, count_failed_as_bottom
from parallax.analysis.verdicts.groups import ScoreGroup, UnknownScaleError, group_runs
from parallax.analysis.verdicts.margins import find_score_range
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.references import LEARNED, NOT_SHOWN, judge_learning
from parallax.analysis.verdicts.statements import (
    DIFFERENT_IN_DISTRIBUTION,
    DIFFERENT_IN_MEAN,
    FISHER_SHARE,
    UNEQUAL_FAILURES,
    PairStatement,
    compute_mean_p,
    format_rate,
    format_tolerated_failures,
    state_pairs,
)
from parallax.analysis.verdicts.study import judge_runs
from parallax.analysis.verdicts.suite import (
    EQUIVALENT_UNLEARNED,
    collect_suites,
    judge_all_alike,
    judge_suites,
    select_suites_with_failed_runs,
)

OPTIONS = VerdictOptions(ranges=(("InvertedPendulum-v4", 0.0, 1000.0), ("Pendulum-v1", -1225, 0)))
PENDULUM = "InvertedPendulum-v4"


def group(framework, scores, env=PENDULUM, failed=0):
    values = np.asarray(scores, dtype=np.float64)
    cell = StudyCell("s", env, "ppo", "original", "")
    n = len(values)
    sizes = (n + failed, n, (100,))
    found = ScoreGroup(cell, framework, compute_moments(values), 0.0, values, (), *sizes)
    return dataclasses.replace(found, failed=failed)


def state(first, second):
    (item,) = judge_consistency([group("a", first), group("b", second)], OPTIONS)
    return item


def around(mean, sd, n):
    values = np.linspace(-1, 1, n)
    return mean + sd * values / values.std(ddof=1)


def test_difference_of_means_needs_more_than_unequal_distributions():
    far = state(around(950, 10, 10), around(60, 10, 10))
    assert (far.verdict, far.statement.text) == ("different", DIFFERENT_IN_MEAN)
    near = state(around(950, 10, 10), around(800, 10, 10))
    assert (near.verdict, near.statement.text) == ("different", DIFFERENT_IN_DISTRIBUTION)
    assert far.statement.p_mean < 0.05 < near.statement.p_mean


def test_failure_rates_can_differ_with_equal_means():
    steady, failing = [1000.0] * 20, [1000.0] * 8 + [5.0] * 12
    item = state(np.array(steady) - np.arange(20), failing)
    assert item.statement.text in (DIFFERENT_IN_DISTRIBUTION, DIFFERENT_IN_MEAN)
    assert item.failures.p < 0.001


def test_equivalence_may_depend_on_failures_that_were_not_observed():
    item = state(around(950, 20, 10), around(955, 20, 10))
    assert item.verdict == "inconclusive"
    assert item.statement.is_conditional
    rate = item.statement.tolerated_failures
    assert item.statement.text == f"equivalent unless more than {format_rate(rate)} of runs fail"
    # With so many runs at 0, the upper limit of the distance just reaches the margin.
    error = math.sqrt(20**2 / 10 * 2)
    limit = 5 + 1.734 * error  # t(0.95, 18)
    assert rate == pytest.approx((100 - limit) / 955, rel=1e-3)
    assert item.statement.failure_limit == pytest.approx(1 - 0.05**0.1)


def test_a_failed_run_rules_the_condition_out():
    scores = around(950, 20, 10)
    item = state(np.where(np.arange(10) == 0, 0.0, scores), scores)
    assert not item.statement.is_conditional
    assert math.isnan(item.statement.failure_limit)


def test_a_failed_training_rules_the_condition_out():
    first, second = group("a", around(950, 20, 10)), group("b", around(955, 20, 8), failed=2)
    (item,) = judge_consistency([first, second], OPTIONS)
    assert item.statement.text == "inconclusive" and math.isnan(item.statement.failure_limit)
    assert not item.is_limited_by_unobserved_failures
    (item,) = judge_consistency([first, dataclasses.replace(second, failed=0)], OPTIONS)
    assert item.statement.is_conditional


@pytest.mark.parametrize(
    ("mean", "word"),
    [
        (-5.0, LEARNED),
        (-10.4, NOT_SHOWN),  # above doing nothing, by less than the margin
        (-16.3, NOT_SHOWN),  # far above random actions, and worse than doing nothing
    ],
)
def test_learned_means_better_than_doing_nothing_and_random(mean, word):
    (item,) = judge_learning([group("a", around(mean, 0.5, 10), "Reacher-v4")], VerdictOptions())
    assert item.verdict == word
    assert {reference.name for reference in item.references} == {"do nothing", "random actions"}


def test_evaluations_at_step_0_are_the_untrained_policy(results, make_run):
    for seed in range(3):
        curve = np.full((11, 4), 500.0) + seed
        curve[0] = 480.0 + seed
        make_run(seed=seed, env="Hopper-v4", returns=curve, timesteps=np.arange(11) * 2048)
    (found,) = judge_runs(load_runs(results), VerdictOptions(resamples=50)).learning
    (untrained,) = [one for one in found.references if one.name == "untrained policy"]
    assert untrained.mean == 481.0
    assert found.difference == pytest.approx(20.0)
    assert found.verdict == NOT_SHOWN  # far above random actions, but it was before training


def test_failed_runs_get_the_bottom_score_in_a_separate_analysis(results, make_run):
    for framework, level in (("sb3", 900), ("cleanrl", 850)):
        for seed in range(5):
            failed = framework == "sb3" and seed < 2
            make_run(
                seed=seed,
                framework=framework,
                env=PENDULUM,
                score=level + seed,
                status="failed" if failed else "completed",
                failure="diverged" if failed else None,
            )
    verdicts = judge_runs(load_runs(results), dataclasses.replace(OPTIONS, resamples=50))
    (complete,), (treated,) = verdicts.consistency, verdicts.intention_to_treat
    assert (complete.first.n, complete.second.n, complete.second.failed) == (5, 3, 2)
    assert complete.difference < 0 < treated.difference
    assert treated.second.n == 5
    assert float(treated.second.moments.mean) == pytest.approx(3 * 903 / 5)
    (text,) = describe_intention_to_treat(verdicts)
    assert "(2 of SB3 failed)" in text and "n = 5 and 5. Complete runs alone" in text
    assert text.endswith("n = 5 and 3.")
    lead = describe_bottom_score(verdicts)
    assert lead == "With failed trainings (SB3 2) at the bottom of the task's range"
    groups = group_runs(load_runs(results))
    both = groups, count_failed_as_bottom(groups, OPTIONS)
    (row,) = compare_frameworks(*both, OPTIONS, "t", np.random.default_rng(0))
    assert "with 2 failed: 541.8" in format_score_lines(row, "sb3")
    assert row.scores[0].with_failed is None


def test_framework_whose_runs_all_failed_has_a_separate_line(results, make_run):
    for framework in ("sb3", "cleanrl"):
        for seed in range(4):
            status = "failed" if framework == "sb3" else "completed"
            failure = "diverged" if framework == "sb3" else None
            make_run(seed=seed, framework=framework, env=PENDULUM, status=status, failure=failure)
    verdicts = judge_runs(load_runs(results), dataclasses.replace(OPTIONS, resamples=50))
    (treated,) = verdicts.intention_to_treat
    assert (treated.first.n, treated.second.n) == (4, 4)
    (text,) = describe_intention_to_treat(verdicts)
    assert "(4 of SB3 failed)" in text and "Complete runs alone: " in text


@pytest.mark.parametrize("level", [0.02, 0.9])
def test_only_learned_pairs_are_equivalent_in_a_headline(results, make_run, level):
    for framework in ("sb3", "cleanrl"):
        for seed in range(40):
            score = 1000 * level + seed / 20
            make_run(seed=seed, framework=framework, env=PENDULUM, score=score)
    options = dataclasses.replace(OPTIONS, resamples=50)
    verdicts = judge_runs(load_runs(results), options)
    assert [item.verdict for item in verdicts.consistency] == ["equivalent"]
    text = repr(select_headline_findings(verdicts)[1])
    assert ("1 of 1 pair that have learned" in text) == (level > 0.5)
    assert ("No pair of 1 is shown to have learned" in text) == (level < 0.5)


def test_rare_outliers_above_count_like_failures():
    item = state(around(500, 1, 20), around(500, 1, 20))
    assert item.statement.tolerated_failures == pytest.approx(0.2, abs=0.01)
    low = state(around(300, 1, 20), around(300, 1, 20))
    # 700 are above and 300 below: the farther end counts.
    assert low.statement.tolerated_failures == pytest.approx(0.1 * 974 / 700, abs=0.01)


def test_groups_without_failures_keep_their_scores():
    groups = (group("a", [1.0, 2.0]), group("b", [3.0, 4.0]))
    assert count_failed_as_bottom(groups, OPTIONS) == groups


def suite(n, gap=0.0, tasks=(PENDULUM, "Pendulum-v1"), seed=0):
    rng = np.random.default_rng(seed)
    scales = {PENDULUM: (25.67, 1000.0), "Pendulum-v1": (-1215.76, 0.0)}
    return [
        group(name, low + (high - low) * np.minimum(1, rng.normal(0.95 - gap * k, 0.02, n)), task)
        for task, (low, high) in ((task, scales[task]) for task in tasks)
        for k, name in enumerate(("a", "b", "c"))
    ]


def test_pooled_tasks_can_show_equivalence_that_single_ones_cannot():
    groups = suite(30)
    alone = judge_consistency(groups, OPTIONS)
    assert {item.verdict for item in alone} == {"inconclusive"}
    together = judge_suites(groups, OPTIONS)
    assert {item.verdict for item in together} == {"equivalent"}
    assert {item.runs for item in together} == {(60, 60)}
    words = {item.env: item for item in judge_all_alike(alone, together, OPTIONS)}
    assert words[""].verdict == "equivalent"
    assert words[""].p == max(item.p_equivalence for item in together)
    assert words[PENDULUM].frameworks == ("a", "b", "c")


def test_a_suite_names_what_differs_and_leaves_incomplete_tasks_out():
    found = judge_suites(suite(10, gap=0.3), OPTIONS)
    assert [item.statement for item in found] == ["different in mean"] * 3
    assert found[0].difference == pytest.approx(0.3, abs=0.02)
    (sample,) = collect_suites([*suite(5), group("a", [1.0, 2.0], "Reacher-v4")], OPTIONS)
    assert sample.left_out == ("Reacher-v4: no two runs of b",)
    assert not judge_suites(suite(10, tasks=(PENDULUM,)), OPTIONS)


def test_a_suite_in_which_nothing_was_learned_is_not_called_equivalent():
    groups = suite(30)
    learning = judge_learning(groups, OPTIONS)
    assert all(item.is_learned for item in learning)
    found = judge_suites(groups, OPTIONS, learning)
    assert {item.statement for item in found} == {"equivalent"}
    assert not any(item.unlearned for item in found)
    lazy = [item for item in learning if item.group.cell.env != PENDULUM]
    found = judge_suites(groups, OPTIONS, lazy)
    assert {item.statement for item in found} == {EQUIVALENT_UNLEARNED}
    assert {item.unlearned for item in found} == {(PENDULUM,)}
    (alike,) = judge_all_alike((), found, OPTIONS, lazy)
    assert alike.verdict == EQUIVALENT_UNLEARNED
    assert judge_all_alike((), found, OPTIONS, learning)[0].verdict == "equivalent"


def test_a_suite_counts_scores_below_doing_nothing_as_nothing():
    low = [group(name, [-1600.0, -1300.0], env) for name in "ab" for env in ("Pendulum-v1",)]
    high = [group(name, [900.0, 950.0]) for name in "ab"]
    (sample,) = collect_suites([*low, *high], OPTIONS)
    assert all(scores.min() >= 0 for tasks in sample.scores.values() for scores in tasks)
    assert sample.ends == (0.0, 1.0)


def test_the_endpoint_is_the_one_that_the_runs_were_started_with(results, make_run):
    for seed in range(3):
        make_run(seed=seed, endpoint="auc", env="Hopper-v4")
    loaded = load_runs(results)
    options = settle_options(loaded, VerdictOptions())
    assert (options.endpoint, options.endpoint_source) == (
        "auc",
        "fixed in the study's configuration",
    )
    other = settle_options(loaded, VerdictOptions(endpoint="final"))
    assert other.endpoint_source.startswith("chosen for this report")
    finals, areas = (group_runs(loaded, chosen)[0] for chosen in (other, options))
    assert float(areas.moments.mean) < float(finals.moments.mean)
    assert areas.final_group.scores.tolist() == finals.scores.tolist()


def test_steps_to_a_threshold_are_judged_by_the_log_rank_test(results, make_run):
    for framework, at in (("sb3", 3), ("cleanrl", 8)):
        for seed in range(6):
            curve = np.zeros((12, 4))
            curve[at + seed % 2 :] = 3000.0
            make_run(seed=seed, framework=framework, env="Hopper-v4", returns=curve)
    options = VerdictOptions(endpoint="steps-90", resamples=50)
    (item,) = judge_runs(load_runs(results), options).consistency
    assert item.verdict == "different"
    assert item.p_log_rank < 0.01
    assert (item.range.low, item.range.high, item.margin.size) == (0.0, 1.0, 0.1)
    assert item.difference < 0  # CleanRL, the first, has less of its training left
    (term,) = (text for text in describe_verdict_terms(options) if text.startswith("Different:"))
    assert "the log-rank test is significant" in term
    (term,) = (text for text in describe_verdict_terms(OPTIONS) if text.startswith("Different:"))
    assert "Welch's test is significant" in term


def test_failed_runs_never_reach_a_threshold(results, make_run):
    for seed in range(6):
        for framework, at in (("sb3", 3), ("cleanrl", 8)):
            curve = np.zeros((12, 4))
            curve[at + seed % 2 :] = 3000.0
            make_run(seed=seed, framework=framework, env="Hopper-v4", returns=curve)
        make_run(seed=seed, framework="skrl", env="Hopper-v4", status="failed")
    make_run(seed=6, framework="cleanrl", env="Hopper-v4", status="failed")
    verdicts = judge_runs(load_runs(results), VerdictOptions(endpoint="steps-90", resamples=50))
    found = {(i.first.framework, i.second.framework): i for i in verdicts.intention_to_treat}
    sb3 = [3, 4] * 3, [True] * 6
    for pair, late in (("cleanrl", "sb3"), [8, 9] * 3 + [11]), (("sb3", "skrl"), [11] * 6):
        times = np.array([*sb3[0], *late], dtype=float)
        reached = np.array([*sb3[1], *(time < 11 for time in late)])
        first, second = (
            stats.CensoredData.right_censored(times[part], ~reached[part])
            for part in (slice(6), slice(6, None))
        )
        expected = stats.logrank(first, second).pvalue
        assert found[pair].p_log_rank == pytest.approx(expected)


def test_a_threshold_needs_the_score_of_a_solved_task(results, make_run):
    make_run(env="Unknown-v1")
    with pytest.raises(UnknownScaleError, match="give --range Unknown-v1=LOW:HIGH"):
        group_runs(load_runs(results), VerdictOptions(endpoint="steps-90"))


def test_failure_counts_use_final_returns_and_include_failed_runs(results, make_run):
    for seed in range(4):
        make_run(framework="sb3", seed=seed)
        make_run(framework="cleanrl", seed=seed)
    make_run(framework="sb3", seed=4, status="failed")
    options = VerdictOptions(endpoint="auc", ranges=((PENDULUM, 0.0, 1000.0),))
    groups = group_runs(load_runs(results), options)
    plain = {one.framework: one for one in groups}
    treated = {one.framework: one for one in count_failed_as_bottom(groups, options)}
    assert plain["sb3"].failed == 1 and treated["sb3"].n == plain["sb3"].n + 1
    *finals, bottom = treated["sb3"].final_group.scores
    assert finals == list(plain["sb3"].final_group.scores) and bottom < min(finals)
    assert treated["cleanrl"].final_group.scores is not None


def test_unequal_failure_rates_leave_pairs_inconclusive_on_pages():
    item = state([1000.0 - seed for seed in range(20)], [1000.0] * 12 + [5.0] * 8)
    text = dataclasses.replace(item.statement, text=DIFFERENT_IN_DISTRIBUTION)
    item = dataclasses.replace(item, verdict="inconclusive", statement=text)
    assert name_statement(item) == "inconclusive with different failure rates"


@given(
    strategies.lists(
        strategies.tuples(
            strategies.integers(1, 8), strategies.integers(1, 8), strategies.integers(0, 99)
        ),
        min_size=1,
        max_size=3,
    )
)
def test_the_stratified_test_of_failure_rates_is_exact(strata):
    sizes = [(one, two) for one, two, _ in strata]
    failed = [(mix % (one + 1), mix // 10 % (two + 1)) for one, two, mix in strata]
    p = compute_stratified_fisher_p(failed, sizes)
    if len(strata) == 1:
        assert p == pytest.approx(compute_fisher_p(failed[0], sizes[0]))
    # Every way to deal the failures of each stratum to its runs is equally probable.
    sums = [0.0]
    for (a, b), (one, two) in zip(failed, sizes, strict=True):
        ways = [math.comb(one, k) * math.comb(two, a + b - k) for k in range(min(one, a + b) + 1)]
        sums = np.convolve(sums, ways) if len(sums) > 1 or sums[0] else np.asarray(ways, float)
    total, seen = sum(sums), sums[sum(first for first, _ in failed)]
    assert p == pytest.approx(sum(x for x in sums if x <= seen * (1 + 1e-9)) / total)
    swapped = [(b, a) for a, b in failed], [(b, a) for a, b in sizes]
    assert compute_stratified_fisher_p(*swapped) == pytest.approx(p)


def test_suite_names_unequal_failure_rates_despite_equal_means():
    rng = np.random.default_rng(0)
    scales = {PENDULUM: (25.67, 1000.0), "Pendulum-v1": (-1215.76, 0.0)}
    groups = []
    for task, (low, high) in scales.items():
        for name, failed in (("a", 0), ("b", 7)):
            shares = rng.normal(0.6, 0.25, 20).clip(0.3, 1.0)
            shares[:failed] = 0.02
            shares[failed : 2 * failed] = 1.0  # others do better, so that the means are alike
            groups.append(group(name, low + (high - low) * shares, task))
    (item,) = judge_suites(groups, OPTIONS)
    assert (item.verdict, item.failed) == ("inconclusive", (0, 14))
    assert item.p_failures < 0.001 and item.statement == UNEQUAL_FAILURES


def test_suite_verdict_has_a_second_one_with_failed_runs():
    groups = [
        dataclasses.replace(item, failed=6 if item.framework == "b" else 0) for item in suite(30)
    ]
    found = {(item.first, item.second): item for item in judge_suites(groups, OPTIONS)}
    judged = judge_suites(count_failed_as_bottom(groups, OPTIONS), OPTIONS)
    treated = {
        (item.first, item.second): item for item in select_suites_with_failed_runs(judged, groups)
    }
    assert found["a", "b"].statement == "equivalent"
    assert sorted(treated) == [("a", "b"), ("b", "c")]
    assert treated["a", "b"].statement != "equivalent"


def test_a_framework_that_failed_in_all_runs_is_judged_over_tasks(results, make_run):
    for env, seed in itertools.product(("InvertedPendulum-v4", "CartPole-v1"), range(5)):
        make_run(env=env, framework="sb3", seed=seed, score=450 + seed)
        make_run(env=env, framework="cleanrl", seed=seed, status="failed")
    verdicts = judge_runs(load_runs(results), OPTIONS)
    assert verdicts.suites == ()
    (item,) = verdicts.suite_intention_to_treat
    assert (item.first, item.second, item.runs) == ("cleanrl", "sb3", (10, 10))
    assert item.verdict == "different" and item.difference < 0
    assert describe_suites(verdicts) == ()
    (text,) = describe_suites(verdicts.with_failed_runs)
    assert "over 2 tasks together, 1 pair: 1 different" in text


def test_framework_that_failed_under_library_defaults_has_a_line(results, make_run):
    for seed in range(5):
        make_run(framework="sb3", hps="sb3", seed=seed, score=450 + seed)
        make_run(framework="cleanrl", hps="cleanrl", seed=seed, status="failed")
    verdicts = judge_runs(load_runs(results), OPTIONS)
    assert verdicts.defaults == ()
    (item,) = verdicts.intention_to_treat
    assert item.cell.hps == "library defaults" and item.first.cell.hps == "cleanrl"
    assert (item.first.n, item.second.n) == (5, 5) and item.difference < 0
    (text,) = describe_intention_to_treat(verdicts)
    assert "5 of CleanRL failed" in text and "one has none" in text


def test_library_defaults_are_judged_over_all_tasks_too(results, make_run):
    for env, (framework, level), seed in itertools.product(
        ("InvertedPendulum-v4", "CartPole-v1"), (("sb3", 400), ("cleanrl", 100)), range(4)
    ):
        make_run(env=env, framework=framework, hps=framework, seed=seed, score=level + seed)
    verdicts = judge_runs(load_runs(results), OPTIONS)
    (item,) = verdicts.suites
    assert item.key[2] == "library defaults" and len(item.tasks) == 2
    (text,) = describe_suites(verdicts)
    assert "library defaults" in text and "over 2 tasks" in text


def test_runs_with_different_endpoints_are_named(results, make_run):
    for seed in range(2):
        make_run(seed=seed, endpoint="auc", env="Hopper-v4")
    make_run(seed=2, env="Hopper-v4")
    loaded = load_runs(results)
    options = settle_options(loaded, VerdictOptions())
    text = describe_mixed_endpoints(loaded, options)
    assert "auc (2 runs), final (1 runs)" in text and "by final" in text
    assert (
        describe_mixed_endpoints(dataclasses.replace(loaded, runs=loaded.runs[:2]), options) == ""
    )


def test_pairs_that_have_not_learned_are_no_findings_of_equivalence(results, make_run):
    for framework, score in (("sb3", 10), ("cleanrl", 11), ("skrl", 980), ("tianshou", 981)):
        for seed in range(12):
            make_run(seed=seed, framework=framework, env=PENDULUM, score=score + seed / 2)
    options = dataclasses.replace(OPTIONS, failed_share=0.0)
    answer = answer_consistency(judge_runs(load_runs(results), options))
    (alike,) = (one.text for one in answer.findings if "equivalent unless" in one.text)
    assert "skrl" in alike and "Tianshou" in alike
    text = "1 of those that are equivalent unless runs fail is not shown to have learned."
    assert text in answer.headline.text


def test_findings_state_what_is_shown(results, make_run):
    for framework in ("sb3", "cleanrl"):
        for seed in range(12):
            make_run(seed=seed, framework=framework, env=PENDULUM, score=980 + seed / 2)
    verdicts = judge_runs(load_runs(results), OPTIONS)
    (item,) = verdicts.consistency
    assert item.statement.is_conditional
    (finding,) = answer_consistency(verdicts).findings
    assert f"are {item.statement.text}: they are" in finding.text
    assert "none of the runs failed, which leaves rates up to 22% possible" in finding.text
    assert f"1 {item.statement.text}" in describe_statements([item])


def test_a_framework_without_scores_is_no_part_of_a_suite():
    whole = suite(5)
    (expected,) = collect_suites(whole, OPTIONS)
    unscored = dataclasses.replace(whole[0], framework="none", scores=None)
    (sample,) = collect_suites([*whole, unscored], OPTIONS)
    assert repr(sample) == repr(expected)


def test_failures_that_are_not_known_have_no_counts():
    from parallax.analysis.verdicts.failures import FailureComparison

    known = FailureComparison(0.0, (1, 0), (5, 4), *[0.0] * 5)
    assert known.known and known.counts == ("1/5", "0/4")
    unknown = FailureComparison(0.0, (), (), *[0.0] * 5)
    assert not unknown.known and unknown.counts == ("-", "-")


@pytest.mark.parametrize(
    ("share", "text"), [(0.99, DIFFERENT_IN_DISTRIBUTION), (1, "inconclusive")]
)
def test_failures_count_strictly_below_their_share_of_the_level(share, text):
    pair = group("a", around(500, 90, 6)), group("b", around(520, 90, 6))
    level = FISHER_SHARE * OPTIONS.alpha * share
    failures = FailureComparison(100.0, (3, 0), (6, 6), level, level, 0.5, 0.1, 0.9)
    first, second = (stack_moments([side.moments]) for side in pair)
    contrast = compute_contrast([first], [second])
    ends = [find_score_range(pair, OPTIONS)]
    arguments = contrast, np.ones(1), np.full(1, 100.0), ends, [failures], OPTIONS.alpha
    (found,) = state_pairs([pair], ["inconclusive"], *arguments)
    assert found.text == text


def mean_p(pair):
    return compute_mean_p(pair, find_score_range(pair, OPTIONS))


def test_equal_means_are_tested_by_the_range_alone():
    one, two = group("a", [900.0, 950.0, 990.0, 930.0]), group("b", [100.0, 50.0, 70.0])
    expected = compute_equal_means_p(one.scores, two.scores, (0.0, 1000.0))
    assert mean_p((one, two)) == expected < 0.2
    printed = dataclasses.replace(one, scores=None)
    expected = compute_equal_means_p(one.moments, two.scores, (0.0, 1000.0))
    assert mean_p((printed, two)) == expected
    assert math.isnan(mean_p((one, group("b", [1.0]))))
    assert 0 < mean_p((group("a", [1.0, 2.0]), two)) <= 1
    unknown = [dataclasses.replace(x, cell=StudyCell("s", "X", "ppo", "o", "")) for x in (one, two)]
    assert mean_p(unknown) == 1.0


def make_statement(verdict, first, second, p_tost=0.001, failed=(0, 0), p_fisher=1.0, **options):
    pair = group("a", first), group("b", second)
    failures = FailureComparison(100.0, failed, (6, 6)[: len(failed)], p_fisher, p_fisher, 0, 0, 0)
    sides = ([side.moments] for side in pair)
    contrast = compute_contrast(*([stack_moments(side)] for side in sides))
    chosen = dataclasses.replace(OPTIONS, **options)
    ends = [find_score_range(pair, chosen)]
    found = [np.array([p_tost]), np.array([100.0]), ends, [failures], chosen.alpha]
    with pytest.raises(ValueError, match="shorter"):
        state_pairs([pair], [], contrast, *found)  # every pair has a verdict
    (statement,) = state_pairs([pair], [verdict], contrast, *found)
    return statement


def test_conditional_equivalence_needs_tost_a_margin_and_no_failed_run():
    near = around(500, 10, 6), around(510, 10, 6)
    found = make_statement("inconclusive", *near)
    limit = 10 + stats.t.ppf(0.95, 10) * math.sqrt(200 / 6)
    assert found.tolerated_failures == pytest.approx((100 - limit) / 510)
    assert found.text == "equivalent unless more than 15% of runs fail" and found.is_conditional
    assert found.failure_limit == pytest.approx(1 - 0.05 ** (1 / 6))
    for changed in (
        make_statement("inconclusive", *near, p_tost=0.05),
        make_statement("inconclusive", *near, failed=(1, 0)),
        make_statement("inconclusive", *near, failed=(0, 1)),
        make_statement("inconclusive", *near, failed=()),
        make_statement("inconclusive", around(450, 10, 6), around(550, 10, 6)),
    ):
        assert changed.text == "inconclusive" and math.isnan(changed.tolerated_failures)
    assert make_statement("equivalent", *near).text == "equivalent"
    assert make_statement("equivalent", *near).failure_limit == found.failure_limit
    assert math.isnan(make_statement("equivalent", *near, failed=()).failure_limit)


def test_a_difference_is_of_the_means_strictly_below_the_level():
    far = around(900, 10, 8), around(100, 10, 8)
    p = make_statement("different", *far).p_mean
    words = [make_statement("different", *far, alpha=p * k).text for k in (1, 1.001)]
    assert words == [DIFFERENT_IN_DISTRIBUTION, DIFFERENT_IN_MEAN]


def test_tolerated_failure_rates_are_stated_as_a_range():
    def make(rate, text="equivalent unless more than"):
        return PairStatement(text, 1.0, rate)

    assert format_tolerated_failures([]) == ""
    assert format_tolerated_failures([make(0.5, "inconclusive")]) == ""
    some = [make(0.0312), make(0.129), make(0.004), make(0.9, "different")]
    assert format_tolerated_failures(some) == "0.4% to 12%"
    assert format_tolerated_failures(some[:1]) == "3%"
    assert format_tolerated_failures([make(0.031), make(0.039)]) == "3%"
