"""Looking after every batch of seeds without more false positives."""

import dataclasses
import math
import re
from pathlib import Path

import numpy as np
import pytest
import support
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.report.sections.pair_tables import make_sequential_table
from parallax.analysis.report.tables import list_csv_values
from parallax.analysis.stats import two_sample as pairwise
from parallax.analysis.stats.moments import SampleMoments, compute_moments, stack_moments
from parallax.analysis.stats.multiple_testing import (
    adjust_holm,
    compute_nominal_levels,
    compute_one_sided_sequential_p,
    compute_sequential_p,
)
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.sequential import SequentialSchedule, judge_sequentially

SIZES = (5, 10, 15, 20, 25, 30)


def group(framework, scores, env="Hopper-v4"):
    scores = np.asarray(scores, dtype=np.float64)
    cell = StudyCell("study", env, "ppo", "original", "")
    return ScoreGroup(
        cell, framework, compute_moments(scores), 0.0, scores, (), len(scores), len(scores), (100,)
    )


def brownian(repeats, checks=6, drift=0.0):
    """float[checks, repeats], z-values after each of as many equal steps."""
    steps = np.random.default_rng(0).normal(drift, 1, size=(checks, repeats))
    return steps.cumsum(axis=0) / np.sqrt(np.arange(1, checks + 1))[:, None]


def test_single_check_at_the_end_equals_the_fixed_test():
    assert compute_nominal_levels([30], 30, 0.05).item() == pytest.approx(0.05)
    assert compute_sequential_p([0.02], [30], 30) == pytest.approx(0.02, rel=1e-3)


def test_the_bounds_are_those_of_kim_and_demets():
    """Biometrika 74 (1987): linear spending of 5%, five looks."""
    bounds = stats.norm.isf(compute_nominal_levels(range(1, 6), 5, 0.05)[:, 0] / 2)
    np.testing.assert_allclose(bounds, [2.58, 2.49, 2.41, 2.34, 2.28], atol=0.005)


@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.005])
@pytest.mark.parametrize("sizes", [SIZES, (5, 30), (3, 4, 20, 22, 30)])
def test_exactly_the_whole_level_is_spent(alpha, sizes):
    repeats = 200_000
    rng = np.random.default_rng(1)
    steps = np.diff([0, *sizes])
    sums = (rng.normal(size=(len(sizes), repeats)) * np.sqrt(steps)[:, None]).cumsum(axis=0)
    p = 2 * stats.norm.sf(np.abs(sums) / np.sqrt(sizes)[:, None])
    rejected = (p < compute_nominal_levels(sizes, 30, alpha)).any(axis=0)
    error = 4 * math.sqrt(alpha / repeats)
    assert abs(rejected.mean() - alpha) < error
    assert abs((compute_sequential_p(p, sizes, 30) < alpha).mean() - alpha) < error


def test_one_sided_p_values_spend_the_level():
    p = stats.norm.sf(brownian(100_000))
    assert abs((compute_one_sided_sequential_p(p, SIZES, 30) < 0.05).mean() - 0.05) < 0.003


def test_a_study_that_stops_half_way_has_spent_half():
    p = 2 * stats.norm.sf(np.abs(brownian(200_000, checks=3)))
    assert (compute_sequential_p(p, SIZES[:3], 30) < 0.05).mean() == pytest.approx(
        0.025, abs=0.0015
    )


@given(p=st.lists(st.floats(1e-9, 1), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_further_checks_never_reverse_a_decision(p):
    sizes = SIZES[: len(p)]
    values = [float(compute_sequential_p(p[: k + 1], sizes[: k + 1], 30)) for k in range(len(p))]
    assert values == sorted(values, reverse=True)
    assert all(value >= min(p[: k + 1]) * 0.999 for k, value in enumerate(values))


@pytest.mark.parametrize("sizes", [(), (0, 5), (5, 5), (10, 5), (5, 35)])
def test_invalid_check_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match="must increase"):
        compute_sequential_p(np.ones(len(sizes)), sizes, 30)


def test_checks_without_a_test_are_skipped():
    assert compute_sequential_p([np.nan, 0.001], (5, 10), 30) < 0.01
    assert np.isnan(compute_sequential_p([np.nan, np.nan], (5, 10), 30))


@pytest.mark.parametrize(("batch", "most"), [(1, 30), (5, 4), (5, 12)])
def test_batch_size_must_fit_the_schedule(batch, most):
    with pytest.raises(ValueError, match="multiple"):
        SequentialSchedule(batch, most)


def test_degrees_of_freedom_of_the_smallest_sample_are_conservative():
    rng = np.random.default_rng(0)
    first = stack_moments([compute_moments(rng.normal(size=5)) for _ in range(3)])
    second = stack_moments([compute_moments(rng.normal(size=9)) for _ in range(3)])
    item = pairwise.compute_contrast([first], [second])
    careful = pairwise.use_smallest_degrees_of_freedom(item, [first, second])
    assert careful.degrees_of_freedom.tolist() == [4, 4, 4]
    assert (pairwise.compute_two_sided_p(careful) >= pairwise.compute_two_sided_p(item)).all()


def test_far_tails_hold_with_unequal_deviations():
    """Cases in which Welch's test rejects 2.5 times too often."""
    rng = np.random.default_rng(0)
    values = [scale * rng.normal(size=(5, 400_000)) for scale in (1, 4)]
    n = np.full(400_000, 5.0)
    samples = [SampleMoments(x.mean(axis=0), x.std(axis=0, ddof=1), n) for x in values]
    item = pairwise.compute_contrast(samples[:1], samples[1:])
    level = 0.00035
    welch = (pairwise.compute_two_sided_p(item) < level).mean()
    careful = (
        pairwise.compute_two_sided_p(pairwise.use_smallest_degrees_of_freedom(item, samples))
        < level
    ).mean()
    assert welch > 1.8 * level
    assert careful < level


def test_clear_difference_is_found_after_one_whole_batch():
    rng = np.random.default_rng(0)
    scores = {"a": 100 + rng.normal(0, 1, 12), "b": 1200 + rng.normal(0, 1, 12)}
    (item,) = judge_sequentially(
        [group(name, values) for name, values in scores.items()],
        VerdictOptions(),
        SequentialSchedule(5, 20),
    )
    assert (item.verdict, item.check_sizes, item.next_check_size) == ("different", (5, 10), 0)
    (waiting,) = judge_sequentially(
        [group(name, values[:4]) for name, values in scores.items()],
        VerdictOptions(),
        SequentialSchedule(5, 20),
    )
    assert (waiting.verdict, waiting.check_sizes, waiting.next_check_size) == (
        "inconclusive",
        (),
        5,
    )


def test_equal_frameworks_are_equivalent_or_inconclusive_at_the_end():
    rng = np.random.default_rng(0)
    close = [group(name, 2000 + rng.normal(0, 10, 60)) for name in "ab"]
    (item,) = judge_sequentially(close, VerdictOptions(), SequentialSchedule(20, 60))
    assert item.verdict == "equivalent"
    (item,) = judge_sequentially(close, VerdictOptions(), SequentialSchedule(10, 20))
    assert item.verdict == "inconclusive"  # a failure rate of 14% is not excluded
    far = [group(name, 3000 + rng.normal(0, 2000, 20)) for name in "ab"]
    (item,) = judge_sequentially(far, VerdictOptions(), SequentialSchedule(5, 20))
    assert (item.verdict, item.next_check_size) == ("inconclusive", 0)


def test_seeds_beyond_the_last_whole_batch_change_nothing():
    rng = np.random.default_rng(3)
    scores = [rng.normal(1000, 100, 9), rng.normal(1100, 100, 9)]
    some, all_ = (
        judge_sequentially(
            [group(name, x[:n]) for name, x in zip("ab", scores, strict=True)],
            VerdictOptions(margin_share=0.01),
            SequentialSchedule(5, 30),
        )[0]
        for n in (5, 9)
    )
    assert (some.p, some.p_equivalence) == (all_.p, all_.p_equivalence)
    row = list_csv_values(make_sequential_table([all_]), all_)
    assert (row["first_used"], row["first_requested"]) == (5, 9)
    assert row["first_mean"] == pytest.approx(scores[0][:5].mean())


def test_holms_correction_runs_over_the_family():
    rng = np.random.default_rng(1)
    groups = [
        group(name, 1000 + shift + rng.normal(0, 100, 10), env)
        for env in ("Hopper-v4", "Walker2d-v4")
        for name, shift in (("a", 0), ("b", 150), ("c", 0))
    ]
    found = judge_sequentially(groups, VerdictOptions(), SequentialSchedule(5, 30))
    alone = [
        judge_sequentially([item.first, item.second], VerdictOptions(), SequentialSchedule(5, 30))[
            0
        ].p
        for item in found
    ]
    np.testing.assert_allclose([item.p for item in found], adjust_holm(alone))


@pytest.fixture(scope="module")
def script():
    return support.load_file(Path(__file__).parents[3] / "benchmarks" / "stopping_rule.py")


@pytest.fixture(scope="module")
def tables():
    """Every row of percentages in the section on stopping, by its first cell."""
    text = (Path(__file__).parents[3] / "docs" / "reference" / "simulations.md").read_text()
    section = text[text.index("`python benchmarks/stopping_rule.py` simulates") :]
    found = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and "%" in line:
            found.append((cells[0], [float(cell.rstrip("%")) for cell in cells[1:]]))
    return found


def test_the_script_makes_the_same_decisions_as_the_verdicts(script):
    rng = np.random.default_rng(5)
    first, second = rng.normal(0, 1, (2, 30, 20))
    _, item = script.compute_contrasts(first, second)
    expected = compute_sequential_p(pairwise.compute_two_sided_p(item), SIZES, 30)
    for i in range(20):
        pair = [group("a", first[:, i]), group("b", second[:, i])]
        (found,) = judge_sequentially(
            pair, VerdictOptions(margin_share=1e-6), SequentialSchedule(5, 30)
        )
        assert found.p == pytest.approx(expected[i], rel=1e-9)


def test_sequential_test_controls_the_error_that_repeated_testing_triples(script):
    """Without the permutation test, which can only lower the rate."""
    repeats = 8000
    for first, second in script.NULLS.values():
        rng = np.random.default_rng(6)
        welch, item = script.compute_contrasts(
            first(rng, (30, repeats)), second(rng, (30, repeats))
        )
        unguarded = (pairwise.compute_two_sided_p(welch) < 0.05).any(axis=0).mean()
        wrong = (compute_sequential_p(pairwise.compute_two_sided_p(item), SIZES, 30) < 0.05).mean()
        assert unguarded > 0.1
        assert wrong < 0.05 + 2 * math.sqrt(0.05 * 0.95 / repeats)


def test_error_rate_is_controlled_over_a_family_and_for_equivalence(script):
    slack = 2 * math.sqrt(0.05 * 0.95 / 3000)
    assert script.measure_family_rate(3000, (1, 2, 4)) < 0.05 + slack
    for draws in script.NULLS.values():
        assert script.measure_false_equivalences(draws, 3000)[-1] < 0.05 + slack


def test_document_tables_match_the_script_and_respect_the_level(script, tables):
    names, size = [name for name, _ in tables], 2 * len(script.NULLS)
    assert names[:size] == 2 * list(script.NULLS)
    for _, rates in tables[:size]:
        assert rates[1] > 10
        assert rates[-1] < 5.4
    assert names[size : size + 2] == list(script.SHAPES)
    gaps = {float(name): rates for name, rates in tables[size + 2 :]}
    once, found, seeds = script.measure_power(1.0, 2000)
    assert gaps[1.0] == pytest.approx([100 * once, 100 * found, seeds], abs=2.5)


def test_document_names_distributions_that_exceed_the_level(script, tables):
    """Equal means and unequal returns: one look at five seeds is enough to go wrong."""
    rates = dict(tables)["two-humped against steady"]
    rng = np.random.default_rng(7)
    first, second = (draw(rng, (30, 4000)) for draw in script.SHAPES["two-humped against steady"])
    _, item = script.compute_contrasts(first, second)
    wrong = (compute_sequential_p(pairwise.compute_two_sided_p(item), SIZES, 30) < 0.05).mean()
    assert rates[-1] == pytest.approx(100 * wrong, abs=6)
    single = stats.ttest_ind(first[:5], second[:5], equal_var=False).pvalue < 0.05
    assert single.mean() > 0.2


def test_family_rates_in_the_document_respect_the_level():
    text = (Path(__file__).parents[3] / "docs" / "reference" / "simulations.md").read_text()
    rates = re.findall(r"24 pairs.*?([\d.]+)%.*?([\d.]+)%", text.replace("\n", " "))
    assert len(rates) == 1
    assert all(float(rate) < 5.4 for rate in rates[0])


@pytest.mark.parametrize(("batch", "most"), [(1, 30), (5, 4), (5, 12)])
def test_invalid_schedule_error_names_valid_values(batch, most):
    with pytest.raises(ValueError, match="do not fit") as raised:
        SequentialSchedule(batch, most)
    assert str(raised.value) == (
        f"batch={batch} and max_seeds={most} do not fit: give a batch of at least 2 seeds and a "
        "multiple of it as max_seeds."
    )


def test_checks_are_after_each_whole_batch_up_to_the_end():
    schedule = SequentialSchedule(2, 6)
    assert [schedule.list_sizes(n) for n in (1, 2, 5, 6, 9)] == [
        *((), (2,), (2, 4), (2, 4, 6), (2, 4, 6))
    ]
    assert SequentialSchedule(2, 2).list_sizes(2) == (2,)


@pytest.mark.parametrize("n", [4, 7])
def test_a_single_check_is_students_test_the_bound_and_the_permutation_test(n):
    rng = np.random.default_rng(n)
    one, two = rng.normal(100, 5, n), rng.normal(900, 50, n + 2)
    pair = [group("a", one), group("b", two)]
    (item,) = judge_sequentially(pair, VerdictOptions(seed=2), SequentialSchedule(n, n))
    assert (item.verdict, item.next_check_size, item.check_sizes) == ("different", 0, (n,))
    first, second = one, two[:n]
    error = np.sqrt(first.var(ddof=1) / n + second.var(ddof=1) / n)
    t = abs(first.mean() - second.mean()) / error
    assert item.p == pytest.approx(2 * stats.t.sf(t, n - 1), rel=0.01)
    permutation = pairwise.compute_permutation_p(first, second, np.random.default_rng(2))
    assert item.p_permutation == pytest.approx(permutation, rel=0.01)
    assert item.p_equivalence == 1.0 and item.family == "all pairs of ppo in study study"
    (strict,) = judge_sequentially(
        pair, VerdictOptions(alpha=item.p * 0.99), SequentialSchedule(n, n)
    )
    assert strict.verdict == "inconclusive" and math.isnan(strict.p_permutation)
    (waits,) = judge_sequentially(
        pair, VerdictOptions(alpha=item.p * 0.99), SequentialSchedule(n, 2 * n)
    )
    assert (waits.next_check_size, waits.first, waits.second) == (2 * n, *pair)


def test_unchecked_pairs_do_not_count_in_their_family():
    rng = np.random.default_rng(0)
    groups = [group(name, rng.normal(100, 9, n)) for name, n in (("a", 6), ("b", 6), ("c", 2))]
    groups.append(ScoreGroup(**{**_fields(groups[0]), "framework": "d", "scores": None}))
    found = judge_sequentially(groups, VerdictOptions(), SequentialSchedule(3, 6))
    assert [(one.first.framework, one.second.framework) for one in found] == [
        *(("a", "b"), ("a", "c"), ("b", "c"))
    ]
    (alone,) = judge_sequentially(groups[:2], VerdictOptions(), SequentialSchedule(3, 6))
    assert found[0].p == alone.p and found[0].next_check_size == 0
    for item in found[1:]:
        assert math.isnan(item.p) and math.isnan(item.p_equivalence)
        assert (item.verdict, item.check_sizes, item.next_check_size) == ("inconclusive", (), 3)


def _fields(item):
    return {
        field.name: getattr(item, field.name) for field in dataclasses.fields(item) if field.init
    }


def test_p_values_at_the_level_decide_nothing():
    rng = np.random.default_rng(4)
    pair = [group("a", rng.normal(100, 5, 6)), group("b", rng.normal(900, 50, 6))]
    schedule = SequentialSchedule(6, 6)

    def judge(alpha):
        return judge_sequentially(pair, VerdictOptions(alpha=alpha), schedule)[0]

    first = judge(0.05)
    assert first.p < first.p_permutation < 0.05
    assert math.isnan(judge(first.p).p_permutation) and judge(first.p * 1.01).p_permutation > 0
    words = [judge(first.p_permutation * k).verdict for k in (1, 1.01)]
    assert words == ["inconclusive", "different"]
    pair = [group(name, rng.normal(2000, 10, 40)) for name in "ab"]
    schedule = SequentialSchedule(40, 40)
    level = judge(0.05).p_equivalence
    assert [judge(level * k).verdict for k in (1, 1.01)] == ["inconclusive", "equivalent"]
