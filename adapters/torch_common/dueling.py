"""The heads of a dueling network, for frameworks that ship none."""

from collections.abc import Sequence

import torch
from torch import nn


def build_linear_layers(inputs: int, sizes: Sequence[int], outputs: int) -> nn.Sequential:
    """Build linear layers with ReLU between them; draws their weights from torch's generator."""
    layers: list[nn.Module] = []
    for before, after in zip([inputs, *sizes], sizes, strict=False):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear([inputs, *sizes][-1], outputs))


class DuelingHead(nn.Module):
    """The value of a state plus what actions are better or worse than their mean.

    Equation 9 of Wang et al. (2016, arXiv:1511.06581).
    """

    def __init__(self, inputs: int, sizes: Sequence[int], choices: int) -> None:
        """Draw the weights from torch's generator.

        Args:
            inputs: Number of features.
            sizes: Units per hidden layer of each of both heads.
            choices: Number of actions.
        """
        super().__init__()
        self.value = build_linear_layers(inputs, sizes, 1)
        self.advantage = build_linear_layers(inputs, sizes, choices)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return action values [..., actions]."""
        advantage: torch.Tensor = self.advantage(features)
        value: torch.Tensor = self.value(features)
        return value + advantage - advantage.mean(dim=-1, keepdim=True)
