"""Unified hyperparameters to the arguments of sbx's classes.

Arguments that are objects stand as `{class name: its arguments}`, so that settings can be written
down; `adapters.sb3_common.arguments` makes the objects.
"""

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import Hyperparameters
from harness.contract.parts import load_part

SETTINGS = "adapters.sbx.settings"


def translate(algorithm: str, hyperparameters: Hyperparameters, context: Context) -> Native:
    """Native settings of one run.

    Raises:
        SpecError: A value that sbx cannot honour.
    """
    translation = Translation("sbx", hyperparameters)
    translation.extra(seed=context.seed)
    native: Native = load_part(SETTINGS, algorithm).settings(translation, hyperparameters, context)
    return native
