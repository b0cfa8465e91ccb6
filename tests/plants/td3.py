"""Differences planted into TD3."""

from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.td3 import TD3 as SB3TD3
from torchrl.objectives import SoftUpdate, TD3Loss

from tests.plants.planting import Plant, method, script

TARGETS = (
    *("target_weights", "critic_target", "termination_target", "truncation_target"),
    *("target_with_copies", "full_buffer_target"),
)


def _sb3_td3(name, old, new, probe, kind, size=None, also=()):
    return Plant(name, "sb3", "td3", method(SB3TD3, "train", old, new), probe, kind, size, also)


def _cleanrl(name, old, new, probe, kind, size=None, also=()):
    return Plant(name, "cleanrl", "td3", script(old, new), probe, kind, size, also)


SB3_TD3 = (
    _sb3_td3(
        "target noise not cut",
        "noise = noise.clamp(-self.target_noise_clip, self.target_noise_clip)",
        "pass",
        "td3.target_noise_clip",
        "number",
        0.6,  # 4 standard deviations of 0.2 over the 0.5 where it was cut
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
        "next actions not clipped to the bounds",
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
        ("critics_seen", "critic_target", "target_weights", "t*ation_target", "gradient_source"),
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
        "exploration noise in action units",
        "torch.normal(0, actor.action_scale * args.exploration_noise)",
        "torch.normal(torch.zeros_like(actor.action_scale), args.exploration_noise)",
        "td3.exploration_scale",
        "number",
        0.5,
        ("exploration",),
    ),
    _cleanrl(
        "time limits taken for ends",
        "handle_timeout_termination=True",
        "handle_timeout_termination=False",
        "td3.truncation_target",
        "function",
        None,
        ("stored_transition",),
    ),
    _cleanrl(
        "critic loss halved",
        "qf_loss = qf1_loss + qf2_loss",
        "qf_loss = 0.5 * (qf1_loss + qf2_loss)",
        "td3.critic_loss_factor",
        "factor",
        0.5,
    ),
    _cleanrl(
        "target noise in action units",
        ") * target_actor.action_scale",
        ")",
        "td3.target_noise_scale",
        "number",
        0.5,
        ("target_action", "target_noise_clip"),
    ),
    _cleanrl(
        "learning rate of the critics",
        "list(qf2.parameters()), lr=args.learning_rate)",
        "list(qf2.parameters()), lr=3 * args.learning_rate)",
        "td3.learning_rates",
        "number",
        2.0,  # in units of the unplanted rate
    ),
    _cleanrl(
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

PLANTS = (*SB3_TD3, *CLEANRL_TD3, *TORCHRL_TD3)
