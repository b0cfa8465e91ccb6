"""CleanRL: the scripts of the wheel, run as they are shipped."""

from collections.abc import Mapping, Sequence
from typing import Any

from adapters.cleanrl.scripts import check_installed, has_script, script
from adapters.cleanrl.translate import SETTINGS, translate
from adapters.torch_common.devices import missing
from adapters.torch_common.sum_tree import missing_tree
from harness.contract.adapter import Context, MakeEnv, Monitor, Native
from harness.contract.algorithms import ALGORITHMS, Hyperparameters
from harness.contract.parts import coupled_defaults
from harness.contract.replay import Replay
from harness.probes.contract import Record, Script, Watch


class CleanRLAdapter:
    """Adapter of CleanRL's single-file scripts."""

    name = "cleanrl"
    packages = ("cleanrl", "stable-baselines3", "torch")
    recipe_parts = ("greedy",)

    def supports(self, algorithm: str) -> bool:
        """What has a module in `adapters.cleanrl.settings`."""
        return has_script(algorithm)

    def check_installed(self) -> None:
        """Raises `SpecError` where the wheel is missing or of another version."""
        check_installed()

    def sources(self, algorithm: str) -> Mapping[str, str]:
        """The script that is run."""
        name, sha256 = script(algorithm)
        return {name: sha256}

    def own_defaults(
        self, algorithm: str, defaults: Hyperparameters, context: Context
    ) -> Hyperparameters:
        """As the algorithm's module of settings couples values, if it does."""
        return coupled_defaults(SETTINGS, algorithm, defaults, context)

    def translate(
        self, algorithm: str, hyperparameters: Hyperparameters, context: Context
    ) -> Native:
        """See `adapters.cleanrl.translate`."""
        return translate(algorithm, hyperparameters, context)

    def refuses_replay(self, algorithm: str, replay: Replay) -> str:
        """Nothing, where the sum tree is installed."""
        return missing_tree()

    def refuses_device(self, algorithm: str, device: str, here: bool) -> str:
        """The scripts have `--cuda`, which takes the first one there is."""
        if device.partition(":")[2]:
            return "its scripts take no number. Use device=cuda, which is the first one."
        return missing(device, here, ("cuda",))

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """The scripts with a replay buffer take it from SB3."""
        always = ("adapters.cleanrl.train", "torch._dynamo")
        return (
            always
            if ALGORITHMS[algorithm].family == "on-policy"
            else (*always, "stable_baselines3")
        )

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
