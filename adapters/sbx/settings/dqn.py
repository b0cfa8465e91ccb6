"""DQN."""

from adapters.sb3_common.settings import first_update_of, rounds_of_all_copies, total_steps
from adapters.sbx.settings.common import off_policy
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import DQN

own_defaults = rounds_of_all_copies


def settings(t: Translation, hp: DQN, context: Context) -> Native:
    """Arguments of `sbx.DQN`."""
    t.aligned("learning_rate", "learning_rate")
    t.aligned("target_update_interval", "target_update_interval")
    if hp.target_update_interval % context.n_envs:
        t.refuse(
            "target_update_interval",
            f"counted per copy of the environment: n_envs={context.n_envs} must divide it",
        )
    t.aligned("exploration_initial", "exploration_initial_eps")
    t.aligned("exploration_final", "exploration_final_eps")
    note = "as a share of the run's steps"
    share = hp.exploration_steps / context.steps
    t.aligned("exploration_steps", "exploration_fraction", share, note)
    t.constant("double_q", False)
    t.constant("dueling", False)
    t.constant("huber_delta", 1.0)
    t.constant("max_grad_norm", None, "gradients are not clipped")
    t.aligned(
        "hidden_sizes",
        "policy_kwargs.net_arch",
        list(hp.hidden_sizes),
        note="two layers of one width: sbx reads the first number alone",
    )
    if len(hp.hidden_sizes) != 2 or len(set(hp.hidden_sizes)) > 1:
        t.refuse("hidden_sizes", "two layers of one width, such as [64,64]")
    return off_policy(t, hp, context, target_updates=_target_updates(hp, context))


def _target_updates(hp: DQN, context: Context) -> int:
    """How often a target moves: at multiples of the interval, if there was an update since."""
    every, interval = hp.env_steps_per_round, hp.target_update_interval
    total, first = total_steps(hp, context), first_update_of(hp)
    if hp.tau < 1:  # it never arrives
        return max(0, total // interval - first // interval)
    moves = {update // interval + 1 for update in range(first, total + 1, every)}
    return sum(move * interval <= total for move in moves)
