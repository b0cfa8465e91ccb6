"""muPRL's operators: their values, what they set, and what is refused."""

import dataclasses

import pytest
from loops import iterate_some

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.interventions.catalogue import apply_settings, resolve_interventions
from parallax.harness.interventions.user_faults import (
    FAULT_OPERATORS,
    draw_values,
    list_fault_names,
    supports_algorithm,
)

ZOO = load_recipe("dqn", "zoo")


def test_operators_are_the_fifteen_of_the_paper_with_eight_references():
    assert (
        " ".join(FAULT_OPERATORS) == "sdf spr srs snr sls nei nrs mna mno sec snu spv sbs smr ser"
    )
    assert {f.id for f in FAULT_OPERATORS.values() if f.in_reference} == {
        *("sdf", "snr", "sls", "nei", "sec", "snu", "spv", "smr")
    }


def test_values_are_drawn_as_in_the_reference_code():
    assert draw_values(FAULT_OPERATORS["sdf"], 0.99, 50000, 3, seed=0) == [0.9, 0.45, 0.7]
    assert 0.9 not in draw_values(FAULT_OPERATORS["sdf"], 0.9, 50000, 20, seed=0)
    every = draw_values(FAULT_OPERATORS["sdf"], 0.99, 50000, 20, seed=0)
    assert len(every) == len(set(every)) == 11  # the range has no more


def test_shares_of_the_training_are_whole_steps():
    starts = draw_values(FAULT_OPERATORS["sls"], 1000, 50000, 20, seed=1)
    assert set(starts) <= {250, 500, *range(2500, 27500, 2500)}
    # Half a per cent of 100 steps is less than a step: the shortest interval.
    assert 1 in draw_values(FAULT_OPERATORS["snu"], 10, 100, 20, seed=0)


@pytest.mark.parametrize("seed", range(5))
def test_entropy_coefficients_are_rounded_and_not_zero(seed):
    for value in iterate_some(draw_values(FAULT_OPERATORS["sec"], 0.0, 1, 5, seed)):
        assert 0.01 <= value <= 0.2 and round(value, 2) == value


@pytest.mark.parametrize(
    ("name", "algorithm", "changed"),
    [
        ("sdf-0.9", "dqn", {"gamma": 0.9}),
        ("sls-2500", "dqn", {"learning_starts": 2500}),
        ("snr-128", "ppo", {"rollout_steps": 128}),
        ("spv-0.08", "sac", {"tau": 0.08}),
        ("smr-0.33", "dqn", {"exploration_final": 0.33}),
        ("sbs-500", "td3", {"buffer_size": 500}),
    ],
)
def test_a_fault_sets_a_hyperparameter(name, algorithm, changed):
    made = resolve_interventions(name, load_adapter("sb3"), algorithm)
    base = load_recipe(algorithm, "sb3")
    assert apply_settings(base, made) == dataclasses.replace(base, **changed)
    assert made[0].to_dict()["set"] == changed


def test_a_fault_changes_the_training_task():
    assert resolve_interventions("nrs", load_adapter("cleanrl"), "td3")[0].wrap == (
        ("parallax.envs.changed:FixedStart", {"seed": 0}),
    )
    assert resolve_interventions("spr-5", load_adapter("sb3"), "dqn")[0].wrap[0][1] == {"every": 5}
    assert resolve_interventions("srs-0.01", load_adapter("sb3"), "dqn")[0].wrap[0][1] == {
        "factor": 0.01
    }


@pytest.mark.parametrize(
    ("name", "algorithm", "message"),
    [
        ("sec-0.1", "dqn", "is for algorithm=ppo, not for dqn"),
        ("spv-0.1", "dqn", "is for algorithm=.*td3"),
        ("sdf", "dqn", "write sdf-VALUE"),
        ("nrs-1", "dqn", "write nrs"),
        ("sdf-0.90", "dqn", "write sdf-0.9"),
        ("sdf-1.2.3", "dqn", "intervention=sdf-1.2.3 is not known"),
        ("nei-5000", "dqn", r"requested by steps=\.\.\."),
        ("mna", "sac", "is not available: every framework"),
        ("sdf-2", "sb3", None),
    ],
)
def test_invalid_operators_are_one_message(name, algorithm, message):
    if message is None:
        with pytest.raises(SpecError, match="gamma"):
            apply_settings(ZOO, resolve_interventions(name, load_adapter("sb3"), "dqn"))
        return
    with pytest.raises(SpecError, match=message):
        resolve_interventions(name, load_adapter("sb3"), algorithm)


def test_study_has_the_requested_number_of_values_per_operator():
    faults = [
        f
        for f in FAULT_OPERATORS.values()
        if supports_algorithm(f, "dqn") and not f.option and not f.why_not
    ]
    found = list_fault_names(faults, ZOO, 50000, 2, seed=0)
    assert {"sdf-0.9", "sdf-0.45", "nrs"} <= set(found) and len(found) == len(set(found))
    assert all(resolve_interventions(name, load_adapter("sb3"), "dqn") for name in found)
