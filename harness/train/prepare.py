"""From a `RunSpec` to native settings: every check that can be made before training."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from parallax.envs.tasks import TaskError, load_task
from parallax.harness.contract.adapter import Adapter, RunContext, get_action_kinds, load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.interpreter import check_interpreter
from parallax.harness.contract.recipes import list_recipe_names, load_recipe
from parallax.harness.contract.run_spec import RunSpec
from parallax.harness.contract.translation import NativeConfig
from parallax.harness.interventions.catalogue import (
    Intervention,
    apply_settings,
    combine_interventions,
    load_replay_interventions,
    resolve_interventions,
)
from parallax.harness.record.files import to_plain_json
from parallax.harness.train.compatibility import check_device, check_replay
from parallax.harness.train.limits import ANY, Machine, check_limits
from parallax.harness.train.loggers import check_logger_installed


@dataclasses.dataclass(frozen=True)
class PreparedRun:
    """A run that has passed every check that can be made before training.

    Attributes:
        spec: What was asked for.
        context: What the translation knows of task and run.
        hyperparameters: Unified hyperparameters that the framework is held to.
        native: The same in the framework's own terms.
        interventions: What is changed of everything else.
    """

    spec: RunSpec
    context: RunContext
    hyperparameters: Hyperparameters
    native: NativeConfig
    interventions: tuple[Intervention, ...] = ()


def prepare_run(spec: RunSpec, adapter: Adapter, on_this_machine: bool = True) -> PreparedRun:
    """Resolves and translates a run.

    Args:
        spec: What is asked for.
        adapter: Of its framework.
        on_this_machine: Whether it is this machine that will train; its devices are looked at then.

    Raises:
        SpecError: The framework or task is missing or cannot honour the run.
    """
    if spec.python is None:
        adapter.check_installed()
        check_logger_installed(spec.logger)
    else:
        check_interpreter(spec.python, spec.framework)
    try:
        task = load_task(spec.env)
    except TaskError as error:
        raise SpecError(str(error)) from error
    kinds = get_action_kinds(adapter, spec.algorithm)
    if task.actions not in kinds:
        fitting = [
            name
            for name in ALGORITHMS
            if adapter.supports(name) and task.actions in get_action_kinds(adapter, name)
        ]
        choose = f"algorithm={' or '.join(fitting)}" if fitting else "another framework"
        raise SpecError(
            f"env={spec.env} has {task.actions} actions, and algorithm={spec.algorithm} of "
            f"framework={spec.framework} chooses {' or '.join(sorted(kinds))} ones: use {choose}, "
            "or another task."
        )
    check_limits(spec, task, Machine.here() if on_this_machine else ANY)
    check_replay(spec, adapter)
    check_device(spec, adapter, on_this_machine=on_this_machine and spec.python is None)
    made = resolve_interventions(spec.intervention, spec.framework, spec.algorithm)
    if not spec.replay.is_uniform:
        made = combine_interventions(
            (*made, *load_replay_interventions(spec.framework, spec.algorithm))
        )
    context = RunContext(task, spec.steps, spec.seed, spec.n_envs, spec.replay, spec.device)
    requested = spec.hyperparameters
    if spec.hps == adapter.name:
        requested = resolve_library_recipe(
            adapter, spec.algorithm, requested, spec.overridden, context
        )
    hyperparameters = resolve_hyperparameters(
        adapter, spec.algorithm, requested, spec.alignment, context
    )
    hyperparameters = apply_settings(hyperparameters, made).resolve_for_task(task)
    if hyperparameters.sees_rewards and spec.wrappers == "normalized":
        raise SpecError(
            f"wrappers=normalized scales the rewards that algorithm={spec.algorithm} is shown in "
            "training, and evaluations show the task's own: use wrappers=none, or "
            "hyperparameters.last_step_inputs=false."
        )
    if task.brightest > 1 and spec.wrappers == "normalized":
        raise SpecError(
            f"wrappers=normalized would scale what networks divide by {task.brightest} already: "
            f"env={task.env_id} shows bytes. Use wrappers=none."
        )
    try:
        native = adapter.translate(spec.algorithm, hyperparameters, context)
    except SpecError as error:
        if spec.alignment == "common" or "hyperparameters." not in str(error):
            raise
        raise SpecError(
            f"{error} Change the value, or use alignment=common, which leaves what not every "
            "framework exposes at the framework's own default."
        ) from error
    return PreparedRun(spec, context, hyperparameters, native, made)


def resolve_hyperparameters(
    adapter: Adapter,
    algorithm: str,
    requested: Hyperparameters,
    alignment: str,
    context: RunContext,
) -> Hyperparameters:
    """The hyperparameters that the framework is held to.

    Under `exact` they are those requested. Under `common` the fields that not every framework
    exposes come from the framework's own recipe file instead.
    """
    if alignment == "exact":
        return requested
    if adapter.name not in list_recipe_names(algorithm):
        raise SpecError(
            f"framework={adapter.name} has no recipe hp_configs/{algorithm}/{adapter.name}.yaml, "
            "which alignment=common takes its defaults from: add it, or use alignment=exact."
        )
    common = {name: getattr(requested, name) for name in type(requested).common_fields}
    own = dataclasses.replace(load_recipe(algorithm, adapter.name), **common)
    own = adapter.get_library_defaults(algorithm, own, context)
    return dataclasses.replace(own, **common)


def resolve_library_recipe(
    adapter: Adapter,
    algorithm: str,
    requested: Hyperparameters,
    overridden: Collection[str],
    context: RunContext,
) -> Hyperparameters:
    """A framework's own recipe as the framework means it on this task.

    Args:
        adapter: Of the framework that the recipe is named after.
        algorithm: Name of the algorithm.
        requested: The recipe, with what the user overrides.
        overridden: Fields that are as the user asked for, in unified units.
        context: The run.
    """
    asked = {name: getattr(requested, name) for name in overridden}
    return dataclasses.replace(adapter.get_library_defaults(algorithm, requested, context), **asked)


def describe_translation(prepared: PreparedRun) -> dict[str, Any]:
    """What decides what trains."""
    decisive = {
        "hyperparameters": dataclasses.asdict(prepared.hyperparameters),
        "native": dict(prepared.native.settings),
        "update_schedule": dataclasses.asdict(prepared.native.update_schedule),
    }
    changes = {item.name: item.told() for item in prepared.interventions}
    return decisive | ({"interventions": changes} if changes else {})


def check_translation(prepared: PreparedRun, recorded: Mapping[str, Any]) -> None:
    """Makes sure that what trains is what `run.json` says, which may be of another day.

    Args:
        prepared: What the code of now makes of the run.
        recorded: The content of `run.json`.

    Raises:
        SpecError: Names what differs.
    """
    now = describe_translation(prepared) | {"scheduled steps": prepared.native.total_steps}
    then = {**recorded, "scheduled steps": recorded["steps"]["scheduled"]}
    for part, value in now.items():
        new, old = _drop_nulls(_round_trip_json(value)), _drop_nulls(then.get(part))
        if new != old and old is not None:
            raise SpecError(
                f"The code that is installed now translates the run otherwise than when it was "
                f"set up ({_describe_translation_difference(part, old, new)}). Start the sweep again, which sets "
                "it up anew."
            )


def _round_trip_json(value: Any) -> Any:
    """A value as it comes back from a file."""
    return msgspec.json.decode(msgspec.json.encode(to_plain_json(value)))


def _drop_nulls(value: Any) -> Any:
    """A mapping without what is null in it, as are fields that came later."""
    if not isinstance(value, dict):
        return value
    return {name: item for name, item in value.items() if item is not None}


def _describe_translation_difference(part: str, old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        name = min(n for n in old.keys() | new.keys() if old.get(n) != new.get(n))
        return f"{part}: {name}={old.get(name)} then, {new.get(name)} now"
    return f"{part}: {old} then, {new} now"


def prepare_runs(specs: Sequence[RunSpec], on_this_machine: bool = True) -> list[PreparedRun]:
    """Checks and translates runs, which this machine will carry out unless not `here`.

    Raises:
        SpecError: Some cannot be carried out as asked; tells each problem once.
    """
    adapters = {name: load_adapter(name) for name in {spec.framework for spec in specs}}
    problems: dict[str, str] = {}
    prepared = []
    for spec in specs:
        try:
            prepared.append(prepare_run(spec, adapters[spec.framework], on_this_machine))
        except SpecError as error:
            problems.setdefault(str(error), spec.title)
    if len(specs) > 1 and problems:
        raise SpecError("\n".join(f"{title}: {text}" for text, title in problems.items()))
    if problems:
        raise SpecError(next(iter(problems)))
    return prepared
