import dataclasses
import importlib.util
import inspect
import math

import pytest
import support
from loops import iterate_some

from parallax.adapters.tianshou import TianshouAdapter
from parallax.envs.tasks import load_task
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe


def translate(algorithm, steps=10_000, n_envs=1, hps="tianshou", patches=False, **changes):
    hyperparameters = dataclasses.replace(load_recipe(algorithm, hps), **changes)
    task = load_task(support.ENVS[ALGORITHMS[algorithm].actions])
    context = RunContext(
        task, steps, seed=3, n_envs=n_envs, patch_constants=patches, converts_meanings=patches
    )
    return TianshouAdapter().translate(algorithm, hyperparameters, context)


@pytest.mark.parametrize("algorithm", support.algorithms_of("tianshou"))
def test_settings_are_arguments_of_upstreams_classes(algorithm):
    pytest.importorskip("tianshou")
    from tianshou import trainer
    from tianshou.algorithm import DDPG, DQN, PPO, SAC, TD3
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.modelfree.sac import AutoAlpha
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Collector, ReplayBuffer
    from tianshou.exploration import GaussianNoise
    from tianshou.utils.net.common import Net

    classes = [
        DDPG,
        DQN,
        DiscreteQLearningPolicy,
        PPO,
        SAC,
        TD3,
        AutoAlpha,
        AdamOptimizerFactory,
        ReplayBuffer,
        GaussianNoise,
        Net,
    ]
    classes += [trainer.OnPolicyTrainerParams, trainer.OffPolicyTrainerParams]
    known = {cls.__name__: inspect.signature(cls).parameters for cls in classes}
    known["Collector.collect"] = inspect.signature(Collector.collect).parameters
    ours = {"seed", "with_lr_scheduler_factory"}
    for name in iterate_some(translate(algorithm).settings.keys() - ours):
        if name.startswith("training_fn."):  # arguments of a function of this adapter
            continue
        component, _, argument = name.rpartition(".")
        assert argument in known[component.partition("(")[0]], name


def test_tau_is_the_weight_of_the_online_network():
    pytest.importorskip("tianshou")
    import torch
    from tianshou.utils.lagged_network import polyak_parameter_update

    target, online = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    before, seen = target.bias.item(), online.bias.item()
    tau = translate("td3", tau=0.25).settings["TD3.tau"]
    polyak_parameter_update(target, online, tau)
    assert target.bias.item() == pytest.approx(0.25 * seen + 0.75 * before)


def test_learning_rate_falls_to_zero_over_the_run():
    settings = translate("ppo", steps=10_000, rollout_steps=1000, minibatch_size=50).settings
    name = "LRSchedulerFactoryLinear"
    assert settings["with_lr_scheduler_factory"] == {name: [1, 10_000, 1000]}
    constant = translate("ppo", learning_rate_schedule="constant").settings
    assert constant["with_lr_scheduler_factory"] is None


def test_minibatches_are_of_one_size():
    with pytest.raises(SpecError, match=r"minibatch_size=64: .* divisor of rollout_steps=100"):
        translate("ppo", rollout_steps=100, minibatch_size=64)


def test_value_clipping_shares_the_range_of_the_ratio():
    assert translate("ppo", value_clip_range=None).settings["PPO.value_clip"] is False
    assert translate("ppo", value_clip_range=0.2).settings["PPO.value_clip"] is True
    with pytest.raises(SpecError, match=r"value_clip_range=0\.1: .* equal to clip_range=0\.2"):
        translate("ppo", value_clip_range=0.1)


def test_target_noise_clip_of_zero_disables_target_noise():
    assert translate("td3", target_noise_clip=0.0).settings["TD3.policy_noise"] == 0.0
    assert translate("td3").settings["TD3.policy_noise"] == 0.2


def test_temperature_is_learned_from_its_logarithm():
    settings = translate("sac", initial_temperature=0.5).settings
    assert settings["AutoAlpha.log_alpha"] == math.log(0.5)
    assert settings["AutoAlpha.target_entropy"] == -1.0
    assert translate("sac", target_entropy=-4.0).settings["AutoAlpha.target_entropy"] == -4.0


def test_update_ratio_is_per_transition():
    settings = translate("td3", train_freq=4, gradient_steps=8).settings
    prefix = "OffPolicyTrainerParams"
    assert settings[f"{prefix}.collection_step_num_env_steps"] == 4
    assert settings[f"{prefix}.update_step_num_gradient_steps_per_sample"] == 2


def test_clip_range_falls_to_zero_over_the_run():
    pytest.importorskip("tianshou")
    import types

    from parallax.adapters.tianshou.algorithms import make_training_fn

    linear = {"rollout_steps": 1000, "minibatch_size": 50, "clip_range_schedule": "linear"}
    settings = translate("ppo", 9_500, patches=True, **linear, value_clip_range=None).settings
    model = types.SimpleNamespace()
    lower = make_training_fn("ppo", model, settings)
    for trained, left in ((0, 1.0), (4500, 0.5), (9000, 0.0)):  # nine whole rollouts
        lower(trained)
        assert model.eps_clip == pytest.approx(0.2 * left)
    assert make_training_fn("ppo", model, translate("ppo").settings) is None
    native = translate("ppo", 9_500, patches=True, **linear, value_clip_range=0.2)
    assert native.patched_fields == ("value_clip_range",)  # which does not fall
    with pytest.raises(SpecError, match=r"clip_range_schedule=linear: in tianshou .* constant"):
        translate("ppo", **linear)


def test_patches_take_what_tianshou_fixes():
    native = translate("sac", 1_000, patches=True, policy_delay=3, target_update_interval=2)
    assert native.patched_fields == ("policy_delay", "target_update_interval")
    steps = native.update_schedule.total_gradient_steps
    assert native.update_schedule.policy_updates == steps // 3
    assert native.update_schedule.target_updates == steps // 2
    sizes = {"rollout_steps": 100, "minibatch_size": 64}
    assert "minibatch_size" in translate("ppo", patches=True, **sizes).patched_fields
    with pytest.raises(SpecError, match=r"minibatch_size=64.* divisor of rollout_steps=65"):
        translate("ppo", rollout_steps=65, minibatch_size=64, normalize_advantage=True)


@pytest.mark.parametrize(("interval", "moves"), [(10, 7), (300, 5), (512, 3)])
def test_targets_move_at_most_once_in_a_cycle_of_steps(interval, moves):
    # As RL Zoo's recipe has it: 128 gradient steps after every 256 steps.
    cycle = {"train_freq": 256, "gradient_steps": 128, "learning_starts": 1000}
    native = translate(
        "dqn", 1000 + 8 * 256, patches=True, target_update_interval=interval, **cycle
    )
    assert native.update_schedule.total_gradient_steps == 8 * 128
    assert native.update_schedule.target_updates == moves


@pytest.mark.parametrize(
    ("algorithm", "steps", "changes", "total", "trained"),
    [
        ("ppo", 2048, {}, 2048, 2048),
        ("ppo", 2049, {}, 4096, 4096),
        ("td3", 30_000, {}, 30_000, 5_000),
        ("td3", 10_000, {}, 10_000, 0),
        ("td3", 1002, {"learning_starts": 1000, "train_freq": 4}, 1004, 4),
    ],
)
def test_steps_round_up_to_whole_update_cycles_after_warm_up(
    algorithm, steps, changes, total, trained
):
    native = translate(algorithm, steps, **changes)
    assert (native.total_steps, native.framework_steps) == (total, trained)


def test_parallel_environments_share_warm_up_and_update_cycles():
    native = translate("td3", 100, 4, learning_starts=50, train_freq=4)
    assert native.settings["Collector.collect.n_step"] == 52
    assert native.total_steps == 100
    with pytest.raises(SpecError, match=r"train_freq=2: .*a multiple of n_envs=4"):
        translate("td3", 100, 4, train_freq=2)


def test_missing_package_error_names_the_install_command(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SpecError, match=r"needs: pip install 'tianshou>=2\.0\.1,<2\.1'"):
        TianshouAdapter().check_installed()
