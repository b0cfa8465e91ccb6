"""What hyperparameters become in d3rlpy: see the modules of `settings`."""

from parallax.harness.contract.algorithm_modules import load_algorithm_module

from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.translation import ConfigTranslator, NativeConfig

SETTINGS = "parallax_d3rlpy.settings"


def translate(
    algorithm: str, hyperparameters: Hyperparameters, context: RunContext
) -> NativeConfig:
    """Native settings of one run.

    Raises:
        SpecError: A value that d3rlpy cannot honour.
    """
    if context.n_envs != 1:
        why = "d3rlpy trains on one environment. Use n_envs=1."
        raise SpecError(f"n_envs={context.n_envs}: {why}")
    translation = ConfigTranslator("d3rlpy", hyperparameters)
    translation.set_extra_options(seed=context.seed)
    native: NativeConfig = load_algorithm_module(SETTINGS, algorithm).settings(
        translation, hyperparameters, context
    )
    return native
