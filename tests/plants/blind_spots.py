"""Sixty faults of classes that first versions of the probes did not see or name.

They were written from the frameworks' sources alone: each is a slip that a reviewer could overlook.
`says` is a text that the answer must contain for the fault to count as named.
"""

import dataclasses

from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.dqn import DQN as SB3DQN
from stable_baselines3.ppo import PPO as SB3PPO
from stable_baselines3.sac import SAC as SB3SAC
from stable_baselines3.td3 import TD3 as SB3TD3

from tests.plants.planting import Plant, method, script

SB3 = {"ppo": SB3PPO, "td3": SB3TD3, "sac": SB3SAC, "dqn": SB3DQN}


@dataclasses.dataclass(frozen=True)
class NamedPlant(Plant):
    """A plant with the words that name it.

    Attributes:
        subject: Class of fault.
        says: Part of the answer that names it.
    """

    subject: str = ""
    says: str = ""


def _sb3(subject, algorithm, name, old, new, probe, says, owner=None, function="train"):
    planted = method(owner or SB3[algorithm], function, old, new)
    return NamedPlant(
        name, "sb3", algorithm, planted, f"{algorithm}.{probe}", "", subject=subject, says=says
    )


def _cleanrl(subject, algorithm, name, old, new, probe, says):
    planted = script(old, new)
    return NamedPlant(
        name, "cleanrl", algorithm, planted, f"{algorithm}.{probe}", "", subject=subject, says=says
    )


_TD3_CRITIC_POLYAK = (
    "polyak_update(self.critic.parameters(), self.critic_target.parameters(), self.tau)"
)
_TD3_ACTOR_POLYAK = (
    "polyak_update(self.actor.parameters(), self.actor_target.parameters(), self.tau)"
)
_QF1 = "for param, target_param in zip(qf1.parameters(), qf1_target.parameters()):"
_BIASES = "[p for p in {}.parameters() if p.dim() == 1]"
_WEIGHTS = "[p for p in {}.parameters() if p.dim() > 1]"


def _polyak(module, pick, tau="self.tau"):
    return (
        f"polyak_update({pick.format(f'self.{module}')}, "
        f"{pick.format(f'self.{module}_target')}, {tau})"
    )


TARGETS = (
    _sb3(
        "targets",
        "td3",
        "critics' biases left behind",
        _TD3_CRITIC_POLYAK,
        _polyak("critic", _WEIGHTS),
        "target_update",
        "never move",
    ),
    _sb3(
        "targets",
        "td3",
        "policy's biases left behind",
        _TD3_ACTOR_POLYAK,
        _polyak("actor", _WEIGHTS),
        "target_update",
        "the biases of policy_target never move",
    ),
    _sb3(
        "targets",
        "td3",
        "critics' weights left behind",
        _TD3_CRITIC_POLYAK,
        _polyak("critic", _BIASES),
        "target_update",
        "never move",
    ),
    _sb3(
        "targets",
        "td3",
        "policy's biases twice as fast",
        _TD3_ACTOR_POLYAK,
        f"{_polyak('actor', _WEIGHTS)}; {_polyak('actor', _BIASES, '2 * self.tau')}",
        "target_update",
        "2 times tau",
    ),
    _sb3(
        "targets",
        "sac",
        "critics' biases left behind",
        _TD3_CRITIC_POLYAK,
        _polyak("critic", _WEIGHTS),
        "target_update",
        "never move",
    ),
    _sb3(
        "targets",
        "sac",
        "critics' biases copied",
        _TD3_CRITIC_POLYAK,
        f"{_polyak('critic', _WEIGHTS)}; {_polyak('critic', _BIASES, '1.0')}",
        "target_update",
        "move by 1",
    ),
    _cleanrl(
        "targets",
        "td3",
        "first critic's biases left behind",
        _QF1,
        "for param, target_param in [(p, t) for p, t in zip(qf1.parameters(), "
        "qf1_target.parameters()) if p.dim() > 1]:",
        "target_update",
        "the biases of critic1_target never move",
    ),
    _cleanrl(
        "targets",
        "sac",
        "last layer's bias left behind",
        _QF1,
        "for param, target_param in list(zip(qf1.parameters(), qf1_target.parameters()))[:-1]:",
        "target_update",
        "critic1_target.out.bias never move",
    ),
    _cleanrl(
        "targets",
        "sac",
        "only the last layer follows",
        _QF1,
        "for param, target_param in list(zip(qf1.parameters(), qf1_target.parameters()))[-2:]:",
        "target_update",
        "never move",
    ),
    _cleanrl(
        "targets",
        "dqn",
        "biases left behind",
        "zip(target_network.parameters(), q_network.parameters())",
        "[(t, p) for t, p in zip(target_network.parameters(), q_network.parameters()) "
        "if p.dim() > 1]",
        "target_update",
        "never move",
    ),
    _cleanrl(
        "targets",
        "ddpg",
        "policy's target follows with one minus tau",
        "for param, target_param in zip(actor.parameters(), target_actor.parameters()):\n"
        "                    target_param.data.copy_(args.tau * param.data + (1 - args.tau) *",
        "for param, target_param in zip(actor.parameters(), target_actor.parameters()):\n"
        "                    target_param.data.copy_((1 - args.tau) * param.data + args.tau *",
        "target_update",
        "policy_target",
    ),
    _cleanrl(
        "targets",
        "td3",
        "second critic's target follows the first critic",
        "zip(qf2.parameters(), qf2_target.parameters())",
        "zip(qf1.parameters(), qf2_target.parameters())",
        "target_update",
        "elsewhere",
    ),
)

_STEP = "self.critic.optimizer.step()"
OPTIMIZERS = (
    _sb3(
        "optimizer",
        "td3",
        "amsgrad",
        _STEP,
        "self.critic.optimizer.param_groups[0]['amsgrad'] = True; "
        "[s.setdefault('max_exp_avg_sq', th.zeros_like(s['exp_avg_sq'])) "
        f"for s in self.critic.optimizer.state.values()]; {_STEP}",
        "optimizer_options",
        "amsgrad",
    ),
    _sb3(
        "optimizer",
        "sac",
        "maximizes",
        "self.actor.optimizer.step()",
        "self.actor.optimizer.param_groups[0]['maximize'] = True; self.actor.optimizer.step()",
        "optimizer_options",
        "maximize",
    ),
    _sb3(
        "optimizer",
        "td3",
        "decoupled decay",
        _STEP,
        "self.critic.optimizer.param_groups[0]['decoupled_weight_decay'] = True; "
        f"self.critic.optimizer.param_groups[0]['weight_decay'] = 1e-2; {_STEP}",
        "optimizer_options",
        "decoupled_weight_decay",
    ),
    _sb3(
        "optimizer",
        "dqn",
        "moments forgotten after each cycle",
        "self._n_updates += gradient_steps",
        "self._n_updates += gradient_steps; self.policy.optimizer.state.clear()",
        "optimizer_state",
        "forgotten",
    ),
    _sb3(
        "optimizer",
        "ppo",
        "moments forgotten after each rollout",
        "continue_training = True\n",
        "self.policy.optimizer.state.clear(); continue_training = True\n",
        "optimizer_state",
        "forgotten",
    ),
    _sb3(
        "optimizer",
        "sac",
        "learning rate of the temperature falls",
        "self.ent_coef_optimizer.step()",
        "self.ent_coef_optimizer.step(); self.ent_coef_optimizer.param_groups[0]['lr'] *= 0.99",
        "optimizer_step",
        "",
    ),
    _sb3(
        "optimizer",
        "sac",
        "learning rate falls with progress",
        "self._update_learning_rate(optimizers)",
        "[o.param_groups[0].update(lr=self._current_progress_remaining * "
        "self.lr_schedule(1.0)) for o in optimizers]",
        "learning_rate_by_default",
        "goes from",
    ),
    _sb3(
        "optimizer",
        "td3",
        "beta 2 grows",
        _STEP,
        "self.critic.optimizer.param_groups[0]['betas'] = (0.9, 1 - 1e-3 / self._n_updates); "
        f"{_STEP}",
        "optimizer_options",
        "beta2 goes from",
    ),
    _cleanrl(
        "optimizer",
        "dqn",
        "new optimizer at each target update",
        "# update target network",
        "optimizer = optim.Adam(q_network.parameters(), lr=args.learning_rate)\n"
        "            # update target network",
        "optimizer_state",
        "forgotten",
    ),
    _cleanrl(
        "optimizer",
        "td3",
        "RMSprop",
        "q_optimizer.zero_grad()",
        "q_optimizer = optim.RMSprop(list(qf1.parameters()) + list(qf2.parameters()), "
        "lr=args.learning_rate) if not isinstance(q_optimizer, optim.RMSprop) "
        "else q_optimizer\n            q_optimizer.zero_grad()",
        "optimizer_options",
        "RMSprop",
    ),
    _cleanrl(
        "optimizer",
        "ppo",
        "state emptied before each epoch",
        "np.random.shuffle(b_inds)",
        "optimizer.state.clear(); np.random.shuffle(b_inds)",
        "optimizer_state",
        "forgotten",
    ),
    _cleanrl(
        "optimizer",
        "sac",
        "two steps of the critics",
        "q_optimizer.step()",
        "q_optimizer.step(); q_optimizer.step()",
        "counts",
        "critic steps",
    ),
)

RANDOM = (
    _sb3(
        "random",
        "sac",
        "seeded before each update",
        "actor_losses, critic_losses = [], []",
        "actor_losses, critic_losses = [], []; th.manual_seed(0)",
        "generators",
        "manual_seed",
    ),
    _sb3(
        "random",
        "td3",
        "seeded before target noise",
        "noise = replay_data.actions.clone()",
        "th.manual_seed(self._n_updates); noise = replay_data.actions.clone()",
        "generators",
        "manual_seed",
    ),
    _sb3(
        "random",
        "dqn",
        "seeded before sampling",
        "losses = []\n",
        "losses = []; np.random.seed(1)\n",
        "generators",
        "numpy.random.seed",
    ),
    _sb3(
        "random",
        "ppo",
        "seeded before each epoch",
        "approx_kl_divs = []",
        "approx_kl_divs = []; np.random.seed(0)",
        "generators",
        "numpy.random.seed",
    ),
    _sb3(
        "random",
        "td3",
        "one noise for all environments",
        "action_noise(), -1, 1)",
        "action_noise()[:1], -1, 1)",
        "own_draws",
        "act as another one",
        OffPolicyAlgorithm,
        "_sample_action",
    ),
    _sb3(
        "random",
        "sac",
        "one warm-up action for all environments",
        "np.array([self.action_space.sample() for _ in range(n_envs)])",
        "np.array([self.action_space.sample()] * n_envs)",
        "own_draws",
        "act as another one",
        OffPolicyAlgorithm,
        "_sample_action",
    ),
    _sb3(
        "random",
        "dqn",
        "one random action for all environments",
        "action = np.array([self.action_space.sample() for _ in range(n_batch)])",
        "action = np.array([self.action_space.sample()] * n_batch)",
        "own_draws",
        "act as another one",
        None,
        "predict",
    ),
    _sb3(
        "random",
        "ppo",
        "action space seeded at each rollout step",
        "self.num_timesteps += env.num_envs",
        "self.num_timesteps += env.num_envs; th.random.manual_seed(3)",
        "generators",
        "manual_seed",
        OnPolicyAlgorithm,
        "collect_rollouts",
    ),
    _cleanrl(
        "random",
        "td3",
        "seeded at each action",
        "actions += torch.normal(",
        "torch.manual_seed(args.seed); actions += torch.normal(",
        "own_draws",
        "repeat earlier actions",
    ),
    _cleanrl(
        "random",
        "ppo",
        "seeded at each step",
        "obs[step] = next_obs",
        "obs[step] = next_obs; torch.manual_seed(args.seed)",
        "own_draws",
        "repeat earlier actions",
    ),
    _cleanrl(
        "random",
        "ddpg",
        "warm-up seeded by the step",
        "if global_step < args.learning_starts:",
        "np.random.seed(global_step)\n        if global_step < args.learning_starts:",
        "generators",
        "numpy.random.seed",
    ),
    _cleanrl(
        "random",
        "sac",
        "state set back after sampling",
        "data = rb.sample(args.batch_size)",
        "state = np.random.get_state(); data = rb.sample(args.batch_size); "
        "np.random.set_state(state)",
        "generators",
        "set_state",
    ),
)

COPIES = (
    _sb3(
        "copies",
        "td3",
        "time limits of all environments but the first are ends",
        'next_obs[i] = infos[i]["terminal_observation"]',
        'next_obs[i] = infos[i]["terminal_observation"] if i == 0 else next_obs[i]',
        "stored_with_copies",
        "next observations",
        OffPolicyAlgorithm,
        "_store_transition",
    ),
    _sb3(
        "copies",
        "sac",
        "ends of the first environment for all",
        "self.dones[self.pos] = np.array(done)",
        "self.dones[self.pos] = np.array(done)[:1]",
        "stored_with_copies",
        "ends",
        ReplayBuffer,
        "add",
    ),
    _sb3(
        "copies",
        "td3",
        "rewards of the first environment for all",
        "self.rewards[self.pos] = np.array(reward)",
        "self.rewards[self.pos] = np.array(reward)[:1]",
        "stored_with_copies",
        "rewards",
        ReplayBuffer,
        "add",
    ),
    _sb3(
        "copies",
        "dqn",
        "only the first environment is sampled",
        "env_indices = np.random.randint(0, high=self.n_envs, size=(len(batch_inds),))",
        "env_indices = np.zeros(len(batch_inds), int)",
        "own_draws",
        "no minibatch draws from",
        ReplayBuffer,
        "_get_samples",
    ),
    _sb3(
        "copies",
        "sac",
        "buffer holds as much for each environment",
        "self.buffer_size = max(buffer_size // n_envs, 1)",
        "self.buffer_size = buffer_size",
        "full_buffer_with_copies",
        "transitions stored",
        ReplayBuffer,
        "__init__",
    ),
    _sb3(
        "copies",
        "ppo",
        "time limits of the first environment only",
        'and infos[idx].get("TimeLimit.truncated", False)',
        'and infos[idx].get("TimeLimit.truncated", False) and idx == 0',
        "truncation_with_copies",
        "time limit",
        OnPolicyAlgorithm,
        "collect_rollouts",
    ),
    _sb3(
        "copies",
        "ppo",
        "steps are counted by calls",
        "self.num_timesteps += env.num_envs",
        "self.num_timesteps += 1",
        "counts_with_copies",
        "steps",
        OnPolicyAlgorithm,
        "collect_rollouts",
    ),
    _sb3(
        "copies",
        "dqn",
        "exploration schedule counts calls",
        "self.num_timesteps += env.num_envs",
        "self.num_timesteps += 1",
        "exploration_schedule_with_copies",
        "",
        OffPolicyAlgorithm,
        "collect_rollouts",
    ),
    _cleanrl(
        "copies",
        "ppo",
        "last value of the first environment for all",
        "next_value = agent.get_value(next_obs).reshape(1, -1)",
        "next_value = agent.get_value(next_obs).reshape(1, -1)[:, :1]",
        "gae_with_copies",
        "",
    ),
    _sb3(
        "copies",
        "ppo",
        "last ends of the first environment for all",
        "next_non_terminal = 1.0 - dones.astype(np.float32)",
        "next_non_terminal = 1.0 - dones[:1].astype(np.float32)",
        "truncation_with_copies",
        "",
        RolloutBuffer,
        "compute_returns_and_advantage",
    ),
)

UPDATES = (
    _sb3(
        "updates",
        "sac",
        "target entropy of -1",
        "(log_prob + self.target_entropy)",
        "(log_prob - 1.0)",
        "target_entropy",
        "target entropy",
    ),
    _sb3(
        "updates",
        "td3",
        "noise clipped from above only",
        "noise.clamp(-self.target_noise_clip, self.target_noise_clip)",
        "noise.clamp(max=self.target_noise_clip)",
        "target_noise_clip",
        "",
    ),
    _cleanrl(
        "updates",
        "ppo",
        "epsilon of advantages inside the variance",
        "(mb_advantages.std() + 1e-8)",
        "(mb_advantages.var() + 1e-3).sqrt()",
        "advantage_normalisation",
        "",
    ),
    _sb3(
        "updates",
        "ppo",
        "advantages divided by the variance",
        "(advantages.std() + 1e-8)",
        "(advantages.var() + 1e-8)",
        "advantage_normalisation",
        "",
    ),
    _cleanrl(
        "updates",
        "sac",
        "temperature a step late",
        "alpha = log_alpha.exp().item()\n\n",
        "alpha = alpha\n\n",
        "critic_target",
        "",
    ),
    _sb3(
        "updates",
        "dqn",
        "unrequested double Q",
        "next_q_values, _ = next_q_values.max(dim=1)",
        "next_q_values = next_q_values.gather(1, self.q_net(replay_data.next_observations)"
        ".argmax(1, keepdim=True))",
        "critic_target",
        "double",
    ),
    _cleanrl(
        "updates",
        "td3",
        "policy maximizes the second critic",
        "actor_loss = -qf1(data.observations, actor(data.observations)).mean()",
        "actor_loss = -qf2(data.observations, actor(data.observations)).mean()",
        "policy_terms",
        "second critic",
    ),
    _cleanrl(
        "updates",
        "dqn",
        "discount squared",
        "args.gamma * target_max",
        "args.gamma**2 * target_max",
        "target_weights",
        "next value",
    ),
    _sb3(
        "updates",
        "td3",
        "target of the mean critic",
        "next_q_values, _ = th.min(next_q_values, dim=1, keepdim=True)",
        "next_q_values = next_q_values.mean(dim=1, keepdim=True)",
        "critic_target",
        "the mean of both critics",
    ),
    _sb3(
        "updates",
        "ppo",
        "value loss twice",
        "self.vf_coef * value_loss",
        "2 * self.vf_coef * value_loss",
        "value_loss_factor",
        "2 times",
    ),
    _cleanrl(
        "updates",
        "sac",
        "entropy with the wrong sign in the policy's loss",
        "((alpha * log_pi) - min_qf_pi).mean()",
        "((-alpha * log_pi) - min_qf_pi).mean()",
        "policy_terms",
        "entropy",
    ),
    _cleanrl(
        "updates",
        "ppo",
        "infinite actions",
        "actions[step] = action\n",
        "action = action / 0.0; actions[step] = action\n",
        "action",
        "",
    ),
    _cleanrl(
        "updates",
        "ddpg",
        "end ignored",
        "(1 - data.dones.flatten()) * args.gamma",
        "args.gamma",
        "termination_target",
        "bootstraps",
    ),
    _sb3(
        "updates",
        "sac",
        "log-probability of the first action dimension is dropped",
        "actions_pi, log_prob = self.actor.action_log_prob(replay_data.observations)",
        "actions_pi, log_prob = self.actor.action_log_prob(replay_data.observations); "
        "log_prob = 0.5 * log_prob",
        "policy_terms",
        "entropy",
    ),
)

PLANTS = (*TARGETS, *OPTIMIZERS, *RANDOM, *COPIES, *UPDATES)
