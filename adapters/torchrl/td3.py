"""TD3 as in upstream's `sota-implementations/td3`, from public components."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictSequential
from torchrl.envs import DoubleToFloat, InitTracker, RewardSum, StepCounter
from torchrl.modules import AdditiveGaussianModule
from torchrl.objectives import SoftUpdate, TD3Loss

from parallax.adapters.torchrl.loop import make_adam, make_components, train_off_policy
from parallax.adapters.torchrl.networks import (
    build_action_spec,
    build_deterministic_actor,
    build_q_network,
)
from parallax.adapters.torchrl.replay import get_loss_class, select_vmap_option
from parallax.envs.tasks import Task
from parallax.harness.contract.adapter import MakeEnv, Monitor, RunContext
from parallax.harness.contract.translation import NativeConfig

NETWORKS = ("actor_network", "qvalue_network", "target_actor_network", "target_qvalue_network")


@dataclasses.dataclass(frozen=True)
class TD3Components:
    """Components of TD3: networks, losses and optimizers.

    Attributes:
        explorer: The same policy with Gaussian noise, clipped to the bounds.
        loss: Holds both critics and all target networks.
        policy_delay: Critic steps per policy and target update.
    """

    actor: TensorDictSequential
    explorer: TensorDictSequential
    loss: TD3Loss
    actor_optimizer: torch.optim.Optimizer
    critic_optimizer: torch.optim.Optimizer
    targets: SoftUpdate
    policy_delay: int


def train(native: NativeConfig, context: RunContext, make_env: MakeEnv, monitor: Monitor) -> None:
    """Train to the end."""
    components = make_components(build_components, native, context)
    train_off_policy(
        *(native, context, make_env, monitor),
        components=components,
        explorer=components.explorer,
        transforms=(StepCounter(), InitTracker(), DoubleToFloat(), RewardSum()),
        networks=NETWORKS,
        update=update,
        learning_rate="Adam(actor).lr",
    )


def build_components(settings: Mapping[str, Any], task: Task) -> TD3Components:
    """Return networks, loss and optimizers as they are before the first update."""
    spec = build_action_spec(task)
    actor = build_deterministic_actor(settings, task)
    noise = AdditiveGaussianModule(
        spec, sigma_init=1.0, sigma_end=1.0, std=settings["AdditiveGaussianModule.std"]
    )
    loss = get_loss_class(TD3Loss, settings)(
        actor,
        build_q_network(settings, task),
        action_spec=spec,
        loss_function="l2",
        **select_vmap_option(settings),
        policy_noise=settings["TD3Loss.policy_noise"],
        noise_clip=settings["TD3Loss.noise_clip"],
    )
    loss.make_value_estimator(gamma=settings["make_value_estimator.gamma"])
    return TD3Components(
        actor=actor,
        explorer=TensorDictSequential(actor, noise),
        loss=loss,
        actor_optimizer=make_adam(loss.actor_network_params.parameters(), "actor", settings),
        critic_optimizer=make_adam(loss.qvalue_network_params.parameters(), "critic", settings),
        targets=SoftUpdate(loss, eps=settings["SoftUpdate.eps"]),
        policy_delay=settings["script.policy_update_delay"],
    )


def update(components: TD3Components, batch: TensorDictBase, step: int) -> dict[str, torch.Tensor]:
    """Make one critic step, and with every `policy_delay`-th one a policy and a target step.

    Args:
        components: Changed in place.
        batch: Transitions as the collector makes them.
        step: Number of this update, from 1.

    Returns:
        Metrics by their name in the trace.
    """
    loss, details = components.loss.value_loss(batch)
    _take_gradient_step(loss, components.critic_optimizer)
    metrics = {"loss/critic": loss.detach(), "q/mean": details["pred_value"].mean()}
    if step % components.policy_delay == 0:
        loss, _ = components.loss.actor_loss(batch)
        _take_gradient_step(loss, components.actor_optimizer)
        components.targets.step()
        metrics["loss/policy"] = loss.detach()
    return metrics


def _take_gradient_step(loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
