"""Planted faults that first updates, bounds or empty buffers hide."""

from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.ppo import PPO as SB3PPO
from stable_baselines3.sac import SAC as SB3SAC
from stable_baselines3.td3 import TD3 as SB3TD3

from tests.plants.planting import Plant, method, script


def _sb3(name, algorithm, owner, function, old, new, probe):
    return Plant(name, "sb3", algorithm, method(owner, function, old, new), probe, "")


def _cleanrl(name, algorithm, old, new, probe):
    return Plant(name, "cleanrl", algorithm, script(old, new), probe, "")


PLANTS = (
    _sb3(
        "actions not cut",
        "ppo",
        OnPolicyAlgorithm,
        "collect_rollouts",
        "np.clip(actions, self.action_space.low, self.action_space.high)",
        "actions",
        "ppo.action_bounds",
    ),
    _cleanrl(
        "actions cut elsewhere",
        "ppo",
        "env = gym.wrappers.ClipAction(env)",
        "env = env",
        "ppo.action",
    ),
    _cleanrl(
        "temperature never refreshed",
        "sac",
        "a_optimizer.step()\n                        alpha = log_alpha.exp().item()",
        "a_optimizer.step()",
        "sac.critic_target",
    ),
    _sb3(
        "full buffer goes on at its second place",
        "td3",
        ReplayBuffer,
        "add",
        "self.pos = 0",
        "self.pos = 1",
        "td3.full_buffer",
    ),
    _sb3(
        "advantages of copies in another order",
        "ppo",
        RolloutBuffer,
        "get",
        "self.__dict__[tensor] = self.swap_and_flatten(self.__dict__[tensor])",
        "a = self.__dict__[tensor]; self.__dict__[tensor] = "
        'a.reshape(-1, 1) if tensor == "advantages" else self.swap_and_flatten(a)',
        "ppo.policy_loss_with_copies",
    ),
    _cleanrl(
        "minibatches drawn with replacement",
        "ppo",
        "np.random.shuffle(b_inds)",
        "b_inds = np.random.randint(0, args.batch_size, args.batch_size)",
        "ppo.epoch_coverage",
    ),
    _sb3(
        "replay drawn without replacement",
        "td3",
        ReplayBuffer.__mro__[1],
        "sample",
        "np.random.randint(0, upper_bound, size=batch_size)",
        "np.random.permutation(upper_bound)[:batch_size]",
        "td3.replay_sampling",
    ),
    _sb3(
        "clip range 2% smaller",
        "ppo",
        SB3PPO,
        "train",
        "clip_range = self.clip_range(self._current_progress_remaining)",
        "clip_range = 0.98 * self.clip_range(self._current_progress_remaining)",
        "ppo.clip_range",
    ),
    _sb3(
        "penalty on weights of the critics",
        "sac",
        SB3SAC,
        "train",
        "for current_q in current_q_values)\n",
        "for current_q in current_q_values)"
        " + 1e-2 * sum(p.pow(2).sum() for p in self.critic.parameters())\n",
        "sac.gradient_source",
    ),
    _cleanrl(
        "policy's gradients add up",
        "td3",
        "actor_optimizer.zero_grad()",
        "pass",
        "td3.policy_terms",
    ),
    _sb3(
        "moments of Adam forgotten",
        "td3",
        SB3TD3,
        "train",
        "self.critic.optimizer.step()",
        "self.critic.optimizer.step(); self.critic.optimizer.state.clear()",
        "td3.optimizer_step",
    ),
    _cleanrl(
        "critics shrink between steps",
        "td3",
        "qf_loss.backward()",
        "qf_loss.backward(); [p.data.mul_(0.999) for p in qf1.parameters()]",
        "td3.moved_otherwise",
    ),
    _sb3(
        "gamma and lambda swapped",
        "ppo",
        RolloutBuffer,
        "compute_returns_and_advantage",
        "delta = self.rewards[step] + self.gamma * next_values",
        "delta = self.rewards[step] + self.gae_lambda * next_values",
        "ppo.gae",
    ),
)
