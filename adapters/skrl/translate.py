"""Unified hyperparameters to the arguments of skrl's classes.

Settings are named `Class.argument`. What no hyperparameter stands for is set all the same, so that
`run.json` tells it: to what skrl's Gymnasium examples have, and off where the study decides it
(a learning rate that follows the divergence, scaled observations and values, noise that fades).
"""

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import Hyperparameters
from harness.contract.fields import SpecError
from harness.contract.parts import load_part

SETTINGS = "adapters.skrl.settings"


def translate(algorithm: str, hyperparameters: Hyperparameters, context: Context) -> Native:
    """Native settings of one run.

    Raises:
        SpecError: A value that skrl cannot honour.
    """
    if context.n_envs != 1:
        # With gymnasium's vectors a step that only resets is stored as a transition.
        why = "skrl stores steps of several environments that only reset. Use n_envs=1."
        raise SpecError(f"n_envs={context.n_envs}: {why}")
    translation = Translation("skrl", hyperparameters)
    translation.extra(seed=context.seed)
    native: Native = load_part(SETTINGS, algorithm).settings(translation, hyperparameters, context)
    return native
