"""The endpoint that a study is judged by, and the scales of its scores."""

from pathlib import Path

import numpy as np
import pytest
from score_groups import make_curve_run

from parallax.analysis.data.published import (
    get_do_nothing_score,
    get_random_score,
    get_reference_score,
    get_solved_score,
)
from parallax.analysis.data.runs import LoadedRuns, StudyCell
from parallax.analysis.verdicts.endpoints import (
    find_reference_means,
    find_score_scale,
    find_solved_scale,
    find_task_scale,
    measure_untrained,
    settle_options,
)
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.harness.record.run_json import ReferenceReturns

MINE = StudyCell("s", "mine:T", "ppo", "original", "")
HOPPER = StudyCell("s", "Hopper-v4", "ppo", "original", "")


def load(*endpoints, cell=MINE):
    runs = [
        make_curve_run(cell, "sb3", seed, [100], [1.0], spec={"endpoint": name} if name else {})
        for seed, name in enumerate(endpoints)
    ]
    return LoadedRuns(Path(), tuple(runs), ())


@pytest.mark.parametrize(
    ("recorded", "requested", "endpoint", "source"),
    [
        ((), "", "final", "the default of runs whose configuration names none"),
        (("", ""), "", "final", "the default of runs whose configuration names none"),
        (("auc", "auc"), "", "auc", "fixed in the study's configuration"),
        (("auc", "auc"), "auc", "auc", "fixed in the study's configuration"),
        (("final", ""), "final", "final", "fixed in the study's configuration"),
        (
            *(("auc",), "last-3", "last-3"),
            "chosen for this report; the study's configuration has auc",
        ),
        ((), "auc", "auc", "chosen for this report; the study's configuration has final"),
        (
            *(("auc", "", ""), "", "final"),
            "runs were started with different endpoints: auc (1 runs), final (2 runs)",
        ),
        (
            *(("final", "auc"), "final", "final"),
            "chosen for this report; the study's configuration has auc and final",
        ),
    ],
)
def test_every_page_states_who_chose_the_endpoint(recorded, requested, endpoint, source):
    found = settle_options(load(*recorded), VerdictOptions(endpoint=requested))
    assert (found.endpoint, found.endpoint_source) == (endpoint, source)
    assert settle_options(load("auc", ""), found) is found


def test_an_unknown_endpoint_is_refused_before_anything_is_judged():
    with pytest.raises(ValueError, match="endpoint='best' is not known"):
        settle_options(load("best"), VerdictOptions())


def test_untrained_policies_are_the_evaluations_at_step_0_of_real_runs():
    runs = [
        make_curve_run(MINE, "sb3", 0, [0, 100], [[1, 3], [9, 9]]),
        make_curve_run(MINE, "sb3", 1, [0, 100], [[5, 7], [9, 9]]),
        make_curve_run(MINE, "sb3", 2, [100, 200], [[50, 50], [9, 9]]),
        make_curve_run(MINE, "sb3", 3, [0, 100], [[50, 50], [9, 9]], is_imputed=True),
    ]
    found = measure_untrained(runs)
    assert (found.name, found.mean, float(found.moments.n)) == ("untrained policy", 4.0, 2.0)
    assert found.source == "evaluations at step 0 of 2 runs"
    assert float(found.moments.sd) == pytest.approx(np.sqrt(8))
    assert measure_untrained(runs[:1]).source == "evaluations at step 0 of 1 run"
    assert measure_untrained(runs[2:]) is None


def test_references_measured_with_runs_are_used_for_unpublished_versions():
    measured = {
        "random actions": ReferenceReturns(2.0, 1.0, 4),
        "do nothing": ReferenceReturns(3.0, 1.0, 4),
    }
    items = []
    for cell, start in ((MINE, 5.0), (HOPPER, 6.0)):
        items.append(make_curve_run(cell, "sb3", 0, [0, 9], [start, 9.0], references=measured))
    found = settle_options(LoadedRuns(Path(), tuple(items), ()), VerdictOptions()).references
    assert found == (
        ("mine:T", "do nothing", 3.0, "4 episodes, with 1 run"),
        ("mine:T", "random actions", 2.0, "4 episodes, with 1 run"),
        ("mine:T", "untrained policy", 5.0, "evaluations at step 0 of 1 run"),
    )
    options = VerdictOptions(references=found)
    assert find_reference_means("mine:T", options) == {
        name: (mean, source) for _, name, mean, source in found
    }
    assert find_reference_means("Hopper-v4", options) == {
        "random actions": get_random_score("Hopper-v4"),
        "do nothing": get_do_nothing_score("Hopper-v4"),
    }


def make_options(low, high, nothing=7.0, **more):
    known = (("mine:T", "random actions", 5.0, "a"), ("mine:T", "do nothing", nothing, "b"))
    return VerdictOptions(references=known, ranges=(("mine:T", low, high),), **more)


@pytest.mark.parametrize(
    ("low", "nothing", "zero", "name"),
    [
        (0.0, 7.0, 7.0, "doing nothing, measured with the runs"),
        (0.0, 4.0, 5.0, "random actions, measured with the runs"),
        (9.0, 7.0, 9.0, "the lower end of the range given"),
    ],
)
def test_scale_is_zero_at_the_best_untrained_policy(low, nothing, zero, name):
    found = find_task_scale(MINE, make_options(low, 20.0, nothing))
    assert (found.zero, found.one, found.width) == (zero, 20.0, 20.0 - zero)
    assert found.source == f"0: {name}; 1: given"


def test_a_scale_must_rise():
    assert find_task_scale(MINE, make_options(0.0, 7.0)) is None
    assert find_task_scale(MINE, make_options(0.0, 7.001)).one == 7.001
    no_top = VerdictOptions(references=make_options(0, 1).references)
    assert find_task_scale(MINE, no_top) is None
    only_range = VerdictOptions(ranges=(("mine:T", 1.0, 3.0),))
    assert find_task_scale(MINE, only_range).source == (
        "0: the lower end of the range given; 1: given"
    )


def test_scale_is_one_at_the_published_or_solved_score():
    nothing, solved = get_do_nothing_score("Hopper-v4"), get_solved_score("Hopper-v4")
    published = get_reference_score("ppo", "Hopper-v4")
    task, best = (find(HOPPER, VerdictOptions()) for find in (find_task_scale, find_solved_scale))
    assert task.zero == best.zero == nothing[0]
    assert (task.one, task.source) == (published[0], f"0: doing nothing; 1: {published[1]}")
    assert (best.one, best.source) == (solved[0], f"0: doing nothing; 1: {solved[1]}")
    swimmer = StudyCell("s", "Swimmer-v4", "ppo", "original", "")  # it has no solved score
    assert find_solved_scale(swimmer, VerdictOptions()) == find_task_scale(
        swimmer, VerdictOptions()
    )
    steps = find_score_scale(MINE, VerdictOptions(endpoint="steps-90"))
    assert (steps.zero, steps.one, steps.source) == (0.0, 1.0, "share of training that is left")
    assert find_score_scale(HOPPER, VerdictOptions()) == task
