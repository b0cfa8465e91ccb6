"""TorchRL: the scripts of its authors, rebuilt from the components of the wheel."""

from collections.abc import Mapping, Sequence
from typing import Any

from parallax.adapters.torch_common.devices import TorchAccelerations
from parallax.adapters.torch_common.sum_tree import explain_missing_sum_tree
from parallax.harness.contract.acceleration import (
    COMPILE,
    FOREACH_ADAM,
    GENERAL_TORCH_ACCELERATIONS,
    NO_VMAP,
)
from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.replay import PrioritizedReplay, ReplayConfig

VMAP_ALGORITHMS = ("td3", "sac")
"""Algorithms whose losses compute two critics by vmap."""
COMPILED_ALGORITHMS = ("td3", "sac", "ddpg", "dqn", "ppo")
"""Algorithms whose update function can be compiled, as their scripts offer it."""


class TorchRLAdapter(TorchAccelerations, Adapter):
    """Adapter of TorchRL's public components."""

    name = "torchrl"
    packages = ("torchrl", "tensordict", "torch")
    import_names = ("torchrl", "tensordict")
    install_command = "pip install 'torchrl>=0.14.1,<0.15' 'tensordict>=0.14.3,<0.15'"
    rebuilt_packages = ("parallax.adapters.torchrl",)
    recipe_parts = ("networks", "settings", "optimizers", "loop", "sequences")
    accelerations = (COMPILE, *GENERAL_TORCH_ACCELERATIONS, NO_VMAP)

    def why_unsupported_replay(self, algorithm: str, replay: ReplayConfig) -> str:
        """Return why TorchRL's losses do not allow this replay, or an empty string."""
        if algorithm == "r2d2":
            return (
                "it draws sequences by priorities of its own, which are "
                "hyperparameters.priority_exponent, .importance_exponent and .max_error_share"
            )
        critics = replay.critics if isinstance(replay, PrioritizedReplay) else "mean"
        if algorithm == "sac" and critics != "max":
            return (
                "its loss reports the larger error of its critics only, which is replay.critics=max"
            )
        if algorithm == "td3" and critics == "net":
            return (
                "its loss reports squared errors, which have no sign: use "
                "replay.critics=mean or max"
            )
        return explain_missing_sum_tree()

    def why_unsupported_acceleration(
        self, algorithm: str, acceleration: str, device: str, here: bool
    ) -> str:
        """Return why `acceleration` cannot be used, by what each script has."""
        if acceleration == NO_VMAP and algorithm not in VMAP_ALGORITHMS:
            return f"its loss of {algorithm} computes one critic, without vmap"
        if acceleration == COMPILE and algorithm not in COMPILED_ALGORITHMS:
            return f"its script of {algorithm} is not compiled here"
        if acceleration == FOREACH_ADAM and algorithm == "ppo":
            return (
                "its script has the learning rate in a tensor, which PyTorch's foreach form does "
                "not take"
            )
        return super().why_unsupported_acceleration(algorithm, acceleration, device, here)

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """Return the modules that train; its environments import SB3's, its data pandas."""
        parts = ("parallax.adapters.torchrl.probing", f"parallax.adapters.torchrl.{algorithm}")
        return (*parts, "torch._dynamo", "stable_baselines3")

    def upstream_defaults(self, algorithm: str) -> Mapping[str, Any]:
        """Return the constants of upstream's scripts and defaults of its losses."""
        from parallax.adapters.torchrl.upstream_scripts import read_upstream_defaults

        return read_upstream_defaults(algorithm)
