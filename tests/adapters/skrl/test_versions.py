"""Translation to releases of skrl before 2.0, without one of them."""

from types import SimpleNamespace

import pytest

pytest.importorskip("skrl")
from skrl.models.torch import DeterministicMixin, GaussianMixin

from parallax.adapters.skrl import SUPPORTED_VERSIONS
from parallax.adapters.skrl.versions import OlderModel, convert_options, load_default_options

NOISE = {"exploration_scheduler": None, "learning_rate": [1, 2]}


def test_each_rate_has_its_own_name():
    rates = convert_options(learning_rate=[1, 2, 3])
    names = ("actor_learning_rate", "critic_learning_rate", "entropy_learning_rate")
    assert [rates[name] for name in names] == [1, 2, 3]
    assert "entropy_learning_rate" not in convert_options(learning_rate=[1, 2])


@pytest.mark.parametrize(("clip", "clips"), [(0, False), (0.2, True)])
def test_values_are_clipped_only_where_the_range_is_not_0(clip, clips):
    options = convert_options(learning_rate=1, gae_lambda=0.9, value_clip=clip)
    assert options["lambda"] == 0.9 and options["clip_predicted_values"] is clips


def test_noise_is_made_from_its_arguments_and_does_not_decay():
    noise = {"exploration_noise": SimpleNamespace, "exploration_noise_kwargs": {"std": 3}}
    smoothing = "smooth_regularization_noise"
    kwargs = {smoothing: SimpleNamespace, f"{smoothing}_kwargs": {"std": 4}}
    options = convert_options(**NOISE, **noise, **kwargs)
    assert options["exploration"]["noise"].std == 3 and options[smoothing].std == 4
    assert options["exploration"]["initial_scale"] == options["exploration"]["final_scale"] == 1
    assert convert_options(**NOISE, exploration_noise=None)["exploration"]["noise"] is None


def test_dqn_counts_its_target_interval_in_steps():
    counts = {"target_update_interval": 6, "update_interval": 4, "gradient_steps": 2}
    options = convert_options(learning_rate=1, exploration_scheduler=[1.0, 0.1, 50], **counts)
    assert options["target_update_interval"] == 12
    epsilon = {"initial_epsilon": 1.0, "final_epsilon": 0.1, "timesteps": 50}
    assert options["exploration"] == epsilon


def test_models_read_states_and_return_the_deviation_separately():
    class Policy(GaussianMixin, OlderModel):
        def compute(self, inputs, role=""):
            return inputs["observations"], {"log_std": 5}

    class Critic(DeterministicMixin, OlderModel):
        def compute(self, inputs, role=""):
            return inputs["observations"], {}

    assert Policy.compute(Policy.__new__(Policy), {"states": 3}) == (3, 5, {})
    assert Critic.compute(Critic.__new__(Critic), {"states": 3}, role="value") == (3, {})


def test_defaults_are_read_from_the_installed_class():
    assert load_default_options("PPO")["gae_lambda"] == 0.95


def test_gym_is_provided_only_to_releases_that_import_it():
    for release in ("1.0.0", "1.3.0"):
        assert "gym==0.26.2" in SUPPORTED_VERSIONS.list_requirements(release)
    assert SUPPORTED_VERSIONS.list_requirements("1.4.3") == ("skrl==1.4.3",)
