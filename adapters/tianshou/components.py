"""Components that several algorithms are put together from."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousCritic

from envs.tasks import Task

Settings = Mapping[str, Any]


def action_box(task: Task) -> gymnasium.spaces.Box:
    """The space of a task's actions."""
    low, high = (np.array(limit, np.float32) for limit in (task.action_low, task.action_high))
    return gymnasium.spaces.Box(low, high)


def options(settings: Settings, component: str) -> dict[str, Any]:
    """Arguments of one component, by name."""
    parts = {name: name.partition(".") for name in settings}
    return {part[2]: settings[name] for name, part in parts.items() if part[0] == component}


def adam(settings: Settings, of: str = "") -> AdamOptimizerFactory:
    """The optimiser of one of several networks, named in brackets, or of all."""
    shared = options(settings, "AdamOptimizerFactory")
    return AdamOptimizerFactory(**shared | options(settings, f"AdamOptimizerFactory{of}"))


def critics(settings: Settings, task: Task, number: int) -> list[ContinuousCritic]:
    """Values of an observation and an action, all bodies made before all heads."""
    sizes = {"state_shape": task.observation_size, "action_shape": task.action_size}
    nets = [Net(**sizes, concat=True, **options(settings, "Net")) for _ in range(number)]
    return [ContinuousCritic(preprocess_net=net) for net in nets]


def twin_critics(settings: Settings, task: Task) -> dict[str, Any]:
    """Arguments of an algorithm with two critics and a policy."""
    first, second = critics(settings, task, 2)
    optimizer = adam(settings, "(critic)")
    return {
        "policy_optim": adam(settings, "(policy)"),
        "critic": first,
        "critic_optim": optimizer,
        "critic2": second,
        "critic2_optim": optimizer,
    }
