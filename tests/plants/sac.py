"""Differences planted into SAC."""

from stable_baselines3.common import distributions as sb3_distributions
from stable_baselines3.sac import SAC as SB3SAC
from stable_baselines3.sac import policies as sb3_sac_policies
from torchrl.objectives import SACLoss

from tests.plants.planting import Plant, constant, method, script

TARGETS = ("target_weights", "critic_target", "termination_target", "truncation_target")


def _sb3_sac(name, old, new, probe, kind, size=None, also=()):
    return Plant(name, "sb3", "sac", method(SB3SAC, "train", old, new), probe, kind, size, also)


def _cleanrl(name, old, new, probe, kind, size=None, also=()):
    return Plant(name, "cleanrl", "sac", script(old, new), probe, kind, size, also)


SB3_SAC = (
    _sb3_sac(
        "temperature in place of its logarithm",
        "-(self.log_ent_coef * (log_prob",
        "-(th.exp(self.log_ent_coef) * (log_prob",
        "sac.temperature_gradient",
        "function",
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
        "lower bound of the log deviation",
        "LOG_STD_MIN = -5",
        "LOG_STD_MIN = -10",
        "sac.std_bounds",
        "function",
        5.0,
        ("std_map",),
    ),
    _cleanrl(
        "log-probability of the unscaled action",
        "torch.log(self.action_scale * (1 - y_t.pow(2)) + 1e-6)",
        "torch.log((1 - y_t.pow(2)) + 1e-6)",
        "sac.log_prob",
        "offset",
        1.3863,  # two dimensions, each scaled by 2
    ),
    _cleanrl(
        "policy climbs the mean of the critics",
        "min_qf_pi = torch.min(qf1_pi, qf2_pi).view(-1)",
        "min_qf_pi = (0.5 * (qf1_pi + qf2_pi)).view(-1)",
        "sac.policy_terms",
        "function",
        0.5,
    ),
    _cleanrl(
        "target entropy halved",
        "target_entropy = -torch.prod(",
        "target_entropy = -0.5 * torch.prod(",
        "sac.target_entropy",
        "number",
        0.5,
        ("temperature_gradient",),
    ),
    _cleanrl(
        "discount forgotten",
        "* args.gamma * (min_qf_next_target)",
        "* (min_qf_next_target)",
        "sac.target_weights",
        "function",
        0.01,
        ("log_prob", "squash_correction", *TARGETS),
    ),
    _cleanrl(
        "temperature starts elsewhere",
        "log_alpha = torch.zeros(1, requires_grad=True, device=device)",
        "log_alpha = torch.full((1,), -1.0, requires_grad=True, device=device)",
        "sac.initial_temperature",
        "number",
        1 - 0.36788,
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

PLANTS = (*SB3_SAC, *CLEANRL_SAC, *TORCHRL_SAC)
