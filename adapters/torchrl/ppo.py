"""PPO as in upstream's `sota-implementations/ppo`, from public components."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import (
    AddStateIndependentNormalScale,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
)
from torch import nn
from torchrl.data import (
    Composite,
    LazyTensorStorage,
    OneHot,
    SamplerWithoutReplacement,
    TensorDictReplayBuffer,
)
from torchrl.envs import DoubleToFloat, ExplorationType, RewardSum, StepCounter
from torchrl.modules import (
    MLP,
    ActorValueOperator,
    OneHotCategorical,
    ProbabilisticActor,
    TanhNormal,
    ValueOperator,
)
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from parallax.adapters.torchrl.loop import (
    LoopProgress,
    MetricMeans,
    compile_update,
    make_collector,
    make_components,
    make_loop_checkpointable,
    mark_truncations,
)
from parallax.adapters.torchrl.networks import (
    attach_monitor,
    build_action_spec,
    build_image_encoder,
    make_greedy_policy,
)
from parallax.adapters.torchrl.versions import COEFFICIENT_NAMES, group_optimizers
from parallax.envs.tasks import Task
from parallax.harness.contract.adapter import MakeEnv, Monitor, RunContext
from parallax.harness.contract.translation import NativeConfig

ACTOR_GAIN, CRITIC_GAIN = 1.0, 0.01
"""Orthogonal gain of every layer, the last included."""


@dataclasses.dataclass(frozen=True)
class PPOComponents:
    """Components of PPO: networks, loss and optimizer.

    Attributes:
        advantages: Adds advantages and value targets to a rollout.
        total_updates: Gradient steps of all requested whole rollouts.
    """

    actor: ProbabilisticTensorDictSequential
    advantages: GAE
    loss: ClipPPOLoss
    optimizer: torch.optim.Optimizer
    settings: Mapping[str, Any]
    total_updates: int


def build_components(settings: Mapping[str, Any], task: Task) -> PPOComponents:
    """Return networks, loss and optimizers as they are before the first update."""
    if task.image:
        actor, critic = _build_image_networks(settings, task)
    else:
        build_actor = _build_discrete_actor if task.choices else _build_actor
        actor, critic = build_actor(settings, task), _build_critic(settings, task)
    advantages = GAE(
        gamma=settings["GAE.gamma"],
        lmbda=settings["GAE.lmbda"],
        value_network=critic,
        average_gae=False,
        # The vectorised form divides by powers of gamma times lambda.
        vectorized=settings["GAE.gamma"] * settings["GAE.lmbda"] >= 1e-7,
    )
    loss = ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=settings["ClipPPOLoss.clip_epsilon"],
        clip_value=settings["ClipPPOLoss.clip_value"],
        normalize_advantage=settings["ClipPPOLoss.normalize_advantage"],
        **{name: settings[f"ClipPPOLoss.{today}"] for today, name in COEFFICIENT_NAMES.items()},
        loss_critic_type="l2",
    )
    # Shared networks are optimised as in upstream's ppo_atari.py: the loss has each layer once.
    networks = [loss] if task.image else [actor, critic]
    optimizer = group_optimizers(*(_make_adam(network, settings) for network in networks))
    frames = settings["Collector.frames_per_batch"]
    rollouts = settings["script.total_frames"] // frames
    per_epoch = math.ceil(frames / settings["TensorDictReplayBuffer.batch_size"])
    total_updates = rollouts * settings["script.ppo_epochs"] * per_epoch
    return PPOComponents(actor, advantages, loss, optimizer, settings, total_updates)


def _build_discrete_actor(settings: Mapping[str, Any], task: Task) -> ProbabilisticActor:
    # Logits of a categorical distribution, as in upstream's ppo_atari.py, whose task numbers
    # actions; in this adapter's tasks they are one-hot.
    network = _build_mlp(task.observation_size, task.choices, settings, ACTOR_GAIN)
    return _make_categorical_actor(network, "observation", task)


def _make_categorical_actor(network: nn.Module, in_key: str, task: Task) -> ProbabilisticActor:
    return ProbabilisticActor(
        TensorDictModule(network, in_keys=[in_key], out_keys=["logits"]),
        in_keys=["logits"],
        spec=Composite(action=OneHot(task.choices)),
        distribution_class=OneHotCategorical,
        default_interaction_type=ExplorationType.RANDOM,
        return_log_prob=True,
    )


def _build_image_networks(
    settings: Mapping[str, Any], task: Task
) -> tuple[ProbabilisticTensorDictSequential, TensorDictSequential]:
    # As upstream's utils_atari.py: one linear layer each on shared layers, torch's initialisation.
    encoder = TensorDictModule(
        build_image_encoder(settings, task), in_keys=["observation"], out_keys=["common_features"]
    )
    features = settings["MLP.num_cells"][-1]
    logits = MLP(features, task.choices, num_cells=[], activation_class=nn.ReLU)
    policy = _make_categorical_actor(logits, "common_features", task)
    values = MLP(features, 1, num_cells=[], activation_class=nn.ReLU)
    both = ActorValueOperator(encoder, policy, ValueOperator(values, in_keys=["common_features"]))
    return both.get_policy_operator(), both.get_value_operator()


def _build_actor(settings: Mapping[str, Any], task: Task) -> ProbabilisticActor:
    # Location from the network, scale from one free parameter per dimension.
    spec = build_action_spec(task)
    network = nn.Sequential(
        _build_mlp(task.observation_size, task.action_size, settings, ACTOR_GAIN),
        # As upstream's utils_mujoco.py.
        AddStateIndependentNormalScale(torch.Size([task.action_size]), scale_lb=1e-8),
    )
    return ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=spec,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": spec.space.low, "high": spec.space.high, "tanh_loc": False},
        default_interaction_type=ExplorationType.RANDOM,
        return_log_prob=True,
    )


def _build_critic(settings: Mapping[str, Any], task: Task) -> ValueOperator:
    network = _build_mlp(task.observation_size, 1, settings, CRITIC_GAIN)
    return ValueOperator(network, in_keys=["observation"])


def _build_mlp(inputs: int, outputs: int, settings: Mapping[str, Any], gain: float) -> MLP:
    network = MLP(inputs, outputs, num_cells=settings["MLP.num_cells"], activation_class=nn.Tanh)
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, gain)
            nn.init.zeros_(layer.bias)
    return network


def _make_adam(network: nn.Module, settings: Mapping[str, Any]) -> torch.optim.Optimizer:
    # A tensor as in upstream's script, where it makes the schedule's arithmetic float32.
    rate = torch.tensor(settings["Adam.lr"])
    return torch.optim.Adam(network.parameters(), lr=rate, eps=settings["Adam.eps"])


NETWORKS = ("actor_network", "critic_network")


def train(native: NativeConfig, context: RunContext, make_env: MakeEnv, monitor: Monitor) -> None:
    """Train to the end."""
    settings = native.settings
    components = make_components(build_components, native, context)
    transforms = RewardSum(), StepCounter(), DoubleToFloat()
    collector = make_collector(
        make_env,
        context.n_envs,
        components.actor,
        settings,
        *transforms,
        safe_point=monitor.safe_point,
        device=context.device,
    )
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(settings["Collector.frames_per_batch"], device=context.device),
        sampler=SamplerWithoutReplacement(),
        batch_size=settings["TensorDictReplayBuffer.batch_size"],
    )
    means, progress, make_update = MetricMeans(), LoopProgress(), compile_update(update, context)
    state = make_loop_checkpointable(collector, components, buffer, progress, means)
    attach_monitor(monitor, make_greedy_policy(components.actor), components.loss, NETWORKS, state)
    for rollout in collector:
        mark_truncations(rollout, settings)
        for batch in iterate_minibatches(components, buffer, rollout):
            if exceeds_target_kl(components, batch):
                buffer.empty()  # the next rollout begins with all of its minibatches
                break
            progress.updates += 1
            means.add(make_update(components, batch, find_scheduled_step(components, progress)))
        progress.collected += rollout.numel()
        monitor.record(means.take())
    collector.shutdown()


def exceeds_target_kl(components: PPOComponents, batch: TensorDictBase) -> bool:
    """Return whether the policy has moved too far to learn from a minibatch.

    Uses Schulman's estimate, http://joschu.net/blog/kl-approx.html; upstream never stops early.
    """
    target_kl = components.settings.get("loop.target_kl")
    if target_kl is None:
        return False
    with torch.no_grad():
        now = components.actor.get_dist(batch).log_prob(batch["action"])
        log_ratios = now - batch[components.loss.tensor_keys.sample_log_prob]
        return bool((log_ratios.exp() - 1 - log_ratios).mean() > target_kl)


def find_scheduled_step(components: PPOComponents, progress: LoopProgress) -> int:
    """Return the number of the update, from 1, that schedules are evaluated at.

    If schedules fall after rollouts, it is that of the rollout's first update for all of them.
    """
    settings = components.settings
    if "loop.anneal_after_rollouts" not in settings:
        return progress.updates
    frames: int = settings["Collector.frames_per_batch"]
    rollouts: int = max(settings["script.total_frames"] // frames, 1)
    return progress.collected // frames * (components.total_updates // rollouts) + 1


def iterate_minibatches(
    components: PPOComponents, buffer: TensorDictReplayBuffer, rollout: TensorDictBase
) -> Iterator[TensorDictBase]:
    """Yield all minibatches of all epochs; each epoch first recomputes the advantages."""
    for _ in range(components.settings["script.ppo_epochs"]):
        with torch.no_grad():
            rollout = components.advantages(rollout)
        buffer.extend(rollout.reshape(-1))
        yield from buffer


def update(components: PPOComponents, batch: TensorDictBase, step: int) -> dict[str, torch.Tensor]:
    """Make one gradient step of actor and critic.

    Args:
        components: Changed in place.
        batch: Transitions with advantages.
        step: Number of this update, from 1.

    Returns:
        Metrics by their name in the trace.
    """
    rate = anneal_schedules(components, step)
    components.optimizer.zero_grad(set_to_none=True)
    losses = components.loss(batch)
    # There is no loss_critic if its weight is 0.
    sum(value for name, value in losses.items() if name.startswith("loss_")).backward()
    max_norm = components.settings["clip_grad_norm_.max_norm"]
    if max_norm is not None:
        groups = components.optimizer.param_groups
        nn.utils.clip_grad_norm_([p for group in groups for p in group["params"]], max_norm)
    components.optimizer.step()
    return _collect_metrics(losses.detach(), components.settings) | {"learning_rate": rate}


def anneal_schedules(components: PPOComponents, step: int) -> torch.Tensor:
    """Set the learning rate and clip range of update `step`, and return the learning rate.

    They stay at 0 after the last whole rollout, and at their initial values if there is none.
    """
    settings, left = components.settings, torch.ones(())
    if components.total_updates > 0:
        left = (1 - torch.tensor(step - 1) / components.total_updates).clamp_min(0.0)
    if settings["script.anneal_clip_epsilon"]:
        components.loss.clip_epsilon.copy_(settings["ClipPPOLoss.clip_epsilon"] * left)
    rate = torch.tensor(settings["Adam.lr"])
    if settings["script.anneal_lr"]:
        rate = rate * left
        for group in components.optimizer.param_groups:
            group["lr"] = rate
    return rate


def _collect_metrics(
    losses: TensorDictBase, settings: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    metrics = {
        "loss/policy": losses["loss_objective"],
        "policy/entropy": losses["entropy"],
        "policy/approx_kl": losses["kl_approx"],
        "policy/clip_fraction": losses["clip_fraction"],
    }
    if "loss_critic" in losses:
        metrics["loss/value"] = losses["loss_critic"] / settings["ClipPPOLoss.critic_coeff"]
    return metrics
