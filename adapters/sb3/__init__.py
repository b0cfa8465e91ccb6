"""Stable-Baselines3: its public classes and `learn()`."""

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.sb3.translate import SETTINGS, translate
from adapters.torch_common.devices import missing
from adapters.torch_common.sum_tree import missing_tree
from harness.contract.adapter import Context, MakeEnv, Monitor, Native
from harness.contract.algorithms import Actions, Hyperparameters
from harness.contract.fields import SpecError
from harness.contract.parts import coupled_defaults, has_part, load_part
from harness.contract.replay import Replay
from harness.probes.contract import Record, Script, Watch


class SB3Adapter:
    """Adapter of Stable-Baselines3."""

    name = "sb3"
    packages = ("stable-baselines3", "torch")

    def supports(self, algorithm: str) -> bool:
        """What has a module in `adapters.sb3.settings`."""
        return has_part(SETTINGS, algorithm)

    def check_installed(self) -> None:
        """Raises `SpecError` where the package is missing."""
        if importlib.util.find_spec("stable_baselines3") is None:
            raise SpecError("framework=sb3 needs: pip install 'stable-baselines3>=2.9.2,<2.10'")

    def sources(self, algorithm: str) -> Mapping[str, str]:
        """None: the package's version says it all."""
        return {}

    def other_actions(self, algorithm: str) -> frozenset[Actions]:
        """As `OTHER_ACTIONS` of the algorithm's module of settings says, if it does."""
        settings = load_part(SETTINGS, algorithm)
        other: frozenset[Actions] = getattr(settings, "OTHER_ACTIONS", frozenset())
        return other

    def own_defaults(
        self, algorithm: str, defaults: Hyperparameters, context: Context
    ) -> Hyperparameters:
        """As the algorithm's module of settings couples values, if it does."""
        return coupled_defaults(SETTINGS, algorithm, defaults, context)

    def translate(
        self, algorithm: str, hyperparameters: Hyperparameters, context: Context
    ) -> Native:
        """See `adapters.sb3.translate`."""
        return translate(algorithm, hyperparameters, context)

    def refuses_replay(self, algorithm: str, replay: Replay) -> str:
        """Nothing, where the sum tree is installed."""
        return missing_tree()

    def refuses_device(self, algorithm: str, device: str, here: bool) -> str:
        """Its models are told where to be; a replay of ours reads its networks on the CPU."""
        return missing(device, here)

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """Everything for every algorithm; torch's optimisers load its compiler."""
        return ("adapters.sb3.train", "torch._dynamo")

    def train(
        self, algorithm: str, native: Native, context: Context, make_env: MakeEnv, monitor: Monitor
    ) -> None:
        """See `adapters.sb3.train`."""
        from adapters.sb3.train import train

        train(algorithm, native, context, make_env, monitor)

    def probe(
        self, algorithm: str, native: Native, context: Context, script: Script, watch: Watch
    ) -> Record:
        """See `adapters.sb3.probing`."""
        from adapters.sb3.probing import probe

        return probe(algorithm, native, context, script, watch)

    def upstream_defaults(self, algorithm: str) -> Mapping[str, Any]:
        """Defaults in the signature of the algorithm's class."""
        import inspect

        from adapters.sb3.train import class_of

        parameters = inspect.signature(class_of(algorithm)).parameters
        return {n: p.default for n, p in parameters.items() if p.default is not p.empty}
