import dataclasses

import pytest
import support

from parallax.adapters.skrl import SkrlAdapter
from parallax.envs.tasks import load_task
from parallax.harness.conformance.trainings import make_base_hyperparameters, observe_training
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe

pytest.importorskip("skrl")


def translate(algorithm, patches, **changes):
    hyperparameters = dataclasses.replace(load_recipe(algorithm, "skrl"), **changes)
    task = load_task(support.ENVS[ALGORITHMS[algorithm].actions])
    context = RunContext(task, 1000, seed=3, patch_constants=patches)
    return SkrlAdapter().translate(algorithm, hyperparameters, context)


@pytest.mark.parametrize(
    ("algorithm", "field", "value", "why"),
    [
        ("ppo", "normalize_advantage", False, "fixed at true"),
        ("ppo", "minibatch_size", 300, "equal sizes"),
        ("td3", "train_freq", 4, "fixed at 1"),
        ("sac", "policy_delay", 2, "fixed at 1"),
        ("ddpg", "critic_weight_decay", 0.01, "fixed at 0.0"),
        ("dqn", "max_grad_norm", 10.0, "fixed at null"),
        ("dqn", "target_update_interval", 7, "a number of update cycles"),
    ],
)
def test_constants_are_patched_or_refused(algorithm, field, value, why):
    changes = {field: value} | ({"train_freq": 2} if field == "target_update_interval" else {})
    with pytest.raises(SpecError, match=f"{field}=.*{why}"):
        translate(algorithm, False, **changes)
    assert translate(algorithm, True, **changes).patched_fields == (field,)


def test_first_minibatches_are_whole_where_fewer_transitions_are_stored():
    base = make_base_hyperparameters("skrl", "td3")
    hp = dataclasses.replace(base, learning_starts=8, batch_size=24)
    assert observe_training("skrl", "td3", hp, patch_constants=True).rows == {24}


def test_networks_are_dueling_without_a_patch():
    native = translate("dqn", False, dueling=True)
    assert native.settings["models.dueling"] is True
    assert not native.patched_fields
    # Settings of runs from before there was the option.
    assert translate("dqn", False).settings["models.dueling"] is None


def test_the_target_moves_at_most_once_in_an_update_cycle():
    """As elsewhere: within the gradient steps of a cycle no environment step is taken."""
    burst = {"train_freq": 64, "gradient_steps": 32, "learning_starts": 0}
    native = translate("dqn", True, **burst, target_update_interval=10)
    assert native.patched_fields == ("target_update_interval",)
    schedule = native.update_schedule
    assert schedule.target_updates == schedule.total_gradient_steps // 32
    whole = translate("dqn", True, **burst, target_update_interval=128)
    assert not whole.patched_fields
    assert whole.update_schedule.target_updates == schedule.target_updates // 2


@pytest.mark.parametrize(("noise", "name"), [(0.2, "GaussianNoise"), (0.0, None)])
@pytest.mark.parametrize("algorithm", ["td3", "ddpg"])
def test_exploration_noise_does_not_decay(algorithm, noise, name):
    settings = translate(algorithm, False, exploration_noise=noise).settings
    (scheduler,) = [key for key in settings if key.endswith(".exploration_scheduler")]
    assert settings[scheduler] is None
    assert settings[scheduler.replace("_scheduler", "_noise")] == name
