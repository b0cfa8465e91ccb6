"""Convolutions of `conv_filters`: no padding, kernels that follow the image size."""

from collections.abc import Sequence

from parallax.envs.tasks import Task
from parallax.harness.contract.fields import SpecError, format_value

SMALL_FILTERS = (16,)
"""Filters of MinAtar's own agents (Young and Tian 2019, arXiv:1903.03176)."""
LARGE_FILTERS = (32, 64, 64)
"""Filters of the agents for Atari (Mnih et al. 2015, Nature 518)."""
LARGE_IMAGE_SIDE = 36
"""Smallest side of a large image: the three convolutions leave one value per filter of it."""


def compute_kernels(image: Sequence[int], filters: Sequence[int]) -> list[tuple[int, int]]:
    """Return the side and stride of each convolution's kernel.

    Kernels are 3 by 3 with stride 1. For a large image the first two are those of Mnih et al.
    (2015): 8 by 8 with stride 4, and 4 by 4 with stride 2.
    """
    first = [(8, 4), (4, 2)] if is_large_image(image) else []
    return [*first, *[(3, 1)] * len(filters)][: len(filters)]


def compute_feature_map_sizes(
    image: Sequence[int], filters: Sequence[int]
) -> list[tuple[int, int]]:
    """Return height and width of the image and after each convolution; 0 or less: none is left."""
    found = [(image[1], image[2])]
    for side, step in compute_kernels(image, filters):
        height, width = found[-1]
        found.append(((height - side) // step + 1, (width - side) // step + 1))
    return found


def resolve_conv_filters(filters: tuple[int, ...] | None, task: Task) -> tuple[int, ...] | None:
    """Return the filters of each convolution on a task: the papers' for null, none without images.

    Raises:
        SpecError: There are filters without images, or too many convolutions for its images.
    """
    setting = f"hyperparameters.conv_filters={format_value(filters)}"
    if not task.image:
        if filters is not None:
            raise SpecError(
                f"{setting} would have no effect: env={task.env_id} shows no images. Leave it null."
            )
        return None
    chosen = filters or (LARGE_FILTERS if is_large_image(task.image) else SMALL_FILTERS)
    fits = sum(min(size) > 0 for size in compute_feature_map_sizes(task.image, chosen)) - 1
    if fits < len(chosen):
        height, width = task.image[1:]
        raise SpecError(
            f"{setting}: {len(chosen)} convolutions are too many for env={task.env_id}, whose "
            f"images are {height} by {width}. Use at most {fits}."
        )
    return chosen


def is_large_image(image: Sequence[int]) -> bool:
    """Return whether an image is as large as those of Atari's games, rather than as MinAtar's."""
    return min(image[1:]) >= LARGE_IMAGE_SIDE
