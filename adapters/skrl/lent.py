"""Models in the shape that probes know, for agents that take any.

The recipes' models follow upstream's examples: PPO's have ReLU and a mean within the bounds, and
SAC's has one deviation for all observations. Probes give every framework the same weights, of
networks that put out a mean, and for SAC the logarithm of a deviation, too. What an agent does
with the answers of a model is upstream's in any case, and so is the distribution.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model

from adapters.skrl.models import Drawing, Inputs, Outputs, Spaces


def models(algorithm: str, settings: Mapping[str, Any], spaces: Spaces) -> dict[str, Any]:
    """What is lent to an algorithm's agent, by role; nothing where the recipe's models do."""
    hidden = settings["models.hidden_sizes"]
    match algorithm:
        case "ppo":
            return {"policy": LinearActor(spaces, hidden), "value": TanhValue(spaces, hidden)}
        case "sac":
            return {"policy": TwoHeads(spaces, hidden)}
    return {}


def trunk(inputs: int, hidden: Sequence[int], unit: type[torch.nn.Module]) -> torch.nn.Sequential:
    """Hidden layers."""
    made: list[torch.nn.Module] = []
    for width in hidden:
        made += [torch.nn.Linear(inputs, width), unit()]
        inputs = width
    return torch.nn.Sequential(*made)


class LinearActor(GaussianMixin, Drawing):
    """A mean that is linear in the last of two layers of tanh, and one deviation."""

    def __init__(self, spaces: Spaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.arguments)
        GaussianMixin.__init__(self)
        self.net = trunk(self.num_observations, hidden, torch.nn.Tanh)
        self.net.append(torch.nn.Linear(hidden[-1], self.num_actions))
        self.log_std_parameter = torch.nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs: Inputs, role: str = "") -> Outputs:
        """Means float32[N, actions]."""
        return self.net(inputs["observations"]), {"log_std": self.log_std_parameter}


class TanhValue(DeterministicMixin, Model):
    """The value of an observation, by two layers of tanh."""

    def __init__(self, spaces: Spaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.arguments)
        DeterministicMixin.__init__(self)
        self.net = trunk(self.num_observations, hidden, torch.nn.Tanh)
        self.net.append(torch.nn.Linear(hidden[-1], 1))

    def compute(self, inputs: Inputs, role: str = "") -> Outputs:
        """Values float32[N, 1]."""
        return self.net(inputs["observations"]), {}


class TwoHeads(GaussianMixin, Drawing):
    """A mean and the logarithm of a deviation, both of the observation."""

    def __init__(self, spaces: Spaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.arguments)
        GaussianMixin.__init__(self)
        self.net = trunk(self.num_observations, hidden, torch.nn.ReLU)
        self.mean = torch.nn.Linear(hidden[-1], self.num_actions)
        self.log_std = torch.nn.Linear(hidden[-1], self.num_actions)

    def compute(self, inputs: Inputs, role: str = "") -> Outputs:
        """Means float32[N, actions]."""
        seen = self.net(inputs["observations"])
        return self.mean(seen), {"log_std": self.log_std(seen)}
