"""RQ1: verdicts against published numbers."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from parallax.analysis.data.load import load_runs
from parallax.analysis.data.published import read_table
from parallax.analysis.data.runs import CompletedRun, RunId, StudyCell
from parallax.analysis.report.sections.reproduction import answer_reproduction
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.verdicts.groups import ScoreGroup, group_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.reproduction import (
    _classify_difference,
    find_reproduction_caveats,
    judge_group_reproductions,
    judge_reproduction,
    moments_from_published,
)
from parallax.analysis.verdicts.study import group_published_scores, judge_runs

TARGET = next(
    row
    for row in read_table("thesis_targets")
    if (row.algorithm, row.env) == ("ppo", "HalfCheetah")
)
PAPER = dataclasses.replace(TARGET, spread=200.0, spread_kind="sd", trials=5)


@pytest.fixture
def group_of(results, make_run):
    def make(scores, **changes):
        settings_ = {"env": "HalfCheetah-v1", "algorithm": "ppo", "hps": "original", **changes}
        for seed, score in enumerate(scores):
            make_run(seed=seed, returns=[[score, score]], timesteps=[20_480], **settings_)
        (group,) = group_runs(load_runs(results))
        return group

    return make


@pytest.mark.parametrize(("trials", "sd"), [(0, None), (1, None), (2, 200.0), (5, 200.0)])
def test_two_published_trials_have_a_spread_and_one_has_none(trials, sd):
    moments = moments_from_published(dataclasses.replace(PAPER, trials=trials))
    assert moments.sd == sd if sd else math.isnan(moments.sd)


@pytest.mark.parametrize(
    ("shift", "word"), [(-500.0, "worse"), (0.0, "similar"), (30.0, "similar"), (500.0, "better")]
)
def test_verdicts_state_the_direction_of_the_difference(group_of, shift, word):
    scores = TARGET.mean + shift + 100 * np.array([-1.0, -0.5, 0, 0.5, 1])
    item = judge_reproduction(group_of(scores), TARGET, VerdictOptions())
    assert (item.verdict_thesis_interval, item.verdict_two_sided_test) == (word, word)
    assert item.difference == pytest.approx(shift, abs=1e-3)


@pytest.mark.parametrize(("seeds", "word"), [(1, ""), (2, "similar"), (3, "similar")])
def test_the_interval_of_the_thesis_needs_two_seeds(group_of, seeds, word):
    scores = TARGET.mean + np.array([-1.0, 1.0, 0.5])[:seeds]
    item = judge_reproduction(group_of(scores), TARGET, VerdictOptions())
    assert item.verdict_thesis_interval == word


@pytest.mark.parametrize(("distance", "word"), [(0.97, "similar"), (0.99, "better")])
def test_thesis_interval_of_two_seeds_is_98_percent_of_their_distance(group_of, distance, word):
    # The population's deviation of m - 1 and m + 1 is 1: the half-width is 1.96 / sqrt(2).
    scores = TARGET.mean + np.array([-1.0, 1.0]) + distance * 1.96 / math.sqrt(2) / 0.98
    scores = scores.astype(np.float32).astype(float)
    item = judge_reproduction(group_of(scores), TARGET, VerdictOptions())
    assert item.verdict_thesis_interval == word


@pytest.mark.parametrize(("share", "early"), [(1.0, False), (0.6, False), (0.4, True)])
def test_runs_of_less_than_half_of_the_published_steps_stop_early(group_of, share, early):
    row = dataclasses.replace(TARGET, steps=round(20_480 / share))
    assert (
        judge_reproduction(group_of([1.0, 2.0]), row, VerdictOptions()).has_stopped_early == early
    )


def test_the_page_makes_no_finding_of_runs_that_stop_early(group_of, results):
    group_of([1.0, 1.1, 1.2])  # far below the score after a million steps
    verdicts = judge_runs(load_runs(results), VerdictOptions())
    found = answer_reproduction(verdicts)
    assert not found.findings and "stop before half of the published steps" in found.headline.text


def test_thesis_verdict_uses_the_interval_of_the_thesis(group_of):
    scores = np.array([1500.0, 1600, 1700, 1800, 1650])
    half = 1.96 * scores.std() / math.sqrt(5)
    group = group_of(scores)
    for shift, word in ((-0.1, "similar"), (0.1, "worse")):
        row = dataclasses.replace(TARGET, mean=scores.mean() + half + shift)
        assert judge_reproduction(group, row, VerdictOptions()).verdict_thesis_interval == word


def test_without_a_published_spread_the_test_is_students(group_of):
    scores = np.array([1500.0, 1600, 1700, 1800, 1650])
    item = judge_reproduction(group_of(scores), TARGET, VerdictOptions())
    theirs = stats.ttest_1samp(scores, TARGET.mean)
    assert item.test == "one-sample t"
    assert item.p == pytest.approx(theirs.pvalue, rel=1e-6)
    low, high = theirs.confidence_interval(0.95)
    assert (item.low, item.high) == pytest.approx((low - TARGET.mean, high - TARGET.mean))


@pytest.mark.parametrize(("kind", "factor"), [("sd", 1.0), ("population sd", math.sqrt(5 / 4))])
def test_with_a_published_spread_the_test_is_welchs(group_of, kind, factor):
    scores = np.array([1500.0, 1600, 1700, 1800, 1650])
    row = dataclasses.replace(PAPER, spread_kind=kind)
    item = judge_reproduction(group_of(scores), row, VerdictOptions())
    theirs = stats.ttest_ind_from_stats(
        scores.mean(), scores.std(ddof=1), 5, row.mean, 200 * factor, 5, equal_var=False
    )
    assert item.test == "welch"
    assert item.p == pytest.approx(theirs.pvalue)


def test_single_seed_has_a_difference_and_no_verdict(group_of):
    item = judge_reproduction(group_of([1500.0]), TARGET, VerdictOptions())
    assert (item.verdict_thesis_interval, item.verdict_two_sided_test) == ("", "")
    assert item.difference == pytest.approx(-300)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"variant": "learning_rate=0.01"}, "here with learning_rate=0.01"),
        ({"variant": "intervention=no-grad-clip"}, "here with intervention=no-grad-clip"),
        ({"variant": "replay=per"}, "here with replay=per"),
        ({}, ""),
    ],
)
def test_changed_settings_are_caveats_of_a_reproduction(group_of, results, changed, text):
    group = group_of([1500.0, 1600])
    name, _, value = changed.get("variant", "").partition("=")
    spec = {
        "learning_rate": {"overridden": [name], "hyperparameters": {name: 0.01}},
        "replay": {"replay": {"name": value}},
        "": {},
    }.get(name, {name: value})
    runs = tuple(dataclasses.replace(run, spec={**run.spec, **spec}) for run in group.runs)
    group = dataclasses.replace(group, runs=runs)
    found = "; ".join(judge_reproduction(group, TARGET, VerdictOptions()).caveats)
    assert found.endswith(text) and ("here with" in found) == bool(text)
    verdicts = judge_runs(load_runs(results), VerdictOptions())
    items = [dataclasses.replace(item, group=group) for item in verdicts.reproduction]
    page = answer_reproduction(dataclasses.replace(verdicts, reproduction=tuple(items)))
    assert ("other settings than the recipe's" in page.headline.text) == bool(text)


def test_differences_in_protocol_are_named(group_of):
    item = judge_reproduction(
        group_of([1500.0, 1600], env="HalfCheetah-v4"), TARGET, VerdictOptions()
    )
    text = "; ".join(item.caveats)
    assert "last 100 training episodes" in text
    assert "task v1 against v4" in text
    assert "published at 1,000,000 steps; here at 20,480" in text
    same = dataclasses.replace(TARGET, statistic="last evaluation", version="v4", steps=20_480)
    assert judge_reproduction(item.group, same, VerdictOptions()).caveats == ()


def run_at(timesteps, returns, seed=0):
    cell = StudyCell("s", "HalfCheetah-v1", "ppo", "original", "")
    results = np.array(returns, dtype=np.float64)[:, None]
    steps = np.array(timesteps)
    return CompletedRun(RunId(cell, "sb3", seed), None, steps, results, np.ones_like(results), {})


@given(
    steps=st.lists(st.integers(1, 3_000_000), min_size=1, max_size=8, unique=True).map(sorted),
    target=st.integers(1, 3_000_000),
)
@settings(max_examples=50, deadline=None)
def test_the_evaluation_nearest_to_the_published_step_is_used(steps, target):
    run = run_at(steps, np.arange(len(steps)))
    scores = np.array([run.final_score])
    group = ScoreGroup(
        run.id.cell, "sb3", compute_moments(scores), 0.0, scores, (run,), 1, 1, (steps[-1],)
    )
    found = group.score_at_step(target)
    (at,) = found.steps
    assert abs(at - target) == min(abs(step - target) for step in steps)
    assert found.scores[0] == steps.index(at)


def test_only_original_hyperparameters_are_compared_with_the_papers(results, make_run):
    for hps in ("original", "sb3"):
        for seed in range(3):
            make_run(env="HalfCheetah-v4", hps=hps, seed=seed, score=1800 + seed)
    items = judge_group_reproductions(group_runs(load_runs(results)), VerdictOptions())
    tables = {hps: set() for hps in ("original", "sb3")}
    for item in items:
        tables[item.group.cell.hps].add(item.published.table)
    assert "thesis_targets" in tables["original"]
    assert tables["sb3"] == {"thesis_tables"}


def test_settings_without_complete_runs_have_no_verdict(results, make_run):
    make_run(env="HalfCheetah-v4", status="failed")
    assert judge_runs(load_runs(results), VerdictOptions()).reproduction == ()


def test_unknown_conditions_of_a_published_number_are_named(group_of):
    group = group_of([1500.0, 1600], env="mine:T")
    row = dataclasses.replace(TARGET, statistic="", version="", steps=10)
    assert find_reproduction_caveats(group, row) == (
        "published: unknown statistic; here: last evaluation",
        "published at 10 steps; here at 20,480",
    )
    versioned = dataclasses.replace(row, version="v1", statistic="last evaluation", steps=20_480)
    assert find_reproduction_caveats(group, versioned) == ("task v1 against unversioned",)
    cell = dataclasses.replace(group.cell, env="HalfCheetah-v4")
    several = dataclasses.replace(group, cell=cell, steps=(1_000, 20_480, 30_000))
    text = "published at 20,480 steps; here at 1,000 to 30,000"
    plain = dataclasses.replace(row, statistic="last evaluation", steps=20_480)
    assert find_reproduction_caveats(several, plain) == ("task unknown version against v4", text)
    assert find_reproduction_caveats(dataclasses.replace(group, steps=()), plain) == ()


@pytest.mark.parametrize(("steps", "early"), [((500, 499), False), ((499,), True), ((), False)])
def test_half_of_the_published_steps_are_not_early(group_of, steps, early):
    group = dataclasses.replace(group_of([1.0, 2.0]), steps=steps)
    row = dataclasses.replace(TARGET, steps=1_000)
    assert judge_reproduction(group, row, VerdictOptions()).has_stopped_early is early


@pytest.mark.parametrize(
    ("difference", "p", "word"),
    [(0.5, 0.049, "better"), (-0.5, 0.049, "worse"), (5.0, 0.05, "similar"), (5.0, math.nan, "")],
)
def test_words_of_the_test_need_a_p_value_below_the_level(difference, p, word):
    assert _classify_difference(difference, p, 0.05) == word


def test_published_table_is_not_a_target_of_itself():
    groups = group_published_scores("thesis_tables")
    own = [one for one in groups if one.framework == "sb3" and one.cell.hps == "original"]
    found = judge_group_reproductions(own, VerdictOptions())
    assert found and "thesis_tables" not in {item.published.table for item in found}
    moved = [dataclasses.replace(one, cell=dataclasses.replace(one.cell, study="s")) for one in own]
    tables = {item.published.table for item in judge_group_reproductions(moved, VerdictOptions())}
    assert tables == {"thesis_tables"} | {item.published.table for item in found}
    empty = [dataclasses.replace(one, moments=compute_moments(np.zeros(0))) for one in own]
    assert judge_group_reproductions(empty, VerdictOptions()) == ()
