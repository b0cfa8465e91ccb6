"""SAC as in upstream's `sota-implementations/sac`, from public components."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl.envs import DoubleToFloat, ExplorationType, InitTracker, RewardSum, StepCounter
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal
from torchrl.objectives import SACLoss, SoftUpdate

from parallax.adapters.torchrl.loop import make_adam, make_components, train_off_policy
from parallax.adapters.torchrl.networks import build_action_spec, build_q_network
from parallax.adapters.torchrl.replay import get_loss_class, select_vmap_option
from parallax.adapters.torchrl.versions import group_optimizers
from parallax.envs.tasks import Task
from parallax.harness.contract.adapter import MakeEnv, Monitor, RunContext
from parallax.harness.contract.translation import NativeConfig

NETWORKS = ("actor_network", "qvalue_network", "target_qvalue_network")


@dataclasses.dataclass(frozen=True)
class SACComponents:
    """Components of SAC: networks, loss and optimizer.

    Attributes:
        loss: Holds both critics, their targets and the temperature.
        policy_delay: Critic steps per step of policy and temperature; 1 in upstream's script.
        target_update_interval: Critic steps per target update; 1 in upstream's script.
    """

    actor: ProbabilisticActor
    loss: SACLoss
    optimizer: torch.optim.Optimizer
    targets: SoftUpdate
    policy_delay: int
    target_update_interval: int


def train(native: NativeConfig, context: RunContext, make_env: MakeEnv, monitor: Monitor) -> None:
    """Train to the end."""
    components = make_components(build_components, native, context)
    train_off_policy(
        *(native, context, make_env, monitor),
        components=components,
        explorer=components.actor,
        transforms=(InitTracker(), StepCounter(), DoubleToFloat(), RewardSum()),
        networks=NETWORKS,
        update=update,
        learning_rate="Adam(actor).lr",
        compute_extra_metrics=lambda batch: {"q/mean": compute_mean_q(components, batch)},
    )


def build_components(settings: Mapping[str, Any], task: Task) -> SACComponents:
    """Return networks, loss and optimizers as they are before the first update."""
    actor = _build_actor(settings, task)
    loss = get_loss_class(SACLoss, settings)(
        actor,
        build_q_network(settings, task),
        loss_function="l2",
        **select_vmap_option(settings),
        alpha_init=settings["SACLoss.alpha_init"],
        target_entropy=settings["SACLoss.target_entropy"],
    )
    loss.make_value_estimator(gamma=settings["make_value_estimator.gamma"])
    optimizer = group_optimizers(
        make_adam(loss.actor_network_params.parameters(), "actor", settings),
        make_adam(loss.qvalue_network_params.parameters(), "critic", settings),
        # Upstream passes no eps to the temperature's Adam, so it has torch's default.
        make_adam([loss.log_alpha], "alpha", settings, eps=1e-8),
    )
    return SACComponents(
        actor,
        loss,
        optimizer,
        SoftUpdate(loss, eps=settings["SoftUpdate.eps"]),
        policy_delay=settings.get("loop.policy_delay", 1),
        target_update_interval=settings.get("loop.target_update_interval", 1),
    )


def update(components: SACComponents, batch: TensorDictBase, step: int) -> dict[str, torch.Tensor]:
    """Make one step of critics, policy and temperature at once, then of the targets.

    All three losses are computed with the parameters before the step. If policy and temperature
    are delayed, the other steps are those of the critics alone.

    Args:
        components: Changed in place.
        batch: Transitions as the collector makes them.
        step: Number of this update, from 1.

    Returns:
        Metrics by their name in the trace.
    """
    is_policy_due = step % components.policy_delay == 0
    names = ("loss_actor", "loss_qvalue", "loss_alpha") if is_policy_due else ("loss_qvalue",)
    # One backward pass: each loss detaches what it does not train (`actor_loss` in sac.py).
    losses = components.loss(batch)
    sum(losses[name] for name in names).backward()
    components.optimizer.step()
    components.optimizer.zero_grad(set_to_none=True)
    if step % components.target_update_interval == 0:
        components.targets.step()
    return {
        "loss/policy": losses["loss_actor"].detach(),
        "loss/critic": losses["loss_qvalue"].detach(),
        "loss/temperature": losses["loss_alpha"].detach(),
        "temperature": losses["alpha"].detach(),
        "policy/entropy": losses["entropy"].detach(),
    }


def compute_mean_q(components: SACComponents, batch: TensorDictBase) -> float:
    """Return the mean of both critics' predictions, which the loss does not report."""
    network, means = components.loss.qvalue_network, []
    for parameters in components.loss.qvalue_network_params.data.unbind(0):
        with torch.no_grad(), parameters.to_module(network):
            values = network(batch.select("action", "observation"))["state_action_value"]
        means.append(float(values.mean()))
    return sum(means) / len(means)


def _build_actor(settings: Mapping[str, Any], task: Task) -> ProbabilisticActor:
    spec = build_action_spec(task)
    network = nn.Sequential(
        MLP(
            task.observation_size,
            2 * task.action_size,
            num_cells=settings["MLP.num_cells"],
            activation_class=nn.ReLU,
        ),
        # default_policy_scale and scale_lb of upstream's sac/config.yaml.
        NormalParamExtractor(scale_mapping="biased_softplus_1.0", scale_lb=0.1),
    )
    return ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=spec,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": spec.space.low, "high": spec.space.high, "tanh_loc": False},
        default_interaction_type=ExplorationType.RANDOM,
    )
