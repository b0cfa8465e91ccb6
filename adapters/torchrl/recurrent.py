"""A network with a memory, from TorchRL's components; and its greedy policy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.data import Composite, OneHot, Unbounded
from torchrl.data.tensor_specs import TensorSpec
from torchrl.envs import Transform
from torchrl.modules import MLP, LSTMModule, QValueModule, set_recurrent_mode

from adapters.torchrl.sequences import SHOWN, STATE
from envs.tasks import Task


class Embedding(nn.Module):
    """What the LSTM sees of a step: the observation through layers, the last action and reward."""

    def __init__(self, inputs: int, cells: list[int], choices: int, sees_last_step: bool) -> None:
        super().__init__()
        self.layers = MLP(
            inputs,
            cells[-1],
            num_cells=cells[:-1],
            activation_class=nn.ReLU,
            activate_last_layer=True,
        )
        self._sees_last_step = sees_last_step
        self.size = cells[-1] + (choices + 1 if sees_last_step else 0)

    def forward(
        self, observation: torch.Tensor, action: torch.Tensor, reward: torch.Tensor
    ) -> torch.Tensor:
        """Of observations [..., inputs], one-hot actions [..., choices] and rewards [..., 1]."""
        features: torch.Tensor = self.layers(observation)
        if not self._sees_last_step:
            return features
        return torch.cat([features, action.to(features.dtype), reward.to(features.dtype)], dim=-1)


class Dueling(nn.Module):
    """The value of a state plus what actions are better or worse than their mean."""

    def __init__(self, inputs: int, cells: list[int], choices: int) -> None:
        super().__init__()
        self.value = MLP(inputs, 1, num_cells=cells, activation_class=nn.ReLU)
        self.advantage = MLP(inputs, choices, num_cells=cells, activation_class=nn.ReLU)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Action values [..., choices]."""
        advantage: torch.Tensor = self.advantage(features)
        value: torch.Tensor = self.value(features)
        return value + advantage - advantage.mean(dim=-1, keepdim=True)


def recurrent_network(settings: Mapping[str, Any], task: Task) -> TensorDictSequential:
    """Embedding, LSTM, values of the actions and the choice of the highest."""
    embedding = Embedding(
        task.observation_size,
        settings["MLP.num_cells"],
        task.choices,
        settings["loop.last_step_inputs"],
    )
    size, cells = settings["LSTMModule.hidden_size"], settings["MLP.head.num_cells"]
    lstm = LSTMModule(embedding.size, size, in_key="embedding", out_key="memory")
    head: nn.Module = (
        Dueling(size, cells, task.choices)
        if settings["loop.dueling"]
        else MLP(size, task.choices, num_cells=cells, activation_class=nn.ReLU)
    )
    return TensorDictSequential(
        TensorDictModule(embedding, in_keys=list(SHOWN), out_keys=["embedding"]),
        lstm,
        TensorDictModule(head, in_keys=["memory"], out_keys=["action_value"]),
        QValueModule(spec=Composite(action=OneHot(task.choices))),
    )


def memory_parts(network: TensorDictSequential) -> list[Any]:
    """What brings the recurrent state up to date."""
    return [network[0], network[1]]


class LastStep(Transform):  # type: ignore[misc]
    """Shows with each observation the action before it, one-hot, and its reward; zeros at first."""

    def __init__(self, choices: int) -> None:
        super().__init__(out_keys=list(SHOWN[1:]))
        self._widths = dict(zip(SHOWN[1:], (choices, 1), strict=True))

    def _reset(
        self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase
    ) -> TensorDictBase:
        for name, width in self._widths.items():
            zeros = torch.zeros(*tensordict_reset.batch_size, width)
            before = tensordict.get(name, None)
            resets = tensordict.get("_reset", None)
            if before is not None and resets is not None:
                zeros = torch.where(resets, zeros, before)
            tensordict_reset.set(name, zeros)
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        next_tensordict.set("last_action", tensordict["action"].float())
        next_tensordict.set("last_reward", next_tensordict["reward"].float())
        return next_tensordict

    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        """Adds what it shows."""
        for name, width in self._widths.items():
            observation_spec[name] = Unbounded((*observation_spec.shape, width))
        return observation_spec


class GreedyWithMemory:
    """The choices of the highest value; it follows the weights as they train.

    See `harness.contract.memory.Remembering`.
    """

    def __init__(self, network: TensorDictSequential, choices: int) -> None:
        self._network, self._choices = network, choices

    def __call__(self, observations: NDArray[np.float32]) -> NDArray[np.int64]:
        """Choices int64[N] at the first step of an episode."""
        return self.begin()(observations)

    def begin(self) -> "Episodes":
        """New episodes in all rows."""
        return Episodes(self._network, self._choices)


class Episodes:
    """Plays episodes side by side, with a memory for each."""

    def __init__(self, network: TensorDictSequential, choices: int) -> None:
        self._network, self._choices = network, choices
        self._carried: dict[str, torch.Tensor] = {}

    def __call__(self, observations: NDArray[np.float32]) -> NDArray[np.int64]:
        """Choices int64[N]."""
        batch = torch.as_tensor(observations, dtype=torch.float32)
        n = len(batch)
        carried = self._carried or self._empty(n)
        first = torch.full((n, 1), not self._carried)
        with torch.no_grad(), set_recurrent_mode(False):
            seen = TensorDict({"observation": batch, "is_init": first, **carried}, [n])
            told = self._network(seen)
        choices = told["action_value"].argmax(dim=-1)
        self._carried = {name: told["next", name] for name in STATE}
        self._carried["last_action"] = nn.functional.one_hot(choices, self._choices).float()
        self._carried["last_reward"] = torch.zeros(n, 1)
        return np.asarray(choices.numpy(), dtype=np.int64)

    def rewarded(self, rewards: NDArray[Any]) -> None:
        """Shows the rewards, [N], with the next observations."""
        shown = torch.as_tensor(np.asarray(rewards), dtype=torch.float32)
        self._carried["last_reward"] = shown.reshape(-1, 1)

    def _empty(self, n: int) -> dict[str, torch.Tensor]:
        lstm = self._network[1].lstm
        state = {name: torch.zeros(n, lstm.num_layers, lstm.hidden_size) for name in STATE}
        shown = {"last_action": torch.zeros(n, self._choices), "last_reward": torch.zeros(n, 1)}
        return state | shown
