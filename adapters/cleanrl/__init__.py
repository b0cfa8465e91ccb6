"""CleanRL: the scripts of the wheel, run as they are shipped."""

from collections.abc import Mapping, Sequence
from typing import Any

from parallax.adapters.cleanrl.scripts import (
    KINDS,
    check_installed,
    get_script_file,
    get_script_module,
)
from parallax.adapters.cleanrl.settings import get_script_kind
from parallax.adapters.torch_common.devices import TorchAccelerations, explain_missing_device
from parallax.adapters.torch_common.sum_tree import explain_missing_sum_tree
from parallax.harness.contract.adapter import Adapter, RunContext
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.packages import VersionRange
from parallax.harness.contract.replay import ReplayConfig
from parallax.harness.contract.translation import NativeConfig

SUPPORTED_VERSIONS = VersionRange(
    "cleanrl",
    "1.1",
    "1.3",
    why_not_older="Scripts up to 0.5.0 have replay buffers and loops of another form.",
    update_modules={
        "ppo": ("cleanrl.ppo_continuous_action",),
        "td3": ("cleanrl.td3_continuous_action",),
        "sac": ("cleanrl.sac_continuous_action",),
        "ddpg": ("cleanrl.ddpg_continuous_action",),
        "dqn": ("cleanrl.dqn",),
    },
)


class CleanRLAdapter(TorchAccelerations, Adapter):
    """Adapter of CleanRL's single-file scripts."""

    name = "cleanrl"
    packages = ("cleanrl", "stable-baselines3", "torch")
    supported_versions = SUPPORTED_VERSIONS
    recipe_parts = ("greedy",)

    def check_installed(self) -> None:
        """Raise `SpecError` where the wheel is missing or of another version."""
        check_installed()

    def sources(self, algorithm: str) -> Mapping[str, str]:
        """Return the scripts that are run, by kind of task."""
        return dict(get_script_file(algorithm, kind) for kind in KINDS)

    def runs_module(self, algorithm: str, module: str, context: RunContext) -> bool:
        """Return whether `module` is the script that is run."""
        return module == get_script_module(algorithm, get_script_kind(context.task))

    def check_script(
        self, algorithm: str, native: NativeConfig, context: RunContext, here: bool = True
    ) -> None:
        """See `parallax.adapters.cleanrl.own_script`."""
        from parallax.adapters.cleanrl.own_script import check_own_script

        check_own_script(algorithm, native, context, here)

    def diff_script(self, algorithm: str, context: RunContext) -> str:
        """Return the unified diff from the wheel's script to the user's own."""
        from parallax.adapters.cleanrl.own_script import diff_own_script

        return diff_own_script(algorithm, context)

    def why_unsupported_replay(self, algorithm: str, replay: ReplayConfig) -> str:
        """Return why `replay` is not supported (the sum tree is missing), or an empty string."""
        return explain_missing_sum_tree()

    def why_unsupported_device(self, algorithm: str, device: str, here: bool) -> str:
        """Return why `device` cannot be used: the scripts' `--cuda` takes the first GPU."""
        if device.partition(":")[2]:
            return "its scripts take no device number. Use device=cuda, the first GPU."
        return explain_missing_device(device, here, ("cuda",))

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """Return the modules that train; scripts with a replay buffer import SB3's."""
        modules = ("parallax.adapters.cleanrl.train", "torch._dynamo")
        if ALGORITHMS[algorithm].family == "on-policy":
            return modules
        return (*modules, "stable_baselines3")

    def upstream_defaults(self, algorithm: str) -> Mapping[str, Any]:
        """See `parallax.adapters.cleanrl.scripts`."""
        from parallax.adapters.cleanrl.scripts import read_upstream_defaults

        return read_upstream_defaults(algorithm)
