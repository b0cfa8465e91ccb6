"""DQN."""

from adapters.torchrl.settings.common import off_policy
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import DQN

LOSSES = {None: "l2", 1.0: "smooth_l1"}


def settings(t: Translation, hp: DQN, context: Context) -> Native:
    """Arguments of the components of DQN's recipe."""
    t.aligned("learning_rate", "Adam.lr")
    t.constant("tau", 1.0)
    interval = hp.target_interval_in_updates()
    # HardUpdate copies at one call more than its interval.
    native = (interval or 1) - 1
    note = "in gradient steps, one less than there are between copies"
    name = "HardUpdate.value_network_update_interval"
    t.aligned("target_update_interval", name, native, note)
    if interval is None:
        t.refuse(
            "target_update_interval",
            "a number of gradient steps: there are "
            f"{hp.gradient_steps_per_round} in {hp.env_steps_per_round} environment steps",
        )
    t.aligned("exploration_initial", "EGreedyModule.eps_init")
    t.aligned("exploration_final", "EGreedyModule.eps_end")
    note = "lowered after each batch of the collector"
    t.aligned("exploration_steps", "EGreedyModule.annealing_num_steps", note=note)
    if hp.exploration_final > hp.exploration_initial:
        t.refuse("exploration_final", "at most exploration_initial")
    t.aligned("double_q", "DQNLoss.double_dqn")
    t.constant("dueling", False)
    t.aligned("huber_delta", "DQNLoss.loss_function", LOSSES.get(hp.huber_delta))
    if hp.huber_delta not in LOSSES:
        t.refuse("huber_delta", "null or 1.0")
    note = "torch's, over all parameters; upstream's script does not clip"
    t.emulated("max_grad_norm", "clip_grad_norm_.max_norm", note=note)
    t.convolutions("ConvNet.num_cells", context.task)
    updates = hp.cadence(context.steps).gradient_steps
    return off_policy(t, hp, context, target_updates=updates // (interval or 1))
