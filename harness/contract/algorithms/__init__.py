"""Algorithms and their unified hyperparameters, one file per algorithm.

The algorithms of this project are listed below. Other packages add theirs through the entry-point
group `parallax.algorithms`: `name = "module:Class"`, with a subclass of `Hyperparameters`.
"""

import dataclasses
import importlib.metadata
import re
from collections.abc import Iterable, Mapping
from typing import Any

from parallax.harness.contract.algorithms.base import Hyperparameters, field_names
from parallax.harness.contract.algorithms.ddpg import DDPG
from parallax.harness.contract.algorithms.dqn import DQN
from parallax.harness.contract.algorithms.ppo import PPO
from parallax.harness.contract.algorithms.r2d2 import R2D2
from parallax.harness.contract.algorithms.sac import SAC
from parallax.harness.contract.algorithms.td3 import TD3
from parallax.harness.contract.packages import find_entry_points

ENTRY_POINT_GROUP = "parallax.algorithms"
BUILTIN_ALGORITHMS: Mapping[str, type[Hyperparameters]] = {
    "ppo": PPO,
    "td3": TD3,
    "sac": SAC,
    "ddpg": DDPG,
    "dqn": DQN,
    "r2d2": R2D2,
}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,19}")


def collect_algorithms(
    entries: Iterable[importlib.metadata.EntryPoint],
) -> tuple[dict[str, type[Hyperparameters]], dict[str, str]]:
    """Return all algorithms by name, and the reason for each entry that cannot be used.

    An error in one entry does not affect the others.
    """
    usable, unusable = dict(BUILTIN_ALGORITHMS), dict[str, str]()
    values: dict[str, list[importlib.metadata.EntryPoint]] = {}
    for entry in entries:
        values.setdefault(entry.name, []).append(entry)
    for name, (entry, *others) in values.items():
        try:
            if any(other.value != entry.value for other in others):
                raise ValueError(f"{others[0].value} has this name too: uninstall one")
            usable[name] = _check_algorithm_class(entry, entry.load(), usable)
        except (Exception, SystemExit) as error:  # third-party code
            unusable[name] = f"{entry.value}: {type(error).__name__}: {error}"
    return usable, unusable


def _check_algorithm_class(
    entry: importlib.metadata.EntryPoint, found: Any, taken: Mapping[str, Any]
) -> type[Hyperparameters]:
    if not _NAME.fullmatch(entry.name):
        raise ValueError("its name must be lower-case letters, digits and underscores, up to 20")
    if entry.name in taken:
        raise ValueError(f"an algorithm {entry.name} already exists")
    if not (isinstance(found, type) and issubclass(found, Hyperparameters)):
        raise TypeError("not a subclass of parallax.harness.contract.algorithms.Hyperparameters")
    if not dataclasses.is_dataclass(found) or "gamma" not in field_names(found):
        raise TypeError("it must be a frozen dataclass with a field gamma")
    lacking = [
        name for name in ("label", "family", "actions", "has_targets") if not hasattr(found, name)
    ]
    if lacking:
        raise TypeError(f"it lacks {', '.join(lacking)}")
    return found


ALGORITHMS, BROKEN_ALGORITHMS = collect_algorithms(find_entry_points(ENTRY_POINT_GROUP))

PROBED_ALGORITHMS = {name: cls for name, cls in ALGORITHMS.items() if cls.has_probes}
"""Algorithms that have probes of a single update."""


def describe_owning_algorithms(field: str) -> str:
    """Return a hint that names the algorithms which have a hyperparameter."""
    having = [algorithm for algorithm, cls in ALGORITHMS.items() if field in field_names(cls)]
    if not having:
        return ""
    return f"is a hyperparameter of {', '.join(having)} only: sweep algorithms separately."
