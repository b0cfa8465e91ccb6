"""skrl: its agents, memory and step trainer, put together as in its Gymnasium examples."""

from collections.abc import Mapping, Sequence
from typing import Any

from parallax.adapters.torch_common.devices import TorchAccelerations, explain_missing_device
from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.packages import VersionRange

DIFFERENT_UNITS = ("mini_batches", "learning_starts")
"""Options whose units differ from those of the hyperparameters."""

_MODELS = {"ppo": "gaussian", "sac": "gaussian"}
SUPPORTED_VERSIONS = VersionRange(
    "skrl",
    "1.0",
    "2.2",
    # Before 1.4 gym is imported, for the types of arguments.
    companions={"1.4": ("gym==0.26.2", "gym-notices==0.0.8")},
    why_not_older="Older releases were not tried.",
    broken={"1.4.2": "Its wrapper of tasks fails in every step (issue 301 of skrl)."},
    update_modules={
        name: (
            f"skrl.agents.torch.{name}.{name}",
            f"skrl.models.torch.{_MODELS.get(name, 'deterministic')}",
        )
        for name in ("ppo", "td3", "sac", "dqn", "ddpg")
    },
)


class SkrlAdapter(TorchAccelerations, Adapter):
    """Adapter of skrl's agents in PyTorch."""

    name = "skrl"
    packages = ("skrl", "torch")
    import_names = ("skrl",)
    rebuilt_packages = ("parallax.adapters.skrl",)
    install_command = "pip install 'skrl>=2.1.1,<2.2'"
    supported_versions = SUPPORTED_VERSIONS
    # Upstream leaves noise to its users; the noise in its examples is meant for one task.
    recipe_parts = ("networks", "settings", "greedy", "exploration", "target_action")

    def why_unsupported_device(self, algorithm: str, device: str, here: bool) -> str:
        """Return why `device` cannot be used, or an empty string.

        skrl's agents, models and memory take the device as an argument.
        """
        return explain_missing_device(device, here)

    def upstream_defaults(self, algorithm: str) -> Mapping[str, Any]:
        """Return the defaults of the class of options, except those with other units here."""
        name = f"{algorithm.upper()}_CFG"
        from parallax.adapters.skrl.versions import load_default_options

        options = load_default_options(algorithm.upper())
        return {f"{name}.{n}": v for n, v in options.items() if n not in DIFFERENT_UNITS}

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """Return the modules that train; torch's optimizers load torch's compiler."""
        return ("parallax.adapters.skrl.train", "torch._dynamo")
