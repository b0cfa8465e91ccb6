"""Effects that were planted into made-up returns are found, with their share of the gap."""

import numpy as np
import pytest

from parallax.analysis.data.load import load_runs
from parallax.analysis.stats.two_sample import compute_ratio_of_means
from parallax.analysis.verdicts.ablation import CHANGES, INCONCLUSIVE, NO_EFFECT, judge_ablations
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


def test_a_variant_that_was_shortened_to_a_digest_is_set_beside_its_own(results, make_run):
    for seed in range(4):
        identity = {"framework": "sb3", "seed": seed}
        make_run(score=100.0 + seed, variant="steps=20000,gamma=0.9", **identity)
        make_run(
            score=200.0 + 2 * seed,
            variant="steps=20000,overrides=0123456789ab",
            intervention="strong+long",
            **identity,
        )
    (found,) = judge_ablations(load_runs(results), VerdictOptions())
    assert found.cell.variant == "steps=20000,alignment=common,gamma=0.9"
    assert [(effect.name, effect.result.n) for effect in found.effects] == [("strong+long", 4)]


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


def test_the_command_tells_it_in_words_a_table_and_a_figure(study, capsys):
    assert main(["study", "ablation", str(study)]) == 0
    said = capsys.readouterr().out
    assert "strong changes the return: " in said and "after Holm over 3" in said
    assert "10 pairs of 11 and 10 runs requested, 10 and 10 complete" in said
    assert "Of the gap to CleanRL it is" in said and "Its parts alone add up to" in said
    folder = study / "analysis"
    rows = (folder / "ablation.csv").read_text().splitlines()
    assert len(rows) == 1 + 3 and rows[0].startswith("study,env,algorithm,hps,variant,framework")
    (picture,) = folder.glob("ablation_*.png")
    assert picture.stat().st_size > 5000


def test_without_an_intervention_the_remedy_is_told(results, make_run, capsys):
    make_run()
    assert main(["study", "ablation", str(results)]) == 2
    assert "Train with intervention=none,NAME" in capsys.readouterr().err


def test_a_gap_that_may_be_nothing_has_no_shares():
    rng = np.random.default_rng(0)
    effect, nothing = rng.normal(5, 1, 8), rng.normal(0, 10, 8)
    assert not compute_ratio_of_means(effect, nothing - nothing.mean() + 0.1).is_bounded
    assert not compute_ratio_of_means(effect[:2], effect[:2]).is_bounded


def test_intervals_of_shares_hold_the_true_share_as_often_as_they_say():
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(1000):
        luck = rng.normal(0, 1, 8)
        gap, effect = 4 + luck + rng.normal(0, 1, 8), 2 + luck / 2 + rng.normal(0, 1, 8)
        found = compute_ratio_of_means(effect, gap)
        covered += not found.is_bounded or found.low <= 0.5 <= found.high
    assert 930 <= covered <= 970
