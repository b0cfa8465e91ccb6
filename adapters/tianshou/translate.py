"""Unified hyperparameters to the arguments of Tianshou's classes.

Settings are named `Class.argument`. What no hyperparameter stands for has the value of
Tianshou's examples.
"""

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import Hyperparameters
from harness.contract.parts import load_part

SETTINGS = "adapters.tianshou.settings"


def translate(algorithm: str, hyperparameters: Hyperparameters, context: Context) -> Native:
    """Native settings of one run.

    Raises:
        SpecError: A value that Tianshou cannot honour.
    """
    translation = Translation("tianshou", hyperparameters)
    translation.extra(**{"seed": context.seed, "ReplayBuffer.random_seed": context.seed})
    if not context.replay.is_uniform:
        translation.extra(PrioritizedReplayBuffer=context.replay.told())
    native: Native = load_part(SETTINGS, algorithm).settings(translation, hyperparameters, context)
    return native
