"""Networks for SB3's policies that SB3 does not ship: convolutions and dueling heads."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import torch
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, create_mlp
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import nn

from parallax.adapters.torch_common.networks import (
    DuelingHead,
    build_convolutions,
    build_image_encoder,
    count_features,
)


class ConvolutionalExtractor(BaseFeaturesExtractor):
    """Convolutions over channels-first images with values between 0 and 1."""

    def __init__(self, observation_space: gymnasium.spaces.Box, filters: Sequence[int]) -> None:
        """Draw its weights from torch's generator.

        Args:
            observation_space: Images [channels, height, width].
            filters: Number of filters per convolution.
        """
        super().__init__(observation_space, count_features(observation_space.shape, filters))
        self.layers = build_convolutions(observation_space.shape, filters)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return features float32[N, features_dim]."""
        found: torch.Tensor = self.layers(observations)
        return found


class ImageEncoder(BaseFeaturesExtractor):
    """Convolutions and linear layers, which policy and value network of PPO share."""

    def __init__(
        self,
        observation_space: gymnasium.spaces.Box,
        filters: Sequence[int],
        hidden_sizes: Sequence[int],
    ) -> None:
        """Draw its weights from torch's generator.

        Args:
            observation_space: Images [channels, height, width].
            filters: Number of filters per convolution.
            hidden_sizes: Units per linear layer.
        """
        super().__init__(observation_space, hidden_sizes[-1])
        self.layers = build_image_encoder(observation_space.shape, filters, hidden_sizes)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return features float32[N, features_dim]."""
        found: torch.Tensor = self.layers(observations)
        return found


class DuelingQNetwork(QNetwork):
    """DQN's network with a head for the value of a state and one for the actions' advantages."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take the arguments of `QNetwork`; the last size in `net_arch` is that of each head."""
        super().__init__(*args, **kwargs)
        *shared, last = self.net_arch
        width, choices = [self.features_dim, *shared][-1], int(self.action_space.n)
        layers = create_mlp(self.features_dim, -1, shared, self.activation_fn)
        self.q_net = nn.Sequential(*layers, DuelingHead(width, [last], choices))


class DuelingPolicy(DQNPolicy):
    """DQN's policy with dueling networks."""

    def make_q_net(self) -> QNetwork:
        """Build a network with its own features extractor."""
        arguments = self._update_features_extractor(self.net_args, features_extractor=None)
        return DuelingQNetwork(**arguments).to(self.device)
