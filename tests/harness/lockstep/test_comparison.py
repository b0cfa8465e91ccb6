"""Implementations that learn the same, and where they part."""

import importlib
import itertools

import pytest
from loops import iterate_some

from benchmarks.lockstep_pairs import LEVEL, render_table
from parallax.harness.cli.lockstep import (
    format_lockstep_verdict,
    make_lockstep_side,
    render_distance_figure,
)
from parallax.harness.cli.main import main
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import NO_INTERVENTION
from parallax.harness.interventions.catalogue import resolve_interventions
from parallax.harness.lockstep.comparison import (
    LockstepOptions,
    LockstepResult,
    LockstepSide,
    LockstepTrainings,
    WeightDistance,
    compare_implementations,
)
from parallax.harness.lockstep.experiments import EXPERIMENT_BUILDERS
from parallax.harness.probes import catalogue


def side(framework, algorithm, change="none"):
    return LockstepSide(
        framework, resolve_interventions(change, load_adapter(framework), algorithm)
    )


def test_two_frameworks_are_equal_after_an_intervention():
    changed = side("sb3", "ppo", "value-loss-x0.5")
    found = compare_implementations(changed, side("cleanrl", "ppo"), "ppo", 8)
    assert found.divergence is None and [d.difference for d in found.distances] == [0.0, 0.0]
    assert all(0 < d.rounding < 1e-5 for d in found.distances)


@pytest.mark.parametrize("algorithm", [name for name in EXPERIMENT_BUILDERS if name != "ppo"])
def test_two_frameworks_are_equal_in_the_reference_form(algorithm):
    sides = [
        make_lockstep_side(name, NO_INTERVENTION, algorithm, LEVEL.name)
        for name in ("sb3", "cleanrl")
    ]
    how = LockstepOptions(float64=True, shared_stream=True, level=LEVEL)
    found = compare_implementations(*sides, algorithm, 2, options=how)
    assert found.is_equal and found.distances[-1].difference < 1e-13


def test_critics_that_see_actions_in_other_units_differ():
    sides = [
        make_lockstep_side(name, changed, "td3", LEVEL.name)
        for name, changed in (
            ("sb3", NO_INTERVENTION),
            ("cleanrl", "without.scaled-critic-actions"),
        )
    ]
    found = compare_implementations(*sides, "td3", 4, options=LockstepOptions(level=LEVEL))
    assert found.divergence_point.quantity == "gradients"
    assert "td3.critic_action" in found.probes


@pytest.mark.parametrize(
    ("framework", "algorithm", "left_out", "variant"),
    [
        pytest.param(
            *("skrl", "ppo", "larger-value-loss", "clipped values"), marks=pytest.mark.long
        ),
        ("cleanrl", "ppo", "kl-stop-before-step", "a limit of the divergence"),
        pytest.param(
            *("sb3", "sac", "targets-after-whole-interval", "delayed updates"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *("cleanrl", "sac", "one-policy-update-per-delay", "delayed updates"),
            marks=pytest.mark.long,
        ),
    ],
)
def test_demanding_settings_reveal_hidden_differences(framework, algorithm, left_out, variant):
    whole, other = (
        make_lockstep_side(framework, change, algorithm, LEVEL.name)
        for change in (NO_INTERVENTION, f"without.{left_out}")
    )
    how = LockstepOptions(shared_stream=algorithm != "ppo", level=LEVEL)
    found = compare_implementations(whole, other, algorithm, 4, options=how)
    assert found.divergence is None and found.variant == variant and not found.is_equal


@pytest.mark.long
def test_sbx_is_equal_in_float64():
    sides = [
        make_lockstep_side(name, NO_INTERVENTION, "dqn", LEVEL.name) for name in ("sb3", "sbx")
    ]
    how = LockstepOptions(float64=True, shared_stream=True, level=LEVEL)
    trainings = LockstepTrainings(sides, "dqn", how)
    last = trainings.measure_distances(0, 1, [2, 4])[-1]
    assert last.is_rounding and last.difference < 1e-13
    assert {str(array.dtype) for array in trainings.train_weights(1, [4])[4].values()} == {
        "float64"
    }
    # Nothing else computes in it afterwards.
    assert not importlib.import_module("jax").config.jax_enable_x64


def test_float64_is_refused_where_sbx_cannot():
    sides = [
        make_lockstep_side(name, NO_INTERVENTION, "ppo", LEVEL.name) for name in ("sb3", "sbx")
    ]
    trainings = LockstepTrainings(sides, "ppo", LockstepOptions(float64=True, level=LEVEL))
    with pytest.raises(SpecError, match="Drop --float64"):
        trainings.train_weights(1, [4])


def test_the_table_of_all_pairs_has_largest_differences_and_causes():
    near, far = (
        {"first": "a", "second": name, "distances": [item.to_dict() for item in _grown(size)]}
        for name, size in (("b", 1e-9), ("c", 0.5))
    )
    far["distances"][1]["rounding"] = 1e-9
    far |= {"point": "update 3, in gradients", "probes": ["td3.target_update"]}
    content = {"updates": 10, "pairs": [near, far], "refused": {"d": "no td3"}}
    rows = render_table({"td3, float64": content}).splitlines()[2:]
    assert rows == [
        "| td3, float64 | a, b | 10 | 1e-09 | 1e-09 | equal, no further apart than the copies |",
        "| td3, float64 | a, c | 10 | 0.5 | 1e-09 | "
        "differ at update 10: update 3, in gradients (`td3.target_update`) |",
        "| td3, float64 | d | - | - | - | not compared: no td3 |",
    ]


def test_different_actions_count_although_weights_are_equal(capsys):
    words = ["--frameworks", "cleanrl,torchrl", "--algorithms", "ppo", "--updates", "4"]
    words += ["--alignment", "defaults"]
    changes = "value-loss-x1,no-advantage-recompute"
    assert main(["lockstep", *words, "--interventions", changes]) == 1
    said = capsys.readouterr().out
    assert "Equal to rounding over 4 updates" in said
    assert "But they act differently, from the steps before updates, in actions" in said
    assert "ppo.action" in said and "ppo.value_loss_factor" not in said
    # The task cuts what a plain Gaussian draws beyond the bounds.
    assert main(["lockstep", *words, "--interventions", f"{changes}+unsquashed-gaussian"]) == 0
    assert "act differently" not in capsys.readouterr().out


def test_frameworks_diverge_with_library_defaults(capsys, monkeypatch):
    monkeypatch.setattr(catalogue, "LOCKSTEP_PROBES", ("value_loss_factor", "log_prob"))
    words = ["lockstep", "--frameworks", "sb3,cleanrl", "--algorithms", "ppo", "--updates", "4"]
    assert main(words) == 0  # alignment=exact
    assert main([*words, "--alignment", "defaults"]) == 1
    said = capsys.readouterr().out
    assert "At update 4 the value differs by" in said
    assert (
        "The first difference is at update 1, in gradients of the value, by 1 of the largest"
        in said
    )
    assert said.endswith("with different answers: ppo.value_loss_factor.\n")


def test_weights_after_an_update_equal_those_of_a_shorter_training():
    siblings = LockstepTrainings([side("sb3", "ppo")], "ppo", LockstepOptions())
    whole, short = siblings.train_weights(0, [4, 8]), siblings.train_weights(0, [4])
    assert all((whole[4][name] == array).all() for name, array in short[4].items())
    assert any((whole[8][name] != array).any() for name, array in short[4].items())


def test_equality_is_weak_evidence_if_perturbed_copies_diverge():
    near, far = (
        LockstepResult(LockstepSide("a"), LockstepSide("b"), "td3", tuple(of))
        for of in (_grown(1e-9), _grown())
    )
    assert format_lockstep_verdict(near) == (
        "Equal to rounding over 10 updates, no more different than copies that start one bit apart."
    )
    assert "From update 10 on this is weak evidence: there, copies" in format_lockstep_verdict(far)


def _grown(rounding=1e-3):
    return [
        WeightDistance(1, 1e-12, "policy", 1e-12),
        WeightDistance(10, rounding, "policy", rounding),
    ]


def test_growth_is_drawn_next_to_that_of_rounding():
    distances = (WeightDistance(1, 0.0, "value", 1e-7), WeightDistance(10, 1e-3, "value", 1e-6))
    drawn = render_distance_figure(
        LockstepResult(LockstepSide("sb3"), LockstepSide("cleanrl"), "ppo", distances)
    )
    for words in (
        "updates of ppo",
        "sb3, last bit changed",
        "sb3 and cleanrl",
        "counts as rounding",
    ):
        assert words in drawn


@pytest.mark.long
@pytest.mark.parametrize("algorithm", list(EXPERIMENT_BUILDERS))
def test_frameworks_are_equal_to_the_last_bits_in_the_reference_form(algorithm):
    # Stable-Baselines3's PPO keeps its rollouts in float32.
    names = ("cleanrl", "tianshou", "torchrl", *(["sb3"] if algorithm != "ppo" else []))
    sides = [make_lockstep_side(name, NO_INTERVENTION, algorithm, LEVEL.name) for name in names]
    how = LockstepOptions(float64=True, shared_stream=algorithm != "ppo", level=LEVEL)
    siblings = LockstepTrainings(sides, algorithm, how)
    for one, other in iterate_some(itertools.combinations(range(len(sides)), 2)):
        last = siblings.measure_distances(one, other, [4, 8])[-1]
        assert last.is_rounding and last.difference < 1e-11, (sides[one], sides[other], last)
        assert 0 < last.rounding < 1e-9


@pytest.mark.long
def test_a_pair_stays_equal_over_2000_updates():
    sides = (side("sb3", "dqn", "mse-loss"), side("cleanrl", "dqn"))
    found = compare_implementations(
        *sides, "dqn", 2000, options=LockstepOptions(float64=True, shared_stream=True)
    )
    assert [item.updates for item in found.distances][-1] == 2000 and found.divergence is None
    assert all(item.is_within_perturbation for item in found.distances)
    assert 0 < found.distances[-1].rounding < 1e-8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--frameworks", "sb3,cleanrl,skrl", "--algorithms", "ppo"], "must name two"),
        (["--frameworks", "sb3,cleanrl", "--algorithms", "a2c"], "--algorithms a2c is not known"),
        (
            ["--frameworks", "sb3,cleanrl", "--algorithms", "ppo", "--updates", "9999"],
            "--updates 9999 must be from 1 to 2000",
        ),
        (
            ["--frameworks", "sb3,cleanrl", "--algorithms", "ppo", "--interventions", "a"],
            "must name one for each framework",
        ),
        (
            ["--frameworks", "sb3,cleanrl", "--algorithms", "ppo", "--shared"],
            "PPO learns from its own rollouts. Drop --shared",
        ),
        (
            ["--frameworks", "sb3,cleanrl", "--algorithms", "ppo", "--json", "nowhere/x.json"],
            "nowhere/x.json: the folder nowhere does not exist",
        ),
        (["--json", "x.json", "--figure", "./x.json"], "--figure x.json: --json is that file too"),
        (["--frameworks", "sb3", "--algorithms", "td3", "--hps", "mine"], "drop --hps"),
        (["--frameworks", "sb3,cleanrl", "--algorithms", "ppo", "--hps", "nope"], "hps=nope is"),
    ],
)
def test_bad_input_is_one_message(words, message, capsys):
    assert main(["lockstep", *words]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and not printed.out
