import dataclasses
from pathlib import Path

import numpy as np
import pytest

from parallax.analysis.data.runs import CompletedRun, RunId, StudyCell
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.verdicts.code_differences import (
    is_same_algorithm,
    list_remaining_differences,
)
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.envs.tasks import load_task
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.interventions.catalogue import list_reference_form

CELL = StudyCell("s", "Pendulum-v1", "sac", "original", "")
VALUES = {"gamma": 0.99, "tau": 0.005}
SB3 = {"critic-loss-x1", "exact-squash-correction"}
TIANSHOU = {"exact-squash-correction"}


def make_group(framework, interventions=(), values=None, **spec):
    zeros = np.zeros((1, 1))
    runs = tuple(
        CompletedRun(
            *(RunId(CELL, framework, seed), Path(), np.array([1000]), zeros, zeros.astype(int)),
            spec,
            effective_hyperparameters=VALUES | (values or {}),
            interventions=frozenset(interventions),
        )
        for seed in range(2)
    )
    return ScoreGroup(CELL, framework, compute_moments(np.zeros(2)), 0.0, None, runs, 2, 2, (1000,))


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (make_group("sb3", SB3), make_group("tianshou", TIANSHOU), True),
        (make_group("sb3", SB3 | {"patch.tau"}), make_group("tianshou", TIANSHOU), True),
        (make_group("sb3", SB3), make_group("tianshou"), False),
        (make_group("sb3", SB3), make_group("sb3", SB3), False),
        (make_group("sb3", SB3), make_group("tianshou", TIANSHOU, {"gamma": 0.9}), False),
        (
            make_group("sb3", SB3, {"max_grad_norm": 1.0}),
            make_group("tianshou", TIANSHOU, {"max_grad_norm": 1.0}),
            False,
        ),
        # Runs from before names of interventions were recorded.
        (
            make_group("sb3", intervention="exact-squash-correction+critic-loss-x1"),
            make_group("tianshou", intervention="exact-squash-correction"),
            True,
        ),
    ],
)
def test_pairs_in_one_form_with_equal_values_are_the_same_algorithm(first, second, same):
    assert is_same_algorithm(first, second) is same


def test_missing_interventions_of_the_reference_form_are_listed():
    def remaining(framework, interventions=()):
        return list_remaining_differences(
            "sac", framework, make_group(framework, interventions).runs
        )

    assert remaining("sb3") == ("critic-loss-x1", "exact-squash-correction")
    assert remaining("sb3", {"critic-loss-x1"}) == ("exact-squash-correction",)
    assert remaining("sb3", SB3) == ()
    whole = SB3 | {"targets-after-whole-interval"}
    assert list_remaining_differences("sac", "sb3", ()) == tuple(sorted(whole))
    assert list_remaining_differences("sac", "another", ()) is None


@pytest.mark.parametrize("algorithm", ["ppo", "td3", "sac", "ddpg", "dqn"])
@pytest.mark.parametrize("framework", ["sb3", "cleanrl", "tianshou", "torchrl", "skrl", "sbx"])
def test_the_table_has_the_form_that_runs_get(framework, algorithm):
    listed = list_remaining_differences(algorithm, framework, ())
    form = list_reference_form(load_adapter(framework), algorithm)
    assert listed is None or set(listed) == {item.name for item in form}


@pytest.mark.parametrize(
    "env", ["Pendulum-v1", "InvertedPendulum-v4", "Humanoid-v4", "HalfCheetah-v4", "Reacher-v5"]
)
def test_critics_that_see_other_units_are_not_the_same_algorithm(env):
    is_unit = set(load_task(env).action_high) == {1.0}
    cell = dataclasses.replace(CELL, env=env)
    skrl = {"squashed-gaussian", "critic-loss-x1"}
    sb3, plain, scaled = (
        dataclasses.replace(make_group(*sides), cell=cell)
        for sides in (("sb3", SB3), ("skrl", skrl), ("skrl", skrl | {"scaled-critic-actions"}))
    )
    runs = [dataclasses.replace(run, id=RunId(cell, "skrl", 0)) for run in plain.runs]
    left = () if is_unit else ("scaled-critic-actions",)
    assert list_remaining_differences("sac", "skrl", runs) == left
    plain = dataclasses.replace(plain, runs=tuple(runs))
    assert is_same_algorithm(sb3, plain) is is_unit
    assert is_same_algorithm(sb3, scaled)


@pytest.mark.parametrize(("interval", "left"), [(1, ()), (2, ("targets-after-whole-interval",))])
def test_unusual_values_add_differences_that_only_they_cause(interval, left):
    values = {"target_update_interval": interval}
    plain = make_group("sb3", SB3, values)
    assert list_remaining_differences("sac", "sb3", plain.runs) == left
    other = make_group("tianshou", TIANSHOU, values)
    assert is_same_algorithm(plain, other) is (not left)
    assert is_same_algorithm(
        make_group("sb3", SB3 | {"targets-after-whole-interval"}, values), other
    )


@pytest.mark.parametrize(
    ("algorithm", "framework", "values", "left"),
    [
        ("ppo", "cleanrl", {"target_kl": None}, ()),
        ("ppo", "cleanrl", {"target_kl": 0.02}, ("kl-stop-before-step",)),
        ("ppo", "sbx", {"max_grad_norm": 0.5, "normalize_advantage": False}, ("joint-grad-clip",)),
        ("ppo", "skrl", {"learning_rate_schedule": "constant"}, ("minibatch-advantage-normal",)),
        ("td3", "sb3", {"exploration_noise": 0.0}, ()),
        ("td3", "sb3", {"exploration_noise": 0.1}, ("no-warmup-noise",)),
        ("td3", "tianshou", {"policy_delay": 1}, ("target-action-within-bounds",)),
    ],
)
def test_differences_without_effect_at_a_runs_values_are_not_listed(
    algorithm, framework, values, left
):
    runs = make_group(framework, (), {"normalize_advantage": True, **values}).runs
    found = list_remaining_differences(algorithm, framework, runs)
    assert found is not None
    known = [name for name in found if name != "tanh-networks"]
    assert len(known) == len(left)
    assert all(name.startswith(start) for name, start in zip(known, left, strict=True))


def test_runs_need_known_equal_values_and_uniform_replay():
    def pair(second=None, **spec):
        return make_group("sb3", SB3, **spec), make_group("tianshou", TIANSHOU, second, **spec)

    assert is_same_algorithm(*pair(replay={"name": "uniform"}))
    assert not is_same_algorithm(*pair(replay={"name": "per"}))
    for name, good, bad in (
        ("max_grad_norm", None, 0.5),
        ("learning_rate_schedule", "constant", "linear"),
        ("clip_range_schedule", None, "linear"),
        ("policy_weight_decay", 0, 1e-4),
        ("critic_weight_decay", 0.0, 1e-4),
    ):
        for value, same in ((good, True), (bad, False)):
            sides = (
                make_group("sb3", SB3, {name: value}),
                make_group("tianshou", TIANSHOU, {name: value}),
            )
            assert is_same_algorithm(*sides) is same, name
    first, second = pair()
    empty = dataclasses.replace(second, runs=())
    assert not is_same_algorithm(first, empty) and not is_same_algorithm(empty, first)
    unknown = [
        dataclasses.replace(
            side,
            runs=tuple(dataclasses.replace(r, effective_hyperparameters={}) for r in side.runs),
        )
        for side in (first, second)
    ]
    assert is_same_algorithm(*unknown) is False
    odd = dataclasses.replace(second.runs[1], interventions=frozenset({"huber-loss"}))
    assert not is_same_algorithm(first, dataclasses.replace(second, runs=(second.runs[0], odd)))


def test_difference_of_one_run_is_a_difference_of_its_group():
    runs = [
        *make_group("sb3", {"critic-loss-x1"}).runs,
        *make_group("sb3", {"exact-squash-correction"}).runs,
    ]
    assert list_remaining_differences("sac", "sb3", runs) == (
        *("critic-loss-x1", "exact-squash-correction"),
    )


def test_wrappers_may_change_the_unit_of_actions():
    cell = dataclasses.replace(CELL, env="HalfCheetah-v4")
    for spec, left in (
        ({}, ()),
        ({"env_wrappers": []}, ()),
        ({"env_wrappers": ["scale"]}, ("scaled-critic-actions",)),
    ):
        found = make_group("skrl", {"squashed-gaussian", "critic-loss-x1"}, **spec).runs
        runs = [dataclasses.replace(run, id=RunId(cell, "skrl", 0)) for run in found]
        assert list_remaining_differences("sac", "skrl", runs) == left
