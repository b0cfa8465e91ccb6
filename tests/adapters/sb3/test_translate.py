import dataclasses
import math

import pytest
import support
from loops import iterate_some

from parallax.adapters.sb3 import SB3Adapter
from parallax.adapters.sb3_common.settings import make_schedule
from parallax.envs.tasks import load_task
from parallax.harness.conformance.trainings import (
    make_base_hyperparameters,
    observe_training,
    translate_hyperparameters,
)
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe


def translate(algorithm, steps=10_000, patches=False, **changes):
    hyperparameters = dataclasses.replace(load_recipe(algorithm, "sb3"), **changes)
    task = load_task(support.ENVS[ALGORITHMS[algorithm].actions])
    context = RunContext(task, steps, seed=3, patch_constants=patches, converts_meanings=patches)
    return SB3Adapter().translate(algorithm, hyperparameters, context)


@pytest.mark.parametrize("algorithm", support.algorithms_of("sb3"))
def test_own_recipe_equals_the_upstream_defaults(algorithm):
    import inspect

    import stable_baselines3

    signature = inspect.signature(getattr(stable_baselines3, algorithm.upper()))
    for name, value in iterate_some(translate(algorithm, 1_000_000).settings.items()):
        if name in signature.parameters and name not in ("seed", "device", "policy_kwargs"):
            assert value == signature.parameters[name].default, name


def test_linear_schedules_fall_to_zero_over_the_run():
    from parallax.adapters.sb3_common.model import resolve_arguments

    native = translate("ppo", learning_rate_schedule="linear", clip_range_schedule="linear")
    arguments = resolve_arguments(native.settings, action_size=1)
    assert [arguments["learning_rate"](p) for p in (1, 0.5, 0)] == pytest.approx([3e-4, 1.5e-4, 0])
    assert [arguments["clip_range"](p) for p in (1, 0.5, 0)] == pytest.approx([0.2, 0.1, 0])


def test_value_clipping_has_its_own_range():
    assert translate("ppo", value_clip_range=None).settings["clip_range_vf"] is None
    assert translate("ppo", value_clip_range=0.1).settings["clip_range_vf"] == 0.1


def test_no_gradient_clipping_is_an_infinite_norm():
    assert translate("ppo", max_grad_norm=None).settings["max_grad_norm"] == math.inf


def test_tau_is_the_weight_of_the_online_network():
    assert translate("td3", tau=0.02).settings["tau"] == 0.02


def test_exploration_noise_is_a_share_of_half_the_range():
    from parallax.adapters.sb3_common.model import resolve_arguments

    arguments = resolve_arguments(translate("td3", exploration_noise=0.3).settings, action_size=2)
    assert list(arguments["action_noise"]._sigma) == [0.3, 0.3]
    assert translate("td3", exploration_noise=0.0).settings["action_noise"] is None


@pytest.mark.parametrize("field", ["critic_learning_rate", "temperature_learning_rate"])
def test_sac_has_one_learning_rate(field):
    with pytest.raises(SpecError, match=rf"hyperparameters\.{field}=0\.01: in sb3 .* 0\.0003"):
        translate("sac", **{field: 0.01})


def test_update_ratio_reaches_both_options():
    settings = translate("td3", train_freq=4, gradient_steps=8).settings
    assert (settings["train_freq"], settings["gradient_steps"]) == (4, 8)


def test_target_interval_that_sb3_would_ignore_is_refused():
    with pytest.raises(SpecError, match="target_update_interval=2"):
        translate("sac", target_update_interval=2)
    translate("sac", target_update_interval=2, gradient_steps=4)


def test_patches_take_what_sb3_fixes():
    changes = {"critic_learning_rate": 0.01, "policy_delay": 3, "target_update_interval": 2}
    native = translate("sac", 1_000, patches=True, learning_starts=100, **changes)
    assert native.patched_fields == tuple(sorted(changes, key=list(changes).index))
    schedule = native.update_schedule  # updates of the steps 101 to 1000; the first moves targets
    assert schedule.total_gradient_steps == 900
    assert (schedule.policy_updates, schedule.target_updates) == (300, 450)
    plain = translate("sac", 1_000, patches=True, learning_starts=100)
    assert plain.patched_fields == () and plain.settings == translate("sac", 1_000).settings | {
        "learning_starts": 100
    }


def test_target_updates_are_counted_over_the_run_with_short_update_cycles():
    changes = {"learning_starts": 64, "gradient_steps": 1, "train_freq": 1}
    base = dataclasses.replace(make_base_hyperparameters("sb3", "sac"), **changes)
    for interval in (3, 64):
        hyperparameters = dataclasses.replace(base, target_update_interval=interval)
        native = translate_hyperparameters("sb3", "sac", hyperparameters, patch_constants=True)
        seen = observe_training("sb3", "sac", hyperparameters, patch_constants=True)
        assert seen.update_schedule == native.update_schedule


@pytest.mark.parametrize(
    ("algorithm", "steps", "total"), [("ppo", 2048, 2048), ("ppo", 2049, 4096), ("td3", 999, 999)]
)
def test_steps_round_up_to_whole_update_cycles(algorithm, steps, total):
    assert translate(algorithm, steps).total_steps == total


def test_all_refusals_are_in_one_message():
    with pytest.raises(SpecError, match=r"critic_learning_rate.*temperature.*policy_delay"):
        translate("sac", critic_learning_rate=1.0, temperature_learning_rate=1.0, policy_delay=3)


@pytest.mark.parametrize(
    ("lag", "expected"),
    [(0.0, [3.0, 0.0, 1.0]), (0.25, [3.75, 0.75, 1.0]), (0.3, [4.0, 0.0, 1.2]), (0.6, [6, 0, 1.2])],
)
def test_linear_schedule_reaches_0_after_the_last_whole_rollout(lag, expected):
    made = make_schedule(3.0, "linear", lag)["LinearSchedule"]
    assert made == pytest.approx(expected) and make_schedule(3.0, "constant", lag) == 3.0
