import dataclasses
import inspect
import math

import pytest
import support
from loops import iterate_some

from parallax.adapters.sbx import SbxAdapter
from parallax.envs.tasks import load_task
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe


def translate(algorithm, steps=10_000, n_envs=1, **changes):
    hyperparameters = dataclasses.replace(load_recipe(algorithm, "sbx"), **changes)
    task = load_task(support.ENVS[ALGORITHMS[algorithm].actions])
    context = RunContext(task, steps, seed=3, n_envs=n_envs)
    return SbxAdapter().translate(algorithm, hyperparameters, context)


@pytest.mark.parametrize("algorithm", [a for a in ALGORITHMS if SbxAdapter().supports(a)])
def test_own_recipe_equals_the_upstream_defaults(algorithm):
    sbx = pytest.importorskip("sbx")
    signature = inspect.signature(getattr(sbx, algorithm.upper()))
    own = {"qf_learning_rate": 3e-4}  # None there: that of the policy
    for name, value in iterate_some(translate(algorithm, 1_000_000).settings.items()):
        if "." not in name and name != "seed":
            default = signature.parameters[name].default
            assert value == (own[name] if default is None and value is not None else default), name


def test_linear_schedules_and_no_clipping():
    native = translate("ppo", learning_rate_schedule="linear", max_grad_norm=None)
    assert native.settings["learning_rate"] == {"LinearSchedule": [3e-4, 0.0, 1.0]}
    assert native.settings["max_grad_norm"] == math.inf


@pytest.mark.parametrize(
    ("algorithm", "field", "value", "words"),
    [
        ("ppo", "value_clip_range", 0.2, "ignores clip_range_vf"),
        ("ppo", "target_kl", 0.01, "adapts the learning rate"),
        ("dqn", "max_grad_norm", 10.0, "not clipped"),
        ("dqn", "hidden_sizes", (64, 32), "two layers of equal width"),
        ("dqn", "hidden_sizes", (64,), "two layers of equal width"),
        ("dqn", "conv_filters", (16,), "fixed at null"),
        ("sac", "temperature_learning_rate", 0.01, "the policy's learning_rate"),
        ("ddpg", "critic_weight_decay", 0.01, "optax.adam has no weight decay"),
    ],
)
def test_options_that_sbx_would_ignore_are_refused(algorithm, field, value, words):
    with pytest.raises(SpecError, match=f"{field}.*{words}"):
        translate(algorithm, **{field: value})


def test_policy_and_critics_have_separate_learning_rates():
    settings = translate("sac", critic_learning_rate=0.01).settings
    assert (settings["learning_rate"], settings["qf_learning_rate"]) == (3e-4, 0.01)


def test_targets_of_td3_move_at_every_step_of_the_critics():
    native = translate("td3", 200)
    assert (
        native.update_schedule.target_updates == native.update_schedule.total_gradient_steps == 100
    )
    assert native.update_schedule.policy_updates == 50


def test_steps_are_counted_per_environment():
    assert translate("ppo", n_envs=2).settings["n_steps"] == 1024
    with pytest.raises(SpecError, match="a multiple of n_envs=3"):
        translate("ppo", n_envs=3)


@pytest.mark.long
def test_ppo_takes_discrete_actions(tmp_path):
    small = {"rollout_steps": 64, "minibatch_size": 32, "epochs": 2}
    spec = support.spec(
        "sbx", "ppo", hyperparameters=small, env="CartPole-v1", steps=128, eval_every=64
    )
    _, run = support.run(spec, tmp_path)
    assert run["status"] == "completed", run["failure"]
    assert run["update_schedule"]["total_gradient_steps"] == 8


def test_temperature_has_the_learning_rate_of_the_policy_by_default():
    recipe = load_recipe("sac", "sbx")
    defaults = dataclasses.replace(recipe, policy_learning_rate=0.02)
    for n_envs in (1, 4):
        context = RunContext(load_task("Pendulum-v1"), 1000, seed=3, n_envs=n_envs)
        found = SbxAdapter().get_library_defaults("sac", defaults, context)
        assert found.temperature_learning_rate == found.policy_learning_rate == 0.02
