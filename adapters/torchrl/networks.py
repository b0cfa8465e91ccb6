"""Networks of the recipes, their targets, their greedy policy and their parameters."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictSequential, TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.data import Bounded
from torchrl.modules import MLP, ConvNet, TanhModule, ValueOperator
from torchrl.objectives import HardUpdate, LossModule, SoftUpdate
from torchrl.objectives.utils import TargetNetUpdater

from parallax.adapters.torch_common.networks import ImageScaling, count_features
from parallax.adapters.torch_common.state import (
    make_policy_io,
    select_distinct,
    weights_from_parameters,
)
from parallax.envs.tasks import Task
from parallax.harness.contract.adapter import Checkpointable, Monitor, Policy, Weights
from parallax.harness.contract.algorithms.image_encoder import compute_kernels


def build_action_spec(task: Task) -> Bounded:
    """Return the bounds of an action, in action units."""
    low, high = torch.tensor(task.action_low), torch.tensor(task.action_high)
    return Bounded(low, high, shape=low.shape, dtype=torch.float32)


def build_q_network(settings: Mapping[str, Any], task: Task) -> ValueOperator:
    """Return a Q-network: ReLU, torch's initialisation; the losses make two of it."""
    size = task.observation_size + task.action_size
    module = MLP(size, 1, num_cells=settings["MLP.num_cells"], activation_class=nn.ReLU)
    return ValueOperator(module, in_keys=["action", "observation"])


def build_deterministic_actor(settings: Mapping[str, Any], task: Task) -> TensorDictSequential:
    """Return an actor: ReLU, a tanh to the task's bounds, torch's initialisation."""
    network = MLP(
        task.observation_size,
        task.action_size,
        num_cells=settings["MLP.num_cells"],
        activation_class=nn.ReLU,
    )
    return TensorDictSequential(
        TensorDictModule(network, in_keys=["observation"], out_keys=["param"]),
        TanhModule(in_keys=["param"], out_keys=["action"], spec=build_action_spec(task)),
    )


def build_convolutions(settings: Mapping[str, Any], task: Task) -> list[nn.Module]:
    """Return convolutions with ReLU and torch's initialisation; images of bytes are scaled."""
    filters = settings["ConvNet.num_cells"]
    sides, strides = map(list, zip(*compute_kernels(task.image, filters), strict=True))
    images = ConvNet(
        task.image[0],
        num_cells=filters,
        kernel_sizes=sides,
        strides=strides,
        activation_class=nn.ReLU,
    )
    return [*([ImageScaling(task.brightest)] if task.brightest > 1 else []), images]


def build_image_encoder(settings: Mapping[str, Any], task: Task) -> nn.Sequential:
    """Return convolutions and linear layers with ReLU, torch's initialisation."""
    *inner, last = settings["MLP.num_cells"]
    layers = MLP(
        count_features(task.image, settings["ConvNet.num_cells"]),
        last,
        num_cells=inner,
        activation_class=nn.ReLU,
        activate_last_layer=True,
    )
    return nn.Sequential(*build_convolutions(settings, task), layers)


class PeriodicSoftUpdate(SoftUpdate):  # type: ignore[misc]
    """Moves targets at intervals of environment steps, at the end of update cycles.

    TorchRL's `HardUpdate` copies, and counts gradient steps.
    """

    def __init__(self, loss: LossModule, settings: Mapping[str, Any]) -> None:
        """Begin with no update made."""
        with warnings.catch_warnings():
            # Upstream does not expect a target that moves by more than half.
            warnings.filterwarnings("ignore", message="Found an eps value < 0.5")
            super().__init__(loss, eps=settings["SoftUpdate.eps"])
        self.interval = settings["loop.target_update_interval"]
        self.cycle = settings["script.num_updates"]
        self.frames = settings["Collector.frames_per_batch"]
        self.counter = 0

    def step(self) -> None:
        """Count a gradient step; move the targets if that is due."""
        self.counter += 1
        cycles, rest = divmod(self.counter, self.cycle)
        frames = cycles * self.frames
        if not rest and frames // self.interval > (frames - self.frames) // self.interval:
            super().step()


def build_periodic_targets(loss: LossModule, settings: Mapping[str, Any]) -> TargetNetUpdater:
    """Return the updater of a target network at intervals: upstream's class if it suffices."""
    if "loop.target_update_interval" in settings:
        return PeriodicSoftUpdate(loss, settings)
    interval = settings["HardUpdate.value_network_update_interval"]
    return HardUpdate(loss, value_network_update_interval=interval)


def make_greedy_policy(actor: ProbabilisticTensorDictSequential | TensorDictSequential) -> Policy:
    """Return the actor without noise, under the current weights.

    A stochastic actor gives its squashed location, or the likeliest of discrete actions. Its
    distribution is queried, so no random number is drawn and the exploration type around the call
    does not matter: the call may come while a collector explores.
    """

    def policy(observations: NDArray[np.float32]) -> NDArray[Any]:
        device = next(actor.parameters()).device
        batch = torch.as_tensor(observations, dtype=torch.float32, device=device)
        with torch.no_grad():
            inputs = TensorDict({"observation": batch}, [len(batch)])
            if isinstance(actor, ProbabilisticTensorDictSequential):
                actions = actor.get_dist(inputs).deterministic_sample
            else:
                actions = actor(inputs)["action"]
        if not actions.dtype.is_floating_point:  # one-hot
            return np.asarray(actions.argmax(dim=-1).cpu().numpy(), dtype=np.int64)
        return np.asarray(actions.cpu().numpy(), dtype=np.float32)

    return policy


def attach_monitor(
    monitor: Monitor,
    policy: Policy,
    loss: LossModule,
    networks: Sequence[str],
    resumable: Checkpointable,
) -> None:
    """Attach the policy, weights and state of a training to its monitor."""
    monitor.attach(
        policy,
        lambda: copy_weights(loss, networks),
        make_policy_io(lambda: get_parameters(loss, networks), loss.state_dict),
        resumable,
    )


def copy_weights(loss: LossModule, networks: Sequence[str]) -> Weights:
    """Return copies of all trained parameters of a loss's networks, target networks included."""
    return weights_from_parameters(get_parameters(loss, networks))


def get_parameters(loss: LossModule, networks: Sequence[str]) -> dict[str, torch.Tensor]:
    """Return the parameters of `copy_weights` as the tensors that the loss computes with."""
    found = {}
    for network in networks:
        online = getattr(loss, f"{network.removeprefix('target_')}_params").flatten_keys(".")
        tensors = getattr(loss, f"{network}_params").flatten_keys(".")
        # A network's buffers, such as action bounds, are not trained.
        for name in sorted(name for name, value in online.items() if value.requires_grad):
            found[f"{network}.{name}"] = tensors[name]
    if hasattr(loss, "log_alpha"):
        found["log_alpha"] = loss.log_alpha
    return select_distinct(found)
