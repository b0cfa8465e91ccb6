"""Schedules of runs whose steps, or intervals of targets, are no multiple of an update cycle."""

import dataclasses

import numpy as np
import pytest
import support
import torch

from parallax.envs.tasks import load_task
from parallax.harness.conformance.trainings import (
    make_base_hyperparameters,
    make_training_conditions,
    observe_training,
    train_uncached,
    translate_hyperparameters,
)
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.recipes import load_recipe

# skrl lowers the rate after each epoch, unless an intervention changes that.
FRAMEWORKS = ("sb3", "cleanrl", "torchrl", "tianshou", "sbx")


@pytest.mark.parametrize("framework", support.frameworks(*FRAMEWORKS, quick=FRAMEWORKS[:-1]))
@pytest.mark.parametrize("rest", [0, 16])
def test_rates_fall_to_zero_after_the_last_whole_rollout(framework, rest):
    base = make_base_hyperparameters(framework, "ppo")
    hp = dataclasses.replace(base, learning_rate_schedule="linear", learning_rate=1e-3)
    steps = 3 * hp.rollout_steps + rest
    rates = observe_training(framework, "ppo", hp, steps=steps, patch_constants=True)
    each = hp.epochs * hp.rollout_steps // hp.minibatch_size
    expected = [rate for rate in (1e-3, 2e-3 / 3, 1e-3 / 3) for _ in range(each)]
    found = rates.learning_rates["policy"]
    assert found[: len(expected)] == pytest.approx(expected)
    # Some collect the rest in a rollout of their own, from which nothing is learned.
    assert found[len(expected) :] in ([], pytest.approx([0.0] * each, abs=1e-12))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("framework", "owner", "name"),
    [("sb3", torch, "clamp"), ("skrl", torch, "clip"), ("tianshou", torch.Tensor, "clamp")],
)
def test_clip_ranges_fall_to_zero_after_the_last_whole_rollout(framework, owner, name, monkeypatch):
    base = make_base_hyperparameters(framework, "ppo")
    hp = dataclasses.replace(base, clip_range_schedule="linear", clip_range=0.3)
    clip, found = getattr(owner, name), []

    def clip_ratio(ratio, *limits, **named):
        if limits and limits[0] + limits[1] == pytest.approx(2):
            found.append(limits[1] - 1)
        return clip(ratio, *limits, **named)

    monkeypatch.setattr(owner, name, clip_ratio)
    steps = 3 * hp.rollout_steps + 16
    around = make_training_conditions("ppo", steps=steps, patch_constants=True)
    train_uncached(framework, "ppo", hp, around)
    each = hp.epochs * hp.rollout_steps // hp.minibatch_size
    expected = [clip_range for clip_range in (0.3, 0.2, 0.1) for _ in range(each)]
    assert found[: len(expected)] == pytest.approx(expected)
    assert found[len(expected) :] in ([], pytest.approx([0.0] * each, abs=1e-12))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("framework", "target", "online"),
    [
        ("sb3", "q_net_target.q_net.0.weight", "q_net.q_net.0.weight"),
        ("cleanrl", "target_network.network.0.weight", "q_network.network.0.weight"),
        ("skrl", "target_q_network.net.0.weight", "q_network.net.0.weight"),
    ],
)
def test_soft_targets_move_once_in_a_cycle(framework, target, online):
    base = make_base_hyperparameters(framework, "dqn")
    hp = dataclasses.replace(base, tau=0.25, target_update_interval=1, train_freq=4)
    step = observe_training(framework, "dqn", hp, patch_constants=True).target_step
    before = step.before[target]
    way = step.after[online] - before
    assert np.abs(way).max() > 1e-3
    assert step.after[target] - before == pytest.approx(0.25 * way, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    ("framework", "rows"), [("sb3", 48), ("sbx", 48), ("skrl", 48), ("tianshou", 52)]
)
def test_values_not_divisible_by_n_envs_are_rounded(framework, rows):
    task = load_task("Pendulum-v1")
    context = RunContext(task, 400, seed=0, n_envs=4, patch_constants=True, converts_meanings=True)
    hp = dataclasses.replace(
        load_recipe("sac", framework), buffer_size=50, learning_starts=30, train_freq=4
    )
    native = load_adapter(framework).translate("sac", hp, context)
    found = {row.field: (row.kind, row.value) for row in native.alignment}
    assert found["buffer_size"] == ("rounded", rows)
    assert found["learning_starts"] == ("rounded", 32)
    assert native.update_schedule.random_steps == 32
    assert found["batch_size"][0] == "aligned"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("learning_starts", [33, 34, 35])
def test_soft_targets_that_move_before_the_first_update_are_not_counted(learning_starts):
    base = make_base_hyperparameters("cleanrl", "dqn")
    changes = {"tau": 0.25, "target_update_interval": 7, "train_freq": 4}
    hp = dataclasses.replace(base, learning_starts=learning_starts, **changes)
    announced = translate_hyperparameters("cleanrl", "dqn", hp, patch_constants=True)
    seen = observe_training("cleanrl", "dqn", hp, patch_constants=True).update_schedule
    assert seen.target_updates == announced.update_schedule.target_updates > 5
