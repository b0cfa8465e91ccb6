"""Tianshou: its algorithms, collector, buffer and trainer, put together as in its examples."""

import importlib.util
from collections.abc import Mapping, Sequence

from adapters.tianshou.refusals import refusal
from adapters.tianshou.translate import SETTINGS, translate
from adapters.torch_common.devices import missing
from harness.contract.adapter import Context, MakeEnv, Monitor, Native
from harness.contract.algorithms import Hyperparameters
from harness.contract.fields import SpecError
from harness.contract.parts import coupled_defaults, has_part
from harness.contract.replay import Replay
from harness.probes.contract import Record, Script, Watch


class TianshouAdapter:
    """Adapter of Tianshou's procedural interface."""

    name = "tianshou"
    packages = ("tianshou", "torch")
    recipe_parts = ("networks", "settings", "optimizers")

    def supports(self, algorithm: str) -> bool:
        """What has a module in `adapters.tianshou.settings`."""
        return has_part(SETTINGS, algorithm)

    def check_installed(self) -> None:
        """Raises `SpecError` where the package is missing."""
        if importlib.util.find_spec("tianshou") is None:
            raise SpecError("framework=tianshou needs: pip install 'tianshou>=2.0.1,<2.1'")

    def sources(self, algorithm: str) -> Mapping[str, str]:
        """None: the package's version and this project's commit say it all."""
        return {}

    def own_defaults(
        self, algorithm: str, defaults: Hyperparameters, context: Context
    ) -> Hyperparameters:
        """As the algorithm's module of settings counts otherwise, if it does."""
        return coupled_defaults(SETTINGS, algorithm, defaults, context)

    def translate(
        self, algorithm: str, hyperparameters: Hyperparameters, context: Context
    ) -> Native:
        """See `adapters.tianshou.translate`."""
        return translate(algorithm, hyperparameters, context)

    def refuses_replay(self, algorithm: str, replay: Replay) -> str:
        """See `adapters.tianshou.refusals`."""
        return refusal(algorithm, replay)

    def refuses_device(self, algorithm: str, device: str, here: bool) -> str:
        """Its policies compute where their parameters are."""
        return missing(device, here)

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """What trains, with what it compiles; torch's optimisers load torch's compiler."""
        own = ("train", algorithm)
        return (*(f"adapters.tianshou.{name}" for name in own), "torch._dynamo")

    def train(
        self, algorithm: str, native: Native, context: Context, make_env: MakeEnv, monitor: Monitor
    ) -> None:
        """See `adapters.tianshou.train`."""
        from adapters.tianshou.train import train

        train(algorithm, native, context, make_env, monitor)

    def probe(
        self, algorithm: str, native: Native, context: Context, script: Script, watch: Watch
    ) -> Record:
        """See `adapters.tianshou.probing`."""
        from adapters.tianshou.probing import probe

        return probe(algorithm, native, context, script, watch)
