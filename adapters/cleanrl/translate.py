"""Unified hyperparameters to the command-line arguments of CleanRL's scripts."""

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import Hyperparameters
from harness.contract.parts import load_part

SETTINGS = "adapters.cleanrl.settings"
BUFFER = "ReplayBuffer"
"""Setting that is no argument of the script: what stands for the class of its buffer."""


def translate(algorithm: str, hyperparameters: Hyperparameters, context: Context) -> Native:
    """Native settings of one run: argument names without dashes, and their values.

    Raises:
        SpecError: A value that the script cannot honour.
    """
    translation = Translation("cleanrl", hyperparameters)
    translation.extra(
        **{
            "env-id": context.task.env_id,
            "seed": context.seed,
            "total-timesteps": context.steps,
            "cuda": context.device == "cuda",
        }
    )
    if not context.replay.is_uniform:
        told = {**context.replay.told(), "steps": context.steps, "seed": context.seed}
        translation.extra(**{BUFFER: {"StrategicBuffer": told}})
    native: Native = load_part(SETTINGS, algorithm).settings(translation, hyperparameters, context)
    return native


def script_arguments(native: Native) -> list[str]:
    """The settings as a command line; an argument whose value is None is left out."""
    pairs = [
        (f"--{name}", value)
        for name, value in native.settings.items()
        if value is not None and name != BUFFER
    ]
    return [text for name, value in pairs for text in (name, str(value))]
