"""Stable-Baselines3: its public classes and `learn()`."""

from collections.abc import Mapping, Sequence
from typing import Any

from parallax.adapters.torch_common.devices import TorchAccelerations, explain_missing_device
from parallax.adapters.torch_common.sum_tree import explain_missing_sum_tree
from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.packages import VersionRange
from parallax.harness.contract.replay import ReplayConfig

_POLICIES = "stable_baselines3.common.policies"
# Releases before 2.4 require gymnasium below 0.30 (their setup.py): they call removed functions.
SUPPORTED_VERSIONS = VersionRange(
    "stable-baselines3",
    "2.0",
    "2.10",
    why_not_older="Before 2.0 tasks are those of gym, not of Gymnasium.",
    companions={"2.4": ("gymnasium==0.29.1",)},
    update_modules={
        "ppo": ("stable_baselines3.ppo.ppo", _POLICIES),
        **{
            name: (
                f"stable_baselines3.{name}.{name}",
                f"stable_baselines3.{name}.policies",
                _POLICIES,
            )
            for name in ("td3", "sac", "dqn")
        },
    },
)


class SB3Adapter(TorchAccelerations, Adapter):
    """Adapter of Stable-Baselines3."""

    name = "sb3"
    packages = ("stable-baselines3", "torch")
    import_names = ("stable_baselines3",)
    install_command = "pip install 'stable-baselines3>=2.9.2,<2.10'"
    supported_versions = SUPPORTED_VERSIONS

    def why_unsupported_replay(self, algorithm: str, replay: ReplayConfig) -> str:
        """Return why `replay` is not supported (the sum tree is missing), or an empty string."""
        return explain_missing_sum_tree()

    def why_unsupported_device(self, algorithm: str, device: str, here: bool) -> str:
        """Return why `device` cannot be used, or an empty string."""
        return explain_missing_device(device, here)

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """Return the modules that train any algorithm; torch's optimizers load its compiler."""
        return ("parallax.adapters.sb3.train", "torch._dynamo")

    def upstream_defaults(self, algorithm: str) -> Mapping[str, Any]:
        """Return the defaults in the signature of the algorithm's class."""
        import inspect

        from parallax.adapters.sb3.train import get_model_class

        parameters = inspect.signature(get_model_class(algorithm)).parameters
        return {n: p.default for n, p in parameters.items() if p.default is not p.empty}
