"""Forest plots of pairs, and the marks of policies without training."""

import itertools
import math

import numpy as np
import pytest
from loops import iterate_some
from matplotlib.figure import Figure

from parallax.analysis.data.load import load_runs
from parallax.analysis.figures import families
from parallax.analysis.figures.curves import make_framework_lines
from parallax.analysis.figures.figure_spec import MissingFigure
from parallax.analysis.figures.pair_differences import PairDifference, find_axis_reach
from parallax.analysis.figures.score_marks import (
    PUBLISHED,
    ScoreMark,
    draw_score_marks,
    find_near_marks,
    list_score_marks,
)
from parallax.analysis.verdicts.endpoints import DO_NOTHING, RANDOM
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_study


def judge(results, **options):
    return judge_study(load_runs(results), VerdictOptions(resamples=50, **options))


def test_every_pair_has_its_difference_in_margins(study_results):
    for spec in iterate_some(
        families.make_family_figure_specs(study_results, ["verdicts"])["verdicts"]
    ):
        algorithm = spec.cells[0].algorithm
        (grid,) = spec.draw_content.args
        shown = [row for panel in grid.panels if panel for row in panel.rows.values()]
        items = [
            item
            for item in (*study_results.verdicts.consistency, *study_results.verdicts.defaults)
            if item.cell.algorithm == algorithm and set(spec.cells) & {item.first.cell}
        ]
        wanted = sorted(item.difference / item.margin.size for item in items)
        assert sorted(row.difference for row in shown) == pytest.approx(wanted)
        assert "seeds" not in spec.caption.split("n = ")[0].replace("seeds of", "")
        figure = spec.draw()
        assert "units of the equivalence margin" in figure.texts[0].get_text()


def test_a_pair_is_shaded_unless_both_have_learned(results, make_run):
    for seed in range(6):
        for name, score in (("sb3", 3000), ("skrl", 3000), ("sbx", 0)):
            make_run(framework=name, seed=seed, score=score + seed, env="Hopper-v4")
    (spec,) = families.make_family_figure_specs(judge(results), ["verdicts"])["verdicts"]
    (panel,) = spec.draw_content.args[0].panels
    assert {name: row.is_learned for name, row in panel.rows.items()} == {
        "SB3 - sbx": False,
        "SB3 - skrl": True,
        "sbx - skrl": False,
    }


def test_single_pair_has_one_panel_with_its_tasks(results, make_run):
    for seed, name, env in (
        (seed, name, env)
        for seed in range(3)
        for name in ("sb3", "skrl")
        for env in ("Hopper-v4", "Walker2d-v4")
    ):
        make_run(framework=name, seed=seed, env=env, score=100 + seed)
    (spec,) = families.make_family_figure_specs(judge(results), ["verdicts"])["verdicts"]
    (grid,) = spec.draw_content.args
    assert grid.names == ("Hopper-v4", "Walker2d-v4")
    assert len(grid.panels) == 1


def test_settings_without_runs_have_no_panel_and_lines_name_rows(results, make_run):
    for env, hps in (("Hopper-v4", "own"), ("Walker2d-v4", "original"), ("Walker2d-v4", "own")):
        for seed, name in itertools.product(range(3), ("sb3", "skrl", "sbx")):
            recipe = name if hps == "own" else hps
            make_run(framework=name, seed=seed, env=env, hps=recipe, score=100 + seed)
    (spec,) = families.make_family_figure_specs(judge(results), ["verdicts"])["verdicts"]
    figure = spec.draw()
    axes = [axis for axis in figure.axes if axis.axison]
    titles = [axis.get_title().partition("\n")[0] for axis in axes]
    assert titles == ["Hopper-v4", "Walker2d-v4", "Walker2d-v4"] and len(figure.axes) == 4
    labels = [[label.get_visible() for label in axis.get_yticklabels()] for axis in axes]
    assert [any(line) for line in labels] == [True, True, False]
    assert not any(text.get_text() for axis in set(figure.axes) - set(axes) for text in axis.texts)


def test_one_pair_in_one_setting_has_no_figure(results, make_run):
    for seed, name in itertools.product(range(3), ("sb3", "skrl")):
        make_run(framework=name, seed=seed, env="Hopper-v4", score=100 + seed)
    (spec,) = families.make_family_figure_specs(judge(results), ["verdicts"])["verdicts"]
    assert isinstance(spec, MissingFigure)


def test_failed_trainings_have_crosses_also_without_a_complete_run(results, make_run):
    for seed, name in itertools.product(range(5), ("sb3", "skrl", "sbx")):
        status = "failed" if name == "sbx" or (name, seed) == ("skrl", 0) else "completed"
        make_run(framework=name, seed=seed, env="Hopper-v4", score=2000 + seed, status=status)
    (spec,) = families.make_family_figure_specs(judge(results), ["verdicts"])["verdicts"]
    (panel,) = spec.draw_content.args[0].panels
    rows = panel.rows
    assert set(rows) == {"SB3 - sbx", "SB3 - skrl", "sbx - skrl"}
    assert math.isfinite(rows["SB3 - skrl"].difference)
    assert math.isnan(rows["SB3 - sbx"].difference)
    assert all(math.isfinite(row.with_failed_runs) for row in rows.values())
    assert rows["SB3 - sbx"].failed_statement.startswith("different")
    assert "Crosses" in spec.caption
    axes = spec.draw().axes[0]
    assert sum(one.get_marker() == "x" for one in axes.lines) == 3


def test_axis_covers_all_means_up_to_a_limit():
    def row(value):
        return PairDifference("a", value, math.nan, math.nan, "inconclusive", True)

    assert find_axis_reach([]) == find_axis_reach([row(0.1)]) == 2
    assert 5 < find_axis_reach([row(-5.0), row(1.0)]) < 7
    assert find_axis_reach([row(1e6)]) == 20


def test_marks_are_policies_without_training_and_the_papers_score(results, make_run):
    for name in ("sb3", "skrl"):
        make_run(framework=name, env="Hopper-v4", algorithm="ppo")
    cell = next(iter(load_runs(results).cells))
    names = {mark.name for mark in list_score_marks(judge(results), cell)}
    assert names == {DO_NOTHING, RANDOM, PUBLISHED, "untrained policy"}
    averaged = judge(results, endpoint="auc")
    assert PUBLISHED not in {mark.name for mark in list_score_marks(averaged, cell)}
    assert PUBLISHED in {mark.name for mark in list_score_marks(averaged, cell, is_curve=True)}
    assert not list_score_marks(judge(results, endpoint="steps-50"), cell)


@pytest.mark.parametrize("along", ["x", "y"])
def test_distant_marks_are_labeled_at_the_edge_without_widening_the_axis(along):
    marks = [ScoreMark(RANDOM, 0.5), ScoreMark(PUBLISHED, 9000.0), ScoreMark(DO_NOTHING, -700.0)]
    assert find_near_marks(marks, (0.0, 1.0)) == (marks[0],)
    axis = Figure().subplots()
    axis.set(xlim=(0, 1), ylim=(0, 1))
    draw_score_marks(axis, marks, along=along)
    assert len(axis.lines) == 1
    assert [text.get_text().strip("←→↑↓ ") for text in axis.texts] == [
        "do nothing -700",
        "published score 9,000",
    ]
    axis = Figure().subplots()
    axis.set(xlim=(3, 4), ylim=(3, 4))
    draw_score_marks(axis, [marks[0], marks[2]], along=along)
    assert [text.get_text().strip("←↓ ") for text in axis.texts] == ["2 references: -700 to 0.5"]


@pytest.mark.parametrize("seeds", [1, 2, 3, 4])
def test_few_seeds_are_thin_lines_without_a_band(results, make_run, seeds):
    for name in ("sb3", "skrl"):
        for seed in range(seeds):
            make_run(framework=name, seed=seed, score=100 + 10 * seed)
    study_results = judge(results)
    lines = make_framework_lines(study_results, next(iter(load_runs(results).cells)))
    for line in iterate_some(lines):
        assert len(line.seeds) == (seeds if seeds < 3 else 0)
        assert np.isfinite(line.low).any() == (seeds > 2)
        assert math.isfinite(line.final.low) == (seeds > 2)


def test_panels_and_pages_with_one_framework_are_left_out(results, make_run):
    for seed in range(3):
        make_run(seed=seed)
        make_run(seed=seed, framework="skrl")
        make_run(seed=seed, env="Ant-v5")
        make_run(seed=seed, algorithm="td3")
    found = families.make_family_figure_specs(judge(results), ["intervals", "consistency"])
    (intervals,) = found["intervals"]
    assert [panel.env for panel in intervals.draw_content.args[0]] == ["Hopper-v5"]
    grid = next(item for item in found["consistency"] if "ppo" in item.name).draw_content.args[0]
    assert grid.rows == ("Hopper-v5",)
    assert not any(isinstance(item, MissingFigure) for item in found["consistency"])
