"""sbx: its public classes, which train in JAX, and their `learn()`."""

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.sbx.translate import SETTINGS, translate
from harness.contract.adapter import Context, MakeEnv, Monitor, Native
from harness.contract.algorithms import Hyperparameters
from harness.contract.fields import SpecError
from harness.contract.parts import coupled_defaults, has_part
from harness.probes.contract import Record, Script, Watch


class SbxAdapter:
    """Adapter of sbx (Stable-Baselines3's algorithms in JAX)."""

    name = "sbx"
    libraries = ("jax",)
    packages = ("sbx-rl", "stable-baselines3", "jax", "flax", "optax")

    def supports(self, algorithm: str) -> bool:
        """What has a module in `adapters.sbx.settings`."""
        return has_part(SETTINGS, algorithm)

    def check_installed(self) -> None:
        """Raises `SpecError` where the package is missing."""
        if importlib.util.find_spec("sbx") is None:
            raise SpecError("framework=sbx needs: pip install 'sbx-rl>=0.28,<0.29'")

    def sources(self, algorithm: str) -> Mapping[str, str]:
        """None: the package's version says it all."""
        return {}

    def own_defaults(
        self, algorithm: str, defaults: Hyperparameters, context: Context
    ) -> Hyperparameters:
        """As the algorithm's module of settings couples values, if it does."""
        return coupled_defaults(SETTINGS, algorithm, defaults, context)

    def translate(
        self, algorithm: str, hyperparameters: Hyperparameters, context: Context
    ) -> Native:
        """See `adapters.sbx.translate`."""
        return translate(algorithm, hyperparameters, context)

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """Everything for every algorithm; JAX starts its threads when it computes, no earlier."""
        return ("adapters.sbx.train",)

    def train(
        self, algorithm: str, native: Native, context: Context, make_env: MakeEnv, monitor: Monitor
    ) -> None:
        """See `adapters.sbx.train`."""
        from adapters.sbx.train import train

        train(algorithm, native, context, make_env, monitor)

    def upstream_defaults(self, algorithm: str) -> Mapping[str, Any]:
        """Defaults in the signature of the algorithm's class."""
        import inspect

        import sbx

        parameters = inspect.signature(getattr(sbx, algorithm.upper())).parameters
        return {n: p.default for n, p in parameters.items() if p.default is not p.empty}

    def probe(
        self, algorithm: str, native: Native, context: Context, script: Script, watch: Watch
    ) -> Record:
        """See `adapters.sbx.probing`."""
        from adapters.sbx.probing import probe

        return probe(algorithm, native, context, script, watch)
