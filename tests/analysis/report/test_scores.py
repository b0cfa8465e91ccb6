import csv
import io
import math

import pytest

from parallax.analysis.data.load import load_runs
from parallax.analysis.report.document import ScoreCell
from parallax.analysis.report.render_markdown import score_table_to_markdown
from parallax.analysis.report.sections.scores import (
    BEST,
    TIED,
    escape_latex,
    format_score_without_sizes,
    make_score_tables,
    score_table_to_csv,
    score_table_to_latex,
)
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_runs
from parallax.harness.cli.main import main

FRAMEWORKS = ("cleanrl", "sb3", "torchrl")


def tables_of(results, method="t"):
    return make_score_tables(judge_runs(load_runs(results), VerdictOptions()), method)


SHORT = {"timesteps": [10], "scheduled": 10}


def write_scores(make_run, scores, **spec):
    """Runs of each framework whose seeds end at the given scores."""
    for framework, values in scores.items():
        for seed, value in enumerate(values):
            make_run(framework=framework, seed=seed, **SHORT, returns=[[value]], **spec)


@pytest.fixture
def marked(results, make_run):
    scores = {
        "cleanrl": [100.0, 101, 99, 100, 100],
        "sb3": [99.0, 101, 98, 102, 100.5],
        "torchrl": [10.0, 11, 9, 10, 10],
    }
    write_scores(make_run, scores)
    return tables_of(results)[0]


def test_rows_are_hyperparameters_then_frameworks_and_columns_are_tasks(study):
    tables = tables_of(study)
    ppo = next(table for table in tables if table.name == "scores_ppo")
    order = ("sb3", "cleanrl", "torchrl", "original")
    assert [row[:2] for row in ppo.rows] == [(hps, name) for hps in order for name in FRAMEWORKS]
    assert ppo.tasks == ("Hopper-v4", "Walker2d-v4")


def test_best_score_and_ties_are_marked(marked):
    marks = {framework: cells[0].mark for _, framework, cells in marked.rows}
    assert marks == {"cleanrl": TIED, "sb3": BEST, "torchrl": ""}


@pytest.mark.parametrize(
    ("scores", "marks"),
    [
        pytest.param({"sb3": [1000.0] * 3, "cleanrl": [1000.0] * 3}, [BEST, BEST], id="equal"),
        pytest.param({"sb3": [5.0], "cleanrl": [4.0]}, ["", BEST], id="single seeds"),
    ],
)
def test_equal_means_are_all_best_and_untested_ones_are_not_tied(results, make_run, scores, marks):
    write_scores(make_run, scores)
    (table,) = tables_of(results)
    assert [cells[0].mark for *_, cells in table.rows] == marks


def test_formats_show_marks_and_one_decimal(marked):
    text = score_table_to_markdown(marked)
    assert "**100.1 ± 2.0**" in text
    assert "*100.0 ± 0.9*" in text
    assert "| 10.0 ± 0.9" in text
    latex = score_table_to_latex(marked)
    assert r"\textbf{100.1 $\pm$ 2.0}" in latex
    assert r"\textit{100.0 $\pm$ 0.9}" in latex
    assert all(rule in latex for rule in (r"\toprule", r"\midrule", r"\bottomrule"))


def test_caption_has_numbers_of_runs_and_cells_have_differing_ones(results, make_run):
    write_scores(make_run, {"sb3": [1.0, 2], "cleanrl": [1.0, 2], "torchrl": [1.0]})
    make_run(framework="torchrl", seed=1, status="failed", **SHORT, returns=[[0.0]])
    (table,) = tables_of(results)
    text = score_table_to_markdown(table)
    assert "n = 2/2/2 runs requested/completed/used unless a cell says otherwise" in text
    assert "1.0 (n 2/1/1; 1 failed: 1.0)" in text
    assert r"1.0\,{\scriptsize 2/1/1; 1 failed: 1.0}" in score_table_to_latex(table)


def test_a_framework_without_a_usable_run_is_a_dash_with_its_counts(results, make_run):
    write_scores(make_run, {"sb3": [1.0, 2]})
    make_run(framework="cleanrl", status="failed", **SHORT, returns=[[0.0]])
    text = score_table_to_markdown(tables_of(results)[0])
    assert "- (n 1/0/0; 1 failed: 1.0)" in text


def test_csv_keeps_layout_and_all_digits(marked):
    rows = list(csv.DictReader(io.StringIO(score_table_to_csv(marked))))
    assert [row["framework"] for row in rows] == list(FRAMEWORKS)
    assert float(rows[1]["Hopper-v5 mean"]) == pytest.approx(100.1, abs=1e-12)
    assert rows[1]["Hopper-v5 mark"] == BEST
    assert rows[0]["Hopper-v5 n_used"] == "5"
    assert rows[0]["interval"] == "t"


def test_eight_tasks_are_two_blocks_in_latex(results, make_run):
    for i in range(8):
        make_run(env=f"Task{i}-v4")
    latex = score_table_to_latex(tables_of(results)[0])
    assert latex.count(r"\begin{tabular}{llrrrr}") == 2
    assert latex.count(r"\end{tabular}") == 2


def test_intervals_that_are_not_symmetric_are_shown_by_their_ends(results, make_run):
    write_scores(make_run, {"sb3": [1.0, 2, 9]})
    (table,) = tables_of(results, "bootstrap")
    low, high = table.rows[0][2][0].low, table.rows[0][2][0].high
    assert f"4.0 \\[{low:.1f}, {high:.1f}]" in score_table_to_markdown(table)


def test_names_do_not_become_latex_commands(results, make_run):
    assert escape_latex(r"a_b&50%\x{}~") == r"a\_b\&50\%\textbackslash{}x\{\}\textasciitilde{}"
    make_run(hps="my_hps|*", env="A_B-v4")
    (table,) = tables_of(results)
    assert r"my\_hps|*" in score_table_to_latex(table)
    assert r"my\_hps\|\*" in score_table_to_markdown(table)


def test_the_command_writes_three_formats_per_algorithm(study, tmp_path, capsys):
    assert (
        main(["study", "verdicts", "--tables", str(study), "--output", str(tmp_path / "out")]) == 0
    )
    names = sorted(path.name for path in (tmp_path / "out/tables").glob("scores_td3*"))
    assert names == ["scores_td3.csv", "scores_td3.md", "scores_td3.tex"]
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert f"Tables: {len(files)} files in {tmp_path / 'out'}\n" in capsys.readouterr().out


def test_equal_inputs_give_equal_tables(study):
    first, second = (
        [score_table_to_csv(table) for table in tables_of(study, "bca")] for _ in range(2)
    )
    assert first == second


def test_scores_show_failed_runs_with_the_mean_of_complete_runs(results, make_run):
    for seed in range(4):
        make_run(env="Hopper-v4", framework="sb3", seed=seed, score=2000 + seed)
        make_run(env="Hopper-v4", framework="skrl", seed=seed, status="failed")
        status = "failed" if seed == 3 else "completed"
        make_run(env="Hopper-v4", framework="cleanrl", seed=seed, score=2100, status=status)
    (table,) = tables_of(results)
    text = {framework: cells[0].text for _, framework, cells in table.rows}
    # Random actions score 17.89, the bottom of the range.
    assert text["cleanrl"] == "2100.0 ± 0.0 (n 4/3/3; 1 failed: 1579.5)"
    assert text["skrl"] == "- (n 4/0/0; 4 failed: 17.9)"
    assert "failed" not in text["sb3"]
    assert "Failed: runs whose training failed or diverged" in table.caption
    latex = score_table_to_latex(table)
    assert r"\,{\scriptsize 4/3/3; 1 failed: 1579.5}" in latex
    (row,) = (
        row
        for row in csv.DictReader(io.StringIO(score_table_to_csv(table)))
        if row["framework"] == "cleanrl"
    )
    assert row["Hopper-v4 n_failed"] == "1"
    assert float(row["Hopper-v4 mean_with_failed"]) == pytest.approx((3 * 2100 + 17.89) / 4)


def test_tables_without_failed_runs_do_not_mention_them(marked):
    assert "failed" not in marked.caption and "failed" not in score_table_to_markdown(marked)


@pytest.mark.parametrize(
    ("mean", "half", "method", "text"),
    [
        (0.93124, 0.021349, "t", "0.931 ± 0.021"),
        (0.93124, 0.021349, "bca", "0.931 [0.910, 0.953]"),
        (3272.42, 0.0444, "t", "3272.420 ± 0.044"),
        (0.93, 0.05, "t", "0.9 ± 0.1"),
        (0.0123, math.nan, "t", "0.012"),
        (-1e-9, math.nan, "t", "0.000000"),
        (0.0, 0.0, "t", "0.0 ± 0.0"),
        (-0.01, 3.0, "t", "0.0 ± 3.0"),
    ],
)
def test_small_intervals_are_not_shown_as_zero(mean, half, method, text):
    cell = ScoreCell(mean, mean - half, mean + half, (5, 5, 5), "", None)
    assert format_score_without_sizes(cell, method) == text
