"""Networks for sbx's policies that sbx does not ship: a small encoder of images."""

from collections.abc import Callable, Sequence

import flax.linen as nn
import jax.numpy as jnp

from parallax.harness.contract.algorithms.image_encoder import compute_kernels

SHARED_NAME = "NatureCNN_0"
"""Name by which sbx's PPO finds the layers that policy and value network share.

Source: `copy_naturecnn_params` in sbx/common/utils.py.
"""


class ImageEncoder(nn.Module):
    """Convolutions and linear layers, in place of sbx's `NatureCNN`.

    Attributes:
        features_dim: Units of the last layer; sbx passes it.
        activation_fn: Activation after each layer; sbx passes it.
        filters: Number of filters per convolution.
        brightest: Largest value in an image.
    """

    features_dim: int
    activation_fn: Callable[[jnp.ndarray], jnp.ndarray]
    filters: Sequence[int]
    inner_sizes: Sequence[int]
    brightest: int

    @nn.compact  # type: ignore[untyped-decorator]
    def __call__(self, images: jnp.ndarray) -> jnp.ndarray:
        """Return features [N, features_dim] of images [N, channels, height, width]."""
        kernels = compute_kernels(images.shape[1:], self.filters)
        # flax has channels last; before the linear layers they come first again, as in torch.
        found = jnp.transpose(images, (0, 2, 3, 1)).astype(jnp.float32) / self.brightest
        for count, (side, step) in zip(self.filters, kernels, strict=True):
            layer = nn.Conv(count, (side, side), strides=(step, step), padding="VALID")
            found = self.activation_fn(layer(found))
        found = jnp.transpose(found, (0, 3, 1, 2)).reshape(len(found), -1)
        for units in (*self.inner_sizes, self.features_dim):
            found = self.activation_fn(nn.Dense(units)(found))
        return found
