"""Comparisons and slopes are read from the autograd graph of a loss."""

import numpy as np
import pytest
import torch
from loops import iterate_some
from torch import nn

from parallax.adapters.torch_common.watch import find_comparisons, find_entropy_slopes


def made(outputs=1):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, outputs))
    return net, torch.randn(16, 3), torch.randn(16, 1)


LOSSES = {
    "mse": lambda said, target: nn.functional.mse_loss(said, target),
    "swapped arguments": lambda said, target: nn.functional.mse_loss(target, said),
    "huber": lambda said, target: nn.functional.smooth_l1_loss(said, target),
    "square": lambda said, target: (said - target).pow(2).mean(),
    "square, swapped arguments": lambda said, target: ((target - said) ** 2).mean(),
    "one of a sum": lambda said, target: nn.functional.mse_loss(said, target) * 0.5 + said.mean(),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_comparison_of_values_with_targets_is_found(loss):
    net, rows, target = made()
    (one,) = find_comparisons(LOSSES[loss](net(rows), target))
    assert one.kind == "values" and one.choices is None
    assert np.allclose(one.targets, target[:, 0].numpy(), atol=1e-5)
    assert np.allclose(one.predictions, net(rows)[:, 0].detach().numpy(), atol=1e-5)
    assert np.array_equal(one.inputs, rows.numpy())


@pytest.mark.parametrize("index", ["gather", "brackets"])
def test_chosen_action_of_each_row_is_found(index):
    net, rows, target = made(outputs=4)
    choices = torch.arange(16) % 4
    said = net(rows)
    said = (
        said.gather(1, choices[:, None]) if index == "gather" else said[torch.arange(16), choices]
    )
    (one,) = find_comparisons((said.reshape(-1) - target[:, 0]).pow(2).mean())
    assert np.array_equal(one.choices, choices.numpy())
    assert np.allclose(one.targets, target[:, 0].numpy(), atol=1e-5)


def test_advantages_are_what_a_ratio_is_multiplied_with():
    net, rows, target = made()
    logs = torch.distributions.Normal(net(rows), 1.0).log_prob(target)
    ratio = (logs - logs.detach()).exp()
    advantage = torch.randn(16, 1)
    loss = -torch.min(advantage * ratio, advantage * ratio.clamp(0.8, 1.2)).mean()
    (one,) = find_comparisons(loss)
    assert one.kind == "advantages" and one.predictions is None
    assert np.array_equal(one.targets, advantage[:, 0].numpy())
    assert np.array_equal(one.inputs, rows.numpy())


def test_loss_without_a_comparison_has_none():
    net, rows, _ = made()
    assert find_comparisons(-net(rows).mean()) == ()
    assert find_comparisons(torch.ones(())) == ()


def test_slopes_show_the_sign_of_an_entropy():
    mean, log_std = torch.zeros(8, 2, requires_grad=True), torch.zeros(2, requires_grad=True)
    scores = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    weights = torch.arange(8.0)

    def build_losses(sign):
        normal = torch.distributions.Normal(mean, log_std.exp())
        drawn, chosen = normal.rsample(), torch.distributions.Categorical(logits=scores)
        ratio = (normal.log_prob(drawn.detach()).sum(1) - 1.0).exp()
        yield (weights * ratio).mean() - sign * normal.entropy().sum(1).mean()
        yield -sign * 0.1 * chosen.entropy().mean() + mean.square().mean()
        yield sign * 0.2 * normal.log_prob(drawn).sum(1).mean() - drawn.mean()

    for sign in (1, -1):
        for loss in iterate_some(build_losses(sign)):
            slopes = find_entropy_slopes(loss)
            assert slopes and all(sign * slope < 0 for slope in slopes)
    plain = torch.distributions.Normal(mean, log_std.exp()).log_prob(mean + 1).sum(1)
    assert find_entropy_slopes((weights * plain).mean()) == ()
