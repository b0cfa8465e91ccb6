"""PPO as in upstream's `sota-implementations/ppo`, from public components."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from torchrl.envs import DoubleToFloat, RewardSum, StepCounter

from adapters.torchrl.collect import make_collector, seed_generators
from adapters.torchrl.means import Means
from adapters.torchrl.networks import greedy, weights
from adapters.torchrl.ppo_components import Components, build
from harness.adapter import Context, MakeEnv, Monitor, Native

__all__ = ["NETWORKS", "Components", "anneal", "build", "minibatches", "train", "update"]

NETWORKS = ("actor_network", "critic_network")


def train(native: Native, context: Context, make_env: MakeEnv, monitor: Monitor) -> None:
    """Trains to the end."""
    settings = native.settings
    seed_generators(settings["seed"])
    components = build(settings, context.task)
    transforms = RewardSum(), StepCounter(), DoubleToFloat()
    collector = make_collector(make_env, context.n_envs, components.actor, settings, *transforms)
    monitor.attach(greedy(components.actor), lambda: weights(components.loss, NETWORKS))
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(settings["Collector.frames_per_batch"]),
        sampler=SamplerWithoutReplacement(),
        batch_size=settings["TensorDictReplayBuffer.batch_size"],
    )
    means, step = Means(), 0
    for rollout in collector:
        for batch in minibatches(components, buffer, rollout):
            step += 1
            means.add(update(components, batch, step))
        monitor.record(means.take())
    collector.shutdown()


def minibatches(
    components: Components, buffer: TensorDictReplayBuffer, rollout: TensorDictBase
) -> Iterator[TensorDictBase]:
    """All minibatches of all epochs; each epoch begins with advantages of the critic as it is."""
    for _ in range(components.settings["script.ppo_epochs"]):
        with torch.no_grad():
            rollout = components.advantages(rollout)
        buffer.extend(rollout.reshape(-1))
        yield from buffer


def update(components: Components, batch: TensorDictBase, step: int) -> dict[str, torch.Tensor]:
    """One gradient step of actor and critic.

    Args:
        components: Changed in place.
        batch: Transitions with advantages.
        step: Number of this update, from 1.

    Returns:
        Metrics by their name in the trace.
    """
    rate = anneal(components, step)
    components.optimizer.zero_grad(set_to_none=True)
    losses = components.loss(batch)
    # No loss_critic is there when its weight is 0.
    sum(value for name, value in losses.items() if name.startswith("loss_")).backward()
    max_norm = components.settings["clip_grad_norm_.max_norm"]
    if max_norm is not None:
        groups = components.optimizer.param_groups
        nn.utils.clip_grad_norm_([p for group in groups for p in group["params"]], max_norm)
    components.optimizer.step()
    return _metrics(losses.detach(), components.settings) | {"learning_rate": rate}


def anneal(components: Components, step: int) -> torch.Tensor:
    """Sets learning rate and clip range of update `step`, and returns the learning rate."""
    settings = components.settings
    left = (1 - torch.tensor(step - 1) / components.total_updates).clamp_min(0.0)
    if settings["script.anneal_clip_epsilon"]:
        components.loss.clip_epsilon.copy_(settings["ClipPPOLoss.clip_epsilon"] * left)
    rate = torch.tensor(settings["Adam.lr"])
    if settings["script.anneal_lr"]:
        rate = rate * left
        for group in components.optimizer.param_groups:
            group["lr"] = rate
    return rate


def _metrics(losses: TensorDictBase, settings: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    metrics = {
        "loss/policy": losses["loss_objective"],
        "policy/entropy": losses["entropy"],
        "policy/approx_kl": losses["kl_approx"],
        "policy/clip_fraction": losses["clip_fraction"],
    }
    if "loss_critic" in losses:
        metrics["loss/value"] = losses["loss_critic"] / settings["ClipPPOLoss.critic_coeff"]
    return metrics
