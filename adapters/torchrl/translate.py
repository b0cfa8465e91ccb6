"""Unified hyperparameters to the arguments of TorchRL's components.

Settings are named `Component.argument`, or `script.option` where upstream's own training
script, and not a component, carries out the option; our loops do so then.
"""

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import Hyperparameters
from harness.contract.parts import load_part

SETTINGS = "adapters.torchrl.settings"


def translate(algorithm: str, hyperparameters: Hyperparameters, context: Context) -> Native:
    """Native settings of one run.

    Raises:
        SpecError: A value that TorchRL cannot honour.
    """
    translation = Translation("torchrl", hyperparameters)
    translation.extra(seed=context.seed)
    if not context.replay.is_uniform:
        told = {**context.replay.told(), "steps": context.steps, "seed": context.seed}
        translation.extra(**{"ReplayBuffer.sampler": {"StrategicSampler": told}})
    native: Native = load_part(SETTINGS, algorithm).settings(translation, hyperparameters, context)
    return native
