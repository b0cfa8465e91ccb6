"""The convolutions of `conv_filters`, for frameworks that take a network of one's own."""

from collections.abc import Sequence

import torch
from torch import nn

from parallax.harness.contract.algorithms.image_encoder import (
    compute_feature_map_sizes,
    compute_kernels,
)


class ImageScaling(nn.Module):
    """Brings an image of bytes to 0 to 1."""

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

    Args:
        image: Channels, height and width.
        filters: Of each convolution.
        brightest: What an image's numbers go up to.
    """
    layers: list[nn.Module] = [ImageScaling(brightest)] if brightest > 1 else []
    into = [image[0], *filters]
    for before, after, (side, step) in zip(
        into, filters, compute_kernels(image, filters), strict=False
    ):
        layers += [nn.Conv2d(before, after, side, step), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten())


def count_features(image: Sequence[int], filters: Sequence[int]) -> int:
    """Return the number of features that convolutions without padding make of an image."""
    height, width = compute_feature_map_sizes(image, filters)[-1]
    return filters[-1] * height * width
