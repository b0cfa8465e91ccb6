"""DQN."""

from collections.abc import Mapping
from typing import Any

from adapters.cleanrl.settings.common import finish, one_environment, times
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import DQN
from harness.contract.fields import SpecError

SCRIPT = (
    "dqn.py",
    "342a5d372d49a56224420912a7d0fa618b453b80ab29aeb94ddaaf6a3dcbaaf9",
)
NETWORKS = ("q_network", "target_network")


def settings(t: Translation, hp: DQN, context: Context) -> Native:
    """Arguments of DQN's script."""
    t.aligned("learning_rate", "learning-rate")
    t.aligned("batch_size", "batch-size")
    t.aligned("buffer_size", "buffer-size")
    note = "actions before it follow the schedule, too"
    t.aligned("learning_starts", "learning-starts", note=note)
    t.aligned("tau", "tau")
    t.aligned("gamma", "gamma")
    one_environment(context)
    t.aligned("env_steps_per_round", "train-frequency")
    t.constant("gradient_steps_per_round", 1)
    t.aligned("target_update_interval", "target-network-frequency")
    t.aligned("exploration_initial", "start-e")
    t.aligned("exploration_final", "end-e")
    note = "as a share of the run's steps"
    share = hp.exploration_steps / context.steps
    t.aligned("exploration_steps", "exploration-fraction", share, note)
    t.constant("double_q", False)
    t.constant("dueling", False)
    t.constant("huber_delta", None)
    t.constant("max_grad_norm", None)
    t.constant("adam_eps", 1e-8)
    t.constant("hidden_sizes", (120, 84))
    _no_images(t, context)
    t.constant("bootstrap_truncation", True)
    return finish(t, hp, context, **_counts(hp, context))


def _no_images(t: Translation, context: Context) -> None:
    t.constant("conv_filters", None, "the script's network is its own")
    if context.task.image:
        raise SpecError(
            f"env={context.task.env_id} shows images, for which framework=cleanrl has no script: "
            "dqn.py builds linear layers for flat observations, and dqn_atari.py plays Atari's "
            "emulator, asks it for lives and meanings of actions, and resizes frames to 84 by 84. "
            "Use framework=sb3, torchrl or tianshou, or another task."
        )


def _counts(hp: DQN, context: Context) -> dict[str, int]:
    """Updates and target updates wait for a multiple of their frequency."""
    every, interval = hp.env_steps_per_round, hp.target_update_interval
    updates = range(_next(hp.learning_starts, every), context.steps, every)
    if hp.tau < 1:  # the target never arrives
        moves = times(hp, context, interval) if updates else 0
    else:
        after = {-(-update // interval) * interval for update in updates}
        moves = sum(move < context.steps for move in after)
    return {
        "random_steps": 0,
        "first_update": _next(hp.learning_starts, every) + 1,
        "gradient_steps": len(updates),
        "policy_updates": len(updates),
        "target_updates": moves,
    }


def _next(step: int, every: int) -> int:
    return (step // every + 1) * every


def greedy(names: Mapping[str, Any], observations: Any, context: Context) -> Any:
    """The action of the highest value."""
    return names["q_network"](observations).argmax(dim=1).cpu().numpy()
