"""The small convolution of `conv_filters`, for frameworks that take a network of one's own."""

from collections.abc import Sequence

from torch import nn

from harness.contract.algorithms.dqn import KERNEL


def convolutions(image: Sequence[int], filters: Sequence[int]) -> nn.Sequential:
    """Convolutions with ReLU, from images [N, channels, height, width] to features [N, features].

    Draws its weights from torch's generator.

    Args:
        image: Channels, height and width.
        filters: Of each convolution.
    """
    layers: list[nn.Module] = []
    for before, after in zip([image[0], *filters], filters, strict=False):
        layers += [nn.Conv2d(before, after, KERNEL), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten())


def features(image: Sequence[int], filters: Sequence[int]) -> int:
    """How many features convolutions without a border make of an image."""
    lost = (KERNEL - 1) * len(filters)
    _, height, width = image
    return filters[-1] * (height - lost) * (width - lost)
