"""Hydra's config groups, made from what is installed: frameworks, tasks, recipes."""

from collections.abc import Mapping
from typing import Any

from envs.tasks import MEMORY_TASK_IDS, TASK_IDS
from harness.contract.adapter import installed_adapters
from harness.contract.algorithms import ALGORITHMS
from harness.contract.recipes import read_recipe, recipe_names
from harness.contract.replay import STRATEGIES
from harness.contract.run_spec import DIAGNOSIS


def group_names() -> dict[str, list[str]]:
    """The options of each group; those of `hyperparameters/...` are recipes."""
    recipes = {algorithm: recipe_names(algorithm) for algorithm in ALGORITHMS}
    return {
        "framework": list(installed_adapters()),
        "algorithm": list(ALGORITHMS),
        "env": [*TASK_IDS, *MEMORY_TASK_IDS],
        "hps": sorted(set().union(*recipes.values())),
        "replay": list(STRATEGIES),
        "diagnosis": list(DIAGNOSIS),
    } | {f"hyperparameters/{algorithm}": names for algorithm, names in recipes.items()}


def option(group: str, name: str) -> Mapping[str, Any]:
    """The values that an option of one of these groups stands for."""
    kind, _, algorithm = group.partition("/")
    if kind == "hyperparameters":
        return read_recipe(algorithm, name)
    if group == "replay":
        return STRATEGIES[name]().told()
    if group == "diagnosis":
        from harness.diagnosis.registry import default_thresholds  # help needs only names

        thresholds = {key: {"threshold": value} for key, value in default_thresholds().items()}
        return {"name": name, "period": None, "also": [], **thresholds}
    return {"name": name} | ({"python": None} if group == "framework" else {})


def register() -> None:
    """Adds the groups to Hydra's."""
    from hydra.core.config_store import ConfigStore  # half a second, and help needs only names

    store = ConfigStore.instance()
    for group, names in group_names().items():
        for name in names:
            # A slash in an option's name is a folder to Hydra, which would be a place of its own.
            above, _, last = f"{group}/{name}".rpartition("/")
            package = group if above != group else None
            store.store(group=above, name=last, node=dict(option(group, name)), package=package)
