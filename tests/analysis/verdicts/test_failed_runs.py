"""Runs that failed or diverged count at the bottom beside the results of complete runs."""

import collections

import numpy as np
import pytest
from loops import iterate_some

from parallax.analysis.data.load import load_runs
from parallax.analysis.figures.aggregates import AGGREGATES, EFFICIENCY, IMPROVEMENT, PROFILES
from parallax.analysis.figures.curves import make_consistency_figure_specs
from parallax.analysis.report.document import ReportSection
from parallax.analysis.report.sections.comparison import compare_frameworks, format_furthest_lines
from parallax.analysis.report.study_report import (
    list_failed_run_answers,
    make_report_document,
    make_verdict_tables,
)
from parallax.analysis.verdicts.curves import make_panels
from parallax.analysis.verdicts.failures import count_failed_as_bottom
from parallax.analysis.verdicts.groups import group_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_study

TASKS = ("Hopper-v4", "Walker2d-v4", "HalfCheetah-v4", "InvertedPendulum-v4")
OPTIONS = VerdictOptions(resamples=50)
SEEDS = 5


def write_failing_study(make_run):
    """One framework without failures, one with two failed runs per task, one that always fails."""
    for env in TASKS:
        for seed in range(SEEDS):
            for framework, failed in (("cleanrl", 0), ("sb3", 2), ("skrl", SEEDS)):
                status = "failed" if seed < failed else "completed"
                score = 400 + 9 * seed + 40 * (framework == "sb3") + seed % 2
                make_run(env=env, framework=framework, seed=seed, score=score, status=status)


@pytest.fixture
def failing(results, make_run):
    write_failing_study(make_run)
    return judge_study(load_runs(results), OPTIONS)


def test_every_table_has_failed_runs_beside_complete_ones(failing):
    tables = make_verdict_tables(failing.verdicts)
    treated = {name: table for name, table in tables.items() if "intention_to_treat" in name}
    assert {name for name, table in treated.items() if table.items} == {
        "intention_to_treat.csv",
        *(
            f"{name}_intention_to_treat.csv"
            for name in (
                *("reproduction", "omnibus", "pooled", "paired", "vs_random"),
                *("suite", "all_alike", "learning", "aggregates"),
            )
        ),
    }
    names = [
        [item.framework for item in found.items]
        for found in (tables["aggregates.csv"], treated["aggregates_intention_to_treat.csv"])
    ]
    assert names == [["cleanrl", "sb3"], ["sb3", "skrl"]]  # no run of cleanrl failed
    table = treated["paired_intention_to_treat.csv"]
    rows = {(i.item.first.framework, i.item.second.framework): i for i in table.items}
    item = rows["cleanrl", "sb3"]
    assert item.seeds == tuple(sorted(item.seeds)) == (0, 1, 2, 3, 4)
    complete = next(i for i in tables["paired.csv"].items if i.item.cell == item.item.cell)
    assert complete.seeds == (2, 3, 4)
    assert complete.result.difference < 0 < item.result.difference


def test_failed_runs_are_at_the_bottom_of_each_analysis(failing):
    verdicts, treated = failing.verdicts, failing.verdicts.with_failed_runs
    # A framework that failed everywhere is only in the second analysis.
    assert {g.framework for g in verdicts.groups if g.n} == {"cleanrl", "sb3"}
    assert {g.framework for g in treated.groups if g.n} == {"cleanrl", "sb3", "skrl"}
    assert len(verdicts.pooled) == 1 and len(treated.pooled) == 3
    (overall,), (with_failed,) = failing.overall, failing.overall_with_failed_runs
    names = overall.aggregates.names, with_failed.aggregates.names
    assert names == (("cleanrl", "sb3"), ("cleanrl", "sb3", "skrl"))
    means = with_failed.aggregates.point[:, 2]
    assert np.array_equal(overall.aggregates.point[0], with_failed.aggregates.point[0])
    assert means[1] < overall.aggregates.point[1, 2] and means[2] < means[1]
    assert with_failed.efficiency.curves["skrl"].point[-1] <= 0
    assert not {one.group.framework for one in treated.learning if one.is_learned} & {"skrl"}
    assert verdicts.main_variants == treated.main_variants


def test_the_untrained_policy_of_a_failed_run_is_not_made_up(results, make_run):
    for seed in range(4):
        curve = np.full((11, 4), 400.0)
        curve[0] = 300 + seed
        status = "failed" if seed == 3 else "completed"
        make_run(
            seed=seed, env="Hopper-v4", returns=curve, timesteps=np.arange(11) * 2048, status=status
        )
    treated = judge_study(load_runs(results), OPTIONS).verdicts.with_failed_runs
    (item,) = treated.learning
    (untrained,) = [one for one in item.references if one.name == "untrained policy"]
    assert untrained.mean == 301.0 and item.group.n == 4


def test_no_evaluation_of_a_failed_run_is_above_those_of_complete_ones(results, make_run):
    for seed in range(4):
        make_run(seed=seed, env="Unknown-v1", score=400 + seed, status="completed")
        status = "failed" if seed else "completed"
        make_run(framework="sb3", env="Unknown-v1", seed=10 + seed, score=500, status=status)
    treated = judge_study(load_runs(results), OPTIONS).verdicts.with_failed_runs
    group = next(one for one in treated.groups if one.failed)
    *_, run = group.runs
    lowest = np.min([one.results.mean(axis=1) for one in treated.groups[0].runs], axis=0)
    assert run.is_imputed and (run.results.mean(axis=1) <= lowest + 1e-9).all()
    assert run.final_score == group.final_group.scores.min() == pytest.approx(400)


def test_figures_mark_what_failed_runs_change(failing):
    for family, word in (
        (AGGREGATES, "Crosses"),
        (IMPROVEMENT, "Crosses"),
        (PROFILES, "Dotted"),
        (EFFICIENCY, "Dotted"),
    ):
        (spec,) = family.make_figure_specs(failing)
        assert f"{word}: with failed trainings at the bottom of the tasks' ranges" in spec.caption
        (_, _, changed), *_ = spec.draw.args[0]
        flat = {name for key in changed for name in ((key,) if isinstance(key, str) else key)}
        assert {"sb3", "skrl"} <= flat
        assert spec.draw()
    (spec,) = make_consistency_figure_specs(failing)
    assert "Dotted: mean with failed trainings" in spec.caption
    lines = [line for line in spec.draw.args[0].lines if line.name == "skrl"]
    assert all(len(line.curve_with_failed_runs[0]) for line in lines)
    assert spec.draw()


def test_a_report_says_once_per_section_how_failed_runs_count(failing):
    figures = collections.defaultdict(list)
    document = make_report_document(failing, figures, "command", "versions")
    lead = "With failed trainings (SB3 8, skrl 20) at the bottom of the task's range"

    def list_sentences(blocks):
        for block in blocks:
            if isinstance(block, ReportSection):
                yield from list_sentences(block.blocks)
            elif hasattr(block, "parts"):
                yield block.question, [part.text for part in block.parts]

    answers = dict(list_sentences(document.blocks))
    assert len(answers) == 5
    for question, texts in answers.items():
        assert sum(text.startswith(lead) for text in texts) == 1, question
    assert len(list_failed_run_answers(failing.verdicts)) == 6


def test_numbers_of_runs_are_above_the_panels(failing):
    (spec,) = make_consistency_figure_specs(failing)
    for axis in iterate_some(spec.draw().axes):
        (note,) = [text for text in axis.texts if "/" in text.get_text()]
        assert "SB3 3/5" in note.get_text() and "skrl 0/5" in note.get_text()
        box = note.get_window_extent()
        assert box.y0 >= axis.bbox.y1
        assert not axis.get_title() or axis.title.get_window_extent().y0 >= box.y1


def test_compare_has_the_largest_difference_with_failed_runs(results, make_run):
    write_failing_study(make_run)
    loaded, rng = load_runs(results), np.random.default_rng(0)
    row = compare_frameworks(loaded, OPTIONS, "t", rng)[0]
    text = format_furthest_lines(row)
    assert text[2] == "(SB3 - CleanRL)" and text[3].startswith("with failed: ")
    assert text[5] == "(CleanRL - skrl)"
    panels = make_panels(loaded, "t", rng, count_failed_as_bottom(group_runs(loaded), OPTIONS))
    assert [curve.framework for curve in panels[0].with_failed_runs] == ["sb3", "skrl"]
