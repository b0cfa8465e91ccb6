"""Linear schedules of runs whose steps are no multiple of a rollout."""

import dataclasses

import pytest
import support

from parallax.harness.conformance.trainings import make_base_hyperparameters, observe_training

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
