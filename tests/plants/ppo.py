"""Differences planted into PPO."""

from stable_baselines3.common import distributions as sb3_distributions
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.ppo import PPO as SB3PPO
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.ppo import PPOLoss

from tests.plants.planting import Plant, method, script

CLIPPED = "value_clipping"
"""Differs from the paper in SB3, so by how much follows from the returns."""

GAE = ("gae", "termination", "truncation", "rollout_end", "value_target", "total_loss", CLIPPED)

LATER = ("value_clipping", "approximate_kl", "policy_loss", "std_gradient", "divergence_limit")
"""Probes of a second update, which follows from the first."""


def _sb3_ppo(name, old, new, probe, kind, size=None, also=()):
    return Plant(name, "sb3", "ppo", method(SB3PPO, "train", old, new), probe, kind, size, also)


def _cleanrl(name, old, new, probe, kind, size=None, also=()):
    return Plant(name, "cleanrl", "ppo", script(old, new), probe, kind, size, also)


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
        "number",
        None,
        ("divergence_limit", "early_stopping"),
    ),
    _sb3_ppo(
        "limit of the divergence without its 1.5",
        "approx_kl_div > 1.5 * self.target_kl",
        "approx_kl_div > self.target_kl",
        "ppo.divergence_limit",
        "number",
        1 - 1 / 1.5,
    ),
    _sb3_ppo(
        "gradients clipped at ten times the norm",
        "self.policy.parameters(), self.max_grad_norm)",
        "self.policy.parameters(), 10 * self.max_grad_norm)",
        "ppo.gradient_clipping",
        "number",
        9.0,
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

CLEANRL_PPO = (
    _cleanrl(
        "maximum dropped from the clipped value loss",
        "v_loss_max = torch.max(v_loss_unclipped, v_loss_clipped)",
        "v_loss_max = v_loss_clipped",
        "ppo.value_clipping",
        "function",
    ),
    _cleanrl(
        "ends of episodes forgotten",
        "nextnonterminal = 1.0 - dones[t + 1]",
        "nextnonterminal = 1.0",
        "ppo.termination",
        "function",
        None,
        GAE,
    ),
    _cleanrl(
        "Adam's epsilon",
        "eps=1e-5)",
        "eps=1e-8)",
        "ppo.adam_settings",
        "number",
        # In units of the unplanted epsilon.
        1 - 1e-3,
    ),
    _cleanrl(
        "no reshuffling",
        "np.random.shuffle(b_inds)",
        "pass",
        "ppo.reshuffling",
        "count",
        -1.0,
        LATER,
    ),
    _cleanrl(
        "large weights in the policy's last layer",
        "std=0.01)",
        "std=1.0)",
        "ppo.initial_weights",
        "number",
        99.0,
    ),
    _cleanrl(
        "learning rate annealed an update early",
        "frac = 1.0 - (update - 1.0) / num_updates",
        "frac = 1.0 - update / num_updates",
        "ppo.learning_rate_annealing",
        "offset",
        -0.25,
        ("learning_rate",),
    ),
    _cleanrl(
        "upper bound of the ratio doubled",
        "torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)",
        "torch.clamp(ratio, 1 - args.clip_coef, 1 + 2 * args.clip_coef)",
        "ppo.policy_loss",
        "function",
        None,
        ("clip_range", "std_gradient"),
    ),
    _cleanrl(
        "no bias at 0",
        "torch.nn.init.constant_(layer.bias, bias_const)",
        "torch.nn.init.constant_(layer.bias, 0.1)",
        "ppo.initial_biases",
        "function",
        # 0.1 times the root of the inputs of the widest layer.
        0.8,
    ),
    _cleanrl(
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

PLANTS = (*SB3_PPO, *CLEANRL_PPO, *TORCHRL_PPO)
