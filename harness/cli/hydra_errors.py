"""What Hydra refuses, in the words of someone who wants to train."""

import dataclasses
import re
from collections.abc import Sequence

from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from envs.tasks import TASK_IDS
from harness.contract.algorithms import ALGORITHMS, UNUSABLE, only_of
from harness.contract.fields import unknown
from harness.contract.recipes import recipe_names
from harness.contract.run_spec import RunSpec

REFUSALS = (HydraException, OmegaConfBaseException)

_ELSEWHERE = {
    "env": "Any other gymnasium task is named as env.name={}.",
    "study": "A study of your own is named as study.name={}.",
}


def explain(error: BaseException) -> str:
    """The error without what only concerns Hydra's own workings."""
    text = str(error)
    if recipe := re.search(r"Could not find 'hyperparameters/([^/']+)/([^']+)'", text):
        return _explain_recipe(*recipe.groups())
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _explain_choice(error.missing_cfg_file, error.options or ()) or _shortened(text)
    mistyped = re.match(r"Could not override '([^']+)'", text)
    return _explain_name(mistyped[1]) if mistyped else _shortened(text)


def _shortened(text: str) -> str:
    # Where Hydra looked for its files does not help anyone who mistyped a name.
    return text.split("Config search path", maxsplit=1)[0].strip()


def _explain_choice(path: str, options: Sequence[str]) -> str:
    """What to choose from; empty where nothing is known of the group."""
    group, _, name = path.rpartition("/")
    if group.startswith("hyperparameters/"):
        group = "hps"
    if group.startswith("env/"):  # a slash in the name of a task is a folder to Hydra
        group, _, name = path.partition("/")
        options = TASK_IDS
    if not options or not group:
        return ""
    if group == "algorithm" and name in UNUSABLE:
        return f"algorithm={name} cannot be used ({UNUSABLE[name]})."
    other = _ELSEWHERE.get(group, "").format(name)
    return f"{unknown(f'{group}={name}', name, list(options))} {other}".strip()


def _explain_recipe(algorithm: str, name: str) -> str:
    known = recipe_names(algorithm) if algorithm in ALGORITHMS else []
    return f"algorithm={algorithm} has no such recipe: {unknown(f'hps={name}', name, known)}"


def _explain_name(name: str) -> str:
    group, _, field = name.rpartition(".")
    if group == "hyperparameters" and only_of(field):
        return f"{name} {only_of(field)}"
    run = [field.name for field in dataclasses.fields(RunSpec) if field.metadata]
    all_fields = {field.name for cls in ALGORITHMS.values() for field in dataclasses.fields(cls)}
    return unknown(name, name, ["results_dir", *run, *(f"hyperparameters.{f}" for f in all_fields)])
