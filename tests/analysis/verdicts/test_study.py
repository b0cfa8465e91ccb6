"""Selections of a study's verdicts that pages and figures share, and results of tables."""

import dataclasses
import types
from pathlib import Path

import numpy as np
import pytest
from score_groups import make_curve_run, make_score_group

from parallax.analysis.data.runs import ExcludedRun, LoadedRuns, RunId, StudyCell
from parallax.analysis.labels import LIBRARY_DEFAULTS
from parallax.analysis.stats.intervals import compute_interval
from parallax.analysis.stats.moments import moments_from_thesis_interval
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.references import LEARNED, NOT_SHOWN
from parallax.analysis.verdicts.study import (
    StudyResults,
    StudyVerdicts,
    is_ranking_of,
    judge_runs,
    judge_study,
    results_from_published,
)

MAIN = StudyCell("s", "A-v1", "ppo", "original", "v")
SIDE = dataclasses.replace(MAIN, variant="v,intervention=x")
OWN = dataclasses.replace(MAIN, hps="sb3")
DEFAULTS = dataclasses.replace(MAIN, hps=LIBRARY_DEFAULTS)
OPTIONS = VerdictOptions(ranges=(("A-v1", 0.0, 10.0),), resamples=50)


def make_group(cell, framework, n=3, **changes):
    group = make_score_group(cell, framework, np.arange(float(n)), {})
    return dataclasses.replace(group, **changes)


GROUPS = (
    make_group(MAIN, "sb3"),
    make_group(MAIN, "cleanrl"),
    make_group(OWN, "sb3"),
    make_group(OWN, "cleanrl"),
    make_group(SIDE, "sb3", 2),
)


def make_item(cell, first=GROUPS[0], second=GROUPS[1], **more):
    return types.SimpleNamespace(cell=cell, first=first, second=second, **more)


def make_verdicts(groups=GROUPS, **changes):
    names = ("reproduction", "consistency", "defaults", "rankings", "omnibus", "pooled", "paired")
    names += ("vs_random", "learning", "suites", "all_alike", "evaluation_noise")
    parts = dict.fromkeys(names, ()) | {"options": OPTIONS} | changes
    return StudyVerdicts(tuple(groups), **parts)


def make_ranking(variant, *algorithms):
    return types.SimpleNamespace(study="s", algorithms=algorithms, variant=variant)


def test_side_experiments_are_separated_from_the_main_variant():
    pairs = make_item(MAIN), make_item(SIDE), make_item(OWN)
    defaults = make_item(DEFAULTS), make_item(dataclasses.replace(DEFAULTS, variant="w"))
    rankings = make_ranking("v", "ppo", "sac"), make_ranking("w", "ppo")
    omnibus = [types.SimpleNamespace(study="s", algorithm="ppo", variant=v) for v in ("v", "w")]
    found = make_verdicts(
        consistency=pairs, defaults=defaults, rankings=rankings, omnibus=tuple(omnibus)
    )
    assert found.main_variants == {("s", "ppo", "v")}
    assert found.main_cells == {MAIN, OWN, DEFAULTS}
    assert found.main_consistency == (pairs[0], pairs[2])
    assert found.main_defaults == defaults[:1] and found.main_rankings == rankings[:1]
    assert found.omnibus_by_variant == {("s", "ppo", one.variant): one for one in omnibus}
    only_side = make_verdicts(consistency=pairs[1:2], rankings=rankings[1:], defaults=defaults[1:])
    assert only_side.main_consistency == pairs[1:2] and only_side.main_rankings == rankings[1:]
    assert only_side.main_defaults == ()
    assert is_ranking_of(rankings[0], frozenset({("s", "sac", "v")}))
    assert not is_ranking_of(rankings[0], frozenset({("s", "sac", "w"), ("t", "ppo", "v")}))


def test_groups_are_found_by_setting_and_under_library_defaults():
    learned = [
        types.SimpleNamespace(
            group=group, verdict=LEARNED if group.framework == "sb3" else NOT_SHOWN
        )
        for group in GROUPS
    ]
    found = make_verdicts(vs_random=tuple(learned), learning=tuple(learned[:2]))
    assert found.group_by_key == {(group.cell, group.framework): group for group in GROUPS}
    assert found.groups_by_cell == {
        MAIN: GROUPS[:2],
        OWN: GROUPS[2:4],
        DEFAULTS: GROUPS[2:3],
        SIDE: GROUPS[4:],
    }
    assert list(found.groups_by_cell) == sorted(found.groups_by_cell)
    assert found.vs_random_by_cell[DEFAULTS] == (learned[2],)
    assert found.learning_by_cell == {MAIN: tuple(learned[:2])}
    assert (found.learned, found.not_learned) == ({(MAIN, "sb3")}, {(MAIN, "cleanrl")})


def test_pairs_in_which_a_training_failed_are_shown_again():
    failed = make_group(MAIN, "sb3", failed=1)
    items = [make_item(MAIN), make_item(MAIN, failed), make_item(MAIN, GROUPS[1], failed)]
    treated = make_verdicts(consistency=tuple(items[:2]), defaults=tuple(items[2:]))
    found = make_verdicts(with_failed_runs=treated)
    assert found.intention_to_treat == (items[1], items[2])
    assert found.suite_intention_to_treat == () == make_verdicts().intention_to_treat


def make_results(verdicts, *keys, **changes):
    nothing = LoadedRuns(Path(), (), ())
    return StudyResults(nothing, verdicts, dict.fromkeys(keys), {}, {}, "t", **changes)


def test_parts_and_variants_have_their_settings_pairs_and_names():
    sac = dataclasses.replace(MAIN, algorithm="sac")
    other = dataclasses.replace(MAIN, study="t", variant="")
    groups = [*GROUPS, make_group(sac, "sb3"), make_group(other, "sb3")]
    pairs = make_item(MAIN), make_item(SIDE), make_item(sac)
    verdicts = make_verdicts(groups, consistency=pairs)
    found = make_results(verdicts, *((group.cell, group.framework) for group in groups))
    assert [(p.study, p.algorithm, p.variant) for p in found.parts] == [
        *(("s", "ppo", "v"), ("s", "ppo", SIDE.variant), ("s", "sac", "v"), ("t", "ppo", ""))
    ]
    first = found.parts[0]
    assert (first.cells, first.pairs) == ((MAIN, OWN), pairs[:1])
    assert [part.suffix for part in found.parts] == [
        *(("s", ""), ("s", "intervention=x"), ("s", ""), ("t", ""))
    ]
    assert [part.context for part in found.parts[2:]] == ["study s, v", "study t"]
    assert list(found.variants) == [("s", "v"), ("s", SIDE.variant), ("t", "")]
    whole = found.variants["s", "v"]
    assert (whole.algorithm, whole.cells, whole.pairs) == ("", (MAIN, OWN, sac), ())
    assert found.groups is verdicts.group_by_key and found.means_with_failed_runs == {}


def test_setting_lists_frameworks_with_a_complete_or_failed_run():
    groups = [make_group(MAIN, "sb3", 2), make_group(MAIN, "skrl", 0), make_group(SIDE, "skrl", 0)]
    groups += [make_group(OWN, "sb3", 2)]
    treated = [dataclasses.replace(one, scores=None) for one in groups]
    for place in (1, 2):
        treated[place] = make_group(groups[place].cell, "skrl", 2)
    verdicts = make_verdicts(groups, with_failed_runs=make_verdicts(treated))
    found = make_results(verdicts, (MAIN, "sb3"), (OWN, "sb3"))
    assert found.means_with_failed_runs == {(MAIN, "skrl"): 0.5, (SIDE, "skrl"): 0.5}
    assert found.framework_cells == {
        MAIN: {"sb3": MAIN, "skrl": MAIN},
        OWN: {"sb3": OWN},
        DEFAULTS: {"sb3": OWN},
    }
    assert [list(names) for names in found.framework_cells.values()] == [
        *(["sb3"], ["sb3", "skrl"], ["sb3"])
    ]


def test_results_of_a_table_have_the_intervals_that_it_prints():
    printed = moments_from_thesis_interval(np.array(7.0), np.array(2.5), np.array(5.0))
    verdicts = make_verdicts([make_group(MAIN, "sb3", moments=printed, runs=(), scores=None)])
    found = results_from_published(verdicts)
    interval = found.finals[MAIN, "sb3"]
    ends = interval.mean, interval.low, interval.high
    assert ends == pytest.approx((7.0, 4.5, 9.5)) and (interval.n, found.method) == (5, "thesis")
    curve = found.curves[MAIN, "sb3"]
    assert (curve.framework, curve.seeds, len(curve.steps), curve.left_out) == ("sb3", (), 0, 0)
    assert [len(part) for part in (curve.mean, curve.low, curve.high)] == [0] * 3
    assert found.loaded.requested == 0 and interval.method == "thesis"
    assert found.bounds == {"A-v1": (0.0, 10.0)}


def make_study():
    runs = [
        make_curve_run(MAIN, name, seed, [100, 200], [0.0, 4.0 + seed + gap])
        for name, gap in (("sb3", 0), ("cleanrl", 3))
        for seed in range(3)
    ]
    failed = ExcludedRun(RunId(MAIN, "sb3", 9), Path("gone"), "broke", failed=True)
    return LoadedRuns(Path(), tuple(runs), (failed,))


@pytest.mark.parametrize("method", ["t", "bootstrap"])
def test_a_study_is_judged_once_with_and_without_its_failed_runs(method):
    loaded = make_study()
    found = judge_study(loaded, OPTIONS, method)
    verdicts = found.verdicts
    assert not verdicts.counts_failed_runs and verdicts.with_failed_runs.counts_failed_runs
    (pair,), (treated,) = verdicts.consistency, verdicts.intention_to_treat
    assert (pair.second.n, treated.second.n) == (3, 4)
    assert treated.second.scores.tolist() == [4.0, 5.0, 6.0, 0.0]
    assert found.means_with_failed_runs == {(MAIN, "sb3"): 3.75}
    assert list(found.curves_with_failed_runs) == [(MAIN, "sb3")]
    assert list(found.curves) == [(MAIN, "cleanrl"), (MAIN, "sb3")]
    assert found.curves[MAIN, "sb3"].mean.tolist() == [0.0, 5.0]
    assert {curve.seeds for curve in found.curves.values()} == {()}
    assert (found.bounds, found.method, found.loaded) == ({"A-v1": (0.0, 10.0)}, method, loaded)
    final = found.finals[MAIN, "sb3"]
    assert (final.mean, final.n, final.method) == (5.0, 3, method)
    if method == "t":
        assert final == compute_interval([4.0, 5.0, 6.0])
    (part,) = found.parts
    assert [item.hps for item in part.overall] == ["original"]
    assert list(part.overall_with_failed_runs) == ["original"]
    assert part.overall[0].aggregates.point[1, 2] == pytest.approx(0.5)
    assert part.overall_with_failed_runs["original"].aggregates.point[1, 2] == pytest.approx(0.375)
    whole = LoadedRuns(Path(), loaded.runs, ())
    assert judge_runs(whole, OPTIONS).with_failed_runs is None
    plain = judge_study(whole, OPTIONS)
    assert plain.curves_with_failed_runs == plain.means_with_failed_runs == {}
    assert plain.parts[0].overall_with_failed_runs == {}
    assert plain.verdicts.suites == () and plain.levels == plain.crossed == ()
