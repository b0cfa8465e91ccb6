"""Probes notice a patch that does nothing or sets a wrong value, and another constant upstream."""

import dataclasses

import pytest

from parallax.harness.conformance import AdapterConformance
from parallax.harness.probes import experiments

FIELDS = [
    ("dqn", "adam_eps", 2e-3),
    ("dqn", "huber_delta", 0.4),
    ("dqn", "max_grad_norm", 0.02),
    ("dqn", "gradient_steps", 3),
    ("ddpg", "critic_weight_decay", 0.2),
    ("ddpg", "critic_learning_rate", 0.03),
    ("ddpg", "train_freq", 2),
    ("ddpg", "hidden_sizes", (9, 12)),
    ("sac", "initial_temperature", 0.6),
    ("ppo", "minibatch_size", 7),
    ("ppo", "value_clip_range", 0.02),
]
SWITCHES = [
    ("dqn", "bootstrap_truncation"),
    ("dqn", "double_q"),
    ("ddpg", "exploration_noise_kind"),
    ("ppo", "bootstrap_truncation"),
    ("ppo", "clip_range_schedule"),
]
# CleanRL has these options, and its patches change when the first of the rarer steps comes.
PHASES = [("ddpg", "policy_delay"), ("sac", "policy_delay"), ("sac", "target_update_interval")]


@pytest.fixture
def suite():
    suite = AdapterConformance()
    suite.framework = "cleanrl"
    return suite.test_probe_measures_the_value_that_a_patch_sets


@pytest.mark.parametrize(("algorithm", "field", "wrong"), FIELDS)
def test_wrong_value_is_noticed(suite, monkeypatch, algorithm, field, wrong):
    make = experiments.make_patches

    def set_wrong_value(adapter, algorithm, hyperparameters, fields):
        if field in fields:
            hyperparameters = dataclasses.replace(hyperparameters, **{field: wrong})
        return make(adapter, algorithm, hyperparameters, fields)

    monkeypatch.setattr(experiments, "make_patches", set_wrong_value)
    with pytest.raises(AssertionError, match=f"shows {field}=.* with the patch, and not"):
        suite(algorithm, field)


@pytest.mark.parametrize(
    ("algorithm", "field"),
    [*SWITCHES, *PHASES, *((algorithm, field) for algorithm, field, _ in FIELDS[:5])],
)
def test_patch_that_does_nothing_is_noticed(suite, monkeypatch, algorithm, field):
    make = experiments.make_patches
    monkeypatch.setattr(
        experiments,
        "make_patches",
        lambda *given: tuple(item for item in make(*given) if item.field != field),
    )
    with pytest.raises(AssertionError, match=f"shows {field}=.* with the patch, and not"):
        suite(algorithm, field)


def test_other_constant_of_upstream_is_noticed(suite, monkeypatch):
    make = experiments.make_patches

    def change_upstream(adapter, algorithm, hyperparameters, fields):
        other = dataclasses.replace(hyperparameters, adam_eps=1e-5)
        if "adam_eps" in fields:
            return make(adapter, algorithm, hyperparameters, fields)
        return (
            *make(adapter, algorithm, hyperparameters, fields),
            *make(adapter, algorithm, other, ("adam_eps",)),
        )

    monkeypatch.setattr(experiments, "make_patches", change_upstream)
    with pytest.raises(AssertionError, match="shows adam_eps=1e-05 without the patch"):
        suite("dqn", "adam_eps")
