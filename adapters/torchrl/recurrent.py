"""A recurrent network from TorchRL's components, and its greedy policy."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.data import Composite, LazyTensorStorage, OneHot, TensorDictReplayBuffer, Unbounded
from torchrl.data.tensor_specs import TensorSpec
from torchrl.envs import Transform
from torchrl.modules import MLP, LSTMModule, QValueModule, set_recurrent_mode

from parallax.adapters.torch_common.networks import DuelingHead
from parallax.adapters.torch_common.sum_tree import CompiledSumTree
from parallax.envs.tasks import Task
from parallax.harness.contract.replay import PrioritizedReplay
from parallax.harness.replay.prioritized import Floats, Indices, ReplayStrategy
from parallax.harness.replay.replayer import make_replay_strategy, make_sampling_generator

NamedArrays = Mapping[str, NDArray[Any]]

INPUT_KEYS = ("observation", "last_action", "last_reward")
"""Keys of the network's inputs at a step."""
STATE_KEYS = ("recurrent_state_h", "recurrent_state_c")
"""Keys of its recurrent state before that step."""


@dataclasses.dataclass(frozen=True)
class SequenceLayout:
    """Layout of sequences in replay.

    Attributes:
        length: Steps that are learned from, m.
        period: Steps from the beginning of one sequence to that of the next.
        burn_in: Steps before a sequence, l; fewer at the beginning of an episode.
    """

    length: int
    period: int
    burn_in: int


class EpisodeTail:
    """The end of one actor's episode, as far as sequences may still need it."""

    def __init__(self, cut: SequenceLayout) -> None:
        self._cut = cut
        self._steps: list[dict[str, NDArray[Any]]] = []
        self._first = 0  # number of the first of these steps in its episode
        self._begin = 0  # first step of the next sequence

    def add(
        self, step: dict[str, NDArray[Any]], after: NamedArrays, done: bool, terminated: bool
    ) -> Any:
        """Add a step; return the sequence that it completes, if any.

        Args:
            step: Network inputs, recurrent state before the step, action, reward, and the number
                of the update that the actor's parameters were of.
            after: Network inputs after the step, named as in `INPUT_KEYS`.
            done: Whether the episode is over.
            terminated: Whether it ended in a terminal state.

        Returns:
            Arrays by name, of the same shape for every sequence; None without one.
        """
        self._steps.append(step)
        cut, end = self._cut, self._first + len(self._steps)
        whole = end == self._begin + cut.length
        # At the end of an episode, the sequence before may already contain all steps.
        new = end > self._begin + (cut.length - cut.period if self._begin else 0)
        found = self._sequence(after, end, terminated) if whole or (done and new) else None
        if done:
            self._steps, self._first, self._begin = [], 0, 0
        elif whole:
            self._begin += cut.period
            keep = max(self._begin - cut.burn_in, 0)
            del self._steps[: keep - self._first]
            self._first = keep
        return found

    def _sequence(self, after: NamedArrays, end: int, ended: bool) -> dict[str, NDArray[Any]]:
        cut = self._cut
        before = min(cut.burn_in, self._begin)
        steps = self._steps[self._begin - before - self._first :]
        length = end - self._begin
        left, right = cut.burn_in - before, cut.length - length
        shown = {n: _pad_rows([*(s[n] for s in steps), after[n]], left, right) for n in INPUT_KEYS}
        done = {
            n: _pad_rows([s[n] for s in steps[before:]], 0, right) for n in ("action", "reward")
        }
        states = {
            f"{place}_{name}": steps[index][name]
            for place, index in (("start", 0), ("first", before), ("last", before + length - 1))
            for name in STATE_KEYS
        }
        numbers = {"length": length, "burned": before, "begin": self._begin, "ended": ended}
        numbers["version"] = steps[0]["version"].item()  # of what made the start state
        return {**shown, **done, **states, **{n: np.array(v) for n, v in numbers.items()}}


def _pad_rows(rows: list[NDArray[Any]], left: int, right: int) -> NDArray[Any]:
    stacked = np.stack(rows)
    return np.pad(stacked, ((left, right), *[(0, 0)] * (stacked.ndim - 1)))


class SequenceReplayBuffer:
    """Prioritised replay of sequences: TorchRL's storage, and this project's priorities."""

    def __init__(self, settings: Mapping[str, Any], actors: int) -> None:
        """Create an empty buffer."""
        length = settings["loop.sequence_length"]
        cut = SequenceLayout(
            length, length - settings["loop.overlap"], settings["BurnInTransform.burn_in"]
        )
        # The size is in steps, and sequences overlap: each adds `period` new ones.
        capacity = settings["LazyTensorStorage.max_size"] // cut.period
        exponent = settings["loop.importance_exponent"]
        # R2D2's importance exponent is constant, so beta does not rise.
        priorities = PrioritizedReplay(
            alpha=settings["loop.priority_exponent"], beta=exponent, beta_final=exponent
        )
        self.buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(capacity),
            batch_size=settings["TensorDictReplayBuffer.batch_size"],
        )
        self.tapes = [EpisodeTail(cut) for _ in range(actors)]
        self.strategy: ReplayStrategy = make_replay_strategy(
            priorities, capacity, 1, CompiledSumTree
        )
        self.numbers = make_sampling_generator(settings["seed"])

    def extend(self, data: TensorDictBase, first: int = 0) -> list[int]:
        """Add what a collector returns, [steps] of one actor or [actors, steps].

        Args:
            data: The steps.
            first: Number of the first of these actors.

        Returns:
            The updates that the parameters behind each new sequence were of.
        """
        found = []
        batch = data if data.ndim == 2 else data.unsqueeze(0)
        steps, after = _arrays_from_tensordict(batch), _arrays_from_tensordict(batch["next"])
        stored = (*INPUT_KEYS, *STATE_KEYS, "action", "version")
        for actor, tape in enumerate(self.tapes[first : first + len(batch)]):
            for t in range(batch.shape[1]):
                here = {n: steps[n][actor, t].copy() for n in stored}
                here["reward"] = after["reward"][actor, t].copy()
                ends = after["done"][actor, t].item(), after["terminated"][actor, t].item()
                shown = {n: after[n][actor, t].copy() for n in INPUT_KEYS}
                if (sequence := tape.add(here, shown, *ends)) is not None:
                    found.append(sequence)
        if found:
            rows = {n: torch.from_numpy(np.stack([s[n] for s in found])) for n in found[0]}
            self.buffer.extend(TensorDict(rows, [len(found)]))
            self.strategy.add(len(found))
        return [int(sequence["version"]) for sequence in found]

    def sample(self) -> tuple[Indices, Floats, TensorDictBase]:
        """Return indices, importance weights and content of a minibatch of sequences."""
        places, weights = self.strategy.sample(self.numbers, self.buffer.batch_size)
        return places, weights, self.buffer[torch.from_numpy(places)]


def _arrays_from_tensordict(data: TensorDictBase) -> dict[str, NDArray[Any]]:
    names = {*INPUT_KEYS, *STATE_KEYS, "action", "reward", "done", "terminated", "version"}
    return {name: data[name].numpy() for name in names if name in data.keys()}  # noqa: SIM118


class StepEmbedding(nn.Module):
    """Input of the LSTM at a step: encoded observation, last action and last reward."""

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
        """Embed observations [..., inputs], one-hot actions [..., actions], rewards [..., 1]."""
        features: torch.Tensor = self.layers(observation)
        if not self._sees_last_step:
            return features
        return torch.cat([features, action.to(features.dtype), reward.to(features.dtype)], dim=-1)


def build_recurrent_network(settings: Mapping[str, Any], task: Task) -> TensorDictSequential:
    """Return embedding, LSTM, action values and the choice of the highest as one network."""
    embedding = StepEmbedding(
        task.observation_size,
        settings["MLP.num_cells"],
        task.choices,
        settings["loop.last_step_inputs"],
    )
    size, cells = settings["LSTMModule.hidden_size"], settings["MLP.head.num_cells"]
    lstm = LSTMModule(embedding.size, size, in_key="embedding", out_key="memory")
    head: nn.Module = (
        DuelingHead(size, cells, task.choices)
        if settings["loop.dueling"]
        else MLP(size, task.choices, num_cells=cells, activation_class=nn.ReLU)
    )
    return TensorDictSequential(
        TensorDictModule(embedding, in_keys=list(INPUT_KEYS), out_keys=["embedding"]),
        lstm,
        TensorDictModule(head, in_keys=["memory"], out_keys=["action_value"]),
        QValueModule(spec=Composite(action=OneHot(task.choices))),
    )


def get_recurrent_modules(network: TensorDictSequential) -> list[Any]:
    """Return the modules that update the recurrent state."""
    return [network[0], network[1]]


class LastStepTransform(Transform):  # type: ignore[misc]
    """Adds the last action, one-hot, and the last reward to each observation; zeros at first."""

    def __init__(self, choices: int) -> None:
        super().__init__(out_keys=list(INPUT_KEYS[1:]))
        self._widths = dict(zip(INPUT_KEYS[1:], (choices, 1), strict=True))

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
        """Add the specs of the last action and reward."""
        for name, width in self._widths.items():
            observation_spec[name] = Unbounded((*observation_spec.shape, width))
        return observation_spec


class GreedyRecurrentPolicy:
    """Greedy policy with a recurrent state, under the current weights.

    See `parallax.harness.contract.adapter.RecurrentPolicy`.
    """

    def __init__(self, network: TensorDictSequential, choices: int) -> None:
        self._network, self._choices = network, choices

    def __call__(self, observations: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return actions int64[N] at the first step of an episode."""
        return self.begin()(observations)

    def begin(self) -> "RecurrentEpisodes":
        """Begin new episodes in all rows."""
        return RecurrentEpisodes(self._network, self._choices)


class RecurrentEpisodes:
    """Episodes that are played in parallel, with a recurrent state for each."""

    def __init__(self, network: TensorDictSequential, choices: int) -> None:
        self._network, self._choices = network, choices
        self._carried: dict[str, torch.Tensor] = {}

    def __call__(self, observations: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return actions int64[N]."""
        batch = torch.as_tensor(observations, dtype=torch.float32)
        n = len(batch)
        carried = self._carried or self._empty(n)
        first = torch.full((n, 1), not self._carried)
        with torch.no_grad(), set_recurrent_mode(False):
            seen = TensorDict({"observation": batch, "is_init": first, **carried}, [n])
            output = self._network(seen)
        choices = output["action_value"].argmax(dim=-1)
        self._carried = {name: output["next", name] for name in STATE_KEYS}
        self._carried["last_action"] = nn.functional.one_hot(choices, self._choices).float()
        self._carried["last_reward"] = torch.zeros(n, 1)
        return np.asarray(choices.numpy(), dtype=np.int64)

    def observe_rewards(self, rewards: NDArray[Any]) -> None:
        """Pass the rewards, [N], to the network with the next observations."""
        shown = torch.as_tensor(np.asarray(rewards), dtype=torch.float32)
        self._carried["last_reward"] = shown.reshape(-1, 1)

    def _empty(self, n: int) -> dict[str, torch.Tensor]:
        lstm = self._network[1].lstm
        state = {name: torch.zeros(n, lstm.num_layers, lstm.hidden_size) for name in STATE_KEYS}
        shown = {"last_action": torch.zeros(n, self._choices), "last_reward": torch.zeros(n, 1)}
        return state | shown
