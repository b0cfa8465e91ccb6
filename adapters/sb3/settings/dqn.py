"""DQN."""

import math
from typing import Any

from adapters.sb3.settings.common import off_policy
from adapters.sb3_common.settings import rounds_of_all_copies
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import DQN

own_defaults = rounds_of_all_copies


def settings(t: Translation, hp: DQN, context: Context) -> Native:
    """Arguments of `stable_baselines3.DQN`."""
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
    norm = math.inf if hp.max_grad_norm is None else hp.max_grad_norm
    t.aligned("max_grad_norm", "max_grad_norm", norm, note="inf is off")
    _images(t, context)
    return off_policy(t, hp, context, target_updates=_target_updates(hp, context))


def _images(t: Translation, context: Context) -> None:
    """A features extractor of ours for images; SB3 divides those of bytes by 255."""
    note = "in a features extractor of one's own"
    t.convolutions("policy_kwargs.features_extractor_kwargs.filters", context.task, note)
    if context.task.image:
        extractor: dict[str, Any] = {"Convolutions": []}
        t.extra(**{"policy_kwargs.features_extractor_class": extractor})
        t.extra(**{"policy_kwargs.normalize_images": context.task.brightest > 1})


def _target_updates(hp: DQN, context: Context) -> int:
    """How often a target moves: at multiples of the interval, if there was an update since."""
    every, interval = hp.env_steps_per_round, hp.target_update_interval
    total = math.ceil(context.steps / every) * every
    first = (hp.learning_starts // every + 1) * every
    if hp.tau < 1:  # it never arrives
        return max(0, total // interval - first // interval)
    moves = {update // interval + 1 for update in range(first, total + 1, every)}
    return sum(move * interval <= total for move in moves)
