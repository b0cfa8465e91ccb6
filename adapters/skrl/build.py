"""Makes skrl's objects of settings, which are plain data."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from skrl.agents.torch import Agent
from skrl.memories.torch import RandomMemory
from skrl.resources.noises.torch import GaussianNoise, OrnsteinUhlenbeckNoise

from adapters.skrl.models import Spaces
from harness.contract.parts import load_part

Settings = Mapping[str, Any]

CLASSES = {
    "GaussianNoise": GaussianNoise,
    "OrnsteinUhlenbeckNoise": OrnsteinUhlenbeckNoise,
    "LinearLR": torch.optim.lr_scheduler.LinearLR,
}
"""What settings name."""
QUIET = {"write_interval": 0, "checkpoint_interval": 0}
"""No files beside the run's own."""


@dataclasses.dataclass(frozen=True)
class Parts:
    """What an algorithm trains with.

    Attributes:
        agent: skrl's class.
        cfg: That of its options.
        models: By the roles that the agent knows, in the order of the examples.
    """

    agent: type[Agent]
    cfg: type[Any]
    models: dict[str, Any]


def build(
    algorithm: str, settings: Settings, spaces: Spaces, lent: Mapping[str, Any] | None = None
) -> Agent:
    """The agent that settings describe, with a memory for one environment.

    Args:
        algorithm: Name.
        settings: Native ones.
        spaces: Of the task.
        lent: Models in the place of the recipe's own, by role.
    """
    parts: Parts = load_part("adapters.skrl.agents", algorithm).parts(settings, spaces)
    models = {**parts.models, **(lent or {})}
    start = settings.get("Model.init_parameters")
    for model in models.values():
        if start:
            model.init_parameters(**start)
    told = options(settings, f"{algorithm.upper()}_CFG")
    agent: Agent = parts.agent(
        models=models,
        memory=RandomMemory(device=spaces.device, **options(settings, "RandomMemory")),
        cfg=parts.cfg(experiment=dict(QUIET), **{n: _made(n, v) for n, v in told.items()}),
        **spaces.arguments,
    )
    return agent


def options(settings: Settings, component: str) -> dict[str, Any]:
    """Arguments of one component, by name."""
    parts = {name: name.partition(".") for name in settings}
    return {part[2]: settings[name] for name, part in parts.items() if part[0] == component}


def _made(name: str, value: Any) -> Any:
    if name == "exploration_scheduler" and value is not None:
        return falling(*value)
    return CLASSES[value] if isinstance(value, str) else value


def falling(initial: float, final: float, steps: int) -> Any:
    """A share of random actions that falls linearly, as skrl asks for it."""

    def share(timestep: int, timesteps: int) -> float:
        return initial + (final - initial) * min(timestep / steps, 1.0)

    return share
