"""What hyperparameters become in d3rlpy: see the modules of `settings`."""

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import Hyperparameters
from harness.contract.fields import SpecError
from harness.contract.parts import load_part

SETTINGS = "parallax_d3rlpy.settings"


def translate(algorithm: str, hyperparameters: Hyperparameters, context: Context) -> Native:
    """Native settings of one run.

    Raises:
        SpecError: A value that d3rlpy cannot honour.
    """
    if context.n_envs != 1:
        why = "d3rlpy trains on one environment. Use n_envs=1."
        raise SpecError(f"n_envs={context.n_envs}: {why}")
    translation = Translation("d3rlpy", hyperparameters)
    translation.extra(seed=context.seed)
    native: Native = load_part(SETTINGS, algorithm).settings(translation, hyperparameters, context)
    return native
