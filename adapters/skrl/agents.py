"""skrl's agents with their options and models: one `make_ALGORITHM_parts` per algorithm."""

import copy
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from skrl import config
from skrl.agents.torch import Agent
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, GaussianMixin
from skrl.models.torch import Model as SkrlModel
from skrl.resources.noises.torch import GaussianNoise, OrnsteinUhlenbeckNoise

from parallax.adapters.skrl.versions import IS_BEFORE_2, OlderModel, load_agent
from parallax.adapters.torch_common.networks import build_image_encoder
from parallax.harness.contract.translation import NativeSettings, select_options

ModelInputs = Mapping[str, Any]
ModelOutputs = tuple[torch.Tensor, dict[str, Any]]
Model: Any = OlderModel if IS_BEFORE_2 else SkrlModel


@dataclasses.dataclass(frozen=True)
class ModelSpaces:
    """Spaces and device that models are made for."""

    observation: gymnasium.Space[Any]
    action: gymnasium.Space[Any]
    device: str

    @classmethod
    def from_env(cls, env: Any, seed: int, device: str) -> "ModelSpaces":
        """Return the spaces of skrl's environment; random actions come from `seed`."""
        action = copy.deepcopy(env.action_space)
        action.seed(seed)
        return cls(env.observation_space, action, device)

    @property
    def is_discrete(self) -> bool:
        """Return whether actions are discrete."""
        return isinstance(self.action, gymnasium.spaces.Discrete)

    @property
    def model_arguments(self) -> dict[str, Any]:
        """Return the common arguments of skrl's models and agents, by name."""
        return {
            "observation_space": self.observation,
            "action_space": self.action,
            "device": self.device,
        } | ({} if IS_BEFORE_2 else {"state_space": None})


def build_mlp(inputs: int, hidden: Sequence[int], outputs: int) -> torch.nn.Sequential:
    """Return a network as in skrl's examples."""
    made: list[torch.nn.Module] = []
    for width in hidden:
        made += [torch.nn.Linear(inputs, width), torch.nn.ReLU()]
        inputs = width
    return torch.nn.Sequential(*made, torch.nn.Linear(inputs, outputs))


class RandomActionModel(Model):
    """Model that draws random actions one after the other."""

    def random_act(self, inputs: ModelInputs, *, role: str = "") -> ModelOutputs:
        """Return actions drawn uniformly, as many as there are observations."""
        count = inputs["observations"].shape[0]
        drawn = [torch.as_tensor(self.action_space.sample()).reshape(-1) for _ in range(count)]
        return torch.stack(drawn).to(self.device), {}


class BoundedActionModel(RandomActionModel):
    """Model that squashes actions into their bounds by tanh."""

    def scale(self, spaces: ModelSpaces) -> None:
        """Store the range of the actions."""
        box: Any = spaces.action
        low, high = (torch.as_tensor(bound, device=spaces.device) for bound in (box.low, box.high))
        self.register_buffer("middle", (high + low) / 2, persistent=False)
        self.register_buffer("reach", (high - low) / 2, persistent=False)

    def within(self, outputs: torch.Tensor) -> torch.Tensor:
        """Map unbounded numbers to actions."""
        scaled: torch.Tensor = self.middle + self.reach * torch.tanh(outputs)
        return scaled


class DeterministicActor(DeterministicMixin, BoundedActionModel):
    """Actor with one action for each observation."""

    def __init__(self, spaces: ModelSpaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.model_arguments)
        DeterministicMixin.__init__(self)
        self.scale(spaces)
        self.net = build_mlp(self.num_observations, hidden, self.num_actions)

    def compute(self, inputs: ModelInputs, role: str = "") -> ModelOutputs:
        """Return actions float32[N, actions]."""
        return self.within(self.net(inputs["observations"])), {}


class GaussianActor(GaussianMixin, BoundedActionModel):
    """Actor with a mean within the bounds and one standard deviation for all observations."""

    def __init__(self, spaces: ModelSpaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.model_arguments)
        GaussianMixin.__init__(self)
        self.scale(spaces)
        self.net = build_mlp(self.num_observations, hidden, self.num_actions)
        self.log_std_parameter = torch.nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs: ModelInputs, role: str = "") -> ModelOutputs:
        """Return means float32[N, actions]."""
        mean = self.within(self.net(inputs["observations"]))
        return mean, {"log_std": self.log_std_parameter}


class CategoricalActor(CategoricalMixin, RandomActionModel):
    """Actor with probabilities of discrete actions."""

    def __init__(self, spaces: ModelSpaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.model_arguments)
        CategoricalMixin.__init__(self)
        self.net = build_mlp(self.num_observations, hidden, self.num_actions)

    def compute(self, inputs: ModelInputs, role: str = "") -> ModelOutputs:
        """Return logits float32[N, actions]."""
        return self.net(inputs["observations"]), {}


class SharedImageModel(CategoricalMixin, DeterministicMixin, RandomActionModel):
    """Discrete action probabilities and value of an image, flattened by skrl, on shared layers."""

    def __init__(self, spaces: ModelSpaces, filters: Sequence[int], hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.model_arguments)
        CategoricalMixin.__init__(self)
        DeterministicMixin.__init__(self)
        box: Any = spaces.observation
        self.image = tuple(box.shape)
        brightest = 1 if box.dtype == np.float32 else 255
        self.net = build_image_encoder(self.image, filters, hidden, brightest)
        self.policy_layer = torch.nn.Linear(hidden[-1], self.num_actions)
        self.value_layer = torch.nn.Linear(hidden[-1], 1)

    def act(self, inputs: ModelInputs, *, role: str = "") -> ModelOutputs:
        """Return sampled actions, or values for the role `value`."""
        kind: Any = DeterministicMixin if role == "value" else CategoricalMixin
        found: ModelOutputs = kind.act(self, inputs, role=role)
        return found

    def compute(self, inputs: ModelInputs, role: str = "") -> ModelOutputs:
        """Return logits float32[N, actions], or values float32[N, 1] for the role `value`."""
        features = self.net(inputs["observations"].reshape(-1, *self.image))
        last = self.value_layer if role == "value" else self.policy_layer
        return last(features), {}


class ValueModel(DeterministicMixin, Model):
    """Network for the value of an observation."""

    def __init__(self, spaces: ModelSpaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.model_arguments)
        DeterministicMixin.__init__(self)
        self.net = build_mlp(self.num_observations, hidden, 1)

    def compute(self, inputs: ModelInputs, role: str = "") -> ModelOutputs:
        """Return values float32[N, 1]."""
        return self.net(inputs["observations"]), {}


class CriticModel(DeterministicMixin, Model):
    """Network for the value of an observation and an action."""

    def __init__(self, spaces: ModelSpaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.model_arguments)
        DeterministicMixin.__init__(self)
        self.net = build_mlp(self.num_observations + self.num_actions, hidden, 1)

    def compute(self, inputs: ModelInputs, role: str = "") -> ModelOutputs:
        """Return values float32[N, 1]."""
        pairs = torch.cat([inputs["observations"], inputs["taken_actions"]], dim=1)
        return self.net(pairs), {}


class QValueModel(DeterministicMixin, RandomActionModel):
    """Q-network: values of all discrete actions."""

    def __init__(self, spaces: ModelSpaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.model_arguments)
        DeterministicMixin.__init__(self)
        self.net = build_mlp(self.num_observations, hidden, self.num_actions)

    def compute(self, inputs: ModelInputs, role: str = "") -> ModelOutputs:
        """Return action values float32[N, actions]."""
        return self.net(inputs["observations"]), {}


class DuelingQValueModel(DeterministicMixin, RandomActionModel):
    """Q-network with heads for the value and the advantages (Wang et al. 2016, equation 9)."""

    def __init__(self, spaces: ModelSpaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.model_arguments)
        DeterministicMixin.__init__(self)
        *shared, last = hidden
        # An MLP without its output layer.
        self.net = build_mlp(self.num_observations, shared, 1)[:-1]
        features = shared[-1] if shared else self.num_observations
        self.advantage = build_mlp(features, [last], self.num_actions)
        self.value = build_mlp(features, [last], 1)

    def compute(self, inputs: ModelInputs, role: str = "") -> ModelOutputs:
        """Return action values float32[N, actions]."""
        features = self.net(inputs["observations"])
        advantages = self.advantage(features)
        return advantages - advantages.mean(dim=1, keepdim=True) + self.value(features), {}


def build_hidden_layers(
    inputs: int, hidden: Sequence[int], unit: type[torch.nn.Module]
) -> torch.nn.Sequential:
    """Return linear layers with `unit` after each."""
    made: list[torch.nn.Module] = []
    for width in hidden:
        made += [torch.nn.Linear(inputs, width), unit()]
        inputs = width
    return torch.nn.Sequential(*made)


class LinearActor(GaussianMixin, RandomActionModel):
    """Actor with tanh layers, a linear mean, and one standard deviation for all observations."""

    def __init__(self, spaces: ModelSpaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.model_arguments)
        GaussianMixin.__init__(self)
        self.net = build_hidden_layers(self.num_observations, hidden, torch.nn.Tanh)
        self.net.append(torch.nn.Linear(hidden[-1], self.num_actions))
        self.log_std_parameter = torch.nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs: ModelInputs, role: str = "") -> ModelOutputs:
        """Return means float32[N, actions]."""
        return self.net(inputs["observations"]), {"log_std": self.log_std_parameter}


class TanhValue(DeterministicMixin, Model):
    """Network with tanh layers for the value of an observation."""

    def __init__(self, spaces: ModelSpaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.model_arguments)
        DeterministicMixin.__init__(self)
        self.net = build_hidden_layers(self.num_observations, hidden, torch.nn.Tanh)
        self.net.append(torch.nn.Linear(hidden[-1], 1))

    def compute(self, inputs: ModelInputs, role: str = "") -> ModelOutputs:
        """Return values float32[N, 1]."""
        return self.net(inputs["observations"]), {}


class TwoHeadedActor(GaussianMixin, RandomActionModel):
    """Actor with heads for the mean and the log standard deviation."""

    def __init__(self, spaces: ModelSpaces, hidden: Sequence[int]) -> None:
        Model.__init__(self, **spaces.model_arguments)
        GaussianMixin.__init__(self)
        self.net = build_hidden_layers(self.num_observations, hidden, torch.nn.ReLU)
        self.mean = torch.nn.Linear(hidden[-1], self.num_actions)
        self.log_std = torch.nn.Linear(hidden[-1], self.num_actions)

    def compute(self, inputs: ModelInputs, role: str = "") -> ModelOutputs:
        """Return means float32[N, actions]."""
        seen = self.net(inputs["observations"])
        return self.mean(seen), {"log_std": self.log_std(seen)}


class SquashedActor(TwoHeadedActor, BoundedActionModel):
    """Gaussian actor that tanh squashes into the bounds (Haarnoja et al. 2019, appendix C).

    Log-probabilities are those of the action between -1 and 1.
    """

    def __init__(self, spaces: ModelSpaces, hidden: Sequence[int]) -> None:
        TwoHeadedActor.__init__(self, spaces, hidden)
        self.scale(spaces)

    def compute(self, inputs: ModelInputs, role: str = "") -> ModelOutputs:
        """Return the squashed means, actions float32[N, actions]."""
        mean, outputs = super().compute(inputs, role)
        return self.within(mean), {**outputs, "mean": mean}

    def act(self, inputs: ModelInputs, *, role: str = "") -> ModelOutputs:
        """Return sampled actions float32[N, actions] and their log-probabilities."""
        _, outputs = self.compute(inputs, role)
        # Defaults of skrl's GaussianMixin (models/torch/gaussian.py), whose `act` this replaces.
        deviation = torch.clamp(outputs["log_std"], -20, 2).exp()
        gaussian: Any = torch.distributions.Normal(outputs["mean"], deviation)
        # Where GaussianMixin's `get_entropy` and `distribution` look for it.
        self._g_distribution = gaussian
        sample = gaussian.rsample()
        # log(1 - tanh(x)^2), computed without cancellation.
        correction = 2 * (math.log(2) - sample - torch.nn.functional.softplus(-2 * sample))
        log_prob = gaussian.log_prob(sample) - correction
        return self.within(sample), {**outputs, "log_prob": log_prob.sum(dim=-1, keepdim=True)}


def build_probe_models(
    algorithm: str, settings: Mapping[str, Any], spaces: ModelSpaces
) -> dict[str, Any]:
    """Return substitute models for an agent, by role; empty if the recipe's own suffice."""
    hidden = settings["models.hidden_sizes"]
    match algorithm:
        case "ppo":
            return {"policy": LinearActor(spaces, hidden), "value": TanhValue(spaces, hidden)}
        case "sac":
            return {"policy": TwoHeadedActor(spaces, hidden)}
    return {}


CLASSES_BY_NAME = {
    # By itself, noise is on the GPU of any machine that has one.
    "GaussianNoise": lambda **given: GaussianNoise(**given, device=config.torch.device),
    "OrnsteinUhlenbeckNoise": lambda **given: OrnsteinUhlenbeckNoise(
        **given, device=config.torch.device
    ),
    "LinearLR": torch.optim.lr_scheduler.LinearLR,
}
"""Classes and functions that settings refer to by name."""
TWIN_CRITIC_ROLES = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
"""Roles of the critics of TD3 and SAC, in the order of the examples."""
NO_LOGGING = {"write_interval": 0, "checkpoint_interval": 0}
"""Options with which skrl writes no files of its own."""


@dataclasses.dataclass(frozen=True)
class AgentParts:
    """Agent, options and models of one algorithm.

    Attributes:
        cfg: skrl's class of its options, or a function that makes them.
        models: Models by the agent's roles, in the order of the examples.
    """

    agent: type[Agent]
    cfg: Callable[..., Any]
    models: dict[str, Any]


def build_agent(
    algorithm: str,
    settings: NativeSettings,
    spaces: ModelSpaces,
    probe_models: Mapping[str, Any] | None = None,
) -> Agent:
    """Return the agent that settings describe, with its memory; `probe_models` replace its own."""
    parts: AgentParts = _PART_MAKERS[algorithm](settings, spaces)
    models = {**parts.models, **(probe_models or {})}
    start = settings.get("Model.init_parameters")
    for model in models.values():
        if start:
            model.init_parameters(**start)
    options = select_options(settings, f"{algorithm.upper()}_CFG")
    agent: Agent = parts.agent(
        models=models,
        memory=RandomMemory(device=spaces.device, **select_options(settings, "RandomMemory")),
        cfg=parts.cfg(
            experiment=dict(NO_LOGGING), **{n: _make_argument(n, v) for n, v in options.items()}
        ),
        **spaces.model_arguments,
    )
    return agent


def _make_argument(name: str, value: Any) -> Any:
    if name == "exploration_scheduler" and value is not None:
        return value if IS_BEFORE_2 else make_linear_epsilon(*value)
    return CLASSES_BY_NAME[value] if isinstance(value, str) else value


def make_linear_epsilon(initial: float, final: float, steps: float) -> Any:
    """Return a linear epsilon schedule in the form that skrl requires."""

    def share(timestep: int, timesteps: int) -> float:
        return initial + (final - initial) * min(timestep / steps, 1.0)

    return share


def make_ppo_parts(settings: NativeSettings, spaces: ModelSpaces) -> AgentParts:
    """Return the agent's class and its models."""
    hidden = settings["models.hidden_sizes"]
    if filters := settings.get("models.conv_filters"):
        model = SharedImageModel(spaces, filters, hidden)
        return AgentParts(*load_agent("PPO"), {"policy": model, "value": model})
    actor = CategoricalActor if spaces.is_discrete else GaussianActor
    models = {"policy": actor(spaces, hidden), "value": ValueModel(spaces, hidden)}
    return AgentParts(*load_agent("PPO"), models)


def make_td3_parts(settings: NativeSettings, spaces: ModelSpaces) -> AgentParts:
    """Return the agent's class and its models."""
    hidden = settings["models.hidden_sizes"]
    models = {role: DeterministicActor(spaces, hidden) for role in ("policy", "target_policy")}
    models |= {role: CriticModel(spaces, hidden) for role in TWIN_CRITIC_ROLES}
    return AgentParts(*load_agent("TD3"), models)


def make_sac_parts(settings: NativeSettings, spaces: ModelSpaces) -> AgentParts:
    """Return the agent's class and its models."""
    hidden = settings["models.hidden_sizes"]
    models = {"policy": GaussianActor(spaces, hidden)}
    models |= {role: CriticModel(spaces, hidden) for role in TWIN_CRITIC_ROLES}
    return AgentParts(*load_agent("SAC"), models)


def make_ddpg_parts(settings: NativeSettings, spaces: ModelSpaces) -> AgentParts:
    """Return the agent's class and its models."""
    hidden = settings["models.hidden_sizes"]
    models = {role: DeterministicActor(spaces, hidden) for role in ("policy", "target_policy")}
    models |= {role: CriticModel(spaces, hidden) for role in ("critic", "target_critic")}
    return AgentParts(*load_agent("DDPG"), models)


def make_dqn_parts(settings: NativeSettings, spaces: ModelSpaces) -> AgentParts:
    """Return the agent's class and its models."""
    hidden = settings["models.hidden_sizes"]
    network = DuelingQValueModel if settings.get("models.dueling") else QValueModel
    roles = ("q_network", "target_q_network")
    models = {role: network(spaces, hidden) for role in roles}
    return AgentParts(*load_agent(settings["agent"]), models)


_PART_MAKERS = {
    "ppo": make_ppo_parts,
    "td3": make_td3_parts,
    "sac": make_sac_parts,
    "ddpg": make_ddpg_parts,
    "dqn": make_dqn_parts,
}
