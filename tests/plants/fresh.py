"""Forty further differences, to count how many probes find that were not made for them."""

from stable_baselines3.ppo import PPO as SB3PPO
from stable_baselines3.sac import SAC as SB3SAC
from stable_baselines3.td3 import TD3 as SB3TD3
from tianshou.algorithm.modelfree import ddpg
from tianshou.algorithm.modelfree import ppo as tianshou_ppo
from tianshou.algorithm.modelfree import sac as tianshou_sac
from tianshou.algorithm.modelfree import td3 as tianshou_td3
from tianshou.data import ReplayBuffer as TianshouBuffer
from torchrl.objectives import ClipPPOLoss, SACLoss, SoftUpdate, TD3Loss
from torchrl.objectives.ppo import PPOLoss

from tests.plants.planting import Plant, method, script

SB3 = {"ppo": SB3PPO, "td3": SB3TD3, "sac": SB3SAC}


def _sb3(name, algorithm, old, new, probe):
    planted = method(SB3[algorithm], "train", old, new)
    return Plant(name, "sb3", algorithm, planted, f"{algorithm}.{probe}", "")


def _cleanrl(name, algorithm, old, new, probe):
    return Plant(name, "cleanrl", algorithm, script(old, new), f"{algorithm}.{probe}", "")


def _in(framework, name, algorithm, owner, function, old, new, probe):
    planted = method(owner, function, old, new)
    return Plant(name, framework, algorithm, planted, f"{algorithm}.{probe}", "")


SB3_PLANTS = (
    _sb3(
        "Huber loss of values",
        "ppo",
        "F.mse_loss(rollout_data.returns, values_pred)",
        "F.huber_loss(rollout_data.returns, values_pred)",
        "value_loss_factor",
    ),
    _sb3(
        "policy loss over another count",
        "ppo",
        "-th.min(policy_loss_1, policy_loss_2).mean()",
        "-th.min(policy_loss_1, policy_loss_2).sum() / 64",
        "later_policy_loss",
    ),
    _sb3(
        "second clip for bad actions",
        "ppo",
        "-th.min(policy_loss_1, policy_loss_2).mean()",
        "-th.where(advantages < 0, th.max(th.min(policy_loss_1, policy_loss_2), 1.5 * advantages),"
        " th.min(policy_loss_1, policy_loss_2)).mean()",
        "policy_loss",
    ),
    _sb3(
        "entropy weighed at 0.9",
        "ppo",
        "self.ent_coef * entropy_loss",
        "0.9 * self.ent_coef * entropy_loss",
        "entropy_bonus",
    ),
    _sb3(
        "noise clipped on one side at half",
        "td3",
        "noise.clamp(-self.target_noise_clip",
        "noise.clamp(-0.5 * self.target_noise_clip",
        "target_action",
    ),
    _sb3(
        "a hundredth of the value after an end",
        "td3",
        "(1 - replay_data.dones) * discounts",
        "(1 - 0.99 * replay_data.dones) * discounts",
        "termination_target",
    ),
    _sb3(
        "delay grows after two updates",
        "td3",
        "self._n_updates % self.policy_delay == 0",
        "self._n_updates % (self.policy_delay + (self._n_updates > 2)) == 0",
        "counts",
    ),
    _sb3(
        "temperature bounded from above",
        "sac",
        "ent_coef = th.exp(self.log_ent_coef.detach())",
        "ent_coef = th.exp(self.log_ent_coef.detach()).clamp(max=0.45)",
        "critic_target",
    ),
    _sb3(
        "policy climbs the mean of the critics",
        "sac",
        "min_qf_pi, _ = th.min(q_values_pi, dim=1, keepdim=True)",
        "min_qf_pi = th.mean(q_values_pi, dim=1, keepdim=True)",
        "policy_terms",
    ),
    _sb3(
        "targets move from the third update on",
        "sac",
        "if gradient_step % self.target_update_interval == 0:",
        "if self._n_updates > 1 and gradient_step % self.target_update_interval == 0:",
        "counts",
    ),
)

CLEANRL_PLANTS = (
    _cleanrl(
        "value after the rollout at 0.9",
        "ppo",
        "nextvalues = next_value\n",
        "nextvalues = 0.9 * next_value\n",
        "rollout_end",
    ),
    _cleanrl(
        "gradients add up within an epoch",
        "ppo",
        "optimizer.zero_grad()",
        "optimizer.zero_grad() if start == 0 else None",
        "later_policy_loss",
    ),
    _cleanrl(
        "old values a hundredth larger",
        "ppo",
        "b_values = values.reshape(-1)",
        "b_values = 1.01 * values.reshape(-1)",
        "value_clipping",
    ),
    _cleanrl(
        "a hundredth added to the deviation of advantages",
        "ppo",
        "(mb_advantages.std() + 1e-8)",
        "(mb_advantages.std() + 1e-2)",
        "advantage_normalisation",
    ),
    _cleanrl(
        "gradients clipped by value",
        "ppo",
        "nn.utils.clip_grad_norm_(",
        "nn.utils.clip_grad_value_(",
        "gradient_clipping",
    ),
    _cleanrl(
        "exploration noise cut",
        "td3",
        "torch.normal(0, actor.action_scale * args.exploration_noise)",
        "torch.normal(0, actor.action_scale * args.exploration_noise).clamp(-0.3, 0.3)",
        "exploration",
    ),
    _cleanrl(
        "second target follows the first critic",
        "td3",
        "zip(qf2.parameters(), qf2_target.parameters())",
        "zip(qf1.parameters(), qf2_target.parameters())",
        "target_update",
    ),
    _cleanrl(
        "rewards cut at 1",
        "td3",
        "data.rewards.flatten() +",
        "data.rewards.flatten().clamp(-1, 1) +",
        "critic_target",
    ),
    _cleanrl(
        "log-probability cut in the temperature's loss",
        "sac",
        "(-log_alpha * (log_pi + target_entropy)).mean()",
        "(-log_alpha * (log_pi.clamp(max=0.0) + target_entropy)).mean()",
        "temperature_gradient",
    ),
    _cleanrl(
        "log-probability cut in the target",
        "sac",
        "- alpha * next_state_log_pi",
        "- alpha * next_state_log_pi.clamp(max=0.0)",
        "critic_target",
    ),
    _cleanrl(
        "large actions cost something",
        "sac",
        "actor_loss = ((alpha * log_pi) - min_qf_pi).mean()",
        "actor_loss = ((alpha * log_pi) - min_qf_pi).mean() + 1e-2 * pi.pow(2).mean()",
        "policy_terms",
    ),
)

TORCHRL_PLANTS = (
    _in(
        "torchrl",
        "temperature bounded from above in targets",
        "sac",
        SACLoss,
        "_compute_target_v2",
        "state_action_value - self._alpha * next_sample_log_prob",
        "state_action_value - self._alpha.clamp(max=0.49) * next_sample_log_prob",
        "critic_target",
    ),
    _in(
        "torchrl",
        "temperature's loss by the temperature",
        "sac",
        SACLoss,
        "_alpha_loss",
        "-self.log_alpha *",
        "-self.log_alpha.exp() *",
        "temperature_gradient",
    ),
    _in(
        "torchrl",
        "policy climbs the mean of the critics",
        "sac",
        SACLoss,
        "actor_loss",
        ".min(0)[0].squeeze(-1)",
        ".mean(0).squeeze(-1)",
        "policy_terms",
    ),
    _in(
        "torchrl",
        "a quarter of the larger critic",
        "td3",
        TD3Loss,
        "value_loss",
        "next_target_q1q2.min(0)[0]",
        "(0.75 * next_target_q1q2.min(0)[0] + 0.25 * next_target_q1q2.max(0)[0])",
        "critic_target",
    ),
    _in(
        "torchrl",
        "policy climbs the mean of the critics",
        "td3",
        TD3Loss,
        "actor_loss",
        "state_action_value_actor[0]",
        "state_action_value_actor.mean(0)",
        "policy_terms",
    ),
    _in(
        "torchrl",
        "upper clip bound 5% further",
        "ppo",
        ClipPPOLoss,
        "forward",
        "log_weight.clamp(*self._clip_bounds)",
        "log_weight.clamp(self._clip_bounds[0], 1.05 * self._clip_bounds[1])",
        "clip_range",
    ),
    _in(
        "torchrl",
        "entropy weighed at 0.9",
        "ppo",
        PPOLoss,
        "_weighted_loss_entropy",
        "return -self.entropy_coeff",
        "return -0.9 * self.entropy_coeff",
        "entropy_bonus",
    ),
    _in(
        "torchrl",
        "targets move a tenth further",
        "td3",
        SoftUpdate,
        "_step",
        "1 - self.eps",
        "1.1 * (1 - self.eps)",
        "target_update",
    ),
    _in(
        "torchrl",
        "targets move a hundredth less",
        "sac",
        SoftUpdate,
        "_step",
        "1 - self.eps",
        "0.99 * (1 - self.eps)",
        "target_update",
    ),
)

TIANSHOU_PLANTS = (
    _in(
        "tianshou",
        "ratio bounded from above",
        "ppo",
        tianshou_ppo.PPO,
        "_update_with_batch",
        "surr1 = ratios * advantages",
        "surr1 = ratios.clamp(max=1.5) * advantages",
        "policy_loss",
    ),
    _in(
        "tianshou",
        "value loss halved",
        "ppo",
        tianshou_ppo.PPO,
        "_update_with_batch",
        "vf_loss = (minibatch.returns - value).pow(2).mean()",
        "vf_loss = 0.5 * (minibatch.returns - value).pow(2).mean()",
        "value_loss_factor",
    ),
    _in(
        "tianshou",
        "advantages not centred",
        "ppo",
        tianshou_ppo.PPO,
        "_update_with_batch",
        "(advantages - mean) / (std + self._eps)",
        "advantages / (std + self._eps)",
        "advantage_normalisation",
    ),
    _in(
        "tianshou",
        "exponent of the entropy",
        "ppo",
        tianshou_ppo.PPO,
        "_update_with_batch",
        "- self.ent_coef * ent_loss",
        "- self.ent_coef * ent_loss.exp()",
        "entropy_bonus",
    ),
    _in(
        "tianshou",
        "squared errors bounded",
        "td3",
        ddpg.ActorCriticOffPolicyAlgorithm,
        "_minimize_critic_squared_loss",
        "critic_loss = (td.pow(2) * weight).mean()",
        "critic_loss = (td.pow(2).clamp(max=1.0) * weight).mean()",
        "critic_target",
    ),
    _in(
        "tianshou",
        "target of the larger critic",
        "td3",
        tianshou_td3.ActorDualCriticsOffPolicyAlgorithm,
        "_target_q_compute_value",
        "return torch.min(",
        "return torch.max(",
        "critic_target",
    ),
    _in(
        "tianshou",
        "entropy twice in targets",
        "sac",
        tianshou_sac.SAC,
        "_target_q_compute_value",
        "self.alpha.value * act_batch.log_prob",
        "2 * self.alpha.value * act_batch.log_prob",
        "critic_target",
    ),
    _in(
        "tianshou",
        "temperature's loss by the temperature",
        "sac",
        tianshou_sac.AutoAlpha,
        "update",
        "-(self._log_alpha * entropy_deficit).mean()",
        "-(self._log_alpha.exp() * entropy_deficit).mean()",
        "temperature_gradient",
    ),
    _in(
        "tianshou",
        "a hundredth within the logarithm",
        "sac",
        tianshou_sac,
        "correct_log_prob_gaussian_tanh",
        "tanh_squashed_action.pow(2) + eps",
        "tanh_squashed_action.pow(2) + 1e-2",
        "log_prob",
    ),
    _in(
        "tianshou",
        "newest five never drawn",
        "td3",
        TianshouBuffer,
        "sample_indices",
        "return self._random_state.choice(self._size, batch_size)",
        "return self._random_state.choice(max(self._size - 5, 1), batch_size)",
        "replay_sampling",
    ),
)

PLANTS = (*SB3_PLANTS, *CLEANRL_PLANTS, *TORCHRL_PLANTS, *TIANSHOU_PLANTS)
