"""The page on the thesis' tables, and the statements behind it."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from parallax.analysis.data.published import read_table
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.report.render_markdown import render_markdown
from parallax.analysis.stats.moments import SampleMoments
from parallax.analysis.thesis.claims import judge_thesis_claims
from parallax.analysis.thesis.evidence import (
    SUPPORTED,
    UNNAMED,
    compare_pairs,
    key_from_group,
    list_framework_pairs,
)
from parallax.analysis.thesis.page import make_deviations_section, make_thesis_document
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import group_published_scores, results_from_published
from parallax.harness.cli.main import main

DOC = Path(__file__).parents[3] / "docs" / "published-tables.md"


@pytest.fixture
def answers(published):
    return published


@pytest.fixture(scope="module")
def claims(published):
    return judge_thesis_claims(published)


@pytest.fixture(scope="module")
def table():
    return {key_from_group(group): group for group in group_published_scores("thesis_tables")}


@pytest.mark.usefixtures("blank_figures")
def test_docs_page_equals_the_output_of_the_command(answers, tmp_path, capsys, monkeypatch):
    known = {VerdictOptions(): answers}  # judged once
    monkeypatch.setattr("parallax.analysis.verdicts.study.judge_thesis_tables", known.__getitem__)
    words = ["study", "thesis", "--output", str(tmp_path), "--tables", str(tmp_path), "--jobs", "1"]
    assert main([*words, "--figures", str(tmp_path / "figures")]) == 0
    assert (tmp_path / DOC.name).read_text() == DOC.read_text()
    assert "288" in capsys.readouterr().out
    rows = (tmp_path / "consistency.csv").read_text().splitlines()
    assert len(rows) == 1 + 288
    drawn = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    assert {"reproduction", "intervals_ppo", "intervals_td3", "intervals_sac"} <= drawn


@pytest.mark.parametrize("option", ["--tables", "--figures"])
@pytest.mark.usefixtures("blank_figures")
def test_all_files_are_written_or_none(answers, tmp_path, capsys, monkeypatch, option):
    known = {VerdictOptions(): answers}  # judged once
    monkeypatch.setattr("parallax.analysis.verdicts.study.judge_thesis_tables", known.__getitem__)
    place = tmp_path / "to/file"
    place.parent.mkdir()
    place.touch()
    words = ["study", "thesis", "--output", str(place.parent), option, str(place), "--jobs", "1"]
    assert main(words) == 2
    assert f"{place}: cannot be written: File exists" in capsys.readouterr().err
    assert list(place.parent.iterdir()) == [place]


def test_unusable_folders_are_named_before_anything_is_judged(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("parallax.analysis.verdicts.study.judge_thesis_tables", pytest.fail)
    (tmp_path / "file").touch()
    assert main(["study", "thesis", "--output", str(tmp_path / "file")]) == 2
    assert f"{tmp_path / 'file'}: cannot be written: File exists" in capsys.readouterr().err


def test_published_intervals_are_drawn_as_the_thesis_prints_them(answers):
    study_results = results_from_published(answers)
    (row,) = (
        row
        for row in read_table("thesis_tables")
        if (row.algorithm, row.env, row.hps, row.framework) == ("sac", "Ant", "sb3", "torchrl")
    )
    cell = StudyCell("thesis_tables", f"Ant-{row.version}", "sac", "sb3", "")
    found = study_results.finals[cell, "torchrl"]
    assert found.mean == row.mean
    assert found.high - found.mean == pytest.approx(row.spread)
    assert found.mean - found.low == pytest.approx(row.spread)
    curve = study_results.curves[cell, "torchrl"]
    assert (curve.framework, curve.seeds, curve.left_out) == ("torchrl", (), 0)
    assert not len(curve.steps) + len(curve.mean) + len(curve.low) + len(curve.high)


@pytest.mark.long
def test_other_level_is_stated_on_the_page(answers):
    verdicts = dataclasses.replace(answers, options=VerdictOptions(alpha=0.2))
    page = render_markdown(make_thesis_document(verdicts))
    assert "at 20%" in page
    assert page != DOC.read_text()


def test_every_statement_has_a_verdict_and_a_finding(claims):
    assert len(claims) == 15
    assert {item.section[:3] for item in claims} == {"6.2", "6.3"}
    for item in claims:
        assert item.claim
        assert item.outcome
        assert item.verdict


def test_deviations_impossible_for_five_runs_are_excluded(answers):
    assert "36 of 36 cells satisfy this" in make_deviations_section(answers.groups).blocks[0]

    def wider(group):
        item = group.moments
        return dataclasses.replace(group, moments=SampleMoments(item.mean, 2 * item.sd, item.n))

    # The cells with 800.6, 838.6, 859.5 and 860.2 have more than half of what is possible.
    assert (
        "30 of 36 cells satisfy" in make_deviations_section([*map(wider, answers.groups)]).blocks[0]
    )


def test_comparisons_of_cells_are_welch_tests_with_holms_correction(table):
    first, second = ("ppo", "Swimmer", "sb3", "cleanrl"), ("ppo", "Swimmer", "sb3", "torchrl")
    third = ("ppo", "Swimmer", "sb3", "sb3")
    found = compare_pairs(table, [(first, second), (first, third)])
    bare = []
    for pair in ((first, second), (first, third)):
        one, two = (table[key].moments for key in pair)
        bare.append(
            stats.ttest_ind_from_stats(
                one.mean, one.sd, one.n, two.mean, two.sd, two.n, equal_var=False
            ).pvalue
        )
    np.testing.assert_allclose([item.p for item in found], bare)
    assert found[0].p_holm == pytest.approx(min(1, 2 * min(bare)))


def test_all_pairs_of_an_algorithm_are_96(table):
    assert len(list_framework_pairs(table, "td3", lambda *_: True)) == 96


def test_statements_follow_the_numbers(answers, claims):
    """With a tenth of the deviations, differences show and the verdicts turn."""

    def sharper(group):
        item = group.moments
        return dataclasses.replace(group, moments=SampleMoments(item.mean, item.sd / 10, item.n))

    sharp = dataclasses.replace(answers, groups=tuple(map(sharper, answers.groups)))
    before = {item.claim: item.verdict for item in claims}
    after = {item.claim: item.verdict for item in judge_thesis_claims(sharp)}
    shown = [claim for claim, verdict in after.items() if verdict == SUPPORTED]
    assert len([claim for claim in shown if before[claim] != SUPPORTED]) >= 5
    named = [claim for claim, verdict in before.items() if verdict == UNNAMED]
    assert len(named) == 2
    assert all(after[claim] == SUPPORTED for claim in named)


def test_some_differences_exist_although_none_can_be_named(answers, claims):
    """21, 10 and 9 of 96 pairs are significant one by one, and none after the correction."""
    found = {item.claim: item for item in claims}
    ppo = next(item for claim, item in found.items() if "differ extremely" in claim)
    assert ppo.verdict == UNNAMED
    assert "21 before" in ppo.outcome
    assert "p < 0.0002" in ppo.outcome
    sb3 = next(item for claim, item in found.items() if "stands out most" in claim)
    assert sb3.verdict == SUPPORTED
    assert "10 of 64 with Stable-Baselines3 and 0 of 32" in sb3.outcome
    verdicts = {item.algorithm: item.verdict for item in answers.omnibus}
    assert set(verdicts.values()) == {UNNAMED}
