"""Further differences of DQN and DDPG, to count how many are found by probes not made for them."""

from stable_baselines3.dqn.policies import QNetwork
from tianshou.algorithm.modelfree import ddpg as tianshou_ddpg
from tianshou.algorithm.modelfree import dqn as tianshou_dqn
from torchrl.modules import EGreedyModule
from torchrl.objectives import DDPGLoss, DQNLoss

from tests.plants.planting import plant_in, plant_in_cleanrl, plant_in_sb3

DQN_PLANTS = (
    plant_in_sb3(
        "squared loss",
        "dqn",
        "F.smooth_l1_loss(current_q_values, target_q_values)",
        "F.mse_loss(current_q_values, target_q_values)",
        "critic_loss",
    ),
    plant_in_sb3(
        "discount is 0.97 of its value",
        "dqn",
        "(1 - replay_data.dones) * discounts",
        "(1 - replay_data.dones) * 0.97 * discounts",
        "critic_target",
    ),
    plant_in_sb3(
        "gradients left over",
        "dqn",
        "self.policy.optimizer.zero_grad()",
        "self._n_updates",
        "gradient_source",
    ),
    plant_in_sb3(
        "no clipping",
        "dqn",
        "clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)",
        "clip_grad_norm_(self.policy.parameters(), 1e9)",
        "gradient_clipping",
    ),
    plant_in_sb3(
        "target moves one call late",
        "dqn",
        "self._n_calls % max(self.target_update_interval // self.n_envs, 1) == 0",
        "self._n_calls % max(self.target_update_interval // self.n_envs, 1) == 1",
        "counts",
        "_on_step",
    ),
    plant_in(
        "sb3",
        "greedy choice of the smallest value",
        "dqn",
        QNetwork,
        "_predict",
        "q_values.argmax(dim=1)",
        "q_values.argmin(dim=1)",
        "greedy_action",
    ),
    plant_in_cleanrl(
        "greedy choice of the last of the largest",
        "dqn",
        "torch.argmax(q_values, dim=1)",
        "(q_values.shape[1] - 1 - torch.argmax(q_values.flip(1), dim=1))",
        "greedy_ties",
    ),
    plant_in_cleanrl(
        "double",
        "dqn",
        "target_max, _ = target_network(data.next_observations).max(dim=1)",
        "target_max = target_network(data.next_observations).gather("
        "1, q_network(data.next_observations).argmax(1, True)).squeeze()",
        "target_by_default",
    ),
    plant_in_cleanrl(
        "time limits are ends",
        "dqn",
        "rb.add(obs, real_next_obs, actions, rewards, terminated, infos)",
        "rb.add(obs, real_next_obs, actions, rewards, terminated | truncated, infos)",
        "truncation_target",
    ),
    plant_in_cleanrl(
        "an update a step too soon",
        "dqn",
        "if global_step % args.train_frequency == 0:",
        "if (global_step + 1) % args.train_frequency == 0:",
        "counts",
    ),
    plant_in_cleanrl(
        "gradients of the target as well",
        "dqn",
        "with torch.no_grad():\n                    target_max, _ = target_network",
        "with torch.enable_grad():\n                    target_max, _ = q_network",
        "critic_target",
    ),
    plant_in(
        "torchrl",
        "sum of the loss",
        "dqn",
        DQNLoss,
        "forward",
        "loss = self._reduce_loss(loss, tensordict=tensordict, weights=weights)",
        "loss = loss.sum()",
        "critic_loss",
    ),
    plant_in(
        "torchrl",
        "falls to half of the final share",
        "dqn",
        EGreedyModule,
        "step",
        "self.eps_end,",
        "0.5 * self.eps_end,",
        "exploration_schedule",
    ),
    plant_in(
        "tianshou",
        "weights of samples by their errors",
        "dqn",
        tianshou_dqn.DQN,
        "_update_with_batch",
        "loss = (td_error.pow(2) * weight).mean()",
        "loss = (td_error.pow(2) * (1 + td_error.detach().abs())).mean()",
        "critic_loss",
    ),
    plant_in(
        "tianshou",
        "always the first action's value",
        "dqn",
        tianshou_dqn.DQN,
        "_target_q",
        "return target_q[np.arange(len(result.act)), result.act]",
        "return target_q[:, 0].contiguous()",
        "double_target",
    ),
)

DDPG_PLANTS = (
    plant_in_sb3(
        "rewards cut",
        "ddpg",
        "target_q_values = replay_data.rewards +",
        "target_q_values = replay_data.rewards.clamp(-1, 1) +",
        "critic_target",
    ),
    plant_in_sb3(
        "targets move every second update",
        "ddpg",
        "if self._n_updates % self.policy_delay == 0:",
        "if self._n_updates % (2 * self.policy_delay) == 0:",
        "counts",
    ),
    plant_in_sb3(
        "Huber loss",
        "ddpg",
        "F.mse_loss(current_q, target_q_values)",
        "F.huber_loss(current_q, target_q_values)",
        "critic_loss_factor",
    ),
    plant_in_cleanrl(
        "noise in warm-up",
        "ddpg",
        "if global_step < args.learning_starts:",
        "if global_step < args.learning_starts // 2:",
        "counts",
    ),
    plant_in_cleanrl(
        "noise is cut at half its size",
        "ddpg",
        "torch.normal(0, actor.action_scale * args.exploration_noise)",
        "torch.normal(0, actor.action_scale * args.exploration_noise).clamp(-0.05, 0.05)",
        "exploration",
    ),
    plant_in_cleanrl(
        "policy climbs the target critic",
        "ddpg",
        "-qf1(data.observations, actor(data.observations)).mean()",
        "-qf1_target(data.observations, actor(data.observations)).mean()",
        "policy_terms",
    ),
    plant_in_cleanrl(
        "the policy's target does not move",
        "ddpg",
        "target_param.data.copy_(args.tau * param.data + (1 - args.tau) * target_param.data)\n"
        "                for param, target_param in zip(qf1",
        "target_param.data.copy_(target_param.data)\n"
        "                for param, target_param in zip(qf1",
        "target_update",
    ),
    plant_in(
        "torchrl",
        "policy's loss summed",
        "ddpg",
        DDPGLoss,
        "loss_actor",
        "loss_actor = self._reduce_loss(\n",
        "loss_actor = 2 * self._reduce_loss(\n",
        "policy_terms",
    ),
    plant_in(
        "torchrl",
        "predictions 10% larger",
        "ddpg",
        DDPGLoss,
        "loss_value",
        "    pred_val, target_value, loss_function",
        "    1.1 * pred_val, target_value, loss_function",
        "critic_loss_factor",
    ),
    plant_in(
        "tianshou",
        "errors to the fourth",
        "ddpg",
        tianshou_ddpg.DDPG,
        "_minimize_critic_squared_loss",
        "critic_loss = (td.pow(2) * weight).mean()",
        "critic_loss = (td.pow(4) * weight).mean()",
        "critic_loss_factor",
    ),
    plant_in(
        "tianshou",
        "pulled to 0",
        "ddpg",
        tianshou_ddpg.DDPG,
        "_minimize_critic_squared_loss",
        "critic_loss = (td.pow(2) * weight).mean()",
        "critic_loss = (td.pow(2) * weight).mean() + 0.01 * current_q.pow(2).mean()",
        "critic_loss_factor",
    ),
)
PLANTS = (*DQN_PLANTS, *DDPG_PLANTS)
