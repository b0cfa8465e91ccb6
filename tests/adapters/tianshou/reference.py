"""Tianshou's own training as in its MuJoCo examples, without the adapter or the harness."""

import gymnasium
import numpy as np
import torch
from tianshou.algorithm import DDPG, DQN, PPO, SAC, TD3
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.modelfree.sac import AutoAlpha, SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory, LRSchedulerFactoryLinear
from tianshou.data import Collector, ReplayBuffer, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.exploration import GaussianNoise
from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams
from tianshou.utils.net.common import ActionReprNetWithVectorOutput, ActorCritic, Net
from tianshou.utils.net.continuous import (
    ContinuousActorDeterministic,
    ContinuousActorProbabilistic,
    ContinuousCritic,
)
from torch.distributions import Independent, Normal

QUIET = {"verbose": False, "show_progress": False}


def train(algorithm, env_id, seed, steps, n_envs=1, make=gymnasium.make, **arguments):
    """Trains and returns the weights; what is not named is the example's own value."""
    envs = DummyVectorEnv([lambda: make(env_id)] * n_envs)
    envs.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    trainers = {
        "ppo": train_ppo,
        "td3": train_td3,
        "sac": train_sac,
        "ddpg": train_ddpg,
        "dqn": train_dqn,
    }
    model = trainers[algorithm](envs, seed, steps, **arguments)
    return {
        name.replace("_old.module.", "_target."): value.detach().numpy()
        for name, value in model.named_parameters()
    }


def train_ppo(envs, seed, steps, epochs=10, rollout=2048):
    spaces = envs.observation_space[0], envs.action_space[0]
    shape, action_shape = (space.shape for space in spaces)
    body = Net(state_shape=shape, hidden_sizes=[64, 64], activation=torch.nn.Tanh)
    actor = ContinuousActorProbabilistic(
        preprocess_net=body, action_shape=action_shape, unbounded=True
    )
    body = Net(state_shape=shape, hidden_sizes=[64, 64], activation=torch.nn.Tanh)
    critic = ContinuousCritic(preprocess_net=body)
    torch.nn.init.constant_(actor.sigma_param, -0.5)
    for module in ActorCritic(actor, critic).modules():
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.orthogonal_(module.weight, gain=np.sqrt(2))
            torch.nn.init.zeros_(module.bias)
    for module in actor.mu.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight.data.copy_(0.01 * module.weight.data)
    optim = AdamOptimizerFactory(lr=3e-4).with_lr_scheduler_factory(
        LRSchedulerFactoryLinear(1, steps, rollout)
    )
    policy = ProbabilisticActorPolicy(
        actor=actor,
        dist_fn=lambda loc_scale: Independent(Normal(*loc_scale), 1),
        action_space=spaces[1],
        action_scaling=True,
        action_bound_method="clip",
    )
    model = PPO(
        policy=policy,
        critic=critic,
        optim=optim,
        gamma=0.99,
        gae_lambda=0.95,
        max_grad_norm=0.5,
        vf_coef=0.25,
        ent_coef=0.0,
        eps_clip=0.2,
        value_clip=True,
        advantage_normalization=False,
        recompute_advantage=True,
    )
    params = OnPolicyTrainerParams(
        training_collector=Collector(
            model, envs, make_buffer(4096, seed, len(envs)), exploration_noise=True
        ),
        max_epochs=1,
        epoch_num_steps=steps,
        update_step_num_repetitions=epochs,
        batch_size=64,
        collection_step_num_env_steps=rollout,
        **QUIET,
    )
    model.run_training(params)
    return model


def train_td3(envs, seed, steps, start_timesteps=25_000):
    space, body = envs.action_space[0], make_body(envs)
    actor = ContinuousActorDeterministic(preprocess_net=body, action_shape=space.shape)
    critic, critic2 = make_critics(envs)
    model = TD3(
        policy=ContinuousDeterministicPolicy(
            actor=actor, exploration_noise=GaussianNoise(sigma=0.1), action_space=space
        ),
        policy_optim=AdamOptimizerFactory(lr=3e-4),
        critic=critic,
        critic_optim=AdamOptimizerFactory(lr=3e-4),
        critic2=critic2,
        critic2_optim=AdamOptimizerFactory(lr=3e-4),
        tau=0.005,
        gamma=0.99,
        policy_noise=0.2,
        update_actor_freq=2,
        noise_clip=0.5,
    )
    return run_off_policy(model, envs, seed, steps, start_timesteps)


def train_sac(envs, seed, steps, start_timesteps=10_000):
    space, body = envs.action_space[0], make_body(envs)
    actor = ContinuousActorProbabilistic(
        preprocess_net=body, action_shape=space.shape, unbounded=True, conditioned_sigma=True
    )
    critic, critic2 = make_critics(envs)
    model = SAC(
        policy=SACPolicy(actor=actor, action_space=space),
        policy_optim=AdamOptimizerFactory(lr=1e-3),
        critic=critic,
        critic_optim=AdamOptimizerFactory(lr=1e-3),
        critic2=critic2,
        critic2_optim=AdamOptimizerFactory(lr=1e-3),
        tau=0.005,
        gamma=0.99,
        alpha=AutoAlpha(-np.prod(space.shape), 0.0, AdamOptimizerFactory(lr=3e-4)),
    )
    return run_off_policy(model, envs, seed, steps, start_timesteps)


def train_ddpg(envs, seed, steps, start_timesteps=25_000):
    space, body = envs.action_space[0], make_body(envs)
    actor = ContinuousActorDeterministic(preprocess_net=body, action_shape=space.shape)
    (critic,) = make_critics(envs, 1)
    model = DDPG(
        policy=ContinuousDeterministicPolicy(
            actor=actor, exploration_noise=GaussianNoise(sigma=0.1), action_space=space
        ),
        policy_optim=AdamOptimizerFactory(lr=1e-3),
        critic=critic,
        critic_optim=AdamOptimizerFactory(lr=1e-3),
        tau=0.005,
        gamma=0.99,
    )
    return run_off_policy(model, envs, seed, steps, start_timesteps)


class Seeing(ActionReprNetWithVectorOutput):
    """A user's own network for images."""

    def __init__(self, values):
        super().__init__(values.output_dim)
        convolution = torch.nn.Conv2d(4, 16, 3)
        self.layers = torch.nn.Sequential(convolution, torch.nn.ReLU(), torch.nn.Flatten())
        self.values = values

    def forward(self, obs, state=None, info=None):
        return self.values(self.layers(torch.as_tensor(obs)), state, info)


def train_dqn(envs, seed, steps, target_freq=320):
    images = len(envs.observation_space[0].shape) == 3
    shapes = {"state_shape": envs.observation_space[0].shape, "action_shape": 2}
    if images:
        shapes = {"state_shape": 16 * 8 * 8, "action_shape": envs.action_space[0].n}
    values = Net(**shapes, hidden_sizes=[128, 128, 128])
    policy = DiscreteQLearningPolicy(
        model=Seeing(values) if images else values,
        action_space=envs.action_space[0],
        eps_training=0.1,
    )
    model = DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=1e-3),
        gamma=0.9,
        target_update_freq=target_freq,
    )
    buffer = make_buffer(20_000, seed, len(envs))
    collector = Collector(model, envs, buffer, exploration_noise=True)
    collector.reset()
    params = OffPolicyTrainerParams(
        training_collector=collector,
        max_epochs=1,
        epoch_num_steps=steps,
        collection_step_num_env_steps=10,
        batch_size=64,
        update_step_num_gradient_steps_per_sample=1 / 10,
        **QUIET,
    )
    model.run_training(params)
    return model


def make_body(envs):
    return Net(state_shape=envs.observation_space[0].shape, hidden_sizes=[256, 256])


def make_critics(envs, number=2):
    shapes = {
        "state_shape": envs.observation_space[0].shape,
        "action_shape": envs.action_space[0].shape,
    }
    nets = [Net(**shapes, hidden_sizes=[256, 256], concat=True) for _ in range(number)]
    return [ContinuousCritic(preprocess_net=net) for net in nets]


def run_off_policy(model, envs, seed, steps, start_timesteps):
    buffer = make_buffer(1_000_000, seed, len(envs))
    collector = Collector(model, envs, buffer, exploration_noise=True)
    collector.reset()
    collector.collect(n_step=start_timesteps, random=True)
    params = OffPolicyTrainerParams(
        training_collector=collector,
        max_epochs=1,
        epoch_num_steps=steps - start_timesteps,
        collection_step_num_env_steps=len(envs),
        batch_size=256,
        update_step_num_gradient_steps_per_sample=1,
        **QUIET,
    )
    model.run_training(params)
    return model


def make_buffer(size, seed, n_envs):
    if n_envs == 1:
        return ReplayBuffer(size, random_seed=seed)
    return VectorReplayBuffer(size, n_envs, random_seed=seed)
