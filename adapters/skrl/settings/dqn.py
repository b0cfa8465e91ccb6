"""DQN."""

import dataclasses

from adapters.skrl.settings.common import nothing_besides, off_policy
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import DQN

CFG = "DQN_CFG"


def settings(t: Translation, hp: DQN, context: Context) -> Native:
    """Arguments of `skrl.agents.torch.dqn.DQN_CFG`, or of its twin for double Q-learning."""
    t.aligned("learning_rate", f"{CFG}.learning_rate")
    t.aligned("double_q", "agent", "DDQN" if hp.double_q else "DQN", "an agent of its own")
    t.aligned("env_steps_per_round", f"{CFG}.update_interval", note="from the first step on")
    interval = hp.target_interval_in_updates()
    t.aligned("target_update_interval", f"{CFG}.target_update_interval", interval, "in updates")
    if interval is None:
        t.refuse(
            "target_update_interval",
            "a number of gradient steps: there are "
            f"{hp.gradient_steps_per_round} in {hp.env_steps_per_round} environment steps",
        )
    scheduler = f"{CFG}.exploration_scheduler"
    falling = [hp.exploration_initial, hp.exploration_final, hp.exploration_steps]
    t.aligned("exploration_initial", scheduler, falling, "a function made of these")
    t.part_of("exploration_final", scheduler)
    t.part_of("exploration_steps", scheduler)
    t.constant("dueling", False)
    t.constant("huber_delta", None, "the mean squared error")
    t.constant("max_grad_norm", None)
    off_policy(t, hp, CFG)
    nothing_besides(t, CFG, "learning_rate_scheduler")
    first = _first_update(hp)
    cadence = hp.cadence(context.steps, first_update=first)
    moves = cadence.gradient_steps // (interval or 1)
    return t.finish(context.steps, cadence=dataclasses.replace(cadence, target_updates=moves))


def _first_update(hp: DQN) -> int:
    # Updates come after steps whose number, counted from 0, the interval divides.
    every, earliest = hp.env_steps_per_round, max(hp.learning_starts - 1, 0)
    return -(-earliest // every) * every + 1
