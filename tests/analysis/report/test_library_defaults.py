"""Frameworks under their own defaults are a setting of its own, in words, tables and figures."""

import numpy as np
import pytest

from parallax.analysis.data.load import load_runs
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.figures.curves import list_shared_recipes, make_framework_lines
from parallax.analysis.figures.figure_spec import MissingFigure
from parallax.analysis.figures.final_scores import make_overview_figure_specs
from parallax.analysis.labels import LIBRARY_DEFAULTS
from parallax.analysis.report.render_markdown import render_blocks, render_words
from parallax.analysis.report.sections import headline, learning
from parallax.analysis.report.sections.consistency import answer_consistency
from parallax.analysis.report.sections.hyperparameters import describe_common_overrides
from parallax.analysis.report.sections.pair_tables import (
    make_consistency_table,
    make_defaults_table,
)
from parallax.analysis.report.sections.pairs_by_setting import (
    make_setting_sections,
    make_setting_summary,
)
from parallax.analysis.report.sections.runs import describe_equal_runs
from parallax.analysis.report.study_report import make_verdict_tables
from parallax.analysis.verdicts.consistency import name_family
from parallax.analysis.verdicts.groups import list_cells
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_study

# By recipe and framework; random actions have -1225 on the task.
SCORES = {
    ("original", "sb3"): -1220.0,
    ("original", "cleanrl"): -1225.0,
    ("sb3", "sb3"): -200.0,
    ("cleanrl", "cleanrl"): -1225.0,
    ("torchrl", "torchrl"): -210.0,
}


@pytest.fixture(scope="module")
def study_results(tmp_path_factory, writer):
    root = tmp_path_factory.mktemp("own")
    noise = np.random.default_rng(0)
    for (hps, framework), score in SCORES.items():
        for seed in range(5):
            names = {"env": "Pendulum-v1", "hps": hps, "framework": framework, "seed": seed}
            # Without an evaluation at step 0, since the writer's curves begin at a score of 0.
            own = {"score": score + noise.normal(scale=5), "timesteps": [10_240, 20_480]}
            writer(root, **own, **names)
    return judge_study(load_runs(root), VerdictOptions(ranges=(("Pendulum-v1", -1600.0, 0.0),)))


def test_pairs_under_library_defaults_are_judged_separately(study_results):
    verdicts = study_results.verdicts
    assert {item.cell.hps for item in verdicts.consistency} == {"original"}
    assert {item.cell.hps for item in verdicts.defaults} == {"library defaults"}
    found = {
        (item.first.framework, item.second.framework): item.verdict for item in verdicts.defaults
    }
    assert found["cleanrl", "sb3"] == found["cleanrl", "torchrl"] == "different"
    assert {item.family_size for item in verdicts.defaults} == {3}
    assert {item.family_size for item in verdicts.consistency} == {1}
    assert {item.first.cell.hps for item in verdicts.defaults} == {"cleanrl", "sb3"}
    assert len(make_verdict_tables(verdicts)["defaults.csv"].items) == 3


def test_section_lists_library_defaults_and_frameworks_that_learned(study_results):
    verdicts = study_results.verdicts
    (section,) = make_setting_sections(verdicts, verdicts.main_defaults)
    text = "\n".join(render_blocks(section.blocks))
    assert section.heading.startswith("PPO on Pendulum-v1 under library defaults")
    assert "3 frameworks, runs requested/completed/used: 5/5/5 of each." in text
    assert "Shown to have learned: 2 of 3 tested frameworks, by final returns." in text
    assert "random actions -1225" in text
    assert (
        "Not shown to be better or worse than random:\n\n- CleanRL (-12" in text
        and "n = 5." in text
    )
    (row,) = make_setting_summary(verdicts, verdicts.main_defaults).rows
    assert "2 of 3" in row


def test_pair_remark_names_frameworks_that_have_not_learned(study_results):
    verdicts = study_results.verdicts
    (pair,) = verdicts.consistency
    assert learning.remark_on_pair(pair, verdicts.not_learned).endswith(
        "neither is shown to have learned"
    )
    first, second, _ = map(render_words, headline.select_headline_findings(verdicts))
    assert "neither is shown" in first and "neither is shown" in second
    own = {(i.first.framework, i.second.framework): i for i in verdicts.defaults}
    assert learning.remark_on_pair(own["cleanrl", "sb3"], verdicts.not_learned).startswith(
        "; CleanRL is not"
    )
    assert learning.remark_on_pair(own["sb3", "torchrl"], verdicts.not_learned) == ""


def test_runs_shared_by_library_defaults_and_a_recipe_are_counted(tmp_path, writer):
    for seed in range(3):
        for hps, score in (("original", 5.0 + seed), ("sb3", 5.0 + seed % 2)):
            writer(tmp_path, score=score, hps=hps, seed=seed)
    text = describe_equal_runs(load_runs(tmp_path))
    assert (
        text.startswith("2 runs under library defaults have the same evaluations") and "(2)" in text
    )
    assert describe_equal_runs(load_runs(tmp_path / "missing")) == ""


def test_library_defaults_have_one_column_and_a_separate_figure(study_results):
    cells = {cell for cell, _ in study_results.curves}
    assert list_shared_recipes(study_results, cells) == ("original", "library defaults")
    _, own = list_cells(
        StudyCell("demo", "Pendulum-v1", "ppo", "sb3", "steps=20000,alignment=common"), "sb3"
    )
    lines = {line.name: line for line in make_framework_lines(study_results, own)}
    means = {name: lines[name].final.mean for name in lines}
    scores = {"cleanrl": -1225.0, "sb3": -200.0, "torchrl": -210.0}
    assert means == pytest.approx(scores, abs=10)
    (overview, as_they_come_sheet) = make_overview_figure_specs(study_results)
    assert [overview.name, as_they_come_sheet.name] == ["overview", "library_defaults"]
    assert {cell.hps for cell in as_they_come_sheet.cells} == {"sb3", "cleanrl", "torchrl"}


def test_report_has_a_separate_table_of_library_defaults(study_results):
    verdicts = study_results.verdicts
    assert len(make_defaults_table(verdicts).items) == 3
    assert len(make_consistency_table(verdicts).items) == 1
    (sentence,) = [
        one for one in answer_consistency(verdicts).parts if "under library defaults" in one.text
    ]
    assert sentence.text.startswith("PPO under library defaults") and sentence.table == "t-defaults"
    assert (
        "2 different" in sentence.text and "Shown to have learned: 2 of 3 means." in sentence.text
    )


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ((-1700.0, -1701.0, -1702.0), "Worse than random:\n\n- SB3 (-1701), difference -475.7"),
        ((-200.0,), "Not tested:\n\n- SB3 (-200.0), n = 1."),
    ],
)
def test_worse_than_random_and_untestable_frameworks_are_listed_separately(
    scores, words, tmp_path, writer
):
    for seed, score in enumerate(scores):
        writer(tmp_path, score=score, env="Pendulum-v1", seed=seed)
    verdicts = judge_study(load_runs(tmp_path), VerdictOptions()).verdicts
    blocks = learning.describe_learning(verdicts.learning, verdicts.vs_random, ())
    assert words in "\n".join(render_blocks(blocks))
    assert learning.count_learned(verdicts.learning) == ("0 of 1" if len(scores) > 1 else "-")


def test_fields_that_a_study_overrides_are_listed(tmp_path, writer):
    for name in ("sb3", "cleanrl"):
        writer(tmp_path, framework=name, hps=name, overridden=["learning_starts"])
    assert render_words(describe_common_overrides(load_runs(tmp_path).runs)).endswith(
        "some of these runs: `learning_starts`"
    )
    assert (
        name_family(StudyCell("s", "e", "ppo", LIBRARY_DEFAULTS, ""), "all")
        == "all pairs (library defaults)"
    )


def test_a_recipe_that_others_ran_too_keeps_its_name(tmp_path, writer):
    for framework in ("sb3", "cleanrl"):
        for seed in range(2):
            writer(tmp_path, score=1.0 + seed, hps="sb3", framework=framework, seed=seed)
    found = judge_study(load_runs(tmp_path), VerdictOptions())
    assert list_shared_recipes(found, {cell for cell, _ in found.curves}) == ("sb3",)
    assert found.verdicts.defaults == () and isinstance(
        make_overview_figure_specs(found)[1], MissingFigure
    )
