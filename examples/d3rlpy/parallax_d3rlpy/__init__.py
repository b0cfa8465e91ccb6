"""d3rlpy: `fit_online` of its TD3, in an interpreter of its own."""

import importlib.util
from collections.abc import Mapping

from parallax.harness.contract.algorithm_modules import has_algorithm_module

from parallax.harness.contract.adapter import MakeEnv, Monitor, RunContext
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.translation import NativeConfig

from .translate import SETTINGS, translate


class D3rlpyAdapter:
    """Adapter of d3rlpy, which is imported in `train` only: a study begins where it is not."""

    name = "d3rlpy"
    packages = ("d3rlpy", "torch")

    def supports(self, algorithm: str) -> bool:
        """What has a module in `parallax_d3rlpy.settings`."""
        return bool(has_algorithm_module(SETTINGS, algorithm))

    def check_installed(self) -> None:
        """Raises `SpecError` where the package is missing."""
        if importlib.util.find_spec("d3rlpy") is None:
            raise SpecError(
                "framework=d3rlpy needs an interpreter of its own: it wants gymnasium 1.0.0. "
                "Name it as framework.python=...; examples/d3rlpy/README.md tells how it is made."
            )

    def sources(self, algorithm: str) -> Mapping[str, str]:
        """None: the package's version says it all."""
        return {}

    def get_library_defaults(
        self, algorithm: str, defaults: Hyperparameters, context: RunContext
    ) -> Hyperparameters:
        """The recipe's values; upstream ties none to another."""
        return defaults

    def translate(
        self, algorithm: str, hyperparameters: Hyperparameters, context: RunContext
    ) -> NativeConfig:
        """See `parallax_d3rlpy/translate.py`."""
        return translate(algorithm, hyperparameters, context)

    def train(
        self,
        algorithm: str,
        native: NativeConfig,
        context: RunContext,
        make_env: MakeEnv,
        monitor: Monitor,
    ) -> None:
        """See `parallax_d3rlpy/train.py`."""
        from .train import train  # the framework is imported here, no earlier

        train(algorithm, native, context, make_env, monitor)
