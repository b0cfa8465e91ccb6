"""TorchRL: the scripts of its authors, rebuilt from the components of the wheel."""

import dataclasses
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.torchrl.translate import half_range, translate
from harness.contract.adapter import Context, MakeEnv, Monitor, Native
from harness.contract.algorithms import SAC, TD3, Hyperparameters
from harness.contract.fields import SpecError
from harness.probes.contract import Record, Script, Watch


class TorchRLAdapter:
    """Adapter of TorchRL's public components."""

    name = "torchrl"
    packages = ("torchrl", "tensordict", "torch")
    recipe_parts = ("networks", "settings", "loop")

    def supports(self, algorithm: str) -> bool:
        """PPO, TD3 and SAC."""
        return algorithm in ("ppo", "td3", "sac")

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
        """SAC's script has one learning rate for its networks; TD3's noises are in action units.

        On a wider action range the same noise is a smaller share of it. The learning rate of
        SAC's temperature is a constant of the script.
        """
        if isinstance(defaults, SAC):
            shared = defaults.policy_learning_rate
            return dataclasses.replace(defaults, critic_learning_rate=shared)
        half = half_range(context.task)
        if not isinstance(defaults, TD3) or half is None:
            return defaults
        return dataclasses.replace(
            defaults,
            exploration_noise=defaults.exploration_noise / half,
            target_policy_noise=defaults.target_policy_noise / half,
            target_noise_clip=defaults.target_noise_clip / half,
        )

    def translate(
        self, algorithm: str, hyperparameters: Hyperparameters, context: Context
    ) -> Native:
        """See `adapters.torchrl.translate`."""
        return translate(algorithm, hyperparameters, context)

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """Everything for every algorithm; its environments look for SB3's, its data for pandas."""
        return ("adapters.torchrl.train", "torch._dynamo", "stable_baselines3")

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
