"""Stable-Baselines3: its public classes and `learn()`."""

from collections.abc import Mapping, Sequence
from typing import Any

from parallax.adapters.torch_common.devices import TorchAccelerations, explain_missing_device
from parallax.adapters.torch_common.sum_tree import explain_missing_sum_tree
from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.replay import ReplayConfig


class SB3Adapter(TorchAccelerations, Adapter):
    """Adapter of Stable-Baselines3."""

    name = "sb3"
    packages = ("stable-baselines3", "torch")
    import_names = ("stable_baselines3",)
    install_command = "pip install 'stable-baselines3>=2.9.2,<2.10'"

    def why_unsupported_replay(self, algorithm: str, replay: ReplayConfig) -> str:
        """Return why `replay` is not supported (the sum tree is missing), or an empty string."""
        return explain_missing_sum_tree()

    def why_unsupported_device(self, algorithm: str, device: str, here: bool) -> str:
        """Return why `device` cannot be used, or an empty string."""
        return explain_missing_device(device, here)

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """Return the modules that train any algorithm; torch's optimisers load its compiler."""
        return ("parallax.adapters.sb3.train", "torch._dynamo")

    def upstream_defaults(self, algorithm: str) -> Mapping[str, Any]:
        """Return the defaults in the signature of the algorithm's class."""
        import inspect

        from parallax.adapters.sb3.train import get_model_class

        parameters = inspect.signature(get_model_class(algorithm)).parameters
        return {n: p.default for n, p in parameters.items() if p.default is not p.empty}
