"""Trainings in float64 although frameworks request float32."""

import numpy as np
import torch

from parallax.adapters.torch_common.recording import train_in_float64

THIRD = np.float32(1) / np.float32(3)


def test_tensors_are_float64_within_the_context_only():
    with train_in_float64(True):
        made = [
            torch.as_tensor(np.array([THIRD])),
            torch.zeros(1, dtype=torch.float32),
            torch.tensor([0.1]).float(),
            torch.tensor([0.1]).to(torch.float32),
            torch.Tensor([0.1]),
            torch.nn.Linear(1, 1)(torch.from_numpy(np.array([[THIRD]]))),
            torch.cat([torch.ones(1), torch.ones(1)]),
        ]
        assert {tensor.dtype for tensor in made} == {torch.float64}
        assert torch.tensor([0.1]).float().item() == 0.1  # and no digit is lost on the way
        assert torch.tensor([1]).dtype == torch.int64
    assert torch.zeros(1).dtype == torch.float32 and torch.tensor([0.1]).dtype == torch.float32
    with train_in_float64(False):
        assert torch.zeros(1).dtype == torch.float32


def test_gradients_flow_through():
    with train_in_float64(True):
        layer = torch.nn.Linear(2, 1)
        layer(torch.from_numpy(np.ones((3, 2), np.float32))).sum().backward()
        assert layer.weight.grad.dtype == torch.float64
        assert layer.weight.grad.tolist() == [[3.0, 3.0]]
