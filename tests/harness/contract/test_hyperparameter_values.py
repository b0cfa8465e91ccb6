"""Bounds, defaults and schedules of hyperparameters, and the values of short trainings."""

import dataclasses
import typing

import pytest
from loops import iterate_some

from parallax.envs.tasks import Task
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import UpdateSchedule
from parallax.harness.contract.algorithms.ddpg import DDPG
from parallax.harness.contract.algorithms.dqn import DQN
from parallax.harness.contract.algorithms.ppo import PPO
from parallax.harness.contract.algorithms.r2d2 import R2D2
from parallax.harness.contract.algorithms.sac import SAC
from parallax.harness.contract.algorithms.td3 import TD3
from parallax.harness.contract.fields import SpecError, check_value
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.contract.replay import AtdcReplay, ImpReplay, PrioritizedReplay, RankReplay
from parallax.harness.contract.run_spec import RunSpec

TINY = 1e-12
POSITIVE = {
    *("learning_rate", "policy_learning_rate", "critic_learning_rate"),
    *("temperature_learning_rate", "adam_eps", "initial_temperature", "clip_range"),
    *("value_clip_range", "max_grad_norm", "target_kl", "huber_delta", "value_rescaling"),
    "weight_high",
}
NOT_NEGATIVE = {
    *("policy_weight_decay", "critic_weight_decay", "exploration_noise", "ent_coef", "vf_coef"),
    *("target_policy_noise", "target_noise_clip", "priority_exponent", "importance_exponent"),
    *("epsilon_exponent", "epsilon", "weight_low"),
}
SHARES = {
    *("gamma", "gae_lambda", "exploration_initial", "exploration_final", "max_error_share"),
    *("epsilon_base", "beta", "beta_final", "rho_sum", "rho_minimum"),
}
COUNTS = {
    *("batch_size", "buffer_size", "train_freq", "gradient_steps", "target_update_interval"),
    *("exploration_steps", "policy_delay", "rollout_steps", "minibatch_size", "epochs", "n_step"),
    *("sequence_length", "actor_refresh", "lstm_size", "beta_steps", "sort_every", "sweep_every"),
    *("correct_every", "predict_every", "fragments"),
}
COUNTS_FROM_0 = {"learning_starts", "overlap", "burn_in", "fragment_sweeps"}
SIZES = {"hidden_sizes", "head_sizes", "conv_filters"}
RUN_COUNTS = {"steps", "eval_every", "eval_episodes", "n_envs", "threads"}
KINDS = [*ALGORITHMS.values(), PrioritizedReplay, RankReplay, AtdcReplay, ImpReplay, RunSpec]


def list_bounds(name):
    """Return the values next to the bounds of a field that are allowed, and those that are not."""
    if name in POSITIVE:
        return [TINY, 1e9], [0, -TINY]
    if name in NOT_NEGATIVE:
        return [0, 1e9], [-TINY]
    if name in SHARES:
        return [0, 1], [-TINY, 1 + 1e-9]
    if name in COUNTS:
        return [1, 10**9], [0]
    if name in COUNTS_FROM_0:
        return [0, 10**9], [-1]
    if name in SIZES:
        return [[1], [1, 10**9]], [[], [0], [8, 0]]
    if name in RUN_COUNTS:
        return [1, 2**53], [0, 2**53 + 1]
    others = {
        "tau": ([TINY, 1], [0, 1 + 1e-9]),
        "alpha": ([0, 10], [-TINY, 10 + 1e-9]),
        "target_entropy": ([-1e9, 1e9], []),
        "actors": ([1, 8], [0, 9]),
        "seed": ([0, 2**32 - 1], [-1, 2**32]),
        "evaluation_seed": ([0, 2**53], [-1, 2**53 + 1]),
    }
    return others[name]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_values_next_to_the_bounds_are_allowed_up_to_them(kind):
    hints = typing.get_type_hints(kind)
    numbers = 0
    for field in dataclasses.fields(kind):
        if "minimum" not in field.metadata or hints[field.name] in (bool, str):
            continue
        allowed, refused = list_bounds(field.name)
        for value in allowed:
            made = check_value(field.name, value, hints[field.name], field.metadata)
            assert made == (tuple(value) if isinstance(value, list) else value)
            numbers += 1
        for value in refused:
            with pytest.raises(SpecError, match=rf"{field.name}=.* must "):
                check_value(field.name, value, hints[field.name], field.metadata)
    assert numbers


@pytest.mark.parametrize("kind", [DQN, R2D2])
def test_targets_are_updated_after_whole_update_cycles_in_short_trainings(kind):
    cycle = kind.conformance_values["train_freq"]
    for values in (kind.conformance_values, kind.conformance_variation):
        assert values.get("target_update_interval", cycle) % cycle == 0


@pytest.mark.parametrize("kind", ALGORITHMS.values(), ids=lambda kind: kind.__name__)
def test_each_field_has_an_alternative_to_its_conformance_value(kind):
    for name, values in iterate_some(kind.alternatives.items()):
        assert len(set(values)) == len(values)
        assert any(value != kind.conformance_values.get(name) for value in values), name


def make(name, **changes):
    return dataclasses.replace(load_recipe(name, "original"), **changes)


def test_ppo_updates_with_all_minibatches_of_whole_rollouts():
    ppo = make("ppo", rollout_steps=100, minibatch_size=30, epochs=3)
    assert ppo.compute_update_schedule(250) == UpdateSchedule(0, 100, 24, 24, 0)
    assert ppo.compute_update_schedule(200) == UpdateSchedule(0, 100, 24, 24, 0)
    assert ppo.compute_update_schedule(99) == UpdateSchedule(0, 100, 0, 0, 0)


def test_off_policy_algorithms_update_in_cycles_after_the_random_steps():
    td3 = make("td3", learning_starts=10, train_freq=4, gradient_steps=2, policy_delay=3)
    # Cycles end at 12, 16, 20 and 24.
    assert td3.compute_update_schedule(25) == UpdateSchedule(10, 12, 8, 2, 2)
    assert td3.compute_update_schedule(24) == UpdateSchedule(10, 12, 8, 2, 2)
    assert td3.compute_update_schedule(23) == UpdateSchedule(10, 12, 6, 2, 2)
    assert td3.compute_update_schedule(25, 13) == UpdateSchedule(10, 13, 8, 2, 2)
    assert td3.compute_update_schedule(7) == UpdateSchedule(7, 12, 0, 0, 0)
    assert [td3.compute_total_steps(steps) for steps in (23, 24, 25)] == [24, 24, 28]
    at_once = make("td3", learning_starts=0, train_freq=4, gradient_steps=1, policy_delay=1)
    assert at_once.compute_update_schedule(8) == UpdateSchedule(0, 4, 2, 2, 2)


def test_targets_follow_the_policy_the_interval_or_the_critic():
    values = {"learning_starts": 0, "train_freq": 1, "gradient_steps": 1}
    ddpg = make("ddpg", policy_delay=2, **values)
    assert ddpg.compute_update_schedule(9) == UpdateSchedule(0, 1, 9, 4, 4)
    sac = make("sac", policy_delay=2, target_update_interval=3, **values)
    assert sac.compute_update_schedule(10) == UpdateSchedule(0, 1, 10, 5, 3)
    dqn = make("dqn", target_update_interval=6, **(values | {"train_freq": 4}))
    assert dqn.target_updates(10) == 6  # 40 transitions
    assert dqn.compute_update_schedule(40) == UpdateSchedule(0, 4, 10, 10, 6)
    assert make("dqn", target_update_interval=2, train_freq=4).target_updates(10) == 10
    double = make("dqn", target_update_interval=6, train_freq=4, gradient_steps=2)
    assert double.target_updates(10) == 3  # 20 transitions
    assert double.target_interval_in_updates() == 3
    assert make("dqn", target_update_interval=6, train_freq=4).target_interval_in_updates() is None


def test_converted_soft_targets_move_at_most_once_per_update_cycle():
    for interval, tau, converts, expected in [
        (2, 0.5, True, 4),
        (2, 0.5, False, 2),
        (2, 1.0, True, 2),
        (6, 0.5, True, 6),
    ]:
        dqn = make("dqn", target_update_interval=interval, train_freq=4, tau=tau)
        assert dqn.compute_target_interval(converts) == expected


def test_actors_of_r2d2_explore_from_the_first_step_with_sizes_that_fit():
    r2d2 = make("r2d2", learning_starts=100, last_step_inputs=True)
    assert r2d2.random_steps(1000) == 0 and r2d2.sees_rewards
    assert not make("r2d2", last_step_inputs=False).sees_rewards
    assert make("dqn").sees_rewards is False
    task = Task("A-v0", 8, (), (), 0, 3)
    fits = make("r2d2", sequence_length=4, overlap=3, buffer_size=1)
    assert fits.resolve_for_task(task) == fits
    with pytest.raises(SpecError, match=r"overlap=4 must be below .*sequence_length=4"):
        make("r2d2", sequence_length=4, overlap=4).resolve_for_task(task)
    with pytest.raises(SpecError, match="buffer_size=1 is too small for a sequence: use 2 or more"):
        make("r2d2", sequence_length=4, overlap=2, buffer_size=1).resolve_for_task(task)


def test_ppo_refuses_minibatches_of_one_where_it_normalizes_advantages():
    task = Task("A-v0", 8, (), (), 0, 3)
    for rollout, minibatch in ((8, 1), (9, 4), (1, 4)):
        values = {"rollout_steps": rollout, "minibatch_size": minibatch}
        with pytest.raises(SpecError, match="leaves a minibatch of one transition"):
            make("ppo", normalize_advantage=True, **values).resolve_for_task(task)
        make("ppo", normalize_advantage=False, **values).resolve_for_task(task)
    make("ppo", normalize_advantage=True, rollout_steps=10, minibatch_size=4).resolve_for_task(task)


def test_images_need_convolutions_and_discrete_actions():
    image = Task("A-v0", 8, (), (), 0, 3, image=(4, 84, 84))
    plain = Task("A-v0", 8, (), (), 0, 3)
    moved = Task("A-v0", 8, (-1.0,), (1.0,), 0, 0, image=(4, 84, 84))
    for name in ("ppo", "dqn"):
        made = make(name, conv_filters=(32, 64))
        assert made.resolve_for_task(image).conv_filters == (32, 64)
        assert make(name, conv_filters=None).resolve_for_task(image).conv_filters == (32, 64, 64)
        assert make(name, conv_filters=None).resolve_for_task(plain).conv_filters is None
        with pytest.raises(SpecError, match="shows no images"):
            made.resolve_for_task(plain)
    with pytest.raises(SpecError, match="shows images and has continuous actions"):
        make("ppo", conv_filters=(32,)).resolve_for_task(moved)
    for name in ("td3", "sac", "ddpg", "r2d2"):
        with pytest.raises(SpecError, match=r"has image observations, which .* does not support"):
            make(name).resolve_for_task(image)
        assert make(name).resolve_for_task(plain) == make(name)


def test_the_share_of_random_actions_falls_or_stays():
    task = Task("A-v0", 8, (), (), 0, 3)
    same = make("dqn", exploration_initial=0.5, exploration_final=0.5, conv_filters=None)
    assert same.resolve_for_task(task) == same
    with pytest.raises(SpecError, match=r"exploration_final=0\.6 must be at most .*=0\.5"):
        dataclasses.replace(same, exploration_final=0.6).resolve_for_task(task)


def test_algorithms_declare_their_actions_and_data():
    assert {
        kind: (kind.family, kind.actions, kind.has_targets) for kind in ALGORITHMS.values()
    } == {
        PPO: ("on-policy", "continuous", False),
        TD3: ("off-policy", "continuous", True),
        SAC: ("off-policy", "continuous", True),
        DDPG: ("off-policy", "continuous", True),
        DQN: ("off-policy", "discrete", True),
        R2D2: ("off-policy", "discrete", True),
    }
    assert {"tau", "bootstrap_truncation"}.isdisjoint(R2D2.common_fields)
    assert len(R2D2.common_fields) == len(dataclasses.fields(R2D2)) - 2
