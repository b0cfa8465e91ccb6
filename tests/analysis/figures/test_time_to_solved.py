"""Share of runs that reached a threshold: censored and failed runs, and the figure."""

import dataclasses

import numpy as np
import pytest
from score_groups import make_score_group

from parallax.analysis.data.load import load_runs
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.figures.figure_spec import MissingFigure
from parallax.analysis.figures.time_to_solved import draw_reached_figure, make_reached_figure_specs
from parallax.analysis.stats.survival import estimate_survival
from parallax.analysis.verdicts.alignment_levels import (
    LevelResults,
    collect_reaching_times,
    list_level_spreads,
)
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_study

OPTIONS = VerdictOptions(ranges=(("Task-v0", 0, 100),))


def make_group(level, returns, failed=0):
    cell = StudyCell("ladder", "Task-v0", "ppo", "original", f"alignment={level}")
    spec = {"alignment": level, "steps": 300, "intervention": "none"}
    group = make_score_group(cell, "sb3", np.array([row[-1] for row in returns], float), spec)
    runs = tuple(
        dataclasses.replace(
            run, timesteps=np.array([100, 200, 300]), results=np.array(row, float)[:, None]
        )
        for run, row in zip(group.runs, returns, strict=True)
    )
    return dataclasses.replace(group, runs=runs, failed=failed)


RETURNS = [[0, 95, 95], [0, 50, 60], [95, 0, 95]]


@pytest.mark.parametrize(
    ("failed", "steps", "shares"), [(0, [100, 200], [1 / 3, 2 / 3]), (1, [100, 200], [0.25, 0.5])]
)
def test_runs_that_never_reach_the_threshold_count(failed, steps, shares):
    groups = [make_group(level, RETURNS, failed) for level in ("exact", "lockstep")]
    spread = list_level_spreads(groups, OPTIONS)[0]
    curve = estimate_survival(collect_reaching_times(spread.groups["sb3"], spread))
    assert list(curve.steps) == steps
    assert 1 - curve.share == pytest.approx(shares)


def test_a_level_without_runs_has_no_panel():
    groups = [make_group(level, RETURNS) for level in ("exact", "lockstep")]
    results = LevelResults(list_level_spreads(groups, OPTIONS), None, None, "return")
    own, exact, _ = draw_reached_figure(results).axes
    assert not own.texts and not own.lines and not own.axison
    assert [text.get_text() for text in exact.texts] == ["equal hyperparameters, n = 3"]
    (line,) = exact.lines
    assert list(line.get_xdata()) == [0, 100, 200, pytest.approx(309)]
    assert list(line.get_ydata()) == pytest.approx([0, 1 / 3, 2 / 3, 2 / 3])


def test_levels_have_curves_with_and_without_failed_runs():
    groups = [make_group(level, RETURNS, failed=1) for level in ("exact", "lockstep")]
    results = LevelResults(list_level_spreads(groups, OPTIONS), None, None, "return")
    _, exact, _ = draw_reached_figure(results).axes
    complete, treated = exact.lines
    assert complete.get_ydata()[-1] == pytest.approx(2 / 3) and complete.get_linestyle() != ":"
    assert treated.get_ydata()[-1] == pytest.approx(0.5) and treated.get_linestyle() == ":"


def test_an_endpoint_of_steps_has_a_panel_for_each_setting(results, make_run):
    for framework, at in (("sb3", 3), ("cleanrl", 8)):
        for seed in range(4):
            curve = np.zeros((12, 4))
            curve[at + seed % 2 :] = 3000.0
            make_run(seed=seed, framework=framework, env="Hopper-v4", returns=curve)
            make_run(seed=seed, framework=framework, env="Ant-v4", returns=2 * curve)
    make_run(seed=4, framework="sb3", env="Hopper-v4", status="failed")
    make_run(env="Walker2d-v4", framework="sb3")
    make_run(env="Ant-v4", framework="skrl", status="failed")  # no complete run at all
    options = VerdictOptions(endpoint="steps-90", resamples=50)
    study_results = judge_study(load_runs(results), options, "t")
    (spec,) = make_reached_figure_specs(study_results)
    assert spec.name == "reached_ppo" and "Kaplan and Meier" in spec.caption
    other, axis = spec.draw().axes  # Walker2d has one framework, and no panel
    length = max(step for group in study_results.verdicts.groups for step in group.steps)
    assert other.get_xlim() == axis.get_xlim() == (0, pytest.approx(1.03 * length))
    ends = sorted((line.get_ydata()[-1], line.get_linestyle() == ":") for line in axis.lines)
    assert [end for end, _ in ends] == pytest.approx([0.8, 1.0, 1.0], abs=0.02)  # 4 of 5, and of 4
    assert [is_dotted for _, is_dotted in ends] == [True, False, False]
    assert len(other.lines) == 3 and "Dotted: with failed runs" in spec.caption
    (missing,) = make_reached_figure_specs(judge_study(load_runs(results), VerdictOptions(), "t"))
    assert isinstance(missing, MissingFigure)


def test_a_framework_without_a_complete_run_counts_at_its_level():
    cell = StudyCell("ladder", "Task-v0", "ppo", "original", "")
    groups = [make_group(level, RETURNS) for level in ("exact", "lockstep")]
    for level in ("exact", "lockstep"):
        empty = make_score_group(cell, "skrl", np.empty(0), {})
        place = dataclasses.replace(cell, variant=f"alignment={level}", hps="skrl")
        groups.append(dataclasses.replace(empty, cell=place, failed=3))
    spread = list_level_spreads(groups[::-1], OPTIONS)[0]
    assert list(spread.scores["skrl"]) == [0, 0, 0] and spread.learned["skrl"] == 0
    assert spread.n == 6 and spread.spread > 0.5
    _, exact, _ = draw_reached_figure(
        LevelResults(list_level_spreads(groups, OPTIONS), None, None, "return")
    ).axes
    assert sorted(line.get_linestyle() == ":" for line in exact.lines) == [False, True]
