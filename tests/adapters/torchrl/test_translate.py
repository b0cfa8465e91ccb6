import dataclasses
import json

import pytest
import support
from loops import iterate_some

from parallax.adapters.torchrl import TorchRLAdapter
from parallax.envs.tasks import load_task
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe

PENDULUM = "InvertedPendulum-v4"  # actions within +-3
CHEETAH = "HalfCheetah-v4"  # actions within +-1


def translate(algorithm, steps=10_000, task=None, n_envs=1, patches=False, **changes):
    hyperparameters = dataclasses.replace(load_recipe(algorithm, "torchrl"), **changes)
    usual = load_task(support.ENVS[ALGORITHMS[algorithm].actions])
    context = RunContext(
        task or usual, steps, 3, n_envs, patch_constants=patches, converts_meanings=patches
    )
    return TorchRLAdapter().translate(algorithm, hyperparameters, context)


def row(native, field):
    return next(setting for setting in native.alignment if setting.field == field)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_field_is_translated_and_settings_can_be_serialized(algorithm):
    native = translate(algorithm)
    fields = [field.name for field in dataclasses.fields(ALGORITHMS[algorithm])]
    assert [setting.field for setting in native.alignment] == fields
    assert json.loads(json.dumps(native.settings)) == native.settings


def test_own_recipes_reach_the_components_as_upstream_configures_them():
    cheetah = load_task(CHEETAH)
    replay = {
        "TensorDictReplayBuffer.batch_size": 256,
        "LazyTensorStorage.max_size": 1_000_000,
        "Collector.init_random_frames": 25_000,
        "Collector.frames_per_batch": 1000,
        "script.num_updates": 1000,
        "SoftUpdate.eps": 0.995,
        "Adam(actor).lr": 3e-4,
        "Adam(critic).lr": 3e-4,
        "MLP.num_cells": [256, 256],
    }
    expected = {
        "ppo": {
            "Adam.lr": 3e-4,
            "script.anneal_lr": True,
            "Collector.frames_per_batch": 2048,
            "TensorDictReplayBuffer.batch_size": 64,
            "ClipPPOLoss.clip_value": None,
            "ClipPPOLoss.critic_coeff": 0.25,
            "ClipPPOLoss.entropy_coeff": 0.0,
            "clip_grad_norm_.max_norm": None,
            "Adam.eps": 1e-5,
        },
        "td3": replay | {"Adam.eps": 1e-4, "script.policy_update_delay": 2},
        "sac": replay | {"Adam.eps": 1e-8, "SACLoss.alpha_init": 1.0, "Adam(alpha).lr": 3e-4},
    }
    for algorithm, settings in iterate_some(expected.items()):
        assert settings.items() <= dict(translate(algorithm, task=cheetah).settings).items()


@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_tau_becomes_the_weight_of_the_old_target(algorithm):
    assert translate(algorithm, tau=0.02).settings["SoftUpdate.eps"] == pytest.approx(0.98)


def test_sac_networks_share_a_learning_rate_and_the_temperature_has_another():
    recipe = dataclasses.replace(load_recipe("sac", "torchrl"), policy_learning_rate=0.01)
    own = TorchRLAdapter().get_library_defaults(
        "sac", recipe, RunContext(load_task(PENDULUM), 1, 0)
    )
    assert (own.critic_learning_rate, own.temperature_learning_rate) == (0.01, 3e-4)


@pytest.mark.parametrize(
    ("algorithm", "field", "value"),
    [
        ("ppo", "target_kl", 0.01),
        ("ppo", "bootstrap_truncation", False),
        ("td3", "bootstrap_truncation", False),
        ("sac", "policy_delay", 2),
        ("sac", "target_update_interval", 2),
    ],
)
def test_features_missing_in_upstream_scripts_are_emulated_by_the_loops(algorithm, field, value):
    with pytest.raises(SpecError, match=rf"hyperparameters\.{field}=.*: in torchrl it is fixed at"):
        translate(algorithm, **{field: value})
    native = translate(algorithm, patches=True, **{field: value})
    assert row(native, field).kind == "emulated" and native.settings[f"loop.{field}"] == value
    assert row(translate(algorithm, patches=True), field).kind == "constant"


def test_policy_and_target_updates_are_counted_by_their_delays():
    delays = {"policy_delay": 2, "target_update_interval": 3}
    schedule = translate("sac", 50_000, patches=True, **delays).update_schedule
    steps = schedule.total_gradient_steps
    assert (schedule.policy_updates, schedule.target_updates) == (steps // 2, steps // 3)


def test_other_deltas_than_one_are_patched():
    with pytest.raises(SpecError, match=r"huber_delta=0\.5: in torchrl it is null or 1\.0"):
        translate("dqn", huber_delta=0.5)
    native = translate("dqn", huber_delta=0.5, patches=True)
    assert native.patched_fields == ("huber_delta",)
    assert native.settings["DQNLoss.loss_function"] == "smooth_l1"


def test_gradient_clipping_is_emulated_and_off_by_default():
    assert translate("ppo").settings["clip_grad_norm_.max_norm"] is None
    clipped = translate("ppo", max_grad_norm=0.5)
    assert row(clipped, "max_grad_norm").kind == "emulated"
    assert clipped.settings["clip_grad_norm_.max_norm"] == 0.5


@pytest.mark.parametrize(
    ("starts", "frames", "random_frames", "first_update"),
    [(100, 1, 100, 100), (100, 1000, 1000, 1000), (1500, 1000, 2000, 2000), (0, 10, 0, 10)],
)
def test_learning_starts_with_a_whole_update_cycle(starts, frames, random_frames, first_update):
    native = translate("td3", learning_starts=starts, train_freq=frames)
    assert native.settings["Collector.init_random_frames"] == random_frames
    found = row(native, "learning_starts")
    assert f"first update after step {first_update}" in found.note
    is_rounded = random_frames != starts
    assert (found.kind, found.value == starts) == (
        ("rounded", False) if is_rounded else ("aligned", True)
    )


@pytest.mark.parametrize(
    ("algorithm", "steps", "total"),
    [("ppo", 2048, 2048), ("ppo", 2049, 4096), ("td3", 999, 1000), ("sac", 1001, 2000)],
)
def test_steps_round_up_to_whole_update_cycles(algorithm, steps, total):
    native = translate(algorithm, steps)
    assert native.total_steps == native.settings["Collector.total_frames"] == total


def test_target_updates_of_the_steps_that_rounding_adds_are_counted():
    native = translate("dqn", 128, train_freq=100, target_update_interval=100, learning_starts=100)
    assert native.total_steps == 200 and native.update_schedule.target_updates == 2


def test_update_ratio_reaches_both_options():
    settings = translate("sac", train_freq=4, gradient_steps=8).settings
    assert (settings["Collector.frames_per_batch"], settings["script.num_updates"]) == (4, 8)


def test_n_envs_that_does_not_divide_an_update_cycle_is_refused():
    with pytest.raises(SpecError, match=r"rollout_steps=2048: .* a multiple of n_envs=3"):
        translate("ppo", n_envs=3)
    with pytest.raises(SpecError, match=r"train_freq=1: .* a multiple of n_envs=8"):
        translate("td3", n_envs=8, train_freq=1)


def test_target_entropy_is_automatic_unless_given():
    assert translate("sac").settings["SACLoss.target_entropy"] == "auto"
    assert translate("sac", target_entropy=-0.5).settings["SACLoss.target_entropy"] == -0.5
