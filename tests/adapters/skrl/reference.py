"""skrl's own training as in its Gymnasium examples, without the adapter or the harness.

Two things differ from the examples. Their models scale actions by Pendulum's bound of 2, here it is
the task's; and random actions are drawn one after the other (`RandomActionModel`), where skrl's are
all one.
"""

import gymnasium
import numpy as np
import torch
from skrl import config
from skrl.agents.torch.ddpg import DDPG, DDPG_CFG
from skrl.agents.torch.dqn import DQN, DQN_CFG
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.agents.torch.sac import SAC, SAC_CFG
from skrl.agents.torch.td3 import TD3, TD3_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.resources.noises.torch import GaussianNoise
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn

TWINS = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")


class Drawing(Model):
    def random_act(self, inputs, *, role=""):
        return torch.as_tensor(self.action_space.sample()).reshape(1, -1), {}


class Actor(DeterministicMixin, Drawing):
    def __init__(self, hidden, **spaces):
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = network(self.num_observations, hidden, self.num_actions, nn.Tanh())

    def compute(self, inputs, role):
        return float(self.action_space.high[0]) * self.net(inputs["observations"]), {}


class Gaussian(GaussianMixin, Drawing):
    def __init__(self, hidden, **spaces):
        Model.__init__(self, **spaces)
        GaussianMixin.__init__(self)
        self.net = network(self.num_observations, hidden, self.num_actions, nn.Tanh())
        self.log_std_parameter = nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs, role):
        mean = float(self.action_space.high[0]) * self.net(inputs["observations"])
        return mean, {"log_std": self.log_std_parameter}


class Critic(DeterministicMixin, Model):
    def __init__(self, hidden, **spaces):
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = network(self.num_observations + self.num_actions, hidden, 1)

    def compute(self, inputs, role):
        return self.net(torch.cat([inputs["observations"], inputs["taken_actions"]], dim=1)), {}


class Value(DeterministicMixin, Drawing):
    def __init__(self, hidden, outputs, **spaces):
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = network(self.num_observations, hidden, outputs)

    def compute(self, inputs, role):
        return self.net(inputs["observations"]), {}


def network(inputs, hidden, outputs, *last):
    sizes = [inputs, *hidden]
    made = []
    for i in range(len(hidden)):
        made += [nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU()]
    return nn.Sequential(*made, nn.Linear(sizes[-1], outputs), *last)


def train(algorithm, env_id, seed, steps, starts=100):
    """Trains and returns the weights; what is not named is the example's own value."""
    config.torch.device = "cpu"
    set_seed(seed)
    made = gymnasium.make(env_id)
    if isinstance(made.action_space, gymnasium.spaces.Box):
        cut = lambda action: np.clip(action, -3, 3)  # noqa: E731
        made = gymnasium.wrappers.TransformAction(made, cut, made.action_space)
    env = wrap_env(made, wrapper="gymnasium", verbose=False)
    env.action_space.seed(seed)
    spaces = {
        "observation_space": env.observation_space,
        "state_space": None,
        "action_space": env.action_space,
        "device": "cpu",
    }
    size = {"ppo": 1024, "dqn": 50_000}.get(algorithm, 15_000)
    agent, cfg, models = AGENTS[algorithm](spaces)
    if algorithm != "ppo":
        for model in models.values():
            model.init_parameters(method_name="normal_", mean=0.0, std=0.1)
        # The first update comes after so many steps, which skrl counts from 0.
        cfg.random_timesteps, cfg.learning_starts = starts, starts - 1
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    agent = agent(models=models, memory=RandomMemory(memory_size=size), cfg=cfg, **spaces)
    trainer_options = {"timesteps": steps, "headless": True, "disable_progressbar": True}
    trainer_options["close_environment_at_exit"] = False
    SequentialTrainer(cfg=trainer_options, env=env, agents=agent).train()
    weights = {
        f"{role}.{name}": value.detach().numpy()
        for role, model in models.items()
        for name, value in model.named_parameters()
    }
    if algorithm == "sac":
        weights["log_entropy_coefficient"] = agent.log_entropy_coefficient.detach().numpy()
    return weights


def ppo(spaces):
    cfg = PPO_CFG(
        rollouts=1024,
        learning_epochs=2,
        mini_batches=32,
        discount_factor=0.9,
        learning_rate=1e-3,
        grad_norm_clip=0.5,
        value_clip=0.2,
        value_loss_scale=0.5,
        time_limit_bootstrap=True,
    )
    sizes = [64, 64]
    return PPO, cfg, {"policy": Gaussian(sizes, **spaces), "value": Value(sizes, 1, **spaces)}


def td3(spaces):
    # 0.05, 0.1 and 0.25 of half the range, which is 3 here and 2 in the example.
    cfg = TD3_CFG(
        exploration_noise=GaussianNoise,
        exploration_noise_kwargs={"mean": 0.0, "std": 0.15000000000000002},
        smooth_regularization_noise=GaussianNoise,
        smooth_regularization_noise_kwargs={"mean": 0.0, "std": 0.30000000000000004},
        smooth_regularization_clip=0.75,
        discount_factor=0.98,
        batch_size=100,
    )
    models = {role: Actor([400, 300], **spaces) for role in ("policy", "target_policy")}
    return TD3, cfg, models | {role: Critic([400, 300], **spaces) for role in TWINS}


def ddpg(spaces):
    cfg = DDPG_CFG(
        exploration_noise=GaussianNoise,
        exploration_noise_kwargs={"mean": 0.0, "std": 0.15000000000000002},
        batch_size=100,
    )
    models = {role: Actor([400, 300], **spaces) for role in ("policy", "target_policy")}
    critics = {role: Critic([400, 300], **spaces) for role in ("critic", "target_critic")}
    return DDPG, cfg, models | critics


def sac(spaces):
    cfg = SAC_CFG(discount_factor=0.98, batch_size=100)
    models = {"policy": Gaussian([400, 300], **spaces)}
    return SAC, cfg, models | {role: Critic([400, 300], **spaces) for role in TWINS}


def dqn(spaces):
    share = lambda timestep, timesteps: 1.0 - 0.95 * min(timestep / 15_000, 1.0)  # noqa: E731
    choices = int(spaces["action_space"].n)
    roles = ("q_network", "target_q_network")
    models = {role: Value([64, 64], choices, **spaces) for role in roles}
    return DQN, DQN_CFG(exploration_scheduler=share), models


AGENTS = {"ppo": ppo, "td3": td3, "ddpg": ddpg, "sac": sac, "dqn": dqn}
