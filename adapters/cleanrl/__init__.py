"""CleanRL: the scripts of the wheel, run as they are shipped."""

from collections.abc import Mapping, Sequence
from typing import Any

from adapters.cleanrl.scripts import SHA256, check_installed
from adapters.cleanrl.translate import translate
from harness.contract.adapter import Context, MakeEnv, Monitor, Native
from harness.contract.algorithms import Hyperparameters
from harness.probes.contract import Record, Script, Watch


class CleanRLAdapter:
    """Adapter of CleanRL's single-file scripts."""

    name = "cleanrl"
    packages = ("cleanrl", "stable-baselines3", "torch")
    recipe_parts = ("greedy",)

    def supports(self, algorithm: str) -> bool:
        """PPO, TD3 and SAC for continuous actions."""
        return algorithm in ("ppo", "td3", "sac")

    def check_installed(self) -> None:
        """Raises `SpecError` where the wheel is missing or of another version."""
        check_installed()

    def sources(self, algorithm: str) -> Mapping[str, str]:
        """The script that is run."""
        name, sha256 = SHA256[algorithm]
        return {name: sha256}

    def own_defaults(
        self, algorithm: str, defaults: Hyperparameters, context: Context
    ) -> Hyperparameters:
        """As in the recipe files; CleanRL's units are the unified ones."""
        return defaults

    def translate(
        self, algorithm: str, hyperparameters: Hyperparameters, context: Context
    ) -> Native:
        """See `adapters.cleanrl.translate`."""
        return translate(algorithm, hyperparameters, context)

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """The scripts of TD3 and SAC take their replay buffer from SB3."""
        always = ("adapters.cleanrl.train", "torch._dynamo")
        return always if algorithm == "ppo" else (*always, "stable_baselines3")

    def train(
        self, algorithm: str, native: Native, context: Context, make_env: MakeEnv, monitor: Monitor
    ) -> None:
        """See `adapters.cleanrl.train`."""
        from adapters.cleanrl.train import train

        train(algorithm, native, context, make_env, monitor)

    def probe(
        self, algorithm: str, native: Native, context: Context, script: Script, watch: Watch
    ) -> Record:
        """See `adapters.cleanrl.probing`."""
        from adapters.cleanrl.probing import probe

        return probe(algorithm, native, context, script, watch)

    def upstream_defaults(self, algorithm: str) -> Mapping[str, Any]:
        """See `adapters.cleanrl.scripts`."""
        from adapters.cleanrl.scripts import upstream_defaults

        return upstream_defaults(algorithm)
