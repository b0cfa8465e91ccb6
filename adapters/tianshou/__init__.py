"""Tianshou: its algorithms, collector, buffer and trainer, put together as in its examples."""

from collections.abc import Sequence

from parallax.adapters.torch_common.devices import TorchAccelerations, explain_missing_device
from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.packages import VersionRange
from parallax.harness.contract.replay import PrioritizedReplay, ReplayConfig

_PROPORTIONAL = "its prioritised buffer draws in proportion to errors only"
_UNSUPPORTED_REASONS = {
    "atdc": f"{_PROPORTIONAL}, and does not evaluate its networks between minibatches",
    "imp": "its buffer weights a minibatch before the errors that correct the weights are known",
}


def explain_unsupported_replay(algorithm: str, replay: ReplayConfig) -> str:
    """Return why Tianshou's buffer does not support `replay`, or an empty string."""
    if not isinstance(replay, PrioritizedReplay) or replay.name != "per":
        reason = _UNSUPPORTED_REASONS.get(replay.name, _PROPORTIONAL)
        return f"{reason}; replay=per is carried by that buffer"
    if replay.draws != "independent":
        return "its buffer draws independently, which is replay.draws=independent"
    if replay.normalize != "batch":
        return (
            "its weights are then in units of the smallest priority there has been; use "
            "replay.normalize=batch"
        )
    if replay.alpha == 0:
        return "its buffer takes no replay.alpha=0, which is replay=uniform"
    if algorithm in ("td3", "sac") and replay.critics != "net":
        return (
            "its critics' errors are averaged before their absolute value is taken, which is "
            "replay.critics=net"
        )
    return ""


_UPDATE_MODULES = {
    "ppo": ("ppo", "a2c"),
    "td3": ("td3", "ddpg"),
    "sac": ("sac", "ddpg"),
    "ddpg": ("ddpg",),
    "dqn": ("dqn",),
}
SUPPORTED_VERSIONS = VersionRange(
    "tianshou",
    "1.0",
    "2.1",
    why_not_older="Older releases were not tried.",
    update_modules={
        algorithm: tuple(
            f"tianshou.{package}.modelfree.{module}"
            for package in ("algorithm", "policy")  # since 2.0, and before
            for module in modules
        )
        for algorithm, modules in _UPDATE_MODULES.items()
    },
)


class TianshouAdapter(TorchAccelerations, Adapter):
    """Adapter of Tianshou's procedural interface."""

    name = "tianshou"
    packages = ("tianshou", "torch")
    import_names = ("tianshou",)
    install_command = "pip install 'tianshou>=2.0.1,<2.1'"
    supported_versions = SUPPORTED_VERSIONS
    recipe_parts = ("networks", "settings", "optimizers")

    def why_unsupported_replay(self, algorithm: str, replay: ReplayConfig) -> str:
        """Return why `replay` is not supported, or an empty string."""
        return explain_unsupported_replay(algorithm, replay)

    def why_unsupported_device(self, algorithm: str, device: str, here: bool) -> str:
        """Return why `device` cannot be used, or an empty string.

        Policies compute on the device of their parameters.
        """
        return explain_missing_device(device, here)

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """Return the modules that train, compiled ones too; torch.optim loads torch's compiler."""
        return ("parallax.adapters.tianshou.train", "torch._dynamo")
