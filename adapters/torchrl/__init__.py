"""TorchRL: the scripts of its authors, rebuilt from the components of the wheel."""

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.torchrl.refusals import refusal
from adapters.torchrl.translate import SETTINGS, translate
from harness.contract.adapter import Context, MakeEnv, Monitor, Native
from harness.contract.algorithms import Hyperparameters
from harness.contract.fields import SpecError
from harness.contract.parts import coupled_defaults, has_part
from harness.contract.replay import Replay
from harness.probes.contract import Record, Script, Watch


class TorchRLAdapter:
    """Adapter of TorchRL's public components."""

    name = "torchrl"
    packages = ("torchrl", "tensordict", "torch")
    rebuilt = ("adapters.torchrl",)
    recipe_parts = ("networks", "settings", "optimizers", "loop", "sequences")

    def supports(self, algorithm: str) -> bool:
        """What has a module in `adapters.torchrl.settings`."""
        return has_part(SETTINGS, algorithm)

    def check_installed(self) -> None:
        """Raises `SpecError` where a package is missing."""
        for name in ("torchrl", "tensordict"):
            if importlib.util.find_spec(name) is None:
                raise SpecError(
                    "framework=torchrl needs: "
                    "pip install 'torchrl>=0.14.1,<0.15' 'tensordict>=0.14.3,<0.15'"
                )

    def sources(self, algorithm: str) -> Mapping[str, str]:
        """None: the packages' versions and this project's commit say it all."""
        return {}

    def own_defaults(
        self, algorithm: str, defaults: Hyperparameters, context: Context
    ) -> Hyperparameters:
        """As the algorithm's module of settings couples values, if it does."""
        return coupled_defaults(SETTINGS, algorithm, defaults, context)

    def translate(
        self, algorithm: str, hyperparameters: Hyperparameters, context: Context
    ) -> Native:
        """See `adapters.torchrl.translate`."""
        return translate(algorithm, hyperparameters, context)

    def refuses_replay(self, algorithm: str, replay: Replay) -> str:
        """See `adapters.torchrl.refusals`."""
        return refusal(algorithm, replay)

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """What trains; its environments look for SB3's, its data for pandas."""
        parts = ("adapters.torchrl.train", f"adapters.torchrl.{algorithm}")
        return (*parts, "torch._dynamo", "stable_baselines3")

    def train(
        self, algorithm: str, native: Native, context: Context, make_env: MakeEnv, monitor: Monitor
    ) -> None:
        """See `adapters.torchrl.train`."""
        from adapters.torchrl.train import train

        train(algorithm, native, context, make_env, monitor)

    def probe(
        self, algorithm: str, native: Native, context: Context, script: Script, watch: Watch
    ) -> Record:
        """See `adapters.torchrl.probing`."""
        from adapters.torchrl.probing import probe

        return probe(algorithm, native, context, script, watch)

    def upstream_defaults(self, algorithm: str) -> Mapping[str, Any]:
        """See `adapters.torchrl.scripts`."""
        from adapters.torchrl.scripts import upstream_defaults

        return upstream_defaults(algorithm)
