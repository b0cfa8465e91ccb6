"""Models of skrl's kind, as its Gymnasium examples write them, for tasks of any bounds.

The examples are for Pendulum and scale what tanh leaves by its bound of 2; here it is the middle
and half of the range of each action. `Model.random_act` of skrl draws from a copy of the space,
always in the same state, so that it returns one action over and over; here each is drawn anew.
"""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import torch
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model

Inputs = Mapping[str, Any]
Outputs = tuple[torch.Tensor, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Spaces:
    """What models are made for.

    Attributes:
        observation: Of the task.
        action: Of the task, with a generator of its own.
        device: Where parameters lie.
    """

    observation: gymnasium.Space[Any]
    action: gymnasium.Space[Any]
    device: str

    @classmethod
    def of(cls, env: Any, seed: int, device: str) -> "Spaces":
        """Those of an environment of skrl's; random actions come from `seed`."""
        action = copy.deepcopy(env.action_space)
        action.seed(seed)
        return cls(env.observation_space, action, device)

    @property
    def arguments(self) -> dict[str, Any]:
        """What skrl's models and agents are told, by name."""
        return {
            "observation_space": self.observation,
            "state_space": None,
            "action_space": self.action,
            "device": self.device,
        }


def layers(inputs: int, hidden: Sequence[int], outputs: int) -> torch.nn.Sequential:
    """A network of the examples'."""
    made: list[torch.nn.Module] = []
    for width in hidden:
        made += [torch.nn.Linear(inputs, width), torch.nn.ReLU()]
        inputs = width
    return torch.nn.Sequential(*made, torch.nn.Linear(inputs, outputs))


class Drawing(Model):
    """A model whose random actions are drawn one after the other."""

    def random_act(self, inputs: Inputs, *, role: str = "") -> Outputs:
        """Actions drawn uniformly, as many as there are observations."""
        count = inputs["observations"].shape[0]
        drawn = [torch.as_tensor(self.action_space.sample()).reshape(-1) for _ in range(count)]
        return torch.stack(drawn).to(self.device), {}


class Bounded(Drawing):
    """A model with actions between the bounds, by tanh."""

    def scale(self, spaces: Spaces) -> None:
        """Keeps the range of the actions."""
        box: Any = spaces.action
        low, high = (torch.as_tensor(bound, device=spaces.device) for bound in (box.low, box.high))
        self.register_buffer("middle", (high + low) / 2, persistent=False)
        self.register_buffer("reach", (high - low) / 2, persistent=False)

    def within(self, outputs: torch.Tensor) -> torch.Tensor:
        """Any numbers to actions."""
        scaled: torch.Tensor = self.middle + self.reach * torch.tanh(outputs)
        return scaled


class Actor(DeterministicMixin, Bounded):
    """One action for each observation."""

    def __init__(self, spaces: Spaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.arguments)
        DeterministicMixin.__init__(self)
        self.scale(spaces)
        self.net = layers(self.num_observations, hidden, self.num_actions)

    def compute(self, inputs: Inputs, role: str = "") -> Outputs:
        """Actions float32[N, actions]."""
        return self.within(self.net(inputs["observations"])), {}


class GaussianActor(GaussianMixin, Bounded):
    """A mean within the bounds, and a deviation that is the same for all observations."""

    def __init__(self, spaces: Spaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.arguments)
        GaussianMixin.__init__(self)
        self.scale(spaces)
        self.net = layers(self.num_observations, hidden, self.num_actions)
        self.log_std_parameter = torch.nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs: Inputs, role: str = "") -> Outputs:
        """Means float32[N, actions]."""
        mean = self.within(self.net(inputs["observations"]))
        return mean, {"log_std": self.log_std_parameter}


class Value(DeterministicMixin, Model):
    """The value of an observation."""

    def __init__(self, spaces: Spaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.arguments)
        DeterministicMixin.__init__(self)
        self.net = layers(self.num_observations, hidden, 1)

    def compute(self, inputs: Inputs, role: str = "") -> Outputs:
        """Values float32[N, 1]."""
        return self.net(inputs["observations"]), {}


class Critic(DeterministicMixin, Model):
    """The value of an observation and an action."""

    def __init__(self, spaces: Spaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.arguments)
        DeterministicMixin.__init__(self)
        self.net = layers(self.num_observations + self.num_actions, hidden, 1)

    def compute(self, inputs: Inputs, role: str = "") -> Outputs:
        """Values float32[N, 1]."""
        pairs = torch.cat([inputs["observations"], inputs["taken_actions"]], dim=1)
        return self.net(pairs), {}


class Choices(DeterministicMixin, Drawing):
    """The values of all choices."""

    def __init__(self, spaces: Spaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.arguments)
        DeterministicMixin.__init__(self)
        self.net = layers(self.num_observations, hidden, self.num_actions)

    def compute(self, inputs: Inputs, role: str = "") -> Outputs:
        """Values float32[N, choices]."""
        return self.net(inputs["observations"]), {}
