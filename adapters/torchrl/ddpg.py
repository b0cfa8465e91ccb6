"""DDPG as in upstream's `sota-implementations/ddpg`, from public components."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictSequential
from torchrl.data import Bounded
from torchrl.envs import DoubleToFloat, InitTracker, RewardSum, StepCounter
from torchrl.modules import AdditiveGaussianModule, OrnsteinUhlenbeckProcessModule
from torchrl.objectives import DDPGLoss, SoftUpdate

from parallax.adapters.torchrl.loop import make_adam, make_components, train_off_policy
from parallax.adapters.torchrl.networks import (
    build_action_spec,
    build_deterministic_actor,
    build_q_network,
)
from parallax.adapters.torchrl.replay import get_loss_class
from parallax.adapters.torchrl.versions import group_optimizers
from parallax.envs.tasks import Task
from parallax.harness.contract.adapter import MakeEnv, Monitor, RunContext
from parallax.harness.contract.translation import NativeConfig

NETWORKS = ("actor_network", "value_network", "target_actor_network", "target_value_network")
ANNEALING_STEPS = 1_000_000
ANNEALED_SHARE = 0.1
"""Environment steps over which the process' noise shrinks to this share, in upstream's script."""

NoiseModule: TypeAlias = "AdditiveGaussianModule | OrnsteinUhlenbeckProcessModule"


@dataclasses.dataclass(frozen=True)
class DDPGComponents:
    """Components of DDPG: networks, losses and optimizers.

    Attributes:
        policy_delay: Critic steps per policy and target update; 1 in upstream's script.
    """

    actor: TensorDictSequential
    noise: NoiseModule
    loss: DDPGLoss
    optimizer: torch.optim.Optimizer
    targets: SoftUpdate
    policy_delay: int


def train(native: NativeConfig, context: RunContext, make_env: MakeEnv, monitor: Monitor) -> None:
    """Train to the end."""
    components = make_components(build_components, native, context)
    train_off_policy(
        *(native, context, make_env, monitor),
        components=components,
        explorer=TensorDictSequential(components.actor, components.noise),
        transforms=(InitTracker(), StepCounter(), DoubleToFloat(), RewardSum()),
        networks=NETWORKS,
        update=update,
        learning_rate="Adam(actor).lr",
        collected_frames=components.noise.step,
    )


def build_components(settings: Mapping[str, Any], task: Task) -> DDPGComponents:
    """Return networks, loss and optimizers as they are before the first update."""
    spec = build_action_spec(task)
    actor = build_deterministic_actor(settings, task)
    critic = build_q_network(settings, task)
    loss = get_loss_class(DDPGLoss, settings)(
        actor, critic, loss_function="l2", delay_actor=True, delay_value=True
    )
    loss.make_value_estimator(gamma=settings["make_value_estimator.gamma"])
    parameters = {"actor": loss.actor_network_params, "critic": loss.value_network_params}
    optimizer = group_optimizers(
        *(
            make_adam(
                part.parameters(),
                name,
                settings,
                weight_decay=settings[f"Adam({name}).weight_decay"],
            )
            for name, part in parameters.items()
        )
    )
    targets = SoftUpdate(loss, eps=settings["SoftUpdate.eps"])
    delay = settings.get("loop.policy_delay", 1)
    return DDPGComponents(actor, _build_noise(settings, spec), loss, optimizer, targets, delay)


def _build_noise(settings: Mapping[str, Any], spec: Bounded) -> NoiseModule:
    sigma = settings.get("OrnsteinUhlenbeckProcessModule.sigma")
    if sigma is None:
        std = settings["AdditiveGaussianModule.std"]
        return AdditiveGaussianModule(spec, sigma_init=1.0, sigma_end=1.0, std=std)
    end = settings.get("OrnsteinUhlenbeckProcessModule.eps_end", ANNEALED_SHARE)
    return OrnsteinUhlenbeckProcessModule(
        spec, sigma=sigma, eps_end=end, annealing_num_steps=ANNEALING_STEPS
    )


def update(components: DDPGComponents, batch: TensorDictBase, step: int) -> dict[str, torch.Tensor]:
    """Make one step of critic and policy at once, then of the targets.

    Both losses are computed with the parameters before the step. If the policy is delayed, the
    other steps are those of the critic alone.

    Args:
        components: Changed in place.
        batch: Transitions as the collector makes them.
        step: Number of this update, from 1.

    Returns:
        Metrics by their name in the trace.
    """
    is_policy_due = step % components.policy_delay == 0
    names = ("loss_actor", "loss_value") if is_policy_due else ("loss_value",)
    # One backward pass: each loss detaches the other network (`loss_actor` in ddpg.py).
    components.optimizer.zero_grad(set_to_none=True)
    losses = components.loss(batch)
    sum(losses[name] for name in names).backward()
    components.optimizer.step()
    if is_policy_due:
        components.targets.step()
    return {
        "loss/policy": losses["loss_actor"].detach(),
        "loss/critic": losses["loss_value"].detach(),
        "q/mean": losses["pred_value"].mean(),
    }
