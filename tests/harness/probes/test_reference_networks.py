"""NumPy's networks, and what is read off gradients, against torch."""

import numpy as np
import pytest
import torch
from torch import nn

from parallax.harness.probes import reference_networks as networks
from parallax.harness.probes.experiment_setups import ACTION_SIZE, OBSERVATION_SIZE

TORCH = {
    "ReLU": nn.ReLU(),
    "tanh": nn.Tanh(),
    "identity": nn.Identity(),
    "sigmoid": nn.Sigmoid(),
    "leaky ReLU": nn.LeakyReLU(),
    "ELU": nn.ELU(),
    "SiLU": nn.SiLU(),
    "GELU": nn.GELU(),
    "softplus": nn.Softplus(),
}
ROWS = 12


def torch_network(weights, network, activation, head="out"):
    layers = []
    for name in ("0", "1", head):
        array = torch.as_tensor(weights[f"{network}.{name}.weight"])
        layer = nn.Linear(array.shape[1], array.shape[0], dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(array)
            layer.bias.copy_(torch.as_tensor(weights[f"{network}.{name}.bias"]))
        layers += [layer, activation]
    return nn.Sequential(*layers[:-1])


def drawn(algorithm):
    return networks.draw_weights(np.random.default_rng(3), algorithm, OBSERVATION_SIZE, ACTION_SIZE)


def inputs(size):
    return np.random.default_rng(4).normal(size=(ROWS, size))


@pytest.mark.parametrize("name", networks.ACTIVATIONS)
def test_activations_equal_torchs(name):
    x = np.linspace(-4, 4, 33)
    expected = TORCH[name](torch.as_tensor(x)).numpy()
    np.testing.assert_allclose(networks.ACTIVATIONS[name](x), expected, atol=1e-9)


@pytest.mark.parametrize(
    ("algorithm", "network", "head"),
    [("ppo", "value", "out"), ("td3", "critic1", "out"), ("sac", "policy", "std")],
)
def test_outputs_equal_torchs(algorithm, network, head):
    weights, (_, activation) = drawn(algorithm), networks.HIDDEN_LAYERS[algorithm]
    x = inputs(weights[f"{network}.0.weight"].shape[1])
    module = torch_network(weights, network, TORCH["tanh" if algorithm == "ppo" else "ReLU"], head)
    expected = module(torch.as_tensor(x)).detach().numpy()
    np.testing.assert_allclose(
        networks.compute_output(weights, network, x, activation, head), expected
    )


def test_input_gradient_equals_autograd():
    weights = drawn("td3")
    x = torch.as_tensor(inputs(OBSERVATION_SIZE + ACTION_SIZE)).requires_grad_()
    torch_network(weights, "critic1", TORCH["ReLU"])(x).sum().backward()
    found = networks.compute_input_gradient(weights, "critic1", x.detach().numpy())
    np.testing.assert_allclose(found, x.grad, atol=1e-12)


def test_gradients_by_outputs_are_found_from_those_of_the_last_layer():
    weights, x = drawn("ppo"), inputs(OBSERVATION_SIZE)
    module = torch_network(weights, "policy", TORCH["tanh"])
    out = module(torch.as_tensor(x))
    out.retain_grad()
    (out**3).mean().backward()
    gradients = {
        "policy.out.weight": module[4].weight.grad.numpy(),
        "policy.out.bias": module[4].bias.grad.numpy(),
    }
    found = networks.solve_output_gradient(gradients, weights, "policy", x, networks.TANH)
    np.testing.assert_allclose(found, out.grad, atol=1e-9)


def test_rows_with_proportional_features_cannot_be_solved():
    unit = np.zeros((3, 1))
    unit[0] = 1.0  # the first unit alone is active where the input is above 0
    weights = {
        "critic1.0.weight": unit,
        "critic1.0.bias": np.array([0.0, 1.0, -1.0]),
        "critic1.1.weight": np.eye(3),
        "critic1.1.bias": np.zeros(3),
    }
    inputs = np.array([[1.0], [2.0], [3.0]])
    assert not networks.find_solvable_rows(weights, "critic1", inputs, networks.RELU).any()
    assert networks.find_solvable_rows(
        weights, "critic1", inputs[[0, 1, 0]], networks.RELU
    ).all()  # equal rows


def test_nearly_proportional_features_are_not_solvable():
    weights = {
        "critic1.0.weight": np.eye(2),
        "critic1.0.bias": np.zeros(2),
        "critic1.1.weight": np.eye(2),
        "critic1.1.bias": np.zeros(2),
    }
    near = np.array([[1.0, 0.0], [2.0, 1e-5], [3.0, 0.0]])
    apart = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    assert not networks.find_solvable_rows(weights, "critic1", near, networks.RELU).any()
    assert networks.find_solvable_rows(weights, "critic1", apart, networks.RELU).all()
