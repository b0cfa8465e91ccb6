"""Levels of alignment: spreads by task, and the decomposition over tasks."""

import dataclasses

import numpy as np
import pytest
from loops import iterate_some
from score_groups import make_score_group

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.verdicts import alignment_levels
from parallax.analysis.verdicts.alignment_levels import (
    LEVELS,
    decompose_levels,
    judge_alignment_levels,
    list_level_spreads,
)
from parallax.analysis.verdicts.options import VerdictOptions

TASKS = ("CartPole-v1", "Pendulum-v1")
OPTIONS = VerdictOptions(ranges=(("CartPole-v1", 0, 500), ("Pendulum-v1", -1200, -150)))
SHIFTS = {"defaults": 0.2, "exact": 0.1, "lockstep": 0.0}


def make_group(generator, env, level, number, seeds=8, intervention="none"):
    low, high = {"CartPole-v1": (0, 500), "Pendulum-v1": (-1200, -150)}[env]
    share = 0.5 + number * SHIFTS[level] + 0.02 * generator.normal(size=seeds)
    scores = low + share * (high - low)
    cell = StudyCell("ladder", env, "ppo", "original", f"alignment={level}")
    spec = {"alignment": level, "steps": 1000, "intervention": intervention}
    return make_score_group(cell, f"f{number}", scores, spec)


def make_groups(levels=LEVELS, frameworks=4, **more):
    generator = np.random.default_rng(0)
    return [
        make_group(generator, env, level, number, **more)
        for env in TASKS
        for level in levels
        for number in range(frameworks)
    ]


def test_spreads_shrink_from_level_to_level():
    spreads = list_level_spreads(make_groups(), OPTIONS)
    assert [(s.task.env, s.level) for s in spreads] == [(e, x) for e in TASKS for x in LEVELS]
    by_level = {s.level: s.spread for s in spreads if s.task.env == "Pendulum-v1"}
    assert by_level["defaults"] > by_level["exact"] > by_level["lockstep"]
    assert by_level["defaults"] == pytest.approx(0.2 * np.std(range(4), ddof=1), rel=0.1)


def test_shares_are_those_of_the_levels():
    found = decompose_levels(
        list_level_spreads(make_groups(), OPTIONS), np.random.default_rng(1), resamples=200
    )
    # Variances between frameworks stand as 4 to 1 to 0.
    assert found.shares.shares.hyperparameters == pytest.approx(0.75, abs=0.05)
    assert found.shares.shares.code == pytest.approx(0.25, abs=0.05)
    assert abs(found.shares.shares.residual) < 0.01
    assert found.frameworks == ("f0", "f1", "f2", "f3")
    assert set(found.without_framework) == set(found.frameworks)
    assert {task.env for task in found.without_task} == set(TASKS)


def test_studies_of_one_level_have_no_levels():
    assert list_level_spreads(make_groups(levels=("exact",)), OPTIONS) == ()


def test_interventions_are_no_part_of_a_level():
    changed = make_groups(intervention="value-loss-x1")
    assert list_level_spreads(changed, OPTIONS) == ()


def test_a_framework_that_lacks_a_level_is_left_out():
    groups = [
        group
        for group in make_groups()
        if not (group.framework == "f3" and "lockstep" in group.cell.variant)
    ]
    found = decompose_levels(
        list_level_spreads(groups, OPTIONS), np.random.default_rng(1), resamples=50
    )
    assert found.frameworks == ("f0", "f1", "f2")
    few = [dataclasses.replace(group) for group in groups if group.framework == "f0"]
    assert decompose_levels(list_level_spreads(few, OPTIONS), np.random.default_rng(1)) is None


def test_sizes_name_the_smallest_and_the_largest_number_of_runs():
    generator = np.random.default_rng(0)
    groups = [
        make_group(generator, "Pendulum-v1", level, number, seeds=seeds)
        for level in LEVELS
        for number, seeds in enumerate((3, 5, 4))
    ]
    spread = list_level_spreads(groups, OPTIONS)[0]
    assert spread.format_sizes() == "n = 3 to 5 each" and spread.n == 12
    assert dataclasses.replace(spread, scores={}).format_sizes() == "n = 0"


def move_to_study(group, study):
    return dataclasses.replace(group, cell=dataclasses.replace(group.cell, study=study))


def test_every_study_with_several_levels_is_judged_by_itself():
    groups = make_groups()
    assert judge_alignment_levels(make_groups(levels=("exact",)), OPTIONS) == ()
    both = [*groups, *(move_to_study(group, "another") for group in groups)]
    first, second = judge_alignment_levels(both, OPTIONS)
    assert [{spread.task.study for spread in one.spreads} for one in (first, second)] == [
        {"another"},
        {"ladder"},
    ]
    assert first.endpoint == OPTIONS.chosen_endpoint.description
    assert first.frameworks == ["f0", "f1", "f2", "f3"] and len(first.by_task) == len(TASKS)
    # The same scores have the same intervals, whichever studies are judged beside them.
    (alone,) = judge_alignment_levels(groups, OPTIONS)
    intervals = [[spread.interval for spread in one.spreads] for one in (first, second, alone)]
    assert intervals[0] == intervals[1] == intervals[2]
    for spread in iterate_some(alone.spreads):
        assert spread.interval[0] <= spread.spread <= spread.interval[1]
        assert spread.interval[1] > 0
    assert alone.decomposition.shares.shares.hyperparameters == pytest.approx(0.75, abs=0.05)
    # The runs' own evaluations are all 0: without any variance, no share is known.
    assert alone.secondary is None
    assert sum(part for _, part in alone.decomposition.alone.values()) == pytest.approx(1)
    (other,) = judge_alignment_levels(groups, dataclasses.replace(OPTIONS, seed=7))
    assert [spread.interval for spread in other.spreads] != intervals[2]


def test_runs_of_a_task_without_a_scale_count_as_not_learned():
    (group, *_) = make_groups()
    assert alignment_levels._count_learned_runs(group, None, OPTIONS) == 0


def test_a_spread_of_single_seeds_has_no_interval():
    spreads = list_level_spreads(make_groups(seeds=1), OPTIONS)
    assert {spread.variance for spread in spreads} == {None}
    assert all(
        alignment_levels._add_interval(spread, np.random.default_rng(0)) is spread
        for spread in iterate_some(spreads)
    )


def test_half_of_the_trainings_may_fail():
    groups = [dataclasses.replace(group, failed=3) for group in make_groups(seeds=3)]
    spread = list_level_spreads(groups, OPTIONS)[0]
    assert {len(scores) for scores in spread.scores.values()} == {6} and len(spread.scores) == 4
    assert {tuple(scores[3:]) for scores in spread.scores.values()} == {(0.0, 0.0, 0.0)}
