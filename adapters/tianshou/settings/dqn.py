"""DQN."""

from adapters.tianshou.settings.common import (
    finish_off_policy,
    late_cadence,
    off_policy,
    rounds_of_all_copies,
    steps_taken,
)
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import DQN

own_defaults = rounds_of_all_copies


def settings(t: Translation, hp: DQN, context: Context) -> Native:
    """Arguments of `tianshou.algorithm.DQN` and what it is put together with."""
    t.aligned("learning_rate", "AdamOptimizerFactory.lr")
    t.constant("tau", 1.0)
    interval = hp.target_interval_in_updates()
    note = "in gradient steps; before the update"
    t.aligned("target_update_interval", "DQN.target_update_freq", interval, note)
    if interval is None:
        t.refuse(
            "target_update_interval",
            "a number of gradient steps: there are "
            f"{hp.gradient_steps_per_round} in {hp.env_steps_per_round} environment steps",
        )
    t.aligned("exploration_initial", "DiscreteQLearningPolicy.eps_training")
    note = "through training_fn, as upstream's Atari example"
    t.emulated("exploration_final", "training_fn.final", note=note)
    t.emulated("exploration_steps", "training_fn.steps", note=note)
    t.extra(**{"training_fn.initial": hp.exploration_initial})
    t.extra(**{"training_fn.taken": steps_taken(hp, context)[0]})
    t.aligned("double_q", "DQN.is_double")
    t.aligned("dueling", "Net.dueling_param", hp.dueling, note="heads with the last layer's size")
    t.aligned("huber_delta", "DQN.huber_loss_delta")
    if hp.huber_delta is not None and not context.replay.is_uniform:
        asked = f"replay={context.replay.name}"
        t.refuse("huber_delta", f"a loss that leaves importance weights out: {asked} needs null")
    t.constant("max_grad_norm", None)
    t.convolutions("Convolutions.filters", context.task, "in a network of one's own")
    off_policy(t, hp, context, "DQN")
    updates = late_cadence(hp, context).gradient_steps
    moves = max(updates - 1, 0) // (interval or 1)
    return finish_off_policy(t, hp, context, target_updates=moves)
