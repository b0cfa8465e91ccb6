"""Convolutions and dueling heads, for frameworks that accept custom networks."""

from collections.abc import Sequence

import torch
from torch import nn

from parallax.harness.contract.algorithms.image_encoder import (
    compute_feature_map_sizes,
    compute_kernels,
)


class ImageScaling(nn.Module):
    """Scales images of bytes to values between 0 and 1."""

    def __init__(self, brightest: int) -> None:
        """Divide by `brightest`."""
        super().__init__()
        self.brightest = brightest

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return images as float32, divided by `brightest`."""
        return images.float() / self.brightest


def build_convolutions(
    image: Sequence[int], filters: Sequence[int], brightest: int = 1
) -> nn.Sequential:
    """Build convolutions with ReLU, from [N, channels, height, width] to [N, features].

    Draws its weights from torch's generator.
    """
    layers: list[nn.Module] = [ImageScaling(brightest)] if brightest > 1 else []
    into = [image[0], *filters]
    for before, after, (side, step) in zip(
        into, filters, compute_kernels(image, filters), strict=False
    ):
        layers += [nn.Conv2d(before, after, side, step), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten())


def build_image_encoder(
    image: Sequence[int], filters: Sequence[int], sizes: Sequence[int], brightest: int = 1
) -> nn.Sequential:
    """Build convolutions and linear layers, each with ReLU, to [N, last of `sizes`].

    Draws its weights from torch's generator.
    """
    layers: list[nn.Module] = [build_convolutions(image, filters, brightest)]
    for before, after in zip([count_features(image, filters), *sizes], sizes, strict=False):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers)


def count_features(image: Sequence[int], filters: Sequence[int]) -> int:
    """Return the number of features that convolutions without padding make of an image."""
    height, width = compute_feature_map_sizes(image, filters)[-1]
    return filters[-1] * height * width


def build_linear_layers(inputs: int, sizes: Sequence[int], outputs: int) -> nn.Sequential:
    """Build linear layers with ReLU between them; draws their weights from torch's generator."""
    layers: list[nn.Module] = []
    for before, after in zip([inputs, *sizes], sizes, strict=False):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear([inputs, *sizes][-1], outputs))


class DuelingHead(nn.Module):
    """State value plus advantages minus their mean: Wang et al. 2016, arXiv:1511.06581, eq. 9."""

    def __init__(self, inputs: int, sizes: Sequence[int], choices: int) -> None:
        """Draw the weights from torch's generator."""
        super().__init__()
        self.value = build_linear_layers(inputs, sizes, 1)
        self.advantage = build_linear_layers(inputs, sizes, choices)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return action values [..., actions]."""
        advantage: torch.Tensor = self.advantage(features)
        value: torch.Tensor = self.value(features)
        return value + advantage - advantage.mean(dim=-1, keepdim=True)
