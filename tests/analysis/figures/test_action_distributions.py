import numpy as np
import pytest

from parallax.analysis.figures.action_distributions import compute_action_distributions


@pytest.mark.parametrize("mean", [0.0, -0.6])
@pytest.mark.parametrize("variance", [1.0, 0.1])
def test_action_densities_are_those_of_sampled_actions(mean, variance):
    item = compute_action_distributions(mean, variance)
    raw = np.random.default_rng(0).normal(mean, np.sqrt(variance), 400_000)
    width = item.actions[1] - item.actions[0]
    assert item.clipped.sum() * width + sum(item.at_bounds) == pytest.approx(1, abs=5e-3)
    assert item.squashed.sum() * width == pytest.approx(1, abs=2e-2)
    assert item.mean_clipped == pytest.approx(np.clip(raw, -1, 1).mean(), abs=3e-3)
    assert item.mean_squashed == pytest.approx(np.tanh(raw).mean(), abs=3e-3)
    assert item.at_bounds[0] == pytest.approx((raw < -1).mean(), abs=3e-3)
