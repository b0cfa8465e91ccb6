"""Every oracle against another library, or a case computed by hand."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import AffineTransform, Independent, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform
from torchrl.modules.functional import signed_hyperbolic, signed_parabolic
from torchrl.objectives.value.functional import generalized_advantage_estimate

from parallax.harness import formulas

ROWS, ACTIONS = 40, 3


@pytest.fixture
def generator():
    return np.random.default_rng(7)


def gaussian(generator):
    mean, std = generator.normal(size=(ROWS, ACTIONS)), generator.uniform(0.1, 2, (ROWS, ACTIONS))
    return mean + std * generator.normal(size=(ROWS, ACTIONS)), mean, std


def test_gaussian_log_probability_equals_scipys(generator):
    x, mean, std = gaussian(generator)
    expected = stats.norm(mean, std).logpdf(x).sum(axis=1)
    np.testing.assert_allclose(formulas.compute_normal_log_prob(x, mean, std), expected)


@pytest.mark.parametrize("half", [1.0, 0.4, 3.0])
def test_squashed_log_probability_equals_torchs(generator, half):
    x, mean, std = gaussian(generator)
    x, mean, std = (torch.as_tensor(array) for array in (x, mean, std))
    steps = [TanhTransform(cache_size=1), AffineTransform(0.5, half, cache_size=1)]
    squashed = TransformedDistribution(Normal(mean, std), steps)
    action = steps[1](steps[0](x))
    expected = squashed.log_prob(action).sum(dim=1)
    found = formulas.compute_squashed_log_prob(x.numpy(), mean.numpy(), std.numpy(), half)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_squashed_density_integrates_to_one():
    x = np.linspace(-14, 14, 40_001)[:, None]
    density = np.exp(
        formulas.compute_squashed_log_prob(x, np.full_like(x, 0.3), np.full_like(x, 0.8), 2.0)
    )
    total = np.trapezoid(density, 2 * np.tanh(x[:, 0]))
    assert total == pytest.approx(1, abs=1e-5)


def test_targets_by_hand():
    target = formulas.compute_td_target(
        np.array([1.0, 1.0]), np.array([0.0, 1.0]), 0.5, np.array([4.0, 4.0])
    )
    np.testing.assert_allclose(target, [3.0, 1.0])


def test_soft_value_by_hand():
    values = np.array([[1.0, 5.0], [2.0, 3.0]])
    soft = formulas.compute_soft_value(values, np.array([-1.0, 2.0]), 0.5)
    np.testing.assert_allclose(soft, [1.5, 2.0])


def test_smoothed_action_by_hand():
    # Half the range is 2: the noise is 0.8, cut to 0.6, and the second sum is cut at 3.
    mean, noise = np.array([[0.0], [2.9]]), np.array([[2.0], [2.0]])
    action = formulas.compute_smoothed_action(
        mean, noise, 0.2, 0.3, np.array([-1.0]), np.array([3.0])
    )
    np.testing.assert_allclose(action, [[0.6], [3.0]])


def test_advantages_equal_torchrls(generator):
    rewards, values, following = generator.normal(size=(3, ROWS))
    ended = generator.random(ROWS) < 0.3
    terminated = ended & (generator.random(ROWS) < 0.5)
    columns = [
        torch.as_tensor(array)[None, :, None]
        for array in (values, following, rewards, ended, terminated)
    ]
    expected, targets = generalized_advantage_estimate(0.97, 0.9, *columns)
    found = formulas.compute_gae(
        rewards, values, following, terminated * 1.0, ended * 1.0, 0.97, 0.9
    )
    np.testing.assert_allclose(
        found, expected.numpy().ravel(), rtol=1e-5, atol=1e-6
    )  # TorchRL keeps gamma in float32
    np.testing.assert_allclose(
        found + values, targets.numpy().ravel(), rtol=1e-5, atol=1e-6
    )  # TorchRL keeps gamma in float32


def test_advantages_by_hand():
    # Deltas are 1 + 0.5 * 2 - 1 = 1 and, where the task ends, 1 - 1 = 0.
    found = formulas.compute_gae(
        np.ones(3),
        np.ones(3),
        np.full(3, 2.0),
        np.array([0, 1, 0.0]),
        np.array([0, 1, 0.0]),
        0.5,
        0.5,
    )
    np.testing.assert_allclose(found, [1.0, 0.0, 1.0])


def test_standardized_advantages_equal_scipys(generator):
    x = generator.normal(size=ROWS)
    np.testing.assert_allclose(formulas.standardize_advantages(x), stats.zscore(x), rtol=1e-6)


def test_surrogate_slope_equals_autograd(generator):
    advantages, clip = generator.normal(size=ROWS), 0.2
    log_ratio = torch.as_tensor(0.4 * generator.normal(size=ROWS)).requires_grad_()
    ratio, weight = log_ratio.exp(), torch.as_tensor(advantages)
    torch.min(weight * ratio, weight * ratio.clamp(1 - clip, 1 + clip)).sum().backward()
    found = formulas.compute_surrogate_slope(advantages, ratio.detach().numpy(), clip)
    np.testing.assert_allclose(found, log_ratio.grad, atol=1e-12)
    assert 0 < np.count_nonzero(found == 0) < ROWS


def test_clipped_value_slope_equals_autograd(generator):
    old, returns, clip = generator.normal(size=ROWS), generator.normal(size=ROWS), 0.2
    values = torch.as_tensor(old + 0.4 * generator.normal(size=ROWS)).requires_grad_()
    before, goal = torch.as_tensor(old), torch.as_tensor(returns)
    clipped = before + (values - before).clamp(-clip, clip)
    torch.max((values - goal) ** 2, (clipped - goal) ** 2).sum().backward()
    found = formulas.compute_clipped_value_slope(values.detach().numpy(), old, returns, clip)
    np.testing.assert_allclose(found, values.grad, atol=1e-12)
    assert 0 < np.count_nonzero(found == 0) < ROWS


def test_gaussian_entropy_equals_torchs():
    log_std = np.array([-0.5, 0.0, 1.2])
    distribution = Independent(Normal(torch.zeros(3), torch.exp(torch.as_tensor(log_std))), 1)
    assert formulas.compute_gaussian_entropy(log_std) == pytest.approx(
        distribution.entropy().item()
    )


def test_divergence_estimate_approaches_scipys_entropy(generator):
    old, new = np.array([0.2, 0.5, 0.3]), np.array([0.3, 0.4, 0.3])
    drawn = generator.choice(3, size=400_000, p=old)
    log_ratio = np.log(new / old)[drawn]
    assert formulas.estimate_kl(log_ratio) == pytest.approx(stats.entropy(old, new), rel=0.02)


def test_adam_steps_equal_torchs(generator):
    weights = torch.zeros(ROWS, dtype=torch.float64, requires_grad=True)
    optimizer, adam = torch.optim.Adam([weights], lr=0.01, eps=1e-5), formulas.ReferenceAdam()
    for _ in range(5):
        gradient = generator.normal(size=ROWS) * 10.0 ** generator.integers(-9, 2, size=ROWS)
        before = weights.detach().numpy().copy()
        weights.grad = torch.as_tensor(gradient)
        optimizer.step()
        found = adam.step("x", gradient, {"lr": 0.01, "eps": 1e-5})
        np.testing.assert_allclose(weights.detach().numpy() - before, found, rtol=1e-9, atol=1e-15)


def test_rescaling_by_hand():
    # sqrt(4) - 1 + 0.003; sqrt(100) - 1 + 0.099; odd.
    x, h = np.array([3.0, 99.0, -3.0, 0.0]), [1.003, 9.099, -1.003, 0]
    np.testing.assert_allclose(formulas.rescale_values(x, 1e-3), h)
    np.testing.assert_allclose(formulas.invert_rescaling(np.array(h), 1e-3), x, atol=1e-9)


@pytest.mark.parametrize("epsilon", [1e-3, 1e-2, 1.0])
def test_rescaling_equals_torchrls(generator, epsilon):
    x = generator.normal(size=ROWS) * 10.0 ** generator.integers(-3, 5, size=ROWS)
    h, inverse = (
        f(torch.as_tensor(x), epsilon).numpy() for f in (signed_hyperbolic, signed_parabolic)
    )
    np.testing.assert_allclose(formulas.rescale_values(x, epsilon), h, rtol=1e-9)
    np.testing.assert_allclose(formulas.invert_rescaling(x, epsilon), inverse, rtol=1e-6)


def test_targets_of_several_rewards_by_hand():
    rewards, following = np.array([1.0, 2.0, 4.0]), np.array([200.0, 300.0, 400.0])
    # 1 + 2/2 + 300/4; 2 + 4/2 + 400/4; only one reward is left: 4 + 400/2.
    found = formulas.compute_n_step_targets(rewards, following, False, 0.5, 2)
    np.testing.assert_allclose(found, [77, 104, 204])
    found = formulas.compute_n_step_targets(rewards, following, True, 0.5, 2)
    np.testing.assert_allclose(found, [77, 4, 4])


def test_priority_weights_and_shares_by_hand():
    # 0.9 * 3 + 0.1 * 2
    assert formulas.compute_sequence_priority(np.array([1.0, -3.0, 2.0]), 0.9) == pytest.approx(2.9)
    # 1 / (4 * 0.25) and 1 / (4 * 0.5), over the larger.
    weights = formulas.compute_importance_weights(np.array([0.25, 0.5]), 4, 0.5)
    np.testing.assert_allclose(weights, [1, 0.5**0.5])
    np.testing.assert_allclose(
        formulas.compute_actor_epsilons(0.4, 7.0, 3), [0.4, 0.4**4.5, 0.4**8]
    )
    values = formulas.compute_dueling_values(np.array([[5.0]]), np.array([[1.0, 3.0]]))
    np.testing.assert_allclose(values, [[4.0, 6.0]])


def test_recurrent_cell_equals_torchs(generator):
    layer = torch.nn.LSTM(ACTIONS, 5, dtype=torch.float64)
    parts = {"input": "ih", "state": "hh"}
    weights = {
        f"lstm_{name}.{kind}": getattr(layer, f"{kind}_{short}_l0").detach().numpy()
        for name, short in parts.items()
        for kind in ("weight", "bias")
    }
    inputs, state = generator.normal(size=(ROWS, ACTIONS)), np.zeros((2, 5))
    shown = []
    for row in inputs:
        state = formulas.compute_lstm_step(row, *state, weights)
        shown.append(state[0])
    expected = layer(torch.as_tensor(inputs))[0].detach().numpy()
    np.testing.assert_allclose(shown, expected, atol=1e-12)
