"""skrl: its agents, memory and step trainer, put together as in its Gymnasium examples."""

import dataclasses
import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.skrl.translate import SETTINGS, translate
from adapters.torch_common.devices import missing
from harness.contract.adapter import Context, MakeEnv, Monitor, Native
from harness.contract.algorithms import Hyperparameters
from harness.contract.fields import SpecError
from harness.contract.parts import has_part
from harness.probes.contract import Record, Script, Watch

OTHER_UNITS = ("mini_batches", "learning_starts")
"""Options that count otherwise than hyperparameters do."""


class SkrlAdapter:
    """Adapter of skrl's agents in PyTorch."""

    name = "skrl"
    packages = ("skrl", "torch")
    # Upstream leaves noises to its users, and those of its examples are for one task.
    recipe_parts = ("networks", "settings", "greedy", "exploration", "target_action")

    def supports(self, algorithm: str) -> bool:
        """What has a module in `adapters.skrl.settings`."""
        return has_part(SETTINGS, algorithm)

    def check_installed(self) -> None:
        """Raises `SpecError` where the package is missing."""
        if importlib.util.find_spec("skrl") is None:
            raise SpecError("framework=skrl needs: pip install 'skrl>=2.1.1,<2.2'")

    def sources(self, algorithm: str) -> Mapping[str, str]:
        """None: the package's version and this project's commit say it all."""
        return {}

    def own_defaults(
        self, algorithm: str, defaults: Hyperparameters, context: Context
    ) -> Hyperparameters:
        """The recipe's values; upstream ties none to another."""
        return defaults

    def translate(
        self, algorithm: str, hyperparameters: Hyperparameters, context: Context
    ) -> Native:
        """See `adapters.skrl.translate`."""
        return translate(algorithm, hyperparameters, context)

    def refuses_device(self, algorithm: str, device: str, here: bool) -> str:
        """Agents, models and memory are told where to be."""
        return missing(device, here)

    def upstream_defaults(self, algorithm: str) -> Mapping[str, Any]:
        """Those of the class of its options, which have the same unit here."""
        name = f"{algorithm.upper()}_CFG"
        options = getattr(importlib.import_module(f"skrl.agents.torch.{algorithm}"), name)
        return {
            f"{name}.{field.name}": field.default
            for field in dataclasses.fields(options)
            if field.default is not dataclasses.MISSING and field.name not in OTHER_UNITS
        }

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """What trains; torch's optimisers load torch's compiler."""
        return ("adapters.skrl.train", f"adapters.skrl.agents.{algorithm}", "torch._dynamo")

    def train(
        self, algorithm: str, native: Native, context: Context, make_env: MakeEnv, monitor: Monitor
    ) -> None:
        """See `adapters.skrl.train`."""
        from adapters.skrl.train import train

        train(algorithm, native, context, make_env, monitor)

    def probe(
        self, algorithm: str, native: Native, context: Context, script: Script, watch: Watch
    ) -> Record:
        """See `adapters.skrl.probing`."""
        from adapters.skrl.probing import probe

        return probe(algorithm, native, context, script, watch)
