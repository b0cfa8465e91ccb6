"""Frameworks compared seed by seed, and over all tasks."""

import dataclasses

import numpy as np
import pytest
from score_groups import make_curve_run, make_score_group

from parallax.analysis.data.load import load_runs
from parallax.analysis.data.published import get_do_nothing_score, get_random_score
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.report.sections.overall import (
    make_paired_table,
    make_pooled_table,
    make_pooled_tasks_table,
)
from parallax.analysis.report.tables import list_csv_values
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.stats.pooling import pool_differences
from parallax.analysis.stats.two_sample import compute_contrast
from parallax.analysis.verdicts.consistency import judge_consistency
from parallax.analysis.verdicts.groups import make_group
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.overall import (
    _index_by_initial_states,
    judge_paired_seeds,
    pool_pairs,
)
from parallax.analysis.verdicts.study import judge_runs

TASKS = ("Ant-v4", "HalfCheetah-v4", "Hopper-v4", "Walker2d-v4", "Swimmer-v4")
OPTIONS = VerdictOptions(resamples=50)


def judged(results):
    return judge_runs(load_runs(results), OPTIONS).consistency


def test_tasks_are_pooled_as_shares_of_the_way_to_the_published_score(results, make_run):
    for env in TASKS:
        for seed in range(3):
            make_run(env=env, framework="sb3", seed=seed, score=100 + 3 * seed)
            make_run(env=env, framework="cleanrl", seed=seed, score=90 + 2 * seed)
    items = judged(results)
    (pair,) = pool_pairs(items, OPTIONS)
    table = make_pooled_tasks_table([pair])
    rows = [list_csv_values(table, item) for item in table.items]
    assert [row["env"] for row in rows] == sorted(TASKS)
    for row, item in zip(rows, pair.items, strict=True):
        # One normalization for all pages: 0 is the better of doing nothing and random actions.
        random, nothing = get_random_score(item.cell.env), get_do_nothing_score(item.cell.env)
        way = item.margin.reference - max(random[0], nothing[0])
        assert row["difference"] == pytest.approx(item.difference / way)
        assert row["pooled_low"] < row["pooled"] < row["pooled_high"]
        assert row["tasks"] == 5
    assert len({row["mean_over_tasks"] for row in rows}) == 1
    assert pool_pairs([item for item in items if item.cell.env != "Ant-v4"], OPTIONS)
    assert not pool_pairs([item for item in items if item.cell.env in TASKS[:3]], OPTIONS)


def test_a_task_without_deviations_is_not_pooled(results, make_run):
    for env in TASKS:
        for seed in range(3):
            spread = 0 if env == "Ant-v4" else seed
            make_run(env=env, framework="sb3", seed=seed, score=100 + spread)
            make_run(env=env, framework="cleanrl", seed=seed, score=90 + spread)
    (pair,) = pool_pairs(judged(results), OPTIONS)
    assert "Ant-v4" not in [item.cell.env for item in pair.items]
    rows = [
        list_csv_values(table, item)
        for table in (make_pooled_table([pair]), make_pooled_tasks_table([pair]))
        for item in table.items
    ]
    assert {row["left_out"] for row in rows} == {"Ant-v4"}


def test_only_seeds_with_the_same_initial_states_are_paired(results, make_run):
    for seed in (0, 1, 2, 5):
        make_run(framework="sb3", seed=seed, score=100 + 10 * seed)
    for seed in (1, 2, 5, 7):
        make_run(framework="cleanrl", seed=seed, score=90 + 10 * seed + 0.1 * (seed == 2))
    (item,) = judged(results)
    (found,) = judge_paired_seeds([item])
    assert found.seeds == (1, 2, 5)
    assert found.result.difference == pytest.approx(-(10 - 0.1 / 3), abs=0.01)  # cleanrl is first
    assert found.result.p < 0.001 < item.p_welch
    row = list_csv_values(make_paired_table([found]), found)
    assert (row["pairs"], row["seeds"], row["n_first"]) == (3, "1 2 5", 4)
    assert row["correlation"] > 0.99
    for seed in range(3):
        make_run(env="Ant-v4", framework="sb3", seed=seed, evaluation_seed=0)
        make_run(env="Ant-v4", framework="cleanrl", seed=seed, evaluation_seed=1)
    ant = [item for item in judged(results) if item.cell.env == "Ant-v4"]
    assert judge_paired_seeds(ant) == ()
    assert np.isfinite(found.result.low)


UNKNOWN = tuple(f"Unknown{i}-v0" for i in range(4))
"""Tasks of which no score is known in advance."""


def judge_in_unit(unit, zero):
    """Judge made-up scores of four tasks in another unit, with the tasks' ranges in it."""
    generator, names = np.random.default_rng(5), ("sb3", "cleanrl", "torchrl")
    shifts = {"sb3": 0.0, "cleanrl": 0.1, "torchrl": 9.0}
    groups = [
        make_score_group(
            StudyCell("s", env, "ppo", "original", ""),
            name,
            zero + unit * (50 + shifts[name] + generator.normal(size=7)),
            {},
        )
        for env in UNKNOWN
        for name in names
    ]
    ranges = tuple((env, zero, zero + 100 * unit) for env in UNKNOWN)
    options = VerdictOptions(ranges=ranges, resamples=50, alpha=0.05)
    items = judge_consistency(groups, options)
    return items, pool_pairs(items, options)


@pytest.mark.parametrize(("unit", "zero"), [(0.004, 0.0), (1e-3, -0.5), (500.0, 1e4)])
def test_verdicts_do_not_depend_on_the_unit_of_returns(unit, zero):
    (plain, pooled), (scaled, pooled_scaled) = judge_in_unit(1.0, 0.0), judge_in_unit(unit, zero)
    assert {item.verdict for item in plain} == {"different", "inconclusive"}
    for one, other in zip(plain, scaled, strict=True):
        assert one.verdict == other.verdict
        for name in ("p_welch", "p_tost", "p_permutation", "p_unobserved_failures"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-6), name
        assert other.difference == pytest.approx(unit * one.difference)
        assert other.margin.size == pytest.approx(unit * one.margin.size)
    assert len(pooled) == len(pooled_scaled) == 3
    for one, other in zip(pooled, pooled_scaled, strict=True):
        assert (len(one.items), one.p_holm) == (4, pytest.approx(other.p_holm, abs=1e-6))
        pair = [np.hstack(dataclasses.astuple(item.pooled)) for item in (one, other)]
        assert pair[0] == pytest.approx(pair[1], rel=1e-6, abs=1e-9)


def test_scores_without_runs_share_no_seeds():
    cell = StudyCell("s", "A-v1", "ppo", "original", "")
    group = make_score_group(cell, "sb3", np.array([1.0, 2.0]), {"evaluation_seed": 3})
    assert _index_by_initial_states(group) == {(0, 3, 1, 1): 1.0, (1, 3, 1, 1): 2.0}
    assert _index_by_initial_states(dataclasses.replace(group, runs=())) == {}


def make_seeded(framework, scores, first=0, env="A-v1", evaluation_seed=0):
    cell = StudyCell("s", env, "ppo", "original", "")
    runs = [
        make_curve_run(
            cell, framework, seed, [100], [score], spec={"evaluation_seed": evaluation_seed}
        )
        for seed, score in enumerate(scores, first)
    ]
    return make_group(cell, framework, runs)


def test_pairs_of_seeds_are_corrected_over_those_of_the_family():
    groups = [
        make_seeded("a", [1.0, 5.0, 7.0, 9.0]),
        make_seeded("b", [2.0, 9.0, 9.0, 15.0]),
        make_seeded("c", [4.0, 3.0, 2.0], first=2),
        make_seeded("d", [4.0, 9.0], first=3),  # one seed in common with a and b
        *(make_seeded(name, [1.0, 5.0, shift], env="B-v1") for name, shift in (("a", 7), ("b", 9))),
    ]
    items = judge_consistency(groups, OPTIONS)
    found = judge_paired_seeds(items)
    places = [
        (one.item.cell.env, one.item.first.framework, one.item.second.framework, one.seeds)
        for one in found
    ]
    assert places == [
        ("A-v1", "a", "b", (0, 1, 2, 3)),
        ("A-v1", "a", "c", (2, 3)),
        ("A-v1", "b", "c", (2, 3)),
        ("A-v1", "c", "d", (3, 4)),
        ("B-v1", "a", "b", (0, 1, 2)),
    ]
    assert [one.p_holm for one in found] == pytest.approx(
        adjust_holm([one.result.p for one in found])
    )
    assert found[1].result.difference == np.mean([7 - 4, 9 - 3])
    assert judge_paired_seeds(()) == ()


def test_tasks_are_pooled_on_their_scales_and_corrected_by_algorithm():
    rng = np.random.default_rng(0)
    groups, envs = [], [f"T{i}-v1" for i in range(4)]
    for hps, count in (("x", 4), ("y", 4), ("z", 3)):
        for env in envs[:count]:
            cell = StudyCell("s", env, "ppo", hps, "v")
            for name in ("a", "b", "c"):
                groups.append(make_score_group(cell, name, rng.normal(100, 9, 5), {}))
    ranges = tuple((env, 0.0, 100.0 * (i + 1)) for i, env in enumerate(envs))
    options = VerdictOptions(ranges=ranges)
    items = judge_consistency(groups, options)
    found = pool_pairs(items, options)
    assert [(one.cell.hps, one.cell.env, len(one.items)) for one in found] == [
        *[("x", "", 4)] * 3,
        *[("y", "", 4)] * 3,
    ]
    assert {one.scales for one in found} == {(100.0, 200.0, 300.0, 400.0)}
    assert [one.p_holm for one in found] == pytest.approx(
        adjust_holm([one.pooled.p for one in found])
    )
    first, parts = found[0], []
    for item, scale in zip(first.items, first.scales, strict=True):
        both = item.first.scores / scale, item.second.scores / scale
        contrast = compute_contrast(*([compute_moments(scores)] for scores in both))
        parts.append((contrast.difference, contrast.error**2, contrast.degrees_of_freedom))
    expected = pool_differences(*np.array(parts, dtype=float).T)
    assert first.pooled.mean == pytest.approx(expected.mean) and first.pooled.p == pytest.approx(
        expected.p
    )
    assert first.pooled.lows == pytest.approx(expected.lows)
    plain = pool_pairs(judge_consistency(groups, VerdictOptions()), VerdictOptions())
    assert plain[0].scales == pytest.approx([item.margin.reference for item in plain[0].items])
    single = [make_score_group(one.cell, one.framework, one.scores[:1], {}) for one in groups]
    assert pool_pairs(judge_consistency(single[:12], options), options) == ()
