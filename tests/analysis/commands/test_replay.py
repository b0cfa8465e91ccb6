"""`parallax study replay --staleness` on traces written by hand."""

import csv
import json

import numpy as np
import pytest

from parallax.analysis.stats.learning_curves import average_stages, compute_stage_means
from parallax.harness.cli.main import main
from parallax.harness.record.trace import TraceWriter

ARGUMENTS = {"algorithm": "r2d2", "framework": "torchrl", "env": "CartPoleHidden-v0"}


def test_stages_are_equal_parts_of_the_run():
    steps, values = np.array([1, 50, 51, 100]), np.array([1.0, 3.0, 5.0, 9.0])
    assert compute_stage_means(steps, values, 100, 2).tolist() == [2, 7]
    found = compute_stage_means(steps, values, 100, 4)
    assert found[[0, 1, 2, 3]] == pytest.approx([1, 3, 5, 9])
    assert np.isnan(compute_stage_means(steps[:2], values[:2], 100, 2)[1])


def test_stages_over_runs_count_those_that_recorded_something():
    first, second = average_stages([np.array([1.0, np.nan]), np.array([3.0, 4.0])])
    assert (first.mean, first.n) == (2, 2) and (second.mean, second.n) == (4, 1)
    assert first.low < 2 < first.high and np.isnan(second.low)


def recorded(make_run, tmp_path, seed, stored, burn_in, first, last, hashed=False, lags=None):
    """A run whose discrepancies fall to half in the second half."""
    hyperparameters_ = {"gamma": 0.99, "stored_state": stored, "burn_in": burn_in}
    variant = f"steps=20000,stored_state={stored},burn_in={burn_in}".lower()
    variant = f"steps=20000,overrides={stored}{burn_in}" if hashed else variant
    folder = make_run(seed=seed, variant=variant, hyperparameters=hyperparameters_, **ARGUMENTS)
    rows = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**rows, "hyperparameters": hyperparameters_}))
    stream = tmp_path / f"{seed}{stored}{burn_in}"
    stream.mkdir()
    writer = TraceWriter(stream)
    for step, share in ((1000, 1.0), (20_480, 0.5)):
        values = {"discrepancy/first": share * first, "discrepancy/last": share * last}
        writer.record(step, values | {"loss/critic": 1.0} | (lags or {}))
    writer.append()
    writer.close()
    with (folder / "trace.parquet").open("wb") as file:
        writer.write_parquet(file)


@pytest.mark.parametrize("hashed", [False, True])
def test_command_distinguishes_strategies(make_run, results, tmp_path, capsys, hashed):
    for seed in (0, 1):
        recorded(make_run, tmp_path, seed, False, 0, 8.0 + seed, 4.0, hashed)
        recorded(make_run, tmp_path, seed, True, 5, 2.0 + seed, 1.0, hashed)
    make_run(seed=0)  # of another algorithm
    assert main(["study", "replay", "--staleness", str(results), "--stages", "2"]) == 0
    text = capsys.readouterr().out
    zero, stored = text.index("zero state, burn-in 0"), text.index("stored state, burn-in 5")
    assert zero < stored and "Not used: 1 of 5 runs" in text
    with (results / "analysis" / "discrepancy.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 3  # strategies, places, and two stages with the whole
    first = [float(row["discrepancy"]) for row in rows[:3]]
    assert first == pytest.approx([6.375, 8.5, 4.25])
    variants = {row["variant"] for row in rows}
    assert len(variants) == 1 and (hashed or variants == {"steps=20000,alignment=common"})
    assert {row["discrepancy_n"] for row in rows} == {"2"}
    assert len(list((results / "analysis").glob("discrepancy_*.p*"))) == 2


def test_discrepancies_are_listed_by_lag(make_run, results, tmp_path, capsys):
    lags = {"lag/actor": 7.0, "lag/mean": 50.0, "lag/max": 90.0}
    for number, third in enumerate(("fresh", "middle", "stale")):
        lags |= {f"lag/{third}": 20.0 + 30 * number, f"discrepancy/first/{third}": 1.0 + number}
        lags |= {f"discrepancy/last/{third}": 0.25}
    for seed in (0, 1):
        recorded(make_run, tmp_path, seed, True, 5, 2.0 + seed, 1.0, lags=lags)
    assert main(["study", "replay", "--staleness", str(results), "--stages", "1"]) == 0
    text = capsys.readouterr().out
    assert "lag in updates: when stored 7 [7, 7] (n=2); when replayed 50" in text
    assert "stale third, lag 80 [80, 80] (n=2): first step 3 [3, 3] (n=2); last step 0.25" in text
    with (results / "analysis" / "discrepancy.csv").open() as file:
        rows = list(csv.DictReader(file))
    kinds = [(row["place"], row["lag_third"], row["lag"], row["actors"]) for row in rows]
    assert len(kinds) == 2 * (2 + 3) and ("first", "middle", "50.0", "1") in kinds
    assert {row["lag_when_stored"] for row in rows} == {"7.0"}


@pytest.mark.parametrize(
    "change", [{"burn_in": "abc"}, {"burn_in": None}, {"burn_in": 1.5}, {"stored_state": "false"}]
)
def test_hyperparameters_of_other_types_are_of_no_strategy(
    make_run, results, tmp_path, capsys, change
):
    for seed in (0, 1):
        recorded(make_run, tmp_path, seed, True, 5, 2.0, 1.0)
    file = sorted(results.rglob("run.json"))[0]
    content = json.loads(file.read_text())
    content["hyperparameters"] |= change
    file.write_text(json.dumps(content))
    assert main(["study", "replay", "--staleness", str(results)]) == 0
    assert "Not used: 1 of 2 runs" in capsys.readouterr().out


def test_a_trace_that_may_be_of_another_run_is_not_used(make_run, results, tmp_path, capsys):
    for seed in (0, 1):
        recorded(make_run, tmp_path, seed, True, 5, 2.0, 1.0)
    file = sorted(results.rglob("run.json"))[0]
    content = json.loads(file.read_text()) | {"files": {"trace.parquet": "0" * 64}}
    file.write_text(json.dumps(content))
    assert main(["study", "replay", "--staleness", str(results)]) == 0
    assert "Not used: 1 of 2 runs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--staleness", "--stages", "1000000000000"], "must be from 1 to 1000"),
        (["--staleness", "--margin", "0.3"], "--margin 0.3 has no effect with --staleness"),
        (["--stages", "2"], "--stages 2 has no effect without --staleness"),
    ],
)
def test_options_without_effect_and_too_many_stages_are_refused(results, capsys, options, message):
    assert main(["study", "replay", str(results), *options]) == 2
    assert message in capsys.readouterr().err


def test_results_without_recorded_states_are_refused(make_run, results, capsys):
    make_run(seed=0)
    assert main(["study", "replay", "--staleness", str(results)]) == 2
    assert "no complete run recorded Q-value discrepancies" in capsys.readouterr().err
