"""Steps of an optimizer as shares of Adam's."""

import numpy as np
import pytest

from parallax.harness.contract.probing.protocol import OptimizerStepRecord
from parallax.harness.formulas import ReferenceAdam
from parallax.harness.probes.families.optimisation import _measure_adam_share

SETTINGS = {"lr": 0.1, "eps": 1e-8, "beta1": 0.9, "beta2": 0.999}
GRADIENT = np.array([1.0, -0.5, 1e-7, 0.0])


def measure(taken, gradient=GRADIENT):
    """The share of a step with this gradient that moved the weights by `taken`."""
    before = {"critic1.out": np.zeros(4)}
    after = {"critic1.out": np.asarray(taken, float)}
    gradients = {"critic1.out": gradient}
    step = OptimizerStepRecord(
        0, ("critic1",), "Adam", {"critic1": SETTINGS}, np.zeros((1, 1)), gradients, before, after
    )
    return _measure_adam_share(ReferenceAdam(), step, "critic1", 0.0)


def test_adams_own_step_has_a_share_of_1():
    assert measure([-0.1, 0.1, -0.1, 0.0]) == pytest.approx(1, abs=1e-6)
    assert measure([-0.2, 0.2, -0.2, 0.0]) == pytest.approx(2, abs=1e-6)


def test_sign_of_a_gradient_near_0_is_ignored():
    assert measure([-0.1, 0.1, 0.1, 0.0]) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("taken", "gradient"),
    [
        ([0.1, 0.1, -0.1, 0.0], GRADIENT),
        ([-0.1, 0.1, -0.1, 0.1], GRADIENT),  # a weight without a gradient moves
        ([-0.1, 0.1, 0.1, 0.0], np.array([1.0, -0.5, 1e-3, 0.0])),
    ],
)
def test_a_step_elsewhere_has_no_share(taken, gradient):
    assert np.isnan(measure(taken, gradient))
