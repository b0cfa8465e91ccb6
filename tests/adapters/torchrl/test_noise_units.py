import dataclasses

import pytest
import support

from parallax.adapters.torchrl import TorchRLAdapter
from parallax.envs.tasks import Task, load_task
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.train.prepare import prepare_run

PENDULUM = load_task("InvertedPendulum-v4")  # actions within +-3
CHEETAH = load_task("HalfCheetah-v4")  # actions within +-1
NOISES = {
    "exploration_noise": ("AdditiveGaussianModule.std", 0.1),
    "target_policy_noise": ("TD3Loss.policy_noise", 0.2),
    "target_noise_clip": ("TD3Loss.noise_clip", 0.5),
}


def translate(task, algorithm="td3", **changes):
    hyperparameters = dataclasses.replace(load_recipe(algorithm, "torchrl"), **changes)
    return TorchRLAdapter().translate(algorithm, hyperparameters, RunContext(task, 10_000, 3))


@pytest.mark.parametrize("field", NOISES)
def test_noise_as_a_share_of_half_the_range_becomes_action_units(field):
    name, _ = NOISES[field]
    assert translate(PENDULUM, **{field: 0.25}).settings[name] == pytest.approx(0.75)
    assert translate(CHEETAH, **{field: 0.25}).settings[name] == 0.25


@pytest.mark.parametrize("field", NOISES)
def test_own_noise_is_the_same_in_action_units_on_every_task(field):
    name, upstream = NOISES[field]
    context = RunContext(PENDULUM, 10_000, 3)
    adapter = TorchRLAdapter()
    own = adapter.get_library_defaults("td3", load_recipe("td3", "torchrl"), context)
    assert getattr(own, field) == pytest.approx(upstream / 3)
    settings = adapter.translate("td3", own, context).settings
    assert settings[name] == pytest.approx(upstream)


def test_noise_is_refused_where_action_dimensions_have_different_ranges():
    uneven = Task("Uneven-v0", 3, (-1.0, -2.0), (1.0, 2.0), 100)
    with pytest.raises(SpecError, match=r"exploration_noise=0\.1: in torchrl .*target_noise_clip"):
        translate(uneven)
    recipe = load_recipe("td3", "torchrl")
    assert TorchRLAdapter().get_library_defaults("td3", recipe, RunContext(uneven, 1, 0)) == recipe
    translate(uneven, "sac")


@pytest.mark.parametrize("alignment", ["common", "exact"])
def test_own_recipe_is_in_action_units_for_all_bounds(alignment):
    run = support.spec("torchrl", "td3", env="InvertedPendulum-v4", alignment=alignment)
    settings = prepare_run(run, TorchRLAdapter()).native.settings
    names = ("AdditiveGaussianModule.std", "TD3Loss.policy_noise", "TD3Loss.noise_clip")
    assert [settings[name] for name in names] == pytest.approx([0.1, 0.2, 0.5])


def test_requested_noise_is_a_share_for_any_recipe():
    requested = {"target_policy_noise": 0.3}
    run = support.spec("torchrl", "td3", env="InvertedPendulum-v4", hyperparameters=requested)
    assert prepare_run(run, TorchRLAdapter()).native.settings[
        "TD3Loss.policy_noise"
    ] == pytest.approx(0.9)
