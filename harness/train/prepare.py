"""Preparation of a run: from a `RunSpec` to native settings, with every check before training."""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parallax.envs.tasks import Task, TaskError, hash_wrapper_sources, load_task
from parallax.harness.contract.adapter import Adapter, RunContext
from parallax.harness.contract.adapter_discovery import find_adapter_entry_points, load_adapter
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.fields import SpecError, format_value
from parallax.harness.contract.interpreter import check_interpreter
from parallax.harness.contract.recipes import list_recipe_names, load_recipe, set_common_fields
from parallax.harness.contract.run_spec import (
    DEFAULTS_RECIPE,
    INTERVENTION_SEPARATOR,
    PROTOCOL_FIELDS,
    RunSpec,
)
from parallax.harness.contract.translation import NativeConfig
from parallax.harness.interventions.catalogue import (
    Intervention,
    apply_settings,
    apply_update_counts,
    check_no_conflict,
    check_segments_in_script,
    list_conversions,
    make_patches,
    resolve_interventions,
)
from parallax.harness.record.files import to_plain_json
from parallax.harness.train import limits
from parallax.harness.train.loggers import check_logger_installed

_USUAL_RECIPE = "original"
"""Recipe of a run whose command line names none."""


@dataclasses.dataclass(frozen=True)
class PreparedRun:
    """A run that has passed every check that can be made before training.

    Attributes:
        context: Task and run, as far as the translation knows them.
        hyperparameters: Unified hyperparameters that the framework trains with.
        native: The same in the framework's own terms.
        interventions: Changes that the run is trained with, patches of constants included.
    """

    spec: RunSpec
    context: RunContext
    hyperparameters: Hyperparameters
    native: NativeConfig
    interventions: tuple[Intervention, ...] = ()


class _RefusedValueError(SpecError):
    """The framework supports a hyperparameter's value neither by an option nor by a patch."""


def prepare_run(
    spec: RunSpec, adapter: Adapter, on_this_machine: bool = True, must_learn: bool = True
) -> PreparedRun:
    """Check a run, resolve its hyperparameters and translate them.

    Args:
        spec: The run.
        adapter: Adapter of its framework.
        on_this_machine: Whether this machine will train: its memory and devices are checked then.
        must_learn: Whether a run that ends before its first update is refused. An existing run, or
            a run that only tests whether training can begin, may do so.

    Raises:
        SpecError: The framework or task is missing or cannot honour the run; proposes only what
            the framework accepts.
    """
    try:
        return _prepare_run(spec, adapter, on_this_machine, must_learn)
    except _RefusedValueError as error:
        remedies = ["Change the value", *_list_accepted_changes(spec, adapter)]
        raise SpecError(f"{error} {', or use '.join(remedies)}.") from error


def _prepare_run(
    spec: RunSpec, adapter: Adapter, on_this_machine: bool, must_learn: bool
) -> PreparedRun:
    """Prepare a run; only this function knows the order of the steps."""
    _check_installation(spec, adapter)
    task = _load_task(spec)
    limits.check_limits(
        spec, task, limits.Machine.of_this_host() if on_this_machine else limits.UNKNOWN_MACHINE
    )
    limits.check_compatibility(spec, adapter, task, on_this_machine)
    interventions = resolve_interventions(
        spec.intervention,
        adapter,
        spec.algorithm,
        reference_form=spec.alignment == "lockstep",
        conversions_follow=spec.alignment == "exact",
        with_replay=not spec.replay.is_uniform,
    )
    context = _make_context(spec, task)
    hyperparameters = apply_settings(_resolve_for_spec(spec, adapter, context), interventions)
    hyperparameters = hyperparameters.resolve_for_task(task)
    limits.check_wrappers(spec, hyperparameters, task)
    if must_learn:
        limits.check_length(spec, hyperparameters)
    native = _translate(spec, adapter, hyperparameters, context)
    if spec.alignment == "exact":
        if not spec.patches:
            check_no_conversion(spec.framework, native)
        names = spec.intervention.split(INTERVENTION_SEPARATOR)
        interventions += list_conversions(names, native, adapter, spec.algorithm)
    if native.patched_fields:
        interventions += make_patches(
            adapter, spec.algorithm, hyperparameters, native.patched_fields
        )
    interventions = tuple(_keep_executed(item, adapter, spec, context) for item in interventions)
    check_no_conflict(interventions)
    schedule = apply_update_counts(native.update_schedule, hyperparameters, interventions)
    native = dataclasses.replace(native, update_schedule=schedule)
    if spec.script:
        adapter.check_script(spec.algorithm, native, context, here=spec.python is None)
        check_segments_in_script(interventions, spec.script)
    if must_learn:
        limits.check_updates(spec, hyperparameters, native)
    return PreparedRun(spec, context, hyperparameters, native, interventions)


def _make_context(spec: RunSpec, task: Task) -> RunContext:
    return RunContext(
        task,
        spec.steps,
        spec.seed,
        spec.n_envs,
        spec.replay,
        spec.device,
        spec.patch_constants,
        converts_meanings=spec.alignment in ("exact", "lockstep"),
        script=spec.script,
        acceleration=spec.acceleration,
        actors=spec.actors,
    )


def _keep_executed(
    item: Intervention, adapter: Adapter, spec: RunSpec, context: RunContext
) -> Intervention:
    """Return an intervention with the segments of the modules that the run executes.

    Raises:
        SpecError: It executes none of them.
    """
    applied = tuple(
        s for s in item.source if adapter.runs_module(spec.algorithm, s.module, context)
    )
    if item.source and not applied:
        raise SpecError(
            f"intervention={item.name} changes {item.source[0].module}, which "
            f"framework={adapter.name} does not run on env={spec.env}: use a task with "
            f"{'continuous' if context.task.choices else 'discrete'} actions."
        )
    return dataclasses.replace(item, source=applied)


def _check_installation(spec: RunSpec, adapter: Adapter) -> None:
    if spec.python is None:
        adapter.check_installed()
        check_logger_installed(spec.logger)
    else:
        check_interpreter(spec.python, spec.framework)


def _load_task(spec: RunSpec) -> Task:
    try:
        return load_task(spec.env, **spec.env_options)
    except TaskError as error:
        raise SpecError(str(error)) from error


def _resolve_for_spec(spec: RunSpec, adapter: Adapter, context: RunContext) -> Hyperparameters:
    requested = resolve_library_recipe(
        spec.hps, spec.algorithm, spec.hyperparameters, spec.overridden, context
    )
    return resolve_hyperparameters(adapter, spec.algorithm, requested, spec.alignment, context)


def _translate(
    spec: RunSpec, adapter: Adapter, hyperparameters: Hyperparameters, context: RunContext
) -> NativeConfig:
    try:
        return adapter.translate(spec.algorithm, hyperparameters, context)
    except SpecError as error:
        if "hyperparameters." not in str(error):
            raise
        raise _RefusedValueError(str(error)) from error


def check_no_conversion(framework: str, native: NativeConfig) -> None:
    """Check that upstream uses every hyperparameter as the schema says.

    Raises:
        SpecError: It does not; names each field, its value and the intervention that changes it.
    """
    reasons = [
        f"hyperparameters.{row.field}={format_value(row.value)}: {framework} interprets it "
        f"differently from the schema, and only a change of its source ({row.conversion}) helps"
        for row in native.alignment
        if row.conversion
    ]
    if reasons:
        raise _RefusedValueError(f"{'; '.join(reasons)}.")


_REMEDIES: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("patches=true, which changes upstream's constants", {"patches": True}),
    ("alignment=exact, which patches upstream's constants", {"alignment": "exact"}),
    ("n_envs=1", {"n_envs": 1}),
    (
        "alignment=common, which leaves fields that not every framework exposes at the framework's "
        "own default",
        {"alignment": "common"},
    ),
)
"""Changes of a run that may make a framework accept it, in words and as fields of `RunSpec`."""


def _list_accepted_changes(spec: RunSpec, adapter: Adapter) -> list[str]:
    """List the changes, each sufficient alone, with which the framework accepts a refused run."""
    return [
        words
        for words, fields in _REMEDIES
        if any(getattr(spec, name) != value for name, value in fields.items())
        and _is_accepted(_change_run(spec, fields), adapter)
    ]


def _change_run(spec: RunSpec, fields: Mapping[str, Any]) -> RunSpec:
    """Return a run as if the user had typed other values of some fields."""
    changed = dataclasses.replace(spec, **fields)
    if spec.hps != DEFAULTS_RECIPE or changed.alignment == spec.alignment:
        return changed
    if _USUAL_RECIPE not in list_recipe_names(spec.algorithm):
        return changed
    applied = {name: getattr(spec.hyperparameters, name) for name in spec.overridden}
    recipe = dataclasses.replace(load_recipe(spec.algorithm, _USUAL_RECIPE), **applied)
    return dataclasses.replace(changed, hps=_USUAL_RECIPE, hyperparameters=recipe)


def _is_accepted(spec: RunSpec, adapter: Adapter) -> bool:
    if spec.alignment == "common" and set(spec.overridden) - spec.hyperparameters.common_fields:
        return False
    try:
        _prepare_run(spec, adapter, on_this_machine=False, must_learn=False)
    except SpecError:
        return False
    return True


def resolve_hyperparameters(
    adapter: Adapter,
    algorithm: str,
    requested: Hyperparameters,
    alignment: str,
    context: RunContext,
) -> Hyperparameters:
    """Return the hyperparameters that the framework trains with.

    Under `exact` and `lockstep` they are those requested, under `defaults` the framework's own.
    Under `common` the fields that not every framework exposes come from the framework's own
    recipe file instead.
    """
    if alignment in ("exact", "lockstep"):
        return requested
    if adapter.name not in list_recipe_names(algorithm):
        raise SpecError(
            f"framework={adapter.name} has no recipe hp_configs/{algorithm}/{adapter.name}.yaml, "
            f"which alignment={alignment} takes its defaults from: add it, or use alignment=exact."
        )
    if alignment == "defaults":
        protocol = {
            name: getattr(requested, name) for name in PROTOCOL_FIELDS if hasattr(requested, name)
        }
        recipe = dataclasses.replace(load_recipe(algorithm, adapter.name), **protocol)
        return adapter.get_library_defaults(algorithm, recipe, context)
    return set_common_fields(adapter, algorithm, requested, context)


def resolve_library_recipe(
    hps: str,
    algorithm: str,
    requested: Hyperparameters,
    overridden: Collection[str],
    context: RunContext,
) -> Hyperparameters:
    """Return a recipe that is named after a framework, as that framework uses it on this task.

    The values are the same for all frameworks that train with it. Other recipes are not changed.

    Args:
        hps: Name of the recipe.
        algorithm: Name of the algorithm.
        requested: The recipe, with what the user overrides.
        overridden: Fields that the user has set, in unified units.
        context: The run.
    """
    if hps not in find_adapter_entry_points():
        return requested
    owner = load_adapter(hps)
    if not owner.supports(algorithm):
        return requested
    own = owner.get_library_defaults(algorithm, requested, context)
    return dataclasses.replace(own, **{name: getattr(requested, name) for name in overridden})


def list_lost_values(prepared: PreparedRun, adapter: Adapter) -> dict[str, tuple[Any, Any]]:
    """List recipe values that `alignment=common` replaces though the framework accepts them."""
    spec, used = prepared.spec, prepared.hyperparameters
    if spec.alignment != "common":
        return {}
    lost = {}
    for field in dataclasses.fields(used):
        wanted, value = getattr(spec.hyperparameters, field.name), getattr(used, field.name)
        if wanted == value or field.name in type(used).common_fields:
            continue
        changed = dataclasses.replace(used, **{field.name: wanted})
        try:
            adapter.translate(spec.algorithm, changed, prepared.context)
        except SpecError:
            continue
        lost[field.name] = (wanted, value)
    return lost


def describe_doubtful_runs(runs: Sequence[PreparedRun]) -> list[str]:
    """Return warnings about runs that can be trained but are probably not as intended."""
    fixed_targets = dict.fromkeys(
        f"{run.spec.framework} {run.spec.algorithm} never updates its target network in "
        f"steps={run.spec.steps}: lower hyperparameters.target_update_interval, or raise steps."
        for run in runs
        if run.hyperparameters.has_targets and run.native.update_schedule.target_updates < 1
    )
    return [*describe_lost_values(runs), *fixed_targets, *_describe_partial_rollouts(runs)]


def _describe_partial_rollouts(runs: Sequence[PreparedRun]) -> Iterator[str]:
    # Some frameworks begin a rollout that exceeds the steps, others do not: neither is equal.
    frameworks: dict[tuple[int, int], set[str]] = {}
    for run in runs:
        size = getattr(run.hyperparameters, "rollout_steps", None)
        if size and run.spec.alignment in ("exact", "lockstep"):
            frameworks.setdefault((run.spec.steps, size), set()).add(run.spec.framework)
    for (steps, size), names in frameworks.items():
        whole = steps // size * size
        if len(names) > 1 and whole not in (0, steps):
            yield (
                f"steps={steps} is not a multiple of hyperparameters.rollout_steps={size}: some "
                f"frameworks learn from one more rollout than others. With steps={whole} or "
                f"steps={whole + size}, all learn from the same number."
            )


def describe_lost_values(runs: Iterable[PreparedRun]) -> list[str]:
    """Describe recipe values that runs under `alignment=common` do not use."""
    found = []
    tried = set()
    for run in runs:
        spec = run.spec
        case = (spec.framework, spec.env, spec.algorithm, spec.hyperparameters, spec.replay)
        if spec.alignment != "common" or case in tried:
            continue
        tried.add(case)
        lost = list_lost_values(run, load_adapter(spec.framework))
        if lost:
            values = ", ".join(f"{n} ({wanted} -> {used})" for n, (wanted, used) in lost.items())
            found.append(
                f"alignment=common: {spec.framework} {spec.algorithm} keeps its own values of "
                f"{values}, although it can take those of hps={spec.hps}. "
                "alignment=exact sets them."
            )
    return list(dict.fromkeys(found))


def describe_translation(prepared: PreparedRun) -> dict[str, Any]:
    """Return the settings that determine a training, as plain data for `run.json`."""
    decisive = {
        "hyperparameters": dataclasses.asdict(prepared.hyperparameters),
        "native": dict(prepared.native.settings),
    }
    changes = {item.name: item.to_dict() for item in prepared.interventions}
    sources = hash_wrapper_sources(prepared.spec.env_wrappers)
    added = {"interventions": changes, "wrapper_sources": sources}
    return decisive | {name: value for name, value in added.items() if value}


def check_wrapper_sources(spec: RunSpec, recorded: Mapping[str, str], folder: Path) -> None:
    """Check that a complete run's own wrappers were not edited; older records have no hashes.

    Raises:
        SpecError: The file of one was; names both hashes.
    """
    for name, now in hash_wrapper_sources(spec.env_wrappers).items():
        if recorded.get(name, now) != now:
            raise SpecError(
                f"{folder} holds a run with env.wrappers={name}, whose file has been edited "
                f"since (SHA-256 {recorded[name][:12]} then, {now[:12]} now). Choose another "
                "study.name or results_dir, or give the wrapper another name."
            )


def check_translation(prepared: PreparedRun, recorded: Mapping[str, Any]) -> None:
    """Check that a run is translated as it was when its `run.json` was written.

    Args:
        prepared: The run as the installed code translates it.
        recorded: The content of `run.json`.

    Raises:
        SpecError: Names what differs.
    """
    now = describe_translation(prepared) | {"scheduled steps": prepared.native.total_steps}
    then = {**recorded, "scheduled steps": recorded["steps"]["scheduled"]}
    for part, value in now.items():
        new, old = _select_decisive(_round_trip_json(value)), _select_decisive(then.get(part))
        if new != old and old is not None:
            raise SpecError(
                f"The installed code translates the run differently from when it was set up "
                f"({_describe_translation_difference(part, old, new)}). Start the sweep again, "
                "which sets up the run again."
            )


def _round_trip_json(value: Any) -> Any:
    """Return a value as it is after writing and reading JSON."""
    return msgspec.json.decode(msgspec.json.encode(to_plain_json(value)))


def _select_decisive(value: Any) -> Any:
    """Return a mapping without null values (fields added later) and descriptions of changes."""
    if not isinstance(value, dict):
        return value
    return {
        name: {**item, "does": ""} if isinstance(item, dict) and "does" in item else item
        for name, item in value.items()
        if item is not None
    }


def _describe_translation_difference(part: str, old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        name = min(n for n in old.keys() | new.keys() if old.get(n) != new.get(n))
        return f"{part}: {name}={old.get(name)} then, {new.get(name)} now"
    return f"{part}: {old} then, {new} now"


def prepare_runs(specs: Sequence[RunSpec], on_this_machine: bool = True) -> list[PreparedRun]:
    """Check and translate runs; each adapter is loaded once.

    Args:
        specs: The runs.
        on_this_machine: As for `prepare_run`.

    Raises:
        SpecError: Some cannot be carried out as configured; lists each problem once.
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
