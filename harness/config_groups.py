"""Hydra's config groups, made from what is installed: frameworks, tasks, recipes."""

from hydra.core.config_store import ConfigStore

from envs.tasks import TASK_IDS
from harness.adapter import installed_adapters
from harness.recipes import read_recipe, recipe_names
from harness.spec import ALGORITHMS


def register() -> None:
    """Adds the groups framework, algorithm, env, hps and hyperparameters."""
    store = ConfigStore.instance()
    groups = {
        "framework": list(installed_adapters()),
        "algorithm": list(ALGORITHMS),
        "env": list(TASK_IDS),
        "hps": sorted({name for algorithm in ALGORITHMS for name in recipe_names(algorithm)}),
    }
    for group, names in groups.items():
        for name in names:
            node = {"name": name} | ({"python": None} if group == "framework" else {})
            store.store(group=group, name=name, node=node)
    for algorithm in ALGORITHMS:
        for name in recipe_names(algorithm):
            values = read_recipe(algorithm, name)
            store.store(group=f"hyperparameters/{algorithm}", name=name, node=values)
