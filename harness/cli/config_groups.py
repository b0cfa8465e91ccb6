"""The configuration groups whose options come from code: frameworks, algorithms, tasks, recipes.

Help lists them without importing Hydra, which takes half a second.
"""

from collections.abc import Mapping
from typing import Any

from parallax.envs.tasks import MEMORY_TASK_IDS, TASK_IDS
from parallax.harness.contract.adapter import find_adapter_entry_points
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import list_recipe_names, read_recipe
from parallax.harness.contract.replay import REPLAY_CONFIGS
from parallax.harness.contract.run_spec import DIAGNOSIS_MODES


def list_group_options() -> dict[str, list[str]]:
    """Return the options of each group; those of `hyperparameters/...` are recipes."""
    recipes = {algorithm: list_recipe_names(algorithm) for algorithm in ALGORITHMS}
    return {
        "framework": list(find_adapter_entry_points()),
        "algorithm": list(ALGORITHMS),
        "env": [*TASK_IDS, *MEMORY_TASK_IDS],
        "hps": sorted(set().union(*recipes.values())),
        "replay": list(REPLAY_CONFIGS),
        "diagnosis": list(DIAGNOSIS_MODES),
    } | {f"hyperparameters/{algorithm}": names for algorithm, names in recipes.items()}


def read_group_option(group: str, name: str) -> Mapping[str, Any]:
    """Return the values that an option of a group stands for."""
    kind, _, algorithm = group.partition("/")
    if kind == "hyperparameters":
        return read_recipe(algorithm, name)
    if group == "replay":
        return REPLAY_CONFIGS[name]().to_dict()
    if group == "diagnosis":
        from parallax.harness.diagnosis.registry import (
            get_default_thresholds,  # help needs only names
        )

        thresholds = {key: {"threshold": value} for key, value in get_default_thresholds().items()}
        return {"name": name, "period": None, "also": [], **thresholds}
    own: dict[str, dict[str, Any]] = {
        "framework": {"python": None},
        "env": {"kwargs": {}, "wrappers": []},
    }
    return {"name": name} | own.get(group, {})


def register_config_groups() -> None:
    """Add the groups to those of Hydra."""
    from hydra.core.config_store import ConfigStore  # half a second, and help needs only names
    from omegaconf import OmegaConf

    store = ConfigStore.instance()
    for group, names in list_group_options().items():
        for name in names:
            # A slash in an option's name is a folder to Hydra, with a package of its own.
            above, _, last = f"{group}/{name}".rpartition("/")
            package = group if above != group else None
            try:
                node: Any = dict(read_group_option(group, name))
            except SpecError:
                continue  # a damaged recipe stops only the runs that use it
            if group == "env":
                node = OmegaConf.create(node)
                OmegaConf.set_struct(node.kwargs, False)  # its names are the task's own
            store.store(group=above, name=last, node=node, package=package)
