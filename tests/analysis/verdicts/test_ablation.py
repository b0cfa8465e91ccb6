"""Effects that were planted into made-up returns are found, with their share of the gap."""

import dataclasses
import json
import re

import numpy as np
import pytest
from score_groups import make_score_group

from parallax.analysis.data.load import load_runs
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.stats.two_sample import (
    compute_paired_difference,
    compute_ratio_of_means,
    compute_sign_flip_p,
)
from parallax.analysis.verdicts.ablation import (
    CHANGES,
    INCONCLUSIVE,
    NO_EFFECT,
    TOO_FEW_PAIRS,
    judge_ablations,
    judge_effects,
)
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.harness.cli.main import main

SEEDS = 10
# Every seed has luck of its own, which pairing takes out.
LUCK = np.random.default_rng(1).normal(0, 300, SEEDS)
NOISE = np.random.default_rng(2).normal(0, 40, (4, SEEDS))
EFFECTS = {"strong": 600.0, "nothing": 0.0, "nothing+strong": 620.0}
GAP = 1000.0


@pytest.fixture
def study(results, make_run):
    def runs(framework, name, shift, noise):
        variant = "steps=20000" + (f",intervention={name}" if name else "")
        for seed in range(SEEDS):
            score = 1500.0 + shift + LUCK[seed] + noise[seed]
            make_run(
                framework=framework,
                seed=seed,
                score=score,
                variant=variant,
                **({"intervention": name} if name else {}),
            )

    runs("sb3", "", 0.0, NOISE[0])
    runs("cleanrl", "", GAP, NOISE[1])
    for number, (name, shift) in enumerate(EFFECTS.items()):
        runs("sb3", name, shift, NOISE[(number + 2) % 4] / 4)
    make_run(
        framework="sb3", seed=SEEDS, variant="steps=20000,intervention=strong", status="running"
    )
    return results


def test_hashed_variant_is_compared_with_its_own_baseline(results, make_run):
    for seed in range(4):
        identity = {"framework": "sb3", "seed": seed}
        make_run(score=100.0 + seed, variant="steps=20000,gamma=0.9", **identity)
        make_run(
            score=200.0 + 2 * seed,
            variant="steps=20000,overrides=0123456789ab",
            intervention="strong+long",
            hyperparameters={"gamma": 0.9},
            overridden=["gamma"],
            **identity,
        )
    (found,) = judge_ablations(load_runs(results), VerdictOptions())
    assert found.cell.variant == "steps=20000,alignment=common,gamma=0.9"
    assert [(effect.name, effect.result.n) for effect in found.effects] == [("strong+long", 4)]


def test_failed_runs_of_a_hashed_variant_count_as_requested(results, make_run):
    changed = {"variant": "steps=20000,overrides=0123456789ab", "intervention": "strong"}
    for seed in range(4):
        make_run(seed=seed, score=100.0 + seed)
        status = "failed" if seed == 3 else "completed"
        make_run(seed=seed, score=200.0 + seed, status=status, **changed)
    ((effect,),) = (one.effects for one in judge_ablations(load_runs(results), VerdictOptions()))
    group = effect.changed
    assert (group.requested, group.completed, group.n, group.failed) == (4, 3, 3, 1)


def test_effects_and_shares_are_those_planted(study):
    (found,) = judge_ablations(load_runs(study), VerdictOptions())
    assert (found.framework, found.cell.variant) == ("sb3", "steps=20000,alignment=common")
    (gap,) = found.gaps
    assert gap.other == "cleanrl" and gap.result.low < GAP < gap.result.high
    assert [effect.name for effect in found.effects] == ["strong", "nothing", "nothing+strong"]
    for effect in found.effects:
        planted = EFFECTS[effect.name]
        assert effect.result.n == SEEDS and effect.family_size == 3
        assert effect.result.low < planted < effect.result.high
        share = effect.shares["cleanrl"]
        assert share.low < planted / GAP < share.high and share.is_bounded
    strong, nothing, together = found.effects
    assert (strong.verdict, together.verdict) == (CHANGES, CHANGES)
    assert nothing.verdict in (INCONCLUSIVE, NO_EFFECT)
    assert (strong.changed.requested, strong.changed.completed) == (SEEDS + 1, SEEDS)
    parts = strong.result.difference + nothing.result.difference
    assert found.sum_single_effects(together) == pytest.approx(parts)


def test_ablation_command_writes_text_a_table_and_a_figure(study, capsys):
    assert main(["study", "ablation", str(study)]) == 0
    said = capsys.readouterr().out
    assert "strong changes the return: " in said and "after Holm over 3" in said
    assert "10 pairs of 11 and 10 runs requested, 10 and 10 complete" in said
    assert "Not used: 1 of " in said
    assert "Of the gap to CleanRL it is" in said
    assert re.search(r"Its parts alone add up to [-+.0-9]+ \(\d+ pairs of seeds\)", said)
    folder = study / "analysis"
    rows = (folder / "ablation.csv").read_text().splitlines()
    assert len(rows) == 1 + 3 and rows[0].startswith("study,env,algorithm,hps,variant,framework")
    (picture,) = folder.glob("ablation_*.png")
    assert picture.stat().st_size > 5000


def test_ablation_without_interventions_names_the_remedy(results, make_run, capsys):
    make_run()
    assert main(["study", "ablation", str(results)]) == 2
    assert "Train with intervention=none,NAME" in capsys.readouterr().err


def test_gap_that_may_be_zero_has_no_shares():
    rng = np.random.default_rng(0)
    effect, nothing = rng.normal(5, 1, 8), rng.normal(0, 10, 8)
    assert not compute_ratio_of_means(effect, nothing - nothing.mean() + 0.1).is_bounded
    assert not compute_ratio_of_means(effect[:2], effect[:2]).is_bounded


def test_intervals_of_shares_have_their_stated_coverage():
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(1000):
        luck = rng.normal(0, 1, 8)
        gap, effect = 4 + luck + rng.normal(0, 1, 8), 2 + luck / 2 + rng.normal(0, 1, 8)
        found = compute_ratio_of_means(effect, gap)
        covered += not found.is_bounded or found.low <= 0.5 <= found.high
    assert 930 <= covered <= 970


CELL = StudyCell("s", "Mine-v1", "ppo", "original", "")
PLAIN = [10.0, 20.0, 35.0, 40.0]
OTHER = [110.0, 125.0, 130.0, 150.0]
CHANGED = {
    "small": [11.0, 23.0, 33.0, 41.0],
    "large": [70.0, 79.0, 96.0, 105.0],
    "large+small": [72.0, 80.0, 99.0, 103.0],
    "large+unknown": [75.0, 80.0, 99.0, 103.0],
}


def make_group(framework, scores, first=0, cell=CELL):
    made = make_score_group(cell, framework, np.array(scores), {})
    runs = tuple(
        dataclasses.replace(run, id=dataclasses.replace(run.id, seed=seed))
        for seed, run in enumerate(made.runs, first)
    )
    return dataclasses.replace(made, runs=runs)


def make_effect_groups():
    return {
        (CELL, "sb3", "none"): make_group("sb3", PLAIN),
        **{(CELL, "sb3", name): make_group(name, found) for name, found in CHANGED.items()},
        (CELL, "sb3", "once"): make_group("once", [1000.0, 0.0], 3),
        (CELL, "sb3", "never"): make_group("never", []),
        (CELL, "cleanrl", "none"): make_group("cleanrl", OTHER),
        (CELL, "skrl", "none"): make_group("skrl", [1.0, 2.0], 50),  # without a shared seed
        (CELL, "torchrl", "none"): make_group("torchrl", []),
        (CELL, "tianshou", "small"): make_group("tianshou", PLAIN),  # nothing to compare with
        (CELL, "torchrl", "small"): make_group("torchrl", PLAIN),
    }


@pytest.mark.parametrize("seed", [0, 5])
def test_every_number_of_an_effect_is_that_of_its_pairs_of_seeds(seed):
    options = VerdictOptions(endpoint="auc", seed=seed)
    (found,) = judge_effects(make_effect_groups(), "changes", options)
    assert (found.cell, found.framework, found.score_name) == (CELL, "sb3", "score")
    names = ["once", "large", "small", "large+unknown", "large+small"]
    assert [effect.name for effect in found.effects] == names  # the largest first
    assert [effect.name for effect in found.single_effects] == names[:3]
    assert [effect.name for effect in found.joint_effects] == names[3:]
    assert found.sum_single_effects(found.effects[3]) is None
    once, *whole = found.effects
    assert (once.verdict, once.seeds, once.result.n) == (TOO_FEW_PAIRS, (3,), 1)
    assert once.result.difference == 1000.0 - PLAIN[3] and np.isnan(once.p_sign_flips_holm)
    assert once.shares["cleanrl"].share == pytest.approx(960 / (OTHER[3] - PLAIN[3]))
    p, flips = [], []
    for effect in whole:
        values = np.array(CHANGED[effect.name])
        assert effect.result == compute_paired_difference(values, np.array(PLAIN))
        assert (effect.seeds, effect.family_size) == ((0, 1, 2, 3), 4)
        assert effect.pair.difference == pytest.approx(values.mean() - np.mean(PLAIN))
        assert effect.pair.family == "changes on sb3's ppo in study s"
        share = compute_ratio_of_means(values - PLAIN, np.array(OTHER) - PLAIN)
        assert effect.shares == {"cleanrl": share}
        rng = np.random.default_rng(seed)
        assert effect.p_sign_flips == compute_sign_flip_p(values, np.array(PLAIN), rng)
        p.append(effect.result.p)
        flips.append(effect.p_sign_flips)
    assert [effect.p_holm for effect in whole] == pytest.approx(adjust_holm(p))
    assert [effect.p_sign_flips_holm for effect in whole] == pytest.approx(adjust_holm(flips))
    (gap,) = found.gaps
    assert (gap.other, gap.seeds, gap.group.framework) == ("cleanrl", (0, 1, 2, 3), "cleanrl")
    assert gap.result == compute_paired_difference(np.array(OTHER), np.array(PLAIN))


def test_effects_are_corrected_for_each_study_algorithm_and_framework_by_itself():
    groups, cells = {}, []
    for study, env in (("t", "A-v1"), ("s", "B-v1"), ("s", "A-v1")):
        cells.append(cell := dataclasses.replace(CELL, study=study, env=env))
        for framework in ("sb3", "cleanrl"):
            groups[cell, framework, "none"] = make_group(framework, PLAIN, cell=cell)
            groups[cell, framework, "small"] = make_group("small", CHANGED["small"], cell=cell)
    found = judge_effects(groups, "changes", VerdictOptions())
    assert [(item.cell, item.framework, item.effects[0].family_size) for item in found] == [
        *((cells[2], "cleanrl", 2), (cells[1], "cleanrl", 2), (cells[2], "sb3", 2)),
        *((cells[1], "sb3", 2), (cells[0], "cleanrl", 1), (cells[0], "sb3", 1)),
    ]
    assert found[0].score_name == "final return"


def test_groups_of_interventions_are_named_after_them(results, make_run):
    for seed in range(2):
        for name in ("none", "a", "b+a"):
            part = "" if name == "none" else f",intervention={name}"
            variant = f"steps=20000{part},gamma=0.9"
            make_run(seed=seed, score=10.0 * seed, variant=variant, intervention=name)
    (found,) = judge_ablations(load_runs(results), VerdictOptions())
    assert found.cell.variant == "steps=20000,alignment=common,gamma=0.9"
    names = {(effect.name, effect.changed.framework) for effect in found.effects}
    assert names == {("a", "sb3+a"), ("b+a", "sb3+b+a")}
    assert {effect.baseline.framework for effect in found.effects} == {"sb3"}


def test_changed_runs_of_a_recipe_with_other_values_are_not_compared(results, make_run, capsys):
    for seed in range(3):
        make_run(seed=seed, hyperparameters={"gamma": 0.99}, variant="steps=20000")
        changed = {"intervention": "strong", "variant": "steps=20000,intervention=strong"}
        make_run(seed=seed, score=300.0 + seed, hyperparameters={"gamma": 0.5}, **changed)
    assert main(["study", "ablation", str(results)]) == 2
    assert "judged separately: gamma 0.5 (3), 0.99 (3)" in capsys.readouterr().err


def test_other_versions_of_changed_runs_are_named(results, make_run, capsys):
    for seed in range(3):
        for name, version in (("none", "1.0"), ("strong", "2.0")):
            variant = "steps=20000" + (f",intervention={name}" if name != "none" else "")
            folder = make_run(seed=seed, score=100.0 + seed, intervention=name, variant=variant)
            record = json.loads((folder / "run.json").read_text())
            record["provenance"] = {"packages": {"torch": version}}
            (folder / "run.json").write_text(json.dumps(record))
    assert main(["study", "ablation", str(results)]) == 0
    assert "Besides the change: versions differ: torch 1.0 and 2.0." in capsys.readouterr().out
