"""Effects of replay strategies, as planted into made-up runs, and the paper's own numbers."""

import dataclasses
import json
import types

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from score_groups import make_curve_run, make_score_group

from parallax.analysis.data import paper_tables as imp_paper
from parallax.analysis.data import replay_metrics
from parallax.analysis.data.load import load_runs, read_runs
from parallax.analysis.data.packed import write_packed
from parallax.analysis.data.replay_metrics import (
    UNIFORM,
    RecurrentStateStrategy,
    ReplayMetrics,
    RunStaleness,
    read_replay_metrics,
)
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.report.sections.replay import format_replay_study, format_staleness_lines
from parallax.analysis.stats.learning_curves import compute_steps_to_threshold, normalize_by_human
from parallax.analysis.stats.two_sample import NO_PAIRS, compute_ratio_of_means
from parallax.analysis.verdicts import ablation, replay
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.replay import (
    HARMS,
    HELPS,
    INCONCLUSIVE,
    NO_DIFFERENCE,
    _compute_human_scores,
    classify_effect,
    get_strategy_order,
    judge_replay,
    summarize_staleness,
)
from parallax.analysis.verdicts.statements import EQUIVALENT
from parallax.harness.cli.main import main
from parallax.harness.record.run_json import RunProvenance

SEEDS = 10
LUCK = np.random.default_rng(1).normal(0, 300, SEEDS)
NOISE = np.random.default_rng(2).normal(0, 20, (8, SEEDS))
# By framework and replay strategy: what is planted.
PLANTED = {("sb3", "per"): 500.0, ("sb3", "imp"): 700.0, ("cleanrl", "per"): -500.0}
PARTS = {"minibatches": 10.0, "sampling": 1e-3, "priorities": 2e-3, "learning": 4e-3}
ERRORS = [0.5, 0.3, 0.08, 0.06, 0.02, 0.04]
WEIGHTS = [0.9, 0.7, 0.05, 0.03, 0.001, 0.003]


def record_looks(folder, name):
    """A trace with two looks in each third, and what replaying cost."""
    steps = [2_000, 5_000, 8_000, 12_000, 15_000, 19_000]
    metrics = ["replay/mape"] * 6 + ["replay/mean_weight"] * 6
    table = {"step": steps * 2, "metric": metrics, "value": ERRORS + WEIGHTS}
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
            variant = "steps=20000,eval_every=2000,eval_episodes=4"
            variant += "" if name == "uniform" else f",replay={name}"
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
    names = {(item.framework, item.name, item.group.framework) for item in found.strategy_results}
    assert names == {
        (*key, " ".join(key)) for key in [*PLANTED, ("sb3", "uniform"), ("cleanrl", "uniform")]
    }
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
    assert [weight.mean for weight in imp.weights] == pytest.approx([0.8, 0.04, 0.002])
    assert {item.n for item in (*imp.errors, *imp.weights)} == {SEEDS}
    assert imp.total == pytest.approx(7e-4) and imp.sweeps.mean == pytest.approx(1e-4)
    assert (per.group.requested, per.group.completed) == (SEEDS + 1, SEEDS)
    assert imp.gain.share == pytest.approx(0.1, abs=0.02) and imp.gain.low < imp.gain.high
    assert imp.utilisation.n_reached == SEEDS
    assert imp.utilisation.median < ways["sb3", "uniform"].utilisation.median
    assert not ways["sb3", "uniform"].errors[0].n


def edit_record(folder, **changes):
    content = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(content | changes))


def test_a_trace_that_may_be_of_another_run_is_not_used(results, make_run, capsys):
    replay_ = {"name": "per", "alpha": 0.6}
    for seed in range(2):
        folder = make_run(seed=seed, replay=replay_, variant="steps=20000,replay=per")
        record_looks(folder, "per")
        edit_record(folder, files={"trace.parquet": f"{seed}" * 64})
    (way,) = judge_replay(
        read_replay_metrics(load_runs(results)), VerdictOptions()
    ).strategy_results
    assert {interval.n for interval in (*way.errors, *way.weights)} == {0}
    assert main(["study", "replay", str(results)]) == 0
    assert "corrupted trace.parquet: it is not what the run wrote" in capsys.readouterr().out


def test_costs_that_lack_a_part_are_left_out(results, make_run):
    replay_ = {"name": "per", "alpha": 0.6}
    for seed in range(2):
        folder = make_run(seed=seed, replay=replay_, variant="steps=20000,replay=per")
        record_looks(folder, "per")
    edit_record(folder, timings={"parts": {"replay": {"sampling": 1.0, "minibatches": 1.0}}})
    (way,) = judge_replay(
        read_replay_metrics(load_runs(results)), VerdictOptions()
    ).strategy_results
    assert {interval.n for interval in way.seconds.values()} == {1}


def test_strategies_with_one_name_are_labeled_by_their_differing_fields(results, make_run):
    for alpha in (0.6, 0.7):
        variant = f"steps=20000,replay=per,replay.alpha={alpha}"
        make_run(replay={"name": "per", "alpha": alpha, "beta": 0.4}, variant=variant)
    assert {item.name for item in read_replay_metrics(load_runs(results))} == {
        "per, alpha=0.6",
        "per, alpha=0.7",
    }


def test_records_without_smallest_have_the_default_memory():
    old, new = {"name": "imp", "alpha": 0.6}, {"name": "imp", "alpha": 0.6, "smallest": "memory"}
    names = replay_metrics._name_strategies(
        [replay_metrics._get_strategy({"replay": one}) for one in (old, new)]
    )
    assert names == ["imp", "imp"]


@pytest.mark.parametrize(
    ("variant", "name"),
    [
        ("steps=20000,overrides=0a", "?"),
        ("steps=20000,replay=per", "per"),
        ("steps=20000", UNIFORM),
    ],
)
def test_a_run_without_record_counts_for_the_strategy_of_its_variant(
    results, make_run, variant, name
):
    make_run(variant="steps=20000")
    whole = make_run(variant="steps=20000,replay=per", replay={"name": "per", "alpha": 0.6})
    broken = make_run(seed=1, variant=variant)
    (broken / "run.json").write_text("{")
    other = make_run(seed=1, env="Hopper-v4", variant="steps=7")
    (other / "run.json").write_text("{")
    found = {item.item.path: item for item in read_replay_metrics(load_runs(results))}
    assert (found[broken].name, found[whole].name) == (name, "per")
    assert found[other].cell.variant.startswith("steps=7")
    assert found[broken].cell.variant.startswith("steps=20000")


def test_replay_command_writes_text_tables_and_figures(study, capsys):
    assert main(["study", "replay", str(study)]) == 0
    said = capsys.readouterr().out
    assert "Mean weight of the losses in each third of training" in said
    assert "imp: 0.8000 (0.8000 to 0.8000) n=10; 0.04000 (" in said
    assert "per: helps; +" in said and "10 pairs of seeds (11 and 10 runs requested" in said
    assert "CleanRL and SB3 disagree (harms; helps)" in said
    assert "per, DDPG, Hopper-v5 (demo, hyperparameters original, steps=20000," in said
    assert "3 comparisons with uniform replay: 1 harms, 2 helps" in said
    assert "51 run folders: 50 complete, 50 used" in said
    rows = (study / "analysis" / "replay.csv").read_text().splitlines()
    assert len(rows) == 1 + 5 and "mape_2_n" in rows[0]
    assert len(list((study / "analysis").glob("replay_*.png"))) == 2


def test_a_packed_file_has_the_same_effects_and_no_errors_of_priorities(study, tmp_path, capsys):
    packed = tmp_path / "both.parquet"
    write_packed(read_runs(study), packed)
    assert main(["study", "replay", str(packed)]) == 0
    printed = capsys.readouterr().out
    assert "3 comparisons with uniform replay: 1 harms, 2 helps" in printed
    assert (
        printed.count(" and 29 more: errors of priorities are unknown: packed files have no traces")
        == 1
    )
    found = [
        judge_replay(read_replay_metrics(load_runs(path)), VerdictOptions())
        for path in (study, packed)
    ]
    for numbers in (
        [[effect.result.low for item in one.effects for effect in item.effects] for one in found],
        [[result.total for result in one.strategy_results] for one in found],
    ):
        assert len(numbers[0]) >= 3
        np.testing.assert_array_equal(*numbers)
    assert (tmp_path / "both-analysis" / "replay.csv").is_file()
    assert main(["study", "replay", str(packed), "--staleness"]) == 2
    assert "Packed files have no traces: name the folder" in capsys.readouterr().err


def test_study_with_one_replay_strategy_names_the_remedy(results, make_run, capsys):
    make_run()
    assert main(["study", "replay", str(results)]) == 2
    assert "every run replays uniformly. Train with replay=uniform,per" in capsys.readouterr().err


def test_printed_medians_are_the_fourth_smallest_and_not_the_median():
    rows = [
        normalize_by_human(np.array(scores), *imp_paper.ATARI_RANDOM_HUMAN[game])
        for game, scores in imp_paper.IMP_ATARI_SCORES.items()
    ]
    table = np.array(rows)
    np.testing.assert_allclose(np.median(table, axis=0), [126.2, 146.3, 145.2], atol=0.1)
    np.testing.assert_allclose(table.mean(axis=0), [389.2, 405.9, 420.5], atol=0.1)
    np.testing.assert_allclose(np.sort(table, axis=0)[4], imp_paper.IMP_PRINTED_MEDIANS, atol=0.4)


def test_steps_until_a_score_count_runs_that_never_reach_it():
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


@pytest.mark.parametrize(
    ("verdict", "difference", "word"),
    [
        (ablation.CHANGES, 1.0, HELPS),
        (ablation.CHANGES, -1.0, HARMS),
        (ablation.NO_EFFECT, 1.0, NO_DIFFERENCE),
        (ablation.INCONCLUSIVE, 1.0, INCONCLUSIVE),
        (ablation.TOO_FEW_PAIRS, 1.0, INCONCLUSIVE),
    ],
)
def test_effects_have_a_one_word_verdict(verdict, difference, word):
    result = types.SimpleNamespace(difference=difference)
    assert classify_effect(types.SimpleNamespace(verdict=verdict, result=result)) == word


@pytest.mark.parametrize(
    ("n", "verdict", "p", "word"),
    [
        (1, EQUIVALENT, 0.0, ablation.TOO_FEW_PAIRS),
        (2, EQUIVALENT, 0.0, ablation.NO_EFFECT),
        (2, "different", 0.049, ablation.CHANGES),
        (2, "different", 0.05, ablation.INCONCLUSIVE),
        (2, "inconclusive", 1.0, ablation.INCONCLUSIVE),
    ],
)
def test_an_effect_needs_two_pairs_and_equivalence_comes_first(n, verdict, p, word):
    result, item = types.SimpleNamespace(n=n), types.SimpleNamespace(verdict=verdict)
    assert ablation._decide_verdict(result, p, item, VerdictOptions(alpha=0.05)) == word


CELL = StudyCell("s", "ALE/Pong-v5", "dqn", "original", "steps=9")


def make_seeds(first, scores):
    made = make_score_group(CELL, "sb3", np.array(scores, dtype=float), {})
    runs = tuple(
        dataclasses.replace(run, id=dataclasses.replace(run.id, seed=seed))
        for seed, run in enumerate(made.runs, first)
    )
    return dataclasses.replace(made, runs=runs)


def test_effects_are_compared_on_the_seeds_that_all_four_groups_share():
    def make_effect(first, changed, plain):
        return types.SimpleNamespace(
            changed=make_seeds(first, changed), baseline=make_seeds(first, plain)
        )

    one, other = make_effect(0, [3, 5, 9], [1, 1, 1]), make_effect(1, [2, 4, 6], [1, 2, 9])
    found = replay._compare_effects(one, other)
    assert (found.n, found.difference) == (2, np.mean([4 - 1, 8 - 2]))
    assert replay._compare_effects(one, make_effect(3, [1], [1])) == NO_PAIRS
    assert ablation._compare_by_seed(one.changed, make_seeds(3, [1])) == ((), NO_PAIRS)
    seeds, gap = ablation._compare_by_seed(one.changed, other.baseline)
    assert (seeds, gap.n, gap.difference) == ((1, 2), 2, np.mean([5 - 1, 9 - 2]))


def test_human_scores_are_those_of_atari_games_with_runs():
    def make_way(env, scores, framework="sb3"):
        group = make_score_group(CELL, framework, np.array(scores, dtype=float), {})
        cell = dataclasses.replace(CELL, env=env)
        return types.SimpleNamespace(cell=cell, framework=framework, name="per", group=group)

    low, high = imp_paper.ATARI_RANDOM_HUMAN["Pong"]
    ways = [
        make_way("ALE/Pong-v5", [low, high]),
        make_way("PongNoFrameskip-v4", [high]),
        make_way("MinAtar/Pong-v1", [0.0]),
        make_way("ALE/Unheard-v5", [0.0]),
    ]
    ours, *papers = _compute_human_scores(ways)
    assert dataclasses.astuple(ours)[:3] == ("sb3", "per", 2)
    assert (ours.median, ours.mean) == pytest.approx((75.0, 75.0))  # 50% and 100%
    other = make_way("ALE/Pong-v5", [high])
    other.cell = dataclasses.replace(other.cell, study="t", variant="steps=5")
    found = _compute_human_scores([*ways, other])[:2]
    assert [(one.cell.study, one.games, one.mean) for one in found] == [("s", 2, 75), ("t", 1, 100)]
    assert {item.framework for item in papers} == {imp_paper.IMP_SOURCE}


def make_staleness(seed, stored, burn_in, values, variant, **spec):
    (made,) = make_seeds(seed, [0.0]).runs
    strategy = RecurrentStateStrategy(stored, burn_in)
    cell = dataclasses.replace(CELL, variant=variant)
    given = {"stored_state": stored, "burn_in": burn_in, "tau": 0.5}
    run = dataclasses.replace(
        made,
        id=dataclasses.replace(made.id, cell=cell),
        spec={"seed": seed, "hyperparameters": given, "overridden": list(given), **spec},
        results=np.full((1, 1), float(seed)),
    )
    steps = np.array([100, 400, 900])
    found = {"first": (steps, np.array(values)), "last": (steps, np.array(values) / 2)}
    return RunStaleness(run, strategy, found)


def test_versions_that_differ_between_strategies_are_named():
    items = [
        make_staleness(1, stored, 4, [1.0, 3.0, 8.0], f"steps=9,stored_state={stored}")
        for stored in (True, False)
    ]
    for version, named in (("2", False), ("3", True)):
        made = [RunProvenance(packages={"torch": one}) for one in ("2", version)]
        runs = [
            dataclasses.replace(item, run=dataclasses.replace(item.run, provenance=each))
            for item, each in zip(items, made, strict=True)
        ]
        (setting,) = summarize_staleness(runs, 2)
        *_, last = format_staleness_lines(setting)
        assert ("versions of torch 2 and 3." in last) == named


def test_staleness_is_averaged_by_strategy_and_part_of_the_run():
    items = [
        make_staleness(1, True, 4, [1.0, 3.0, 8.0], "steps=9,burn_in=4,stored_state=true"),
        make_staleness(3, True, 4, [2.0, 4.0, 6.0], "steps=9,burn_in=4,stored_state=true"),
        make_staleness(2, False, 0, [9.0, 9.0, 9.0], "steps=9,stored_state=false,burn_in=0"),
    ]
    (setting,) = summarize_staleness(items, 2)
    assert (setting.cell.variant, setting.framework) == ("steps=9", "sb3")
    zero, stored = setting.strategies
    assert zero.strategy.title == "zero state, burn-in 0"
    assert stored.strategy.title == "stored state, burn-in 4"
    assert stored.seeds == (1, 3) and (stored.score.mean, stored.score.n) == (2.0, 2)
    # Halves of 1,000 steps: the first two values, and the last one.
    assert [stage.mean for stage in stored.stages["first"]] == [np.mean([2, 3]), np.mean([8, 6])]
    assert stored.overall["first"].mean == np.mean([np.mean([2, 8]), np.mean([3, 6])])
    assert stored.overall["last"].mean == stored.overall["first"].mean / 2


def test_a_variant_that_is_a_digest_is_the_same_for_all_strategies():
    digest = "steps=9,overrides=0123456789ab"
    items = [
        make_staleness(1, True, 4, [1.0, 3.0, 8.0], digest, threads=1),
        make_staleness(2, False, 0, [1.0, 3.0, 8.0], digest.replace("0", "f"), threads=1),
        make_staleness(2, False, 0, [1.0, 3.0, 8.0], digest, threads=2),
    ]
    found = summarize_staleness(items, 2)
    assert sorted(len(setting.strategies) for setting in found) == [1, 2]
    for setting in found:
        start, _, name = setting.cell.variant.partition(",overrides=")
        assert start == "steps=9" and len(name) == 12 and name not in digest


def test_a_digest_and_a_variant_of_the_same_settings_are_one_setting():
    items = [
        make_staleness(1, True, 4, [1.0, 3.0, 8.0], "steps=9,tau=0.5,burn_in=4", threads=1),
        make_staleness(2, False, 0, [1.0, 3.0, 8.0], "steps=9,overrides=0123456789ab", threads=1),
        make_staleness(
            2, True, 4, [1.0, 3.0, 8.0], "steps=9,tau=0.5,actors=2", threads=1, actors=2
        ),
    ]
    items[2] = dataclasses.replace(items[2], strategy=RecurrentStateStrategy(True, 4, 2))
    (setting,) = summarize_staleness(items, 2)
    assert setting.cell.variant == "steps=9,tau=0.5"
    titles = [item.strategy.title for item in setting.strategies]
    assert titles == [
        *("zero state, burn-in 0", "stored state, burn-in 4", "stored state, burn-in 4, 2 actors")
    ]


def test_strategies_of_other_values_or_options_are_other_settings():
    items = [
        make_staleness(1, True, 4, [1.0, 3.0, 8.0], "steps=9,burn_in=4", n_envs=1),
        make_staleness(1, False, 0, [1.0, 3.0, 8.0], "steps=9,burn_in=0", n_envs=1),
    ]
    assert len(summarize_staleness(items, 2)) == 1
    run = items[1].run
    values = {**run.spec["hyperparameters"], "tau": 0.1}
    for spec, name in (({"hyperparameters": values}, "tau"), ({"n_envs": 8}, "n_envs")):
        changed = dataclasses.replace(run, spec={**run.spec, **spec})
        found = summarize_staleness([items[0], dataclasses.replace(items[1], run=changed)], 2)
        assert len(found) == 2 and all(f"{name}=" in one.cell.variant for one in found)


def test_strategies_are_ordered_from_uniform_to_those_of_papers_then_by_name():
    names = ["zoo", "imp", "per, alpha=0.7", "uniform", "atdc", "per, alpha=0.6", "other", "rank"]
    assert sorted(names, key=get_strategy_order) == [
        *("uniform", "per, alpha=0.6", "per, alpha=0.7", "rank", "atdc", "imp", "other", "zoo")
    ]


def make_metrics(name, seed, returns, checks=((), ()), framework="sb3", cell=CELL, **costs):
    steps = np.array([30, 60, 90])
    run = make_curve_run(cell, framework, seed, steps, returns)
    at, errors = (np.array(part, dtype=float) for part in checks)
    series = at.astype(int), errors
    return ReplayMetrics(run, cell, name, series, (series[0], 2 * errors), costs)


def test_numbers_of_a_strategy_are_those_of_its_runs():
    cost = {"sampling": 2.0, "priorities": 4.0, "learning": 6.0, "sweeping": 8.0}
    items = [
        make_metrics("uniform", 0, [1.0, 2.0, 10.0]),
        make_metrics("uniform", 1, [1.0, 2.0, 24.0]),
        make_metrics(
            "per", 0, [5.0, 15.0, 12.0], ([0, 29, 30, 90], [1, 3, 5, 7]), minibatches=2, **cost
        ),
        make_metrics("per", 1, [4.0, 14.0, 16.0], ([59, 60], [9, 11]), minibatches=4, **cost),
        make_metrics("per", 2, [4.0, 14.0, 20.0], minibatches=0, **cost),
        make_metrics("imp", 0, [5.0, 15.0, 24.0]),
        make_metrics("imp", 1, [4.0, 14.0, 8.0]),
        make_metrics("imp", 2, [4.0, 14.0, 38.0]),
    ]
    found = judge_replay(items, VerdictOptions())
    uniform, per, imp = found.strategy_results
    assert [one.name for one in found.strategy_results] == ["uniform", "per", "imp"]
    assert per.group.framework == "sb3 per"
    assert [stage.mean for stage in per.stages] == [np.mean([5, 4, 4]), np.mean([15, 14, 14]), 16.0]
    # Thirds of 90 steps; the check at the very end belongs to the last one.
    assert [(error.mean, error.n) for error in per.errors] == [(2.0, 1), (7.0, 2), (9.0, 2)]
    seconds = {part: (one.mean, one.n) for part, one in per.seconds.items()}
    assert seconds == {"sampling": (0.75, 2), "priorities": (1.5, 2), "learning": (2.25, 2)}
    assert (per.sweeps.mean, per.total) == (3.0, 4.5)
    used = per.utilisation
    assert (used.n_runs, used.n_reached, used.median) == (3, 1, np.inf)
    assert (uniform.utilisation.n_reached, uniform.gain, per.gain) == (1, None, None)
    values, base = np.array([24.0, 8.0, 38.0]), np.array([12.0, 16.0, 20.0])
    assert imp.gain == compute_ratio_of_means(values - base, base)
    assert {effect.name for item in found.effects for effect in item.effects} == {"per", "imp"}
    assert found.agreements == ()
    assert found.effects[0].effects[0].pair.family.startswith("replay strategies on sb3's dqn")


def test_gain_is_relative_to_the_absolute_other_score():
    ours, per = make_seeds(0, [-5.0, -6.0, -9.0]), make_seeds(0, [-10.0, -12.0, -11.0])
    found = replay._compute_gain(ours, per, "imp")
    assert found.share == pytest.approx((13 / 3) / 11) and found.n == 3
    assert replay._compute_gain(ours, make_seeds(2, [4.0]), "imp").n == 1
    assert replay._compute_gain(ours, make_seeds(3, [1.0]), "imp") is None
    assert replay._compute_gain(ours, make_seeds(0, [1.0, -1.0]), "imp") is None
    tiny = replay._compute_gain(ours, make_seeds(0, [1e-11, 1e-11]), "imp")
    assert tiny is not None and replay._compute_gain(ours, None, "imp") is None
    assert {replay._compute_gain(ours, per, name) for name in ("per", "uniform")} == {None}


def test_all_pairs_of_frameworks_are_compared_in_a_setting():
    items = []
    for number, framework in enumerate(("b", "a", "c")):
        cell = dataclasses.replace(
            CELL, variant=f"x={number}", hps="h" if framework != "c" else "i"
        )
        for seed in range(4):
            for name, gain in (("uniform", 0.0), ("per", 100.0 * (1 - 2 * (number == 1)))):
                score = 10.0 * seed + gain * (1 + 0.01 * (seed % 2))
                items.append(
                    make_metrics(name, seed, [0, 0, score], framework=framework, cell=cell)
                )
    found = judge_replay(items, VerdictOptions())
    (pair,) = found.agreements  # c has other hyperparameters
    assert (pair.study, pair.env, pair.algorithm, pair.name) == ("s", CELL.env, "dqn", "per")
    assert (pair.frameworks, pair.words) == (("a", "b"), (HARMS, HELPS))
    assert (pair.verdict, pair.difference.difference) == ("disagree", pytest.approx(-201.0))
    assert dataclasses.replace(pair, words=(HELPS, HELPS)).verdict == "agree"
    (line,) = (text for text in format_replay_study(found) if "effects differ" in text)
    assert "with other settings (a: x=1; b: x=0)" in line
    assert dataclasses.replace(pair, words=(INCONCLUSIVE, INCONCLUSIVE)).verdict == "inconclusive"


def test_lags_are_averaged_over_the_runs_that_recorded_them():
    items = [make_staleness(seed, True, 4, [1.0, 3.0, 8.0], "steps=9") for seed in (1, 2, 3)]
    unknown = dataclasses.replace(items[1].run.id, seed=None)
    items[1] = dataclasses.replace(items[1], run=dataclasses.replace(items[1].run, id=unknown))
    items[0] = dataclasses.replace(items[0], lags={"mean": 4.0}, by_lag={("first", "stale"): 2.0})
    items[2] = dataclasses.replace(items[2], lags={"mean": 8.0, "max": 9.0})
    ((summary,),) = (setting.strategies for setting in summarize_staleness(items, 3))
    assert (summary.lags["mean"].mean, summary.lags["mean"].n) == (6.0, 2)
    assert (summary.lags["max"].mean, summary.lags["max"].n) == (9.0, 1)
    assert summary.lags["actor"].n == 0 and len(summary.by_lag) == 6
    assert (summary.by_lag["first", "stale"].mean, summary.by_lag["last", "stale"].n) == (2.0, 0)
    assert summary.seeds == (0, 1, 3)
    # The second third of 1,000 steps has no record, and does not count.
    empty = make_staleness(2, True, 4, [1.0, 3.0, 8.0], "steps=9")
    empty.discrepancies["last"] = (np.zeros(0, dtype=int), np.zeros(0))
    ((summary,),) = (setting.strategies for setting in summarize_staleness([empty, items[0]], 3))
    assert summary.overall["last"].n == 1 and summary.overall["first"].n == 2


def test_results_are_ordered_by_setting_framework_and_strategy():
    places = [("b", "uniform"), ("a", "per"), ("b", "imp"), ("a", "uniform"), ("b", "per")]
    items = [make_metrics(name, 0, [0, 0, 1.0], framework=framework) for framework, name in places]
    found = judge_replay(items, VerdictOptions()).strategy_results
    assert [(one.framework, one.name) for one in found] == [
        *(("a", "uniform"), ("a", "per"), ("b", "uniform"), ("b", "per"), ("b", "imp"))
    ]


def test_replay_of_a_recipe_with_other_values_is_not_compared(results, make_run):
    for seed in range(3):
        make_run(seed=seed, hyperparameters={"gamma": 0.99})
        replayed = {"replay": {"name": "per"}, "variant": "steps=20000,replay=per"}
        make_run(seed=seed, score=300.0, hyperparameters={"gamma": 0.5}, **replayed)
    loaded = load_runs(results)
    assert judge_replay(read_replay_metrics(loaded), VerdictOptions()).effects == ()
    assert "gamma 0.5 (3), 0.99 (3)" in loaded.conflicts[0]
