"""A network of one's own for images, as Tianshou's policies take it."""

from collections.abc import Sequence
from typing import Any

import torch
from tianshou.utils.net.common import ActionReprNetWithVectorOutput, Net

from adapters.torch_common.convolutions import convolutions


class Convolutions(ActionReprNetWithVectorOutput[Any]):
    """Convolutions in front of Tianshou's network of linear layers."""

    def __init__(
        self, image: Sequence[int], filters: Sequence[int], values: Net, brightest: int = 1
    ) -> None:
        """Draws the weights of the convolutions from torch's generator.

        Args:
            image: Channels, height and width.
            filters: Of each convolution.
            values: From features to what an action is chosen by.
            brightest: What an image's numbers go up to.
        """
        super().__init__(values.output_dim)
        self.layers, self.values = convolutions(image, filters, brightest), values

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[torch.Tensor, Any]:
        """As `Net.forward`, for observations [N, channels, height, width]."""
        images = torch.as_tensor(obs, dtype=torch.float32)
        values: tuple[torch.Tensor, Any] = self.values(self.layers(images), state, info)
        return values
