"""Runs that failed or diverged count at the bottom beside the results of complete runs."""

import collections
import json

import numpy as np
import pytest
from loops import iterate_some

from parallax.analysis.data.load import load_runs, read_runs
from parallax.analysis.data.packed import write_packed
from parallax.analysis.figures.aggregates import AGGREGATES, EFFICIENCY, IMPROVEMENT, PROFILES
from parallax.analysis.figures.curves import make_consistency_figure_specs
from parallax.analysis.report.document import ReportSection
from parallax.analysis.report.sections.comparison import compare_frameworks, format_furthest_lines
from parallax.analysis.report.study_report import (
    list_failed_run_answers,
    make_report_document,
    make_verdict_tables,
)
from parallax.analysis.verdicts import study
from parallax.analysis.verdicts.curves import make_panels
from parallax.analysis.verdicts.failures import count_failed_as_bottom
from parallax.analysis.verdicts.groups import group_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.overall import compute_overall_scores
from parallax.analysis.verdicts.study import judge_study

TASKS = ("Hopper-v4", "Walker2d-v4", "HalfCheetah-v4", "InvertedPendulum-v4")
OPTIONS = VerdictOptions(resamples=50)
SEEDS = 5
VARIANT = "steps=20000,eval_every=2000,eval_episodes=4"


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


def test_every_table_has_results_with_and_without_failed_runs(failing):
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
    assert names == [["cleanrl", "sb3"], ["cleanrl", "sb3", "skrl"]]
    table = treated["paired_intention_to_treat.csv"]
    rows = {(i.item.first.framework, i.item.second.framework): i for i in table.items}
    item = rows["cleanrl", "sb3"]
    assert item.seeds == tuple(sorted(item.seeds)) == (0, 1, 2, 3, 4)
    complete = next(i for i in tables["paired.csv"].items if i.item.cell == item.item.cell)
    assert complete.seeds == (2, 3, 4)
    assert complete.result.difference < 0 < item.result.difference


def test_aggregates_are_computed_once_of_each_analysis(results, make_run, monkeypatch):
    write_failing_study(make_run)
    calls = []

    def compute(groups, options):
        calls.append(len(groups))
        return compute_overall_scores(groups, options)

    monkeypatch.setattr(study, "compute_overall_scores", compute)
    study_results = judge_study(load_runs(results), OPTIONS)
    make_verdict_tables(study_results.verdicts)
    assert study_results.parts and len(calls) == 2  # of complete runs, and with failed ones


def test_failed_runs_are_at_the_bottom_of_each_analysis(failing):
    verdicts, treated = failing.verdicts, failing.verdicts.with_failed_runs
    # A framework that failed everywhere is only in the second analysis.
    assert {g.framework for g in verdicts.groups if g.n} == {"cleanrl", "sb3"}
    assert {g.framework for g in treated.groups if g.n} == {"cleanrl", "sb3", "skrl"}
    assert len(verdicts.pooled) == 1 and len(treated.pooled) == 3
    (overall,), (with_failed,) = verdicts.overall, treated.overall
    names = overall.aggregates.names, with_failed.aggregates.names
    assert names == (("cleanrl", "sb3"), ("cleanrl", "sb3", "skrl"))
    means = with_failed.aggregates.point[:, 2]
    assert np.array_equal(overall.aggregates.point[0], with_failed.aggregates.point[0])
    assert means[1] < overall.aggregates.point[1, 2] and means[2] < means[1]
    assert with_failed.efficiency.curves["skrl"].point[-1] <= 0
    assert not {one.group.framework for one in treated.learning if one.is_learned} & {"skrl"}
    assert verdicts.main_variants == treated.main_variants


def test_untrained_policy_of_a_failed_run_is_ignored(results, make_run):
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
        (_, _, changed), *_ = spec.draw_content.args[0]
        flat = {name for key in changed for name in ((key,) if isinstance(key, str) else key)}
        assert {"sb3", "skrl"} <= flat
        assert spec.draw()
    (spec,) = make_consistency_figure_specs(failing)
    assert "Dotted: mean with failed trainings" in spec.caption
    lines = [line for line in spec.draw_content.args[0].lines if line.name == "skrl"]
    assert lines and all(len(line.curve_with_failed_runs[0]) for line in lines)
    assert spec.draw()


def test_report_explains_once_per_section_how_failed_runs_count(failing):
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
    groups = group_runs(loaded)
    treated = count_failed_as_bottom(groups, OPTIONS)
    row = compare_frameworks(groups, treated, OPTIONS, "t", rng)[0]
    text = format_furthest_lines(row)
    assert text[2] == "(SB3 - CleanRL)" and text[3].startswith("with failed: ")
    assert text[5] == "(CleanRL - skrl)"
    panels = make_panels(loaded, "t", rng, treated)
    assert [curve.framework for curve in panels[0].with_failed_runs] == ["sb3", "skrl"]


def test_a_completed_run_with_returns_that_are_not_finite_has_failed(results, make_run, tmp_path):
    for framework in ("cleanrl", "sb3"):
        for seed in range(5):
            is_odd = framework == "sb3" and seed < 2
            folder = make_run(
                env="Hopper-v4", framework=framework, seed=seed, score=3000 + seed, variant=VARIANT
            )
            if is_odd:
                path = folder / "evaluations.npz"
                arrays = dict(np.load(path))
                arrays["results"][-1, 0] = np.nan if seed else np.inf
                np.savez(path, **arrays)
    write_packed(read_runs(results), tmp_path / "packed.parquet")
    for place in (results, tmp_path / "packed.parquet"):
        verdicts = judge_study(load_runs(place), OPTIONS).verdicts
        assert [group.failed for group in verdicts.groups] == [0, 2]
        (complete,), (treated,) = verdicts.consistency, verdicts.intention_to_treat
        assert (complete.second.n, treated.second.n) == (3, 5)
        assert not complete.statement.is_conditional
        assert treated.difference > complete.difference + 1000


def test_a_changed_file_is_damaged_and_not_a_failed_run(results, make_run):
    folder = make_run()
    arrays = dict(np.load(folder / "evaluations.npz"))
    arrays["results"][-1] = np.nan
    np.savez(folder / "evaluations.npz", **arrays)
    record = json.loads((folder / "run.json").read_text())
    record["files"] = {"evaluations.npz": "0" * 64}
    (folder / "run.json").write_text(json.dumps(record))
    (run,) = load_runs(results).excluded
    assert "non-finite" in run.reason and not run.failed


def test_a_framework_with_few_runs_does_not_prevent_a_verdict_over_tasks(results, make_run):
    for env in ("Hopper-v4", "Walker2d-v4", "HalfCheetah-v4"):
        for framework, n in (("sb3", 6), ("cleanrl", 6), ("tianshou", 1), ("skrl", 0)):
            for seed in range(max(n, 2 * (n == 0))):
                status = "completed" if n else "failed"
                make_run(env=env, framework=framework, seed=seed, score=2000 + seed, status=status)
    verdicts = judge_study(load_runs(results), OPTIONS).verdicts
    (item,) = verdicts.suites
    assert (item.first, item.second, len(item.tasks)) == ("cleanrl", "sb3", 3)
    few = "no two runs in two tasks"
    assert item.left_out == (f"skrl: {few}", f"Tianshou: {few}")
    pairs = {(one.first, one.second) for one in verdicts.with_failed_runs.suites}
    assert pairs == {("cleanrl", "sb3"), ("cleanrl", "skrl"), ("sb3", "skrl")}
