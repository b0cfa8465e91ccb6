"""Unified hyperparameters to the arguments of SB3's classes.

Arguments that are objects in SB3 stand as `{class name: its arguments}`, so that settings
can be written down; `adapters.sb3.train` makes the objects.
"""

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import Hyperparameters
from harness.contract.parts import load_part

SETTINGS = "adapters.sb3.settings"


def translate(algorithm: str, hyperparameters: Hyperparameters, context: Context) -> Native:
    """Native settings of one run.

    Raises:
        SpecError: A value that SB3 cannot honour.
    """
    translation = Translation("sb3", hyperparameters)
    translation.extra(seed=context.seed, device=context.device)
    if not context.replay.is_uniform:
        strategy = {**context.replay.told(), "steps": context.steps, "seed": context.seed}
        translation.extra(replay_buffer_class={"StrategicBuffer": strategy})
    native: Native = load_part(SETTINGS, algorithm).settings(translation, hyperparameters, context)
    return native
