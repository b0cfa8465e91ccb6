"""Effects of replay strategies, as planted into made-up runs, and the paper's own numbers."""

import dataclasses
import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from parallax.analysis.data import paper_tables as imp_paper
from parallax.analysis.data.load import load_runs
from parallax.analysis.data.replay_metrics import read_replay_metrics
from parallax.analysis.stats.curve_statistics import compute_steps_to_threshold, normalize_by_human
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.replay import (
    HARMS,
    HELPS,
    INCONCLUSIVE,
    _compute_human_scores,
    classify_effect,
    judge_replay,
)
from parallax.harness.cli.main import main

SEEDS = 10
LUCK = np.random.default_rng(1).normal(0, 300, SEEDS)
NOISE = np.random.default_rng(2).normal(0, 20, (8, SEEDS))
# By framework and replay strategy: what is planted.
PLANTED = {("sb3", "per"): 500.0, ("sb3", "imp"): 700.0, ("cleanrl", "per"): -500.0}
PARTS = {"minibatches": 10.0, "sampling": 1e-3, "priorities": 2e-3, "learning": 4e-3}
ERRORS = [0.5, 0.3, 0.08, 0.06, 0.02, 0.04]


def record_looks(folder, name):
    """A trace with two looks in each third, and what replaying cost."""
    steps = [2_000, 5_000, 8_000, 12_000, 15_000, 19_000]
    table = {"step": steps, "metric": ["replay/mape"] * 6, "value": ERRORS}
    types = {"step": pyarrow.int64(), "metric": pyarrow.string(), "value": pyarrow.float64()}
    columns = {key: pyarrow.array(table[key], kind) for key, kind in types.items()}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "trace.parquet")
    content = json.loads((folder / "run.json").read_text())
    costs = PARTS | {"sweeping": 1e-3 if name == "imp" else 0.0, "measuring": 0.0}
    content["timings"] = {"parts": {"replay": costs}}
    (folder / "run.json").write_text(json.dumps(content))


@pytest.fixture
def study(results, make_run):
    def runs(framework, name, shift, noise):
        for seed in range(SEEDS):
            spec = {"framework": framework, "seed": seed, "algorithm": "ddpg"}
            variant = "steps=20000" + ("" if name == "uniform" else f",replay={name}")
            if name != "uniform":
                spec["replay"] = {"name": name, "alpha": 0.6}
            score = 1500.0 + shift + LUCK[seed] + noise[seed]
            folder = make_run(score=score, variant=variant, **spec)
            if name != "uniform":
                record_looks(folder, name)

    for number, framework in enumerate(("sb3", "cleanrl")):
        runs(framework, "uniform", 0.0, NOISE[number])
    for number, ((framework, name), shift) in enumerate(PLANTED.items(), 2):
        runs(framework, name, shift, NOISE[number])
    make_run(
        framework="sb3", seed=SEEDS, algorithm="ddpg", status="running",
        variant="steps=20000,replay=per", replay={"name": "per", "alpha": 0.6},
    )  # fmt: skip
    return results


def test_effects_are_those_planted_and_frameworks_are_compared(study):
    found = judge_replay(read_replay_metrics(load_runs(study)), VerdictOptions())
    words = {}
    for item in found.effects:
        for effect in item.effects:
            planted = PLANTED[item.framework, effect.name]
            assert effect.result.low < planted < effect.result.high
            assert effect.result.n == SEEDS
            words[item.framework, effect.name] = classify_effect(effect)
    assert words == {("sb3", "per"): HELPS, ("sb3", "imp"): HELPS, ("cleanrl", "per"): HARMS}
    (pair,) = found.agreements
    assert pair.name == "per" and pair.verdict == "disagree"
    assert abs(pair.difference.difference) == pytest.approx(1000, abs=60)
    unsure = dataclasses.replace(pair, words=(HELPS, INCONCLUSIVE))
    assert unsure.verdict == "inconclusive"


def test_errors_costs_and_gains_have_their_n(study):
    found = judge_replay(read_replay_metrics(load_runs(study)), VerdictOptions())
    ways = {(way.framework, way.name): way for way in found.strategy_results}
    imp, per = ways["sb3", "imp"], ways["sb3", "per"]
    assert [error.mean for error in imp.errors] == pytest.approx([0.4, 0.07, 0.03])
    assert {error.n for error in imp.errors} == {SEEDS}
    assert imp.total == pytest.approx(7e-4) and imp.sweeps.mean == pytest.approx(1e-4)
    assert (per.group.requested, per.group.completed) == (SEEDS + 1, SEEDS)
    assert imp.gain.share == pytest.approx(0.1, abs=0.02) and imp.gain.low < imp.gain.high
    assert imp.utilisation.n_reached == SEEDS
    assert imp.utilisation.median < ways["sb3", "uniform"].utilisation.median
    assert not ways["sb3", "uniform"].errors[0].n


def test_ways_of_one_name_are_told_apart_by_what_differs(results, make_run):
    for alpha in (0.6, 0.7):
        variant = f"steps=20000,replay=per,replay.alpha={alpha}"
        make_run(replay={"name": "per", "alpha": alpha, "beta": 0.4}, variant=variant)
    assert {item.name for item in read_replay_metrics(load_runs(results))} == {
        "per, alpha=0.6",
        "per, alpha=0.7",
    }


def test_the_command_tells_it_in_words_tables_and_figures(study, capsys):
    assert main(["study", "replay", str(study)]) == 0
    said = capsys.readouterr().out
    assert "per: helps; +" in said and "10 pairs of seeds (11 and 10 runs requested" in said
    assert "CleanRL and SB3 disagree (harms; helps)" in said
    assert "3 comparisons with uniform replay: 1 harms, 2 helps" in said
    assert "51 run folders: 50 complete, 50 used" in said
    rows = (study / "analysis" / "replay.csv").read_text().splitlines()
    assert len(rows) == 1 + 5 and "mape_2_n" in rows[0]
    assert len(list((study / "analysis").glob("replay_*.png"))) == 2


def test_without_another_replay_the_remedy_is_told(results, make_run, capsys):
    make_run()
    assert main(["study", "replay", str(results)]) == 2
    assert "every run replays uniformly. Train with replay=uniform,per" in capsys.readouterr().err


def test_published_medians_are_not_medians_and_the_right_ones_are_told():
    rows = [
        normalize_by_human(np.array(scores), *imp_paper.ATARI_RANDOM_HUMAN[game])
        for game, scores in imp_paper.IMP_ATARI_SCORES.items()
    ]
    table = np.array(rows)
    np.testing.assert_allclose(np.median(table, axis=0), [126.2, 146.3, 145.2], atol=0.1)
    np.testing.assert_allclose(table.mean(axis=0), [389.2, 405.9, 420.5], atol=0.1)
    np.testing.assert_allclose(np.sort(table, axis=0)[4], imp_paper.IMP_PRINTED_MEDIANS, atol=0.4)


def test_steps_until_a_score_count_those_who_never_reach_it():
    steps = np.array([1.0, 2.0, 3.0])
    curves = [(steps, np.array(returns)) for returns in ([0, 5, 9], [5, 0, 0], [0, 0, 0])]
    found = compute_steps_to_threshold(curves, 5.0)
    assert (found.n_runs, found.n_reached, found.median) == (3, 2, 2.0)
    assert compute_steps_to_threshold(curves[2:], 5.0).median == float("inf")


def test_scores_of_the_paper_are_in_the_table_of_human_scores():
    found = {(one.framework, one.name): one for one in _compute_human_scores(())}
    assert set(found) == {(imp_paper.IMP_SOURCE, name) for name in imp_paper.IMP_STRATEGIES}
    for i, name in enumerate(imp_paper.IMP_STRATEGIES):
        one = found[imp_paper.IMP_SOURCE, name]
        shares = [
            100 * (scores[i] - low) / (high - low)
            for game, scores in imp_paper.IMP_ATARI_SCORES.items()
            for low, high in [imp_paper.ATARI_RANDOM_HUMAN[game]]
        ]
        assert one.games == len(shares)
        assert (one.median, one.mean) == pytest.approx((np.median(shares), np.mean(shares)))
