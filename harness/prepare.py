"""From a `RunSpec` to native settings: every check that can be made before training."""

import dataclasses

from envs.tasks import TaskError, load_task
from harness.adapter import Adapter, Context, Native
from harness.fields import SpecError
from harness.interpreter import check_interpreter
from harness.recipes import load_recipe, recipe_names
from harness.run_spec import RunSpec
from harness.spec import THESIS_FIELDS, Hyperparameters


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A run that has passed every check that can be made before training.

    Attributes:
        spec: What was asked for.
        context: What the translation knows of task and run.
        hyperparameters: Unified hyperparameters that the framework is held to.
        native: The same in the framework's own terms.
    """

    spec: RunSpec
    context: Context
    hyperparameters: Hyperparameters
    native: Native


def prepare(spec: RunSpec, adapter: Adapter) -> Prepared:
    """Resolves and translates a run.

    Raises:
        SpecError: The framework or task is missing or cannot honour the run.
    """
    if spec.python is None:
        adapter.check_installed()
    else:
        check_interpreter(spec.python, spec.framework)
    try:
        task = load_task(spec.env)
    except TaskError as error:
        raise SpecError(str(error)) from error
    context = Context(task=task, steps=spec.steps, seed=spec.seed, n_envs=spec.n_envs)
    hyperparameters = resolve(
        adapter, spec.algorithm, spec.hyperparameters, spec.alignment, context
    )
    try:
        native = adapter.translate(spec.algorithm, hyperparameters, context)
    except SpecError as error:
        if spec.alignment == "thesis":
            raise
        raise SpecError(
            f"{error} Change the value, or use alignment=thesis, which leaves what not every "
            "framework exposes at the framework's own default."
        ) from error
    return Prepared(spec, context, hyperparameters, native)


def resolve(
    adapter: Adapter, algorithm: str, requested: Hyperparameters, alignment: str, context: Context
) -> Hyperparameters:
    """The hyperparameters that the framework is held to.

    Under `full` they are those requested. Under `thesis` the fields that not every framework
    exposes come from the framework's own recipe file instead.
    """
    if alignment == "full":
        return requested
    if adapter.name not in recipe_names(algorithm):
        raise SpecError(
            f"framework={adapter.name} has no recipe hp_configs/{algorithm}/{adapter.name}.yaml, "
            "which alignment=thesis takes its defaults from: add it, or use alignment=full."
        )
    common = {name: getattr(requested, name) for name in THESIS_FIELDS[algorithm]}
    own = dataclasses.replace(load_recipe(algorithm, adapter.name), **common)
    own = adapter.own_defaults(algorithm, own, context)
    return dataclasses.replace(own, **common)
