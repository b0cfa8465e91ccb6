"""Differences that are planted into upstream, one at a time, for the probes to find."""

from stable_baselines3.common import distributions as sb3_distributions
from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.ppo import PPO as SB3PPO
from stable_baselines3.sac import SAC as SB3SAC
from stable_baselines3.sac import policies as sb3_sac_policies
from stable_baselines3.td3 import TD3 as SB3TD3
from torchrl.objectives import ClipPPOLoss, SACLoss, SoftUpdate, TD3Loss
from torchrl.objectives.ppo import PPOLoss

from tests.planting import Plant, constant, method, script

CLIPPED = "value_clipping"
"""Differs from the paper in SB3, so by how much follows from the returns."""
TARGETS = ("target_weights", "critic_target", "termination_target", "truncation_target")
GAE = ("gae", "termination", "truncation", "rollout_end", "value_target", "total_loss", CLIPPED)
LATER = ("value_clipping", "approximate_kl", "policy_loss", "std_gradient", "divergence_limit")
"""Probes of a second update, which follows from the first."""


def _sb3_ppo(name, old, new, probe, kind, size=None, also=()):
    return Plant(name, "sb3", "ppo", method(SB3PPO, "train", old, new), probe, kind, size, also)


SB3_PPO = (
    _sb3_ppo(
        "value loss halved",
        "F.mse_loss(rollout_data.returns, values_pred)",
        "0.5 * F.mse_loss(rollout_data.returns, values_pred)",
        "ppo.value_loss_factor",
        "factor",
        0.5,
        ("total_loss", CLIPPED),
    ),
    _sb3_ppo(
        "entropy with the other sign",
        "policy_loss + self.ent_coef * entropy_loss",
        "policy_loss - self.ent_coef * entropy_loss",
        "ppo.entropy_bonus",
        "factor",
        -1.0,
        ("total_loss",),
    ),
    _sb3_ppo(
        "advantages standardised over the rollout",
        "advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)",
        "advantages = (advantages - self.rollout_buffer.advantages.mean())"
        " / (self.rollout_buffer.advantages.std() + 1e-8)",
        "ppo.advantage_normalisation",
        "function",
    ),
    _sb3_ppo(
        "larger of the objectives",
        "-th.min(policy_loss_1, policy_loss_2)",
        "-th.max(policy_loss_1, policy_loss_2)",
        "ppo.policy_loss",
        "function",
        None,
        ("clip_range", "std_gradient"),
    ),
    _sb3_ppo(
        "another divergence",
        "th.mean((th.exp(log_ratio) - 1) - log_ratio)",
        "th.mean(-log_ratio)",
        "ppo.approximate_kl",
        "factor",
        None,
        ("divergence_limit", "early_stopping"),
    ),
    _sb3_ppo(
        "limit of the divergence without its 1.5",
        "approx_kl_div > 1.5 * self.target_kl",
        "approx_kl_div > self.target_kl",
        "ppo.divergence_limit",
        "factor",
        1 / 1.5,
    ),
    _sb3_ppo(
        "gradients clipped at ten times the norm",
        "self.policy.parameters(), self.max_grad_norm)",
        "self.policy.parameters(), 10 * self.max_grad_norm)",
        "ppo.gradient_clipping",
        "factor",
        10.0,
    ),
    Plant(
        "trace of the advantage a step late",
        "sb3",
        "ppo",
        method(
            RolloutBuffer,
            "compute_returns_and_advantage",
            "* next_non_terminal * last_gae_lam",
            "* next_non_terminal"
            " * (self.advantages[step + 2] if step + 2 < self.buffer_size else 0)",
        ),
        "ppo.gae",
        "function",
        None,
        GAE,
    ),
    Plant(
        "no lambda",
        "sb3",
        "ppo",
        method(
            RolloutBuffer,
            "compute_returns_and_advantage",
            "self.gamma * self.gae_lambda * next",
            "self.gamma * next",
        ),
        "ppo.gae",
        "function",
        None,
        GAE,
    ),
    Plant(
        "no value at a time limit",
        "sb3",
        "ppo",
        method(
            OnPolicyAlgorithm,
            "collect_rollouts",
            "rewards[idx] += self.gamma * terminal_value",
            "pass",
        ),
        "ppo.truncation",
        "function",
    ),
    Plant(
        "log-probability of one dimension too few",
        "sb3",
        "ppo",
        method(sb3_distributions, "sum_independent_dims", "tensor.sum(dim=1)", "tensor[:, 0]"),
        "ppo.log_prob",
        "function",
        None,
        ("*",),
    ),
)


def _cleanrl(algorithm, name, old, new, probe, kind, size=None, also=()):
    return Plant(name, "cleanrl", algorithm, script(old, new), probe, kind, size, also)


CLEANRL_PPO = (
    _cleanrl(
        "ppo",
        "maximum dropped from the clipped value loss",
        "v_loss_max = torch.max(v_loss_unclipped, v_loss_clipped)",
        "v_loss_max = v_loss_clipped",
        "ppo.value_clipping",
        "function",
    ),
    _cleanrl(
        "ppo",
        "ends of episodes forgotten",
        "nextnonterminal = 1.0 - dones[t + 1]",
        "nextnonterminal = 1.0",
        "ppo.termination",
        "function",
        None,
        GAE,
    ),
    _cleanrl(
        "ppo",
        "Adam's epsilon",
        "eps=1e-5)",
        "eps=1e-8)",
        "ppo.adam_settings",
        "function",
        # In units of the unplanted epsilon.
        1 - 1e-3,
    ),
    _cleanrl(
        "ppo",
        "no reshuffling",
        "np.random.shuffle(b_inds)",
        "pass",
        "ppo.reshuffling",
        "count",
        -1.0,
        LATER,
    ),
    _cleanrl(
        "ppo",
        "large weights in the policy's last layer",
        "std=0.01)",
        "std=1.0)",
        "ppo.initial_weights",
        "function",
        99.0,
    ),
    _cleanrl(
        "ppo",
        "learning rate annealed an update early",
        "frac = 1.0 - (update - 1.0) / num_updates",
        "frac = 1.0 - update / num_updates",
        "ppo.learning_rate_annealing",
        "offset",
        -0.25,
        ("learning_rate",),
    ),
    _cleanrl(
        "ppo",
        "upper bound of the ratio doubled",
        "torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)",
        "torch.clamp(ratio, 1 - args.clip_coef, 1 + 2 * args.clip_coef)",
        "ppo.policy_loss",
        "function",
        None,
        ("clip_range", "std_gradient"),
    ),
    _cleanrl(
        "ppo",
        "no bias at 0",
        "torch.nn.init.constant_(layer.bias, bias_const)",
        "torch.nn.init.constant_(layer.bias, 0.1)",
        "ppo.initial_biases",
        "function",
        # 0.1 times the root of the inputs of the widest layer.
        0.8,
    ),
    _cleanrl(
        "ppo",
        "deviation of the policy at the start",
        "torch.zeros(1, np.prod(envs.single_action_space.shape))",
        "torch.zeros(1, np.prod(envs.single_action_space.shape)) - 1",
        "ppo.initial_std",
        "factor",
        0.36788,
    ),
)

TORCHRL_PPO = (
    Plant(
        "entropy with the other sign",
        "torchrl",
        "ppo",
        method(
            PPOLoss,
            "_weighted_loss_entropy",
            "return -self.entropy_coeff",
            "return self.entropy_coeff",
        ),
        "ppo.entropy_bonus",
        "factor",
        -1.0,
        ("total_loss",),
    ),
    Plant(
        "no clipping of the ratio",
        "torchrl",
        "ppo",
        method(
            ClipPPOLoss, "forward", "log_weight.clamp(*self._clip_bounds)", "log_weight.clone()"
        ),
        "ppo.policy_loss",
        "function",
        None,
        ("clip_range", "std_gradient"),
    ),
)


def _sb3_td3(name, old, new, probe, kind, size=None, also=()):
    return Plant(name, "sb3", "td3", method(SB3TD3, "train", old, new), probe, kind, size, also)


SB3_TD3 = (
    _sb3_td3(
        "target noise not cut",
        "noise = noise.clamp(-self.target_noise_clip, self.target_noise_clip)",
        "pass",
        "td3.target_noise_clip",
        "factor",
        1.6,  # 4 standard deviations of 0.2 over the 0.5 where it was cut
        ("target_action", *TARGETS),
    ),
    _sb3_td3(
        "target of the first critic alone",
        "next_q_values, _ = th.min(next_q_values, dim=1, keepdim=True)",
        "next_q_values = next_q_values[:, :1]",
        "td3.critic_target",
        "function",
        None,
        TARGETS,
    ),
    _sb3_td3(
        "next actions not kept within the bounds",
        "+ noise).clamp(-1, 1)",
        "+ noise)",
        "td3.target_action_bounds",
        "function",
        None,
        ("target_action", *TARGETS),
    ),
    _sb3_td3(
        "policy updated in the other phase",
        "self._n_updates % self.policy_delay == 0",
        "self._n_updates % self.policy_delay == 1",
        "td3.counts",
        "count",
        1.0,
        ("counts_with_copies",),
    ),
    _sb3_td3(
        "policy climbs the smaller critic",
        "-self.critic.q1_forward(replay_data.observations, self.actor(replay_data.observations))",
        "-th.min(*self.critic(replay_data.observations, self.actor(replay_data.observations)))",
        "td3.policy_terms",
        "function",
        None,
        ("policy_gradient_clipping",),
    ),
    _sb3_td3(
        "target of the policy moved twice as far",
        "polyak_update(self.actor.parameters(), self.actor_target.parameters(), self.tau)",
        "polyak_update(self.actor.parameters(), self.actor_target.parameters(), 2 * self.tau)",
        "td3.target_update",
        "function",
        0.005,
    ),
    _sb3_td3(
        "critics' gradients clipped",
        "critic_loss.backward()",
        "critic_loss.backward(); th.nn.utils.clip_grad_norm_(self.critic.parameters(), 1e3)",
        "td3.critic_gradient_clipping",
        "factor",
    ),
    _sb3_td3(
        "gradients left over",
        "self.critic.optimizer.zero_grad()",
        "pass",
        "td3.critic_loss_factor",
        "function",
        None,
        ("critics_seen",),
    ),
    Plant(
        "first observation of the next episode stored",
        "sb3",
        "td3",
        method(
            OffPolicyAlgorithm,
            "_store_transition",
            'next_obs[i] = infos[i]["terminal_observation"]',
            "pass",
        ),
        "td3.stored_transition",
        "count",
        None,
        TARGETS,
    ),
    Plant(
        "rewards stored at a tenth",
        "sb3",
        "td3",
        method(
            ReplayBuffer,
            "add",
            "self.rewards[self.pos] = np.array(reward)",
            "self.rewards[self.pos] = 0.1 * np.array(reward)",
        ),
        "td3.stored_transition",
        "count",
        None,
        (*TARGETS, "critic_gradient_clipping"),
    ),
)

CLEANRL_TD3 = (
    _cleanrl(
        "td3",
        "exploration noise in action units",
        "torch.normal(0, actor.action_scale * args.exploration_noise)",
        "torch.normal(torch.zeros_like(actor.action_scale), args.exploration_noise)",
        "td3.exploration_scale",
        "factor",
        0.5,
        ("exploration",),
    ),
    _cleanrl(
        "td3",
        "time limits taken for ends",
        "handle_timeout_termination=True",
        "handle_timeout_termination=False",
        "td3.truncation_target",
        "function",
        None,
        ("stored_transition",),
    ),
    _cleanrl(
        "td3",
        "critic loss halved",
        "qf_loss = qf1_loss + qf2_loss",
        "qf_loss = 0.5 * (qf1_loss + qf2_loss)",
        "td3.critic_loss_factor",
        "factor",
        0.5,
    ),
    _cleanrl(
        "td3",
        "target noise in action units",
        ") * target_actor.action_scale",
        ")",
        "td3.target_noise_scale",
        "factor",
        0.5,
        ("target_action", "target_noise_clip"),
    ),
    _cleanrl(
        "td3",
        "learning rate of the critics",
        "list(qf2.parameters()), lr=args.learning_rate)",
        "list(qf2.parameters()), lr=3 * args.learning_rate)",
        "td3.learning_rates",
        "function",
        2.0,  # in units of the unplanted rate
    ),
    _cleanrl(
        "td3",
        "hidden units apply tanh",
        "x = F.relu(self.fc2(x))\n        x = torch.tanh(self.fc_mu(x))",
        "x = torch.tanh(self.fc2(x))\n        x = torch.tanh(self.fc_mu(x))",
        "td3.activation",
        "function",
        None,
        ("*",),
    ),
)

TORCHRL_TD3 = (
    Plant(
        "targets moved twice as far",
        "torchrl",
        "td3",
        method(SoftUpdate, "_step", "1 - self.eps", "2 * (1 - self.eps)"),
        "td3.target_update",
        "factor",
        2.0,
    ),
    Plant(
        "target of the larger critic",
        "torchrl",
        "td3",
        method(TD3Loss, "value_loss", "next_target_q1q2.min(0)[0]", "next_target_q1q2.max(0)[0]"),
        "td3.critic_target",
        "function",
        None,
        TARGETS,
    ),
    Plant(
        "policy climbs the second critic",
        "torchrl",
        "td3",
        method(TD3Loss, "actor_loss", "state_action_value_actor[0]", "state_action_value_actor[1]"),
        "td3.policy_terms",
        "function",
        1.0,
    ),
)


def _sb3_sac(name, old, new, probe, kind, size=None, also=()):
    return Plant(name, "sb3", "sac", method(SB3SAC, "train", old, new), probe, kind, size, also)


SB3_SAC = (
    _sb3_sac(
        "temperature in place of its logarithm",
        "-(self.log_ent_coef * (log_prob",
        "-(th.exp(self.log_ent_coef) * (log_prob",
        "sac.temperature_gradient",
        "factor",
        0.5,
    ),
    _sb3_sac(
        "entropy of the target with the other sign",
        "next_q_values - ent_coef * next_log_prob",
        "next_q_values + ent_coef * next_log_prob",
        "sac.critic_target",
        "function",
        None,
        ("log_prob", "squash_correction", *TARGETS),
    ),
    _sb3_sac(
        "critic loss without its half",
        "critic_loss = 0.5 * sum(",
        "critic_loss = sum(",
        "sac.critic_loss_factor",
        "factor",
        2.0,
    ),
    _sb3_sac(
        "targets moved twice as far",
        "self.critic_target.parameters(), self.tau)",
        "self.critic_target.parameters(), 2 * self.tau)",
        "sac.target_update",
        "factor",
        2.0,
    ),
    _sb3_sac(
        "entropy weighed twice by the policy",
        "(ent_coef * log_prob - min_qf_pi)",
        "(2 * ent_coef * log_prob - min_qf_pi)",
        "sac.policy_terms",
        "function",
        1.0,
    ),
    _sb3_sac(
        "two critic steps for one",
        "self.critic.optimizer.step()",
        "self.critic.optimizer.step(); self.critic.optimizer.step()",
        "sac.counts",
        "count",
        None,
        ("*",),
    ),
    Plant(
        "upper bound of the log deviation",
        "sb3",
        "sac",
        constant(sb3_sac_policies, "LOG_STD_MAX", 1),
        "sac.std_bounds",
        "function",
        1.0,
        ("std_map",),
    ),
    Plant(
        "no correction for squashing",
        "sb3",
        "sac",
        method(
            sb3_distributions.SquashedDiagGaussianDistribution,
            "log_prob",
            "log_prob -= th.sum(th.log(1 - actions**2 + self.epsilon), dim=1)",
            "pass",
        ),
        "sac.squash_correction",
        "function",
        None,
        ("log_prob", "policy_terms", "temperature", "target_entropy", *TARGETS),
    ),
)

CLEANRL_SAC = (
    _cleanrl(
        "sac",
        "lower bound of the log deviation",
        "LOG_STD_MIN = -5",
        "LOG_STD_MIN = -10",
        "sac.std_bounds",
        "function",
        5.0,
        ("std_map",),
    ),
    _cleanrl(
        "sac",
        "log-probability of the unscaled action",
        "torch.log(self.action_scale * (1 - y_t.pow(2)) + 1e-6)",
        "torch.log((1 - y_t.pow(2)) + 1e-6)",
        "sac.log_prob",
        "offset",
        1.3863,  # two dimensions, each scaled by 2
    ),
    _cleanrl(
        "sac",
        "policy climbs the mean of the critics",
        "min_qf_pi = torch.min(qf1_pi, qf2_pi).view(-1)",
        "min_qf_pi = (0.5 * (qf1_pi + qf2_pi)).view(-1)",
        "sac.policy_terms",
        "function",
        0.5,
    ),
    _cleanrl(
        "sac",
        "target entropy halved",
        "target_entropy = -torch.prod(",
        "target_entropy = -0.5 * torch.prod(",
        "sac.target_entropy",
        "factor",
        0.5,
        ("temperature_gradient",),
    ),
    _cleanrl(
        "sac",
        "discount forgotten",
        "* args.gamma * (min_qf_next_target)",
        "* (min_qf_next_target)",
        "sac.target_weights",
        "function",
        0.01,
        ("log_prob", "squash_correction", *TARGETS),
    ),
    _cleanrl(
        "sac",
        "temperature starts elsewhere",
        "log_alpha = torch.zeros(1, requires_grad=True, device=device)",
        "log_alpha = torch.full((1,), -1.0, requires_grad=True, device=device)",
        "sac.initial_temperature",
        "factor",
        0.36788,
    ),
)

TORCHRL_SAC = (
    Plant(
        "target without the entropy",
        "torchrl",
        "sac",
        method(
            SACLoss,
            "_compute_target_v2",
            "state_action_value - self._alpha * next_sample_log_prob",
            "state_action_value",
        ),
        "sac.critic_target",
        "function",
        None,
        ("log_prob", "squash_correction", *TARGETS),
    ),
    Plant(
        "temperature loss doubled",
        "torchrl",
        "sac",
        method(SACLoss, "_alpha_loss", "-self.log_alpha *", "-2 * self.log_alpha *"),
        "sac.temperature_gradient",
        "factor",
        2.0,
    ),
    Plant(
        "policy climbs the larger critic",
        "torchrl",
        "sac",
        method(SACLoss, "actor_loss", ".min(0)[0].squeeze(-1)", ".max(0)[0].squeeze(-1)"),
        "sac.policy_terms",
        "function",
        1.0,
    ),
)

PLANTS = (
    *SB3_PPO,
    *CLEANRL_PPO,
    *TORCHRL_PPO,
    *SB3_TD3,
    *CLEANRL_TD3,
    *TORCHRL_TD3,
    *SB3_SAC,
    *CLEANRL_SAC,
    *TORCHRL_SAC,
)
