"""Differences planted into DQN."""

from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.dqn import DQN as SB3DQN
from tianshou.algorithm.modelfree import dqn as tianshou_dqn
from torchrl.modules import EGreedyModule
from torchrl.objectives import DQNLoss, HardUpdate

from tests.plants.planting import Plant, method, script

TARGETS = (
    "target_weights",
    "critic_target",
    "t*ation_target",
    "target_by_default",
    "double_target",
)
LOSS = ("loss_numbers", "huber_loss", "critic_gradient_clipping", "reward_clipping")


def _sb3(name, old, new, probe, kind, size=None, also=(), function="train"):
    planted = method(SB3DQN, function, old, new)
    return Plant(name, "sb3", "dqn", planted, f"dqn.{probe}", kind, size, also)


def _cleanrl(name, old, new, probe, kind, size=None, also=()):
    return Plant(name, "cleanrl", "dqn", script(old, new), f"dqn.{probe}", kind, size, also)


def _in(framework, name, owner, function, old, new, probe, kind, size=None, also=()):
    planted = method(owner, function, old, new)
    return Plant(name, framework, "dqn", planted, f"dqn.{probe}", kind, size, also)


PLANTS = (
    _cleanrl(
        "loss halved",
        "loss = F.mse_loss(td_target, old_val)",
        "loss = 0.5 * F.mse_loss(td_target, old_val)",
        "critic_loss",
        "factor",
        0.5,
        LOSS,
    ),
    _sb3(
        "the absolute error from one half on",
        "F.smooth_l1_loss(current_q_values, target_q_values)",
        "F.smooth_l1_loss(current_q_values, target_q_values, beta=0.5)",
        "critic_loss",
        "function",
        None,
        LOSS,
    ),
    _sb3(
        "mean of the next values",
        "next_q_values, _ = next_q_values.max(dim=1)",
        "next_q_values = next_q_values.mean(dim=1)",
        "critic_target",
        "function",
        None,
        (*TARGETS, "full_buffer_target", "target_with_copies"),
    ),
    _sb3(
        "bootstraps after the end",
        "(1 - replay_data.dones) * discounts",
        "discounts",
        "termination_target",
        "function",
        None,
        ("full_buffer_target", "target_with_copies"),
    ),
    _sb3(
        "gradients clipped at a tenth of the norm",
        "self.policy.parameters(), self.max_grad_norm)",
        "self.policy.parameters(), 0.1 * self.max_grad_norm)",
        "gradient_clipping",
        "factor",
        0.1,
        ("critic_gradient_clipping",),
    ),
    _sb3(
        "random half as often",
        "np.random.rand() < self.exploration_rate",
        "np.random.rand() < 0.5 * self.exploration_rate",
        "exploration_schedule",
        "function",
        0.3,
        ("exploration_shape",),
        function="predict",
    ),
    _cleanrl(
        "falls to the square",
        "if random.random() < epsilon:",
        "if random.random() < epsilon**2:",
        "exploration_schedule",
        "function",
        None,
        ("exploration_shape",),
    ),
    _cleanrl(
        "copies half of the way",
        "args.tau * q_network_param.data + (1.0 - args.tau) * target_network_param.data",
        "0.5 * q_network_param.data + 0.5 * target_network_param.data",
        "target_update",
        "factor",
        0.5,
        ("counts",),
    ),
    _cleanrl(
        "rewards cut at -1 and 1",
        "td_target = data.rewards.flatten() +",
        "td_target = data.rewards.flatten().clamp(-1, 1) +",
        "reward_clipping",
        "function",
        None,
    ),
    _in(
        "torchrl",
        "always double",
        DQNLoss,
        "forward",
        "if self.double_dqn:",
        "if True:",
        "critic_target",
        "function",
        None,
        (*TARGETS, "full_buffer_target", "target_with_copies"),
    ),
    _in(
        "torchrl",
        "target copied a call too soon",
        HardUpdate,
        "_step",
        "if self.counter == self.value_network_update_interval:",
        "if self.counter == self.value_network_update_interval - 1:",
        "counts",
        "count",
        None,
        ("counts_with_copies", "target_update"),
    ),
    _in(
        "torchrl",
        "falls twice as fast",
        EGreedyModule,
        "step",
        "- (self.eps_init - self.eps_end) / self.annealing_num_steps",
        "- 2 * (self.eps_init - self.eps_end) / self.annealing_num_steps",
        "exploration_schedule",
        "function",
        None,
        ("exploration_shape",),
    ),
    _in(
        "tianshou",
        "the target chooses, the online network values",
        tianshou_dqn.DQN,
        "_target_q",
        "target_q = self.policy(obs_next_batch, model=self.model_old).logits",
        "target_q = self.policy(obs_next_batch).logits",
        "critic_target",
        "function",
        None,
        (*TARGETS, "full_buffer_target", "target_with_copies"),
    ),
    _in(
        "tianshou",
        "Huber loss with half its width",
        tianshou_dqn.DQN,
        "_update_with_batch",
        "delta=self.huber_loss_delta, reduction",
        "delta=0.5 * self.huber_loss_delta, reduction",
        "huber_loss",
        "function",
        0.5,
        ("huber_loss_half",),
    ),
    Plant(
        "first action stored for all",
        "sb3",
        "dqn",
        method(
            ReplayBuffer,
            "add",
            "self.actions[self.pos] = np.array(action)",
            "self.actions[self.pos] = 0 * np.array(action)",
        ),
        "dqn.stored_action",
        "count",
        None,
        ("*",),
    ),
)
