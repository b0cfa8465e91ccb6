"""Settings that are plain data to the keyword arguments of SB3's classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from stable_baselines3.common import utils
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise


def resolve(
    settings: Mapping[str, Any], action_size: int, classes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Keyword arguments: dotted names become nested, descriptions become objects.

    Args:
        settings: By name; `{class name: its arguments}` describes an object.
        action_size: Dimensions of actions, which noise has.
        classes: What further names stand for, without arguments.
    """
    arguments: dict[str, Any] = {}
    for name, value in settings.items():
        *parents, leaf = name.split(".")
        target = arguments
        for parent in parents:
            target = target.setdefault(parent, {})
        target[leaf] = _object(value, action_size, classes or {})
    return arguments


def _object(value: Any, action_size: int, classes: Mapping[str, Any]) -> Any:
    match value:
        case {"LinearSchedule": arguments}:
            # Older releases have it as a function only.
            linear = getattr(utils, "LinearSchedule", None) or utils.get_linear_fn
            return linear(*arguments)
        case {"NormalActionNoise": sigma}:
            return NormalActionNoise(np.zeros(action_size), sigma * np.ones(action_size))
        case {"OrnsteinUhlenbeckActionNoise": sigma}:
            return OrnsteinUhlenbeckActionNoise(np.zeros(action_size), sigma * np.ones(action_size))
    if isinstance(value, dict) and value.keys() <= classes.keys() and value:
        return classes[next(iter(value))]
    return value
