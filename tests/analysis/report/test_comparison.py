import csv
import io
import math

import numpy as np
import pytest
from rich.console import Console

from parallax.analysis.commands.compare import print_document
from parallax.analysis.data.load import load_runs
from parallax.analysis.labels import format_number, split_variant
from parallax.analysis.report.render_markdown import render_markdown
from parallax.analysis.report.sections.comparison import (
    CSV_COLUMNS,
    compare_frameworks,
    comparison_to_csv,
    make_comparison_document,
    make_notes,
)
from parallax.analysis.verdicts.endpoints import settle_options
from parallax.analysis.verdicts.failures import count_failed_as_bottom
from parallax.analysis.verdicts.groups import group_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.harness.cli.main import main


def render(results, kind, width=100, endpoint="final"):
    loaded = load_runs(results)
    options = settle_options(loaded, VerdictOptions(endpoint=endpoint))
    groups = group_runs(loaded, options)
    treated = count_failed_as_bottom(groups, options)
    rows = compare_frameworks(groups, treated, options, "t", np.random.default_rng(0))
    notes = make_notes(loaded, rows, options, "t")
    if kind == "csv":
        return comparison_to_csv(rows)
    if kind == "markdown":
        return render_markdown(make_comparison_document(loaded, rows, notes))
    file = io.StringIO()
    document = make_comparison_document(loaded, rows, notes)
    print_document(Console(file=file, width=width), document)
    return file.getvalue()


def three_frameworks(make_run, **options):
    for framework, score in (("sb3", -12345.6), ("cleanrl", 300.0), ("torchrl", 12345.6)):
        for seed in range(2):
            make_run(framework=framework, seed=seed, score=score * (1 + seed / 10), **options)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234.4, "1234"),
        (12345.6, "12346"),
        (-999.96, "-1000"),
        (999.4, "999.4"),
        (9.99961, "10.00"),
        (0.012344, "0.01234"),
        (1e-9, "0.000000"),
        (-1e-9, "0.000000"),
        (0.0, "0.000"),
        (1e20, "100000000000000000000"),
        (math.nan, "-"),
        (-math.inf, "-inf"),
    ],
)
def test_numbers_have_four_digits_and_no_exponent(value, text):
    assert format_number(value) == text


def test_commas_in_a_value_do_not_split_a_variant():
    parts = ["steps=1", "alignment=exact", "hidden_sizes=[64,64]"]
    assert split_variant(",".join(parts)) == parts


@pytest.mark.parametrize("width", [100, 80])
def test_the_terminal_table_fits_and_holds_every_number(results, make_run, width):
    three_frameworks(make_run)
    text = render(results, "terminal", width)
    assert max(map(len, text.splitlines())) <= width
    for word in ("CleanRL", "-12963", "315.0", "12963", "(n=2/2)", "furthest"):
        assert word in text
    assert "25926" in text  # 12963 - (-12963)
    assert "(TorchRL - SB3)" in " ".join(text.split()) or width < 100


def test_long_variants_and_many_frameworks_still_fit(results, make_run):
    for framework in "abcdef":
        make_run(framework=framework, variant="steps=1,alignment=exact,hidden_sizes=[256,256]")
        make_run(framework=framework)
    assert max(map(len, render(results, "terminal").splitlines())) <= 100


def test_single_seed_is_labeled_as_having_no_interval(results, make_run):
    make_run()
    assert "n = 1, no interval" in render(results, "markdown")


def test_square_brackets_survive_in_the_terminal(results, make_run):
    make_run(status="failed", failure="[bold]KeyError[/nothing] 'x'")
    make_run(seed=1, env="[red]Env")
    text = render(results, "terminal")
    assert "failed: [bold]KeyError[/nothing] 'x'" in text
    assert "[red]Env" in text


@pytest.mark.parametrize("kind", ["terminal", "markdown"])
def test_unused_runs_are_listed_with_their_reasons(results, make_run, kind):
    make_run(seed=0)
    make_run(seed=1, status="running")
    make_run(seed=2, status="pending")
    text = " ".join(render(results, kind).replace("`", "").split())
    assert "demo/Hopper-v5/ppo/original/sb3/steps=20000/seed=1: running" in text
    assert "seed=2: pending" in text
    assert "3 requested (folders found), 1 completed, 1 used" in text
    assert "never started leaves no folder" in text


def test_csv_is_one_row_per_framework_with_full_precision(results, make_run):
    three_frameworks(make_run)
    make_run(framework="sb3", seed=9, status="running")
    make_run(env="Ant-v5", framework="sb3", status="running")
    rows = list(csv.DictReader(io.StringIO(render(results, "csv"))))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert [(row["env"], row["framework"]) for row in rows] == [
        ("Ant-v5", "sb3"),
        ("Hopper-v5", "cleanrl"),
        ("Hopper-v5", "sb3"),
        ("Hopper-v5", "torchrl"),
    ]
    sb3 = rows[2]
    assert float(sb3["mean"]) == pytest.approx(-12962.88, abs=0.1)
    assert float(sb3["low"]) < float(sb3["mean"]) < float(sb3["high"])
    assert [sb3[f"n_{name}"] for name in ("requested", "completed", "used")] == ["3", "2", "2"]
    assert (sb3["last_step"], sb3["method"]) == ("20480", "t")
    assert [rows[0][name] for name in ("mean", "low", "high", "last_step")] == [""] * 4


def test_csv_lists_last_steps_that_differ_between_seeds(results, make_run):
    make_run(seed=0, scheduled=18_432, steps=18_000)
    make_run(seed=1, scheduled=20_480, steps=18_000)
    assert "18432;20480" in render(results, "csv")


def test_markdown_columns_are_separated_despite_special_characters(results, make_run):
    make_run(env="a|b", failure="x|y", status="failed")
    make_run(env="a|b", seed=1)
    table = [line for line in render(results, "markdown").splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in table} == {4}


def test_several_variants_have_different_labels(results, make_run):
    make_run()
    make_run(variant="steps=20000,alignment=exact")
    first, second, *_ = [line for line in render(results, "markdown").splitlines() if "PPO" in line]
    assert first.split("|")[1].strip() == "Hopper-v5, PPO, original, alignment=common"
    assert second.split("|")[1].strip() == "Hopper-v5, PPO, original, alignment=exact"
    assert render(results, "markdown").startswith("# Final score (study demo, steps=20000)\n")


@pytest.mark.parametrize("variant", ["steps=20000", "steps=20000,overrides=0123456789ab"])
def test_every_output_names_the_level_of_alignment(results, make_run, tmp_path, variant):
    """Paths leave out `common`, and a long variant is a hash."""
    for level, end in (("common", "0"), ("exact", "1")):
        own = variant if level == "common" or "overrides" in variant else f"{variant},n_envs=2"
        for seed in range(2):
            make_run(seed=seed, alignment=level, variant=f"{own}{end * ('overrides' in own)}")
        make_run(framework="skrl", alignment=level, variant=f"{own}{end * ('overrides' in own)}")
    rows = list(csv.DictReader(io.StringIO(render(results, "csv"))))
    assert len({row["variant"] for row in rows}) == 2 and len(rows) == 4
    for level in ("common", "exact"):
        assert sum(f",alignment={level}" in row["variant"] for row in rows) == 2
        assert f"alignment={level}" in render(results, "markdown")
        assert f"alignment={level}" in render(results, "terminal", width=200)
    assert main(["report", str(results), "--output", str(tmp_path / "out"), "--markdown"]) == 0
    names = [path.name for path in (tmp_path / "out").rglob("*.png")]
    text = (tmp_path / "out/report.md").read_text()
    for level in ("common", "exact"):
        assert f"alignment={level}" in text
        assert any(f"alignment-{level}" in name for name in names)


def test_a_failed_run_counts_in_the_setting_of_its_level(results, make_run):
    for seed in range(2):
        make_run(seed=seed)
    make_run(framework="skrl", variant="steps=20000,intervention=x", status="failed")
    (other,) = results.rglob("sb3/*/seed=1")
    (other / "run.json").write_text("damaged")
    loaded = load_runs(results)
    assert {item.id.cell.variant for item in loaded.folders} == {
        "steps=20000,alignment=common",
        "steps=20000,alignment=common,intervention=x",
    }


def test_comparison_uses_the_studys_endpoint_and_shows_final_returns(results, make_run):
    for seed in range(3):
        returns = [[0.0, 0.0], [8.0, 8.0], [10.0 + seed, 10.0 + seed]]
        make_run(seed=seed, timesteps=[5, 10, 15], scheduled=15, returns=returns, endpoint="auc")
    (row,) = csv.DictReader(io.StringIO(render(results, "csv", endpoint="")))
    assert row["endpoint"] == "auc"
    assert float(row["mean"]) == pytest.approx((0 / 2 + 8 + 11 / 2) / 2)
    assert float(row["final_mean"]) == pytest.approx(11)
    text = render(results, "markdown", endpoint="")
    assert text.startswith("# Score: auc")
    assert "final: 11.00" in text and "fixed in the study's configuration" in text
    (row,) = csv.DictReader(io.StringIO(render(results, "csv", endpoint="last-2")))
    assert (row["endpoint"], float(row["mean"])) == ("last-2", pytest.approx(9.5))
    assert render(results, "markdown", endpoint="final").startswith("# Final score")
