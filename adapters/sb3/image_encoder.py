"""Image encoder of SB3's policies."""

from collections.abc import Sequence

import gymnasium
import torch
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from parallax.adapters.torch_common.image_encoder import build_convolutions, count_features


class ConvolutionalExtractor(BaseFeaturesExtractor):
    """Convolutions over images with channels first and numbers between 0 and 1."""

    def __init__(self, observation_space: gymnasium.spaces.Box, filters: Sequence[int]) -> None:
        """Draw its weights from torch's generator.

        Args:
            observation_space: Images [channels, height, width].
            filters: Of each convolution.
        """
        super().__init__(observation_space, count_features(observation_space.shape, filters))
        self.layers = build_convolutions(observation_space.shape, filters)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return features float32[N, features_dim]."""
        found: torch.Tensor = self.layers(observations)
        return found
