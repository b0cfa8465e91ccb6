"""Differences between skrl before 2.0 and the current interface, for which the adapter is written.

In older releases, options are dictionaries with other names, models take `states` and return
tuples, and the step trainer wraps its agent in a list at each call.
"""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Mapping
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import skrl.trainers.torch
from skrl import config
from skrl.models.torch import GaussianMixin, Model

from parallax.harness.contract.packages import parse_version

StepTrainer: Any = getattr(skrl.trainers.torch, "StepTrainer", None)
if StepTrainer is None:  # before 1.1
    StepTrainer = skrl.trainers.torch.ManualTrainer
if not hasattr(config, "torch"):  # before 1.2
    config.torch = SimpleNamespace(device="cpu")
IS_BEFORE_2 = parse_version(version("skrl")) < (2,)
OLDER_RATES = ("actor_learning_rate", "critic_learning_rate", "entropy_learning_rate")
"""Older options that are entries of `learning_rate` today."""
STATE_NAME = "states" if IS_BEFORE_2 else "observations"
"""Name of observations in memories and trainers."""


def load_agent(name: str) -> tuple[type[Any], Callable[..., Any]]:
    """Return an agent's class, and a function that makes its options from current arguments."""
    module = importlib.import_module(f"skrl.agents.torch.{_find_module(name)}")
    return getattr(module, name), convert_options if IS_BEFORE_2 else getattr(module, f"{name}_CFG")


def load_default_options(name: str) -> Mapping[str, Any]:
    """Return the default options of an agent by their current names."""
    module = importlib.import_module(f"skrl.agents.torch.{_find_module(name)}")
    if not IS_BEFORE_2:
        fields = dataclasses.fields(getattr(module, f"{name}_CFG"))
        return {f.name: f.default for f in fields if f.default is not dataclasses.MISSING}
    options = dict(getattr(module, f"{name}_DEFAULT_CONFIG"))
    if OLDER_RATES[0] in options:
        options["learning_rate"] = options[OLDER_RATES[0]]
    if name == "PPO":
        options["gae_lambda"] = options["lambda"]
        options["value_clip"] *= options["clip_predicted_values"]
    return options


def _find_module(name: str) -> str:
    return "dqn" if IS_BEFORE_2 and name == "DDQN" else name.lower()


def convert_options(**options: Any) -> dict[str, Any]:
    """Return the options of an older release.

    In it, epsilon falls exponentially, and DQN's target interval is in steps, not in updates.
    """
    rates, noise = options["learning_rate"], options.get("exploration_noise")
    if isinstance(rates, list):
        options |= dict(zip(OLDER_RATES, rates, strict=False))
    if "gae_lambda" in options:
        options["lambda"] = options["gae_lambda"]
        options["clip_predicted_values"] = options["value_clip"] > 0
    if smoothing := options.get("smooth_regularization_noise"):
        kwargs = options["smooth_regularization_noise_kwargs"]
        options["smooth_regularization_noise"] = smoothing(**kwargs)
    if epsilon := options.get("exploration_scheduler"):
        names = ("initial_epsilon", "final_epsilon", "timesteps")
        options["exploration"] = dict(zip(names, epsilon, strict=True))
        in_steps = options["target_update_interval"] * options["update_interval"]
        options["target_update_interval"] = in_steps // options["gradient_steps"]
    elif "exploration_scheduler" in options:
        made = noise and noise(**options["exploration_noise_kwargs"])
        scales = {"initial_scale": 1.0, "final_scale": 1.0, "timesteps": None}
        options["exploration"] = {"noise": made, **scales}
    return options


class OlderModel(Model):
    """Model of an older release whose subclasses are written for the current interface."""

    def __init_subclass__(cls) -> None:
        """Adapt the subclass's own functions to the signatures of the older release."""
        super().__init_subclass__()
        for name in {"compute", "random_act"} & set(vars(cls)):
            setattr(cls, name, _adapt_to_states(vars(cls)[name]))


def _adapt_to_states(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def adapted(self: Any, inputs: Mapping[str, Any], role: str = "") -> tuple[Any, ...]:
        result, outputs = function(
            self, {"observations": inputs.get("states"), **inputs}, role=role
        )
        if function.__name__ == "compute" and isinstance(self, GaussianMixin):
            return result, outputs.pop("log_std"), outputs
        return result, outputs

    return adapted
