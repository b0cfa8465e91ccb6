"""Differences planted into DDPG."""

from stable_baselines3.common.noise import OrnsteinUhlenbeckActionNoise
from stable_baselines3.td3 import TD3 as SB3TD3
from tianshou.algorithm.modelfree import ddpg as tianshou_ddpg
from tianshou.exploration import OUNoise
from torchrl.objectives import DDPGLoss, SoftUpdate

from tests.plants.planting import Plant, method, script

TARGETS = (
    "target_weights",
    "critic_target",
    "t*ation_target",
    "full_buffer_target",
    "target_with_copies",
)


def _cleanrl(name, old, new, probe, kind, size=None, also=()):
    return Plant(name, "cleanrl", "ddpg", script(old, new), f"ddpg.{probe}", kind, size, also)


def _in(framework, name, owner, function, old, new, probe, kind, size=None, also=()):
    planted = method(owner, function, old, new)
    return Plant(name, framework, "ddpg", planted, f"ddpg.{probe}", kind, size, also)


PLANTS = (
    _cleanrl(
        "critic loss halved",
        "qf1_loss = F.mse_loss(qf1_a_values, next_q_value)",
        "qf1_loss = 0.5 * F.mse_loss(qf1_a_values, next_q_value)",
        "critic_loss_factor",
        "factor",
        0.5,
        ("critic_gradient_clipping",),
    ),
    _cleanrl(
        "the online policy's next action",
        "next_state_actions = target_actor(data.next_observations)",
        "next_state_actions = actor(data.next_observations)",
        "critic_target",
        "function",
        None,
        TARGETS,
    ),
    _cleanrl(
        "noise twice as large",
        "torch.normal(0, actor.action_scale * args.exploration_noise)",
        "torch.normal(0, 2 * actor.action_scale * args.exploration_noise)",
        "exploration",
        "function",
        None,
        ("exploration_kind", "stored_action"),
    ),
    _in(
        "sb3",
        "bootstraps after the end",
        SB3TD3,
        "train",
        "(1 - replay_data.dones) * discounts",
        "discounts",
        "termination_target",
        "function",
        None,
        ("full_buffer_target", "target_with_copies"),
    ),
    _in(
        "sb3",
        "target of the critic moved twice as far",
        SB3TD3,
        "train",
        "self.critic_target.parameters(), self.tau)",
        "self.critic_target.parameters(), 2 * self.tau)",
        "target_update",
        "function",
        0.005,
    ),
    _in(
        "sb3",
        "process that forgets faster",
        OrnsteinUhlenbeckActionNoise,
        "__call__",
        "self._theta * (self._mu - self.noise_prev) * self._dt",
        "self._theta * (self._mu - self.noise_prev)",
        "exploration_process",
        "function",
        0.1485,
    ),
    _in(
        "torchrl",
        "policy climbs half of the critic",
        DDPGLoss,
        "loss_actor",
        "loss_actor = -td_copy",
        "loss_actor = -0.5 * td_copy",
        "policy_terms",
        "factor",
        0.5,
    ),
    _in(
        "torchrl",
        "targets moved twice as far",
        SoftUpdate,
        "_step",
        "1 - self.eps",
        "2 * (1 - self.eps)",
        "target_update",
        "factor",
        2.0,
    ),
    _in(
        "tianshou",
        "critic loss three times as large",
        tianshou_ddpg.DDPG,
        "_minimize_critic_squared_loss",
        "critic_loss = (td.pow(2) * weight).mean()",
        "critic_loss = 3 * (td.pow(2) * weight).mean()",
        "critic_loss_factor",
        "factor",
        3.0,
    ),
    _in(
        "tianshou",
        "process without its root",
        OUNoise,
        "__init__",
        "sigma * np.sqrt(dt)",
        "sigma * dt",
        "exploration_process",
        "function",
        0.018,
    ),
)
