"""From a `RunSpec` to native settings: every check that can be made before training."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from envs.tasks import TaskError, load_task
from harness.contract.adapter import (
    CPU,
    Adapter,
    Context,
    Native,
    OnDevices,
    Replaying,
    action_kinds,
    load_adapter,
)
from harness.contract.algorithms import ALGORITHMS, Hyperparameters, OffPolicy
from harness.contract.fields import SpecError
from harness.contract.interpreter import check_interpreter
from harness.contract.recipes import load_recipe, recipe_names
from harness.contract.run_spec import RunSpec
from harness.interventions.catalogue import Intervention, chosen, together, with_settings
from harness.interventions.replaying import carried_by
from harness.record.files import plain_json
from harness.train.loggers import check_logger


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A run that has passed every check that can be made before training.

    Attributes:
        spec: What was asked for.
        context: What the translation knows of task and run.
        hyperparameters: Unified hyperparameters that the framework is held to.
        native: The same in the framework's own terms.
        interventions: What is changed of everything else.
    """

    spec: RunSpec
    context: Context
    hyperparameters: Hyperparameters
    native: Native
    interventions: tuple[Intervention, ...] = ()


def prepare(spec: RunSpec, adapter: Adapter, here: bool = True) -> Prepared:
    """Resolves and translates a run.

    Args:
        spec: What is asked for.
        adapter: Of its framework.
        here: Whether it is this machine that will train; its devices are looked at then.

    Raises:
        SpecError: The framework or task is missing or cannot honour the run.
    """
    if spec.python is None:
        adapter.check_installed()
        check_logger(spec.logger)
    else:
        check_interpreter(spec.python, spec.framework)
    try:
        task = load_task(spec.env)
    except TaskError as error:
        raise SpecError(str(error)) from error
    kinds = action_kinds(adapter, spec.algorithm)
    if task.actions not in kinds:
        fitting = [
            name
            for name in ALGORITHMS
            if adapter.supports(name) and task.actions in action_kinds(adapter, name)
        ]
        choose = f"algorithm={' or '.join(fitting)}" if fitting else "another framework"
        raise SpecError(
            f"env={spec.env} has {task.actions} actions, and algorithm={spec.algorithm} of "
            f"framework={spec.framework} chooses {' or '.join(sorted(kinds))} ones: use {choose}, "
            "or another task."
        )
    check_replay(spec, adapter)
    check_device(spec, adapter, here=here and spec.python is None)
    made = chosen(spec.intervention, spec.framework, spec.algorithm)
    if not spec.replay.is_uniform:
        made = together((*made, *carried_by(spec.framework, spec.algorithm)))
    context = Context(task, spec.steps, spec.seed, spec.n_envs, spec.replay, spec.device)
    requested = spec.hyperparameters
    if spec.hps == adapter.name:
        requested = in_own_units(adapter, spec.algorithm, requested, spec.overridden, context)
    hyperparameters = resolve(adapter, spec.algorithm, requested, spec.alignment, context)
    hyperparameters = with_settings(hyperparameters, made).on_task(task)
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
        if spec.alignment == "thesis" or "hyperparameters." not in str(error):
            raise
        raise SpecError(
            f"{error} Change the value, or use alignment=thesis, which leaves what not every "
            "framework exposes at the framework's own default."
        ) from error
    return Prepared(spec, context, hyperparameters, native, made)


def check_replay(spec: RunSpec, adapter: Adapter) -> None:
    """Makes sure that the framework can replay as asked.

    Raises:
        SpecError: The algorithm replays nothing, or the framework cannot; names the remedy.
    """
    if spec.replay.is_uniform:
        return
    asked = f"replay={spec.replay.name}"
    if not isinstance(spec.hyperparameters, OffPolicy):
        replaying = [name for name, known in ALGORITHMS.items() if issubclass(known, OffPolicy)]
        raise SpecError(
            f"{asked}: algorithm={spec.algorithm} learns from what it has just seen and replays "
            f"nothing. Use replay=uniform, or algorithm={' or '.join(replaying)}."
        )
    reason = "its adapter carries no other way of replaying than its own"
    if isinstance(adapter, Replaying):
        reason = adapter.refuses_replay(spec.algorithm, spec.replay)
    if reason:
        raise SpecError(
            f"{asked} cannot be carried by framework={spec.framework} for "
            f"algorithm={spec.algorithm}: {reason}. Use replay=uniform or another framework."
        )


def check_device(spec: RunSpec, adapter: Adapter, here: bool) -> None:
    """Makes sure that the framework can train on the device, and that it is there.

    Raises:
        SpecError: Names the device and the remedy.
    """
    if spec.device == CPU:
        return
    reason = f"its adapter trains on the CPU only. Use device={CPU}."
    if isinstance(adapter, OnDevices):
        reason = adapter.refuses_device(spec.algorithm, spec.device, here)
    if reason:
        raise SpecError(f"device={spec.device} cannot be had by framework={adapter.name}: {reason}")


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
    common = {name: getattr(requested, name) for name in type(requested).thesis_fields}
    own = dataclasses.replace(load_recipe(algorithm, adapter.name), **common)
    own = adapter.own_defaults(algorithm, own, context)
    return dataclasses.replace(own, **common)


def in_own_units(
    adapter: Adapter,
    algorithm: str,
    requested: Hyperparameters,
    overridden: Collection[str],
    context: Context,
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
    return dataclasses.replace(adapter.own_defaults(algorithm, requested, context), **asked)


def translated(prepared: Prepared) -> dict[str, Any]:
    """What decides what trains."""
    decisive = {
        "hyperparameters": dataclasses.asdict(prepared.hyperparameters),
        "native": dict(prepared.native.settings),
        "cadence": dataclasses.asdict(prepared.native.cadence),
    }
    changes = {item.name: item.told() for item in prepared.interventions}
    return decisive | ({"interventions": changes} if changes else {})


def check_translation(prepared: Prepared, recorded: Mapping[str, Any]) -> None:
    """Makes sure that what trains is what `run.json` says, which may be of another day.

    Args:
        prepared: What the code of now makes of the run.
        recorded: The content of `run.json`.

    Raises:
        SpecError: Names what differs.
    """
    now = translated(prepared) | {"scheduled steps": prepared.native.total_steps}
    then = {**recorded, "scheduled steps": recorded["steps"]["scheduled"]}
    for part, value in now.items():
        new, old = _told(_as_read(value)), _told(then.get(part))
        if new != old and old is not None:
            raise SpecError(
                f"The code that is installed now translates the run otherwise than when it was "
                f"set up ({_first_difference(part, old, new)}). Start the sweep again, which sets "
                "it up anew."
            )


def _as_read(value: Any) -> Any:
    """A value as it comes back from a file."""
    return msgspec.json.decode(msgspec.json.encode(plain_json(value)))


def _told(value: Any) -> Any:
    """A mapping without what is null in it, as are fields that came later."""
    if not isinstance(value, dict):
        return value
    return {name: item for name, item in value.items() if item is not None}


def _first_difference(part: str, old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        name = min(n for n in old.keys() | new.keys() if old.get(n) != new.get(n))
        return f"{part}: {name}={old.get(name)} then, {new.get(name)} now"
    return f"{part}: {old} then, {new} now"


def prepare_all(specs: Sequence[RunSpec], here: bool = True) -> list[Prepared]:
    """Checks and translates runs, which this machine will carry out unless not `here`.

    Raises:
        SpecError: Some cannot be carried out as asked; tells each problem once.
    """
    adapters = {name: load_adapter(name) for name in {spec.framework for spec in specs}}
    problems: dict[str, str] = {}
    prepared = []
    for spec in specs:
        try:
            prepared.append(prepare(spec, adapters[spec.framework], here))
        except SpecError as error:
            problems.setdefault(str(error), spec.title)
    if len(specs) > 1 and problems:
        raise SpecError("\n".join(f"{title}: {text}" for text, title in problems.items()))
    if problems:
        raise SpecError(next(iter(problems)))
    return prepared
