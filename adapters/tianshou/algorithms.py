"""Tianshou's algorithms with networks as in its examples."""

from __future__ import annotations

import parallax.adapters.tianshou.versions  # noqa: F401  # adds today's names to older releases

# isort: split
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from tianshou.algorithm import DDPG, DQN, PPO, SAC, TD3, Algorithm
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy, ProbabilisticActorPolicy
from tianshou.algorithm.modelfree.sac import AutoAlpha, SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory, LRSchedulerFactoryLinear
from tianshou.exploration import GaussianNoise, OUNoise
from tianshou.utils.net.common import ActionReprNetWithVectorOutput, Net
from tianshou.utils.net.continuous import (
    ContinuousActorDeterministic,
    ContinuousActorProbabilistic,
    ContinuousCritic,
)
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from torch import nn
from torch.distributions import Distribution, Independent, Normal

from parallax.adapters.torch_common.networks import (
    build_convolutions,
    build_image_encoder,
    count_features,
)
from parallax.envs.tasks import Task
from parallax.harness.contract.adapter import load_package_module
from parallax.harness.contract.translation import NativeSettings, select_options


def make_action_space(task: Task) -> gymnasium.spaces.Box:
    """Return the space of a task's actions."""
    low, high = (np.array(limit, np.float32) for limit in (task.action_low, task.action_high))
    return gymnasium.spaces.Box(low, high)


def make_adam(settings: NativeSettings, of: str = "") -> AdamOptimizerFactory:
    """Return the optimizer of one of several networks, named in brackets, or of all."""
    shared = select_options(settings, "AdamOptimizerFactory")
    return AdamOptimizerFactory(**shared | select_options(settings, f"AdamOptimizerFactory{of}"))


def build_critics(settings: NativeSettings, task: Task, number: int) -> list[ContinuousCritic]:
    """Return critics of an observation and an action; all bodies are made before all heads."""
    sizes = {"state_shape": task.observation_size, "action_shape": task.action_size}
    nets = [Net(**sizes, concat=True, **select_options(settings, "Net")) for _ in range(number)]
    return [ContinuousCritic(preprocess_net=net) for net in nets]


def build_twin_critics(settings: NativeSettings, task: Task) -> dict[str, Any]:
    """Return the arguments of an algorithm with two critics and a policy."""
    # Bodies before heads, as in the examples: another order draws other weights from one seed.
    first, second = build_critics(settings, task, 2)
    optimizer = make_adam(settings, "(critic)")
    return {
        "policy_optim": make_adam(settings, "(policy)"),
        "critic": first,
        "critic_optim": optimizer,
        "critic2": second,
        "critic2_optim": optimizer,
    }


def build_algorithm(algorithm: str, settings: NativeSettings, task: Task) -> Algorithm[Any, Any]:
    """Return the algorithm that settings describe; draw its weights from torch's generator."""
    if algorithm in _BUILDERS:
        return _BUILDERS[algorithm](settings, task)
    module = load_package_module(algorithm, "tianshou_algorithm")
    model: Algorithm[Any, Any] = module.build_algorithm(settings, task)  # type: ignore[union-attr]
    return model


class ConvolutionalQNetwork(ActionReprNetWithVectorOutput[Any]):
    """Convolutions in front of Tianshou's network of linear layers."""

    def __init__(
        self, image: Sequence[int], filters: Sequence[int], values: Net, brightest: int = 1
    ) -> None:
        """Draw the weights of the convolutions; `values` turns features into action values."""
        super().__init__(values.output_dim)
        self.layers, self.values = build_convolutions(image, filters, brightest), values

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[torch.Tensor, Any]:
        """As `Net.forward`, for observations [N, channels, height, width]."""
        images = torch.as_tensor(obs, dtype=torch.float32)
        values: tuple[torch.Tensor, Any] = self.values(self.layers(images), state, info)
        return values


class ImageEncoder(ActionReprNetWithVectorOutput[Any]):
    """Convolutions and linear layers, which policy and value network of PPO share."""

    def __init__(self, settings: NativeSettings, task: Task) -> None:
        """Draw the weights from torch's generator, as Tianshou's `layer_init` for Atari."""
        sizes, filters = settings["Net.hidden_sizes"], settings["Convolutions.filters"]
        super().__init__(sizes[-1])
        self.layers = build_image_encoder(task.image, filters, sizes, task.brightest)
        for values in self.layers.parameters():
            if values.dim() > 1:
                nn.init.orthogonal_(values, gain=np.sqrt(2))
            else:
                nn.init.zeros_(values)

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[torch.Tensor, Any]:
        """Return features of observations [N, channels, height, width], and the state."""
        device = next(self.parameters()).device
        images = torch.as_tensor(obs, dtype=torch.float32, device=device)
        return self.layers(images), state


def _build_networks(settings: NativeSettings, task: Task) -> tuple[nn.Module, nn.Module]:
    hidden = {**select_options(settings, "Net"), "activation": nn.Tanh}
    body = Net(state_shape=task.observation_size, **hidden)
    build_actor = _build_discrete_actor if task.choices else _build_gaussian_actor
    actor, last_layer = build_actor(body, task)
    critic = ContinuousCritic(preprocess_net=Net(state_shape=task.observation_size, **hidden))
    _initialize_layers([actor, critic], last_layer)
    return actor, critic


def _build_image_networks(settings: NativeSettings, task: Task) -> tuple[nn.Module, nn.Module]:
    # As examples/atari/atari_ppo.py; the last layers have torch's initialisation.
    encoder = ImageEncoder(settings, task)
    actor, _ = _build_discrete_actor(encoder, task)
    return actor, DiscreteCritic(preprocess_net=encoder)


def build_ppo(settings: NativeSettings, task: Task) -> PPO:
    """Return the algorithm that settings describe."""
    build = _build_image_networks if task.image else _build_networks
    actor, critic = build(settings, task)
    policy = _build_discrete_policy(actor, task) if task.choices else _build_policy(actor, task)
    optimizer = make_adam(settings)
    schedule = settings["with_lr_scheduler_factory"]
    if schedule is not None:
        factory = LRSchedulerFactoryLinear(*schedule["LRSchedulerFactoryLinear"])
        optimizer.with_lr_scheduler_factory(factory)
    return PPO(policy=policy, critic=critic, optim=optimizer, **select_options(settings, "PPO"))


def _build_gaussian_actor(body: Net, task: Task) -> tuple[ContinuousActorProbabilistic, nn.Module]:
    actor = ContinuousActorProbabilistic(
        preprocess_net=body, action_shape=task.action_size, unbounded=True
    )
    # As examples/mujoco/mujoco_ppo.py: a log standard deviation of -0.5.
    nn.init.constant_(actor.sigma_param, -0.5)
    return actor, actor.mu


def _build_discrete_actor(body: Any, task: Task) -> tuple[DiscreteActor, nn.Module]:
    actor = DiscreteActor(preprocess_net=body, action_shape=task.choices, softmax_output=False)
    return actor, actor.last


def _build_policy(actor: Any, task: Task) -> ProbabilisticActorPolicy:
    with warnings.catch_warnings():
        # Tianshou assumes a bounded actor if max_action is 1, the default.
        warnings.filterwarnings("ignore", message="action_scaling and action_bound_method")
        return ProbabilisticActorPolicy(
            actor=actor,
            dist_fn=_make_gaussian,
            deterministic_eval=True,
            action_space=make_action_space(task),
        )


def _build_discrete_policy(actor: Any, task: Task) -> DiscreteActorPolicy:
    return DiscreteActorPolicy(
        actor=actor, deterministic_eval=True, action_space=gymnasium.spaces.Discrete(task.choices)
    )


def _make_gaussian(parameters: tuple[torch.Tensor, torch.Tensor]) -> Distribution:
    return Independent(Normal(*parameters), 1)


def _initialize_layers(networks: Sequence[nn.Module], last_policy_layer: nn.Module) -> None:
    # As examples/mujoco/mujoco_ppo.py, also where actions are discrete.
    for layer in _find_linear_layers(networks):
        nn.init.orthogonal_(layer.weight, gain=np.sqrt(2))
        nn.init.zeros_(layer.bias)
    for layer in _find_linear_layers([last_policy_layer]):
        # Andrychowicz et al. 2021 (arXiv:2006.05990), which upstream's example names.
        layer.weight.data.mul_(0.01)


def _find_linear_layers(modules: Sequence[nn.Module]) -> list[nn.Linear]:
    return [part for m in modules for part in m.modules() if isinstance(part, nn.Linear)]


def build_td3(settings: NativeSettings, task: Task) -> TD3:
    """Return the algorithm that settings describe."""
    body = Net(state_shape=task.observation_size, **select_options(settings, "Net"))
    actor = ContinuousActorDeterministic(preprocess_net=body, action_shape=task.action_size)
    critics = build_twin_critics(settings, task)
    noise = GaussianNoise(**select_options(settings, "GaussianNoise"))
    policy = ContinuousDeterministicPolicy(
        actor=actor, exploration_noise=noise, action_space=make_action_space(task)
    )
    return TD3(policy=policy, **critics, **select_options(settings, "TD3"))


def build_sac(settings: NativeSettings, task: Task) -> SAC[Any]:
    """Return the algorithm that settings describe."""
    body = Net(state_shape=task.observation_size, **select_options(settings, "Net"))
    actor = ContinuousActorProbabilistic(
        preprocess_net=body, action_shape=task.action_size, unbounded=True, conditioned_sigma=True
    )
    critics = build_twin_critics(settings, task)
    rate = settings["AdamOptimizerFactory(alpha).lr"]
    alpha = AutoAlpha(**select_options(settings, "AutoAlpha"), optim=AdamOptimizerFactory(lr=rate))
    policy = SACPolicy(actor=actor, action_space=make_action_space(task))
    return SAC(policy=policy, alpha=alpha, **critics, **select_options(settings, "SAC"))


def build_ddpg(settings: NativeSettings, task: Task) -> DDPG:
    """Return the algorithm that settings describe."""
    body = Net(state_shape=task.observation_size, **select_options(settings, "Net"))
    actor = ContinuousActorDeterministic(preprocess_net=body, action_shape=task.action_size)
    (critic,) = build_critics(settings, task, 1)
    gaussian = select_options(settings, "GaussianNoise")
    noise = (
        GaussianNoise(**gaussian) if gaussian else OUNoise(**select_options(settings, "OUNoise"))
    )
    policy = ContinuousDeterministicPolicy(
        actor=actor, exploration_noise=noise, action_space=make_action_space(task)
    )
    return DDPG(
        policy=policy,
        policy_optim=make_adam(settings, "(policy)"),
        critic=critic,
        critic_optim=make_adam(settings, "(critic)"),
        **select_options(settings, "DDPG"),
    )


class _AnnealedPolicy(DiscreteQLearningPolicy[Any]):
    """Policy whose share of random actions may also fall within an update cycle.

    Attributes:
        fall_per_step: Decrease of the share with each environment step; upstream's stays the same
            until the next cycle.
        eps_final: Share at which it ends.
    """

    fall_per_step, eps_final = 0.0, 0.0

    def add_exploration_noise(self, act: Any, batch: Any) -> Any:
        """Replace some actions by random ones, and lower the share for the next step."""
        chosen = super().add_exploration_noise(act, batch)
        if self.fall_per_step and self.is_within_training_step:
            lower = self.eps_training - len(act) * self.fall_per_step
            self.set_eps_training(max(self.eps_final, lower))
        return chosen


def build_dqn(settings: NativeSettings, task: Task) -> DQN[_AnnealedPolicy]:
    """Return the algorithm that settings describe."""
    policy = _AnnealedPolicy(
        model=_build_q_network(settings, task),
        action_space=gymnasium.spaces.Discrete(task.choices),
        **select_options(settings, "DiscreteQLearningPolicy"),
    )
    return DQN(policy=policy, optim=make_adam(settings), **select_options(settings, "DQN"))


def _build_q_network(settings: NativeSettings, task: Task) -> Net | ConvolutionalQNetwork:
    filters = select_options(settings, "Convolutions").get("filters")
    if filters is None:
        return _build_value_layers(settings, task.observation_size, task.choices)
    values = _build_value_layers(settings, count_features(task.image, filters), task.choices)
    return ConvolutionalQNetwork(task.image, filters, values, task.brightest)


def _build_value_layers(settings: NativeSettings, inputs: int, choices: int) -> Net:
    arguments = select_options(settings, "Net")
    sizes, heads = arguments["hidden_sizes"], None
    if arguments.pop("dueling_param"):
        *sizes, last = sizes
        heads = tuple({"hidden_sizes": [last]} for _ in range(2))
    return Net(state_shape=inputs, action_shape=choices, hidden_sizes=sizes, dueling_param=heads)


def make_training_fn(
    algorithm: str, model: Any, settings: NativeSettings
) -> Callable[[int], None] | None:
    """Return a function of the steps trained so far, to be called before collecting.

    For DQN it lowers epsilon linearly, as in upstream's Atari example, for PPO the clip range.
    None if nothing falls.
    """
    schedule = select_options(settings, "training_fn")
    if algorithm == "dqn":
        return _make_epsilon_schedule(model, schedule)
    if schedule.get("clip_range_steps") is None:
        return None

    def lower(trained_steps: int) -> None:
        left = 1 - trained_steps / schedule["clip_range_steps"]
        model.eps_clip = settings["PPO.eps_clip"] * left

    return lower


def _make_epsilon_schedule(
    model: DQN[_AnnealedPolicy], schedule: Mapping[str, Any]
) -> Callable[[int], None]:
    initial, fall = schedule["initial"], schedule["initial"] - schedule["final"]
    if schedule["falls_within_cycle"]:
        model.policy.fall_per_step = fall / schedule["steps"]
        model.policy.eps_final = schedule["final"]

    def lower(trained_steps: int) -> None:
        gone = min(1.0, (schedule["taken"] + trained_steps) / schedule["steps"])
        model.policy.set_eps_training(initial - gone * fall)

    return lower


_BUILDERS: Mapping[str, Callable[[NativeSettings, Task], Algorithm[Any, Any]]] = {
    "ppo": build_ppo,
    "td3": build_td3,
    "sac": build_sac,
    "ddpg": build_ddpg,
    "dqn": build_dqn,
}
