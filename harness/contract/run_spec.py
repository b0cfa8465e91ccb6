"""Specification of one run: the settings that identify it, and its folder."""

import dataclasses
import functools
import hashlib
import math
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from parallax.harness.contract.acceleration import ACCELERATIONS, NO_ACCELERATION
from parallax.harness.contract.adapter import CPU
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import (
    ALGORITHMS,
    BROKEN_ALGORITHMS,
    describe_owning_algorithms,
)
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.fields import (
    SpecError,
    bounded_field,
    build_dataclass,
    check_value,
    format_value,
)
from parallax.harness.contract.own_script import OwnScript, make_own_script
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.contract.replay import UNIFORM_REPLAY, ReplayConfig, make_replay_config
from parallax.harness.record.labels import LIBRARY_DEFAULTS
from parallax.harness.record.layout import (
    RESERVED_FOLDERS,
    SLASH_SUBSTITUTE,
    RunPath,
    format_implementation,
    format_task_name,
    is_visible,
    parse_seed_folder,
)

NO_INTERVENTION = "none"
INTERVENTION_SEPARATOR = "+"
"""Separator between the names of combined interventions."""

ALIGNMENTS = ("defaults", "common", "exact", "lockstep")
PROTOCOL_FIELDS = ("learning_starts",)
"""Hyperparameters that depend on the length of a run, and can be set under `defaults` too.

A framework's own warm-up of 25,000 steps would leave no steps for learning in a short run.
"""
DEFAULTS_RECIPE = "defaults"
"""Name of the recipe of runs under `alignment=defaults`: each framework has its own."""
WRAPPERS = ("none", "normalized")
RUN_DEFAULTS: dict[str, Any] = {
    "alignment": "common",
    "wrappers": "none",
    "n_envs": 1,
    "eval_every": 10_000,
    "eval_episodes": 30,
    "evaluation_seed": 0,
    "threads": 1,
    "device": CPU,
    "intervention": NO_INTERVENTION,
    "save_policy": "last",
    "acceleration": NO_ACCELERATION,
    "actors": 1,
}
MAX_ACTORS = 8
SAVE_POLICY_CHOICES = ("last", "best")
LOGGERS = ("none", "tensorboard", "wandb")
DIAGNOSIS_MODES = ("off", "on", "strict")
NO_DIAGNOSIS: Mapping[str, Any] = {"mode": "off"}
DEFAULT_ENDPOINT = "final"
"""Endpoint of runs that were recorded before it could be chosen."""

_ENDPOINT = re.compile(r"final|auc|last-[1-9]\d{0,3}|steps-([1-9]\d?|100)")
DEFAULT_CHECKPOINT_MINUTES = 20.0
"""Minutes between checkpoints unless configured."""

_DEFAULT_EVALUATIONS, _MAX_STEPS = 10, 2**53
_FOLDER_NAMES = ("study", "framework", "algorithm", "env", "hps")
_MAX_VARIANT_LENGTH = 120
_MAX_NAME_BYTES = 200
_MAX_CHECKPOINT_MINUTES = 10**6
_CLASS_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_RESERVED_KWARGS = {
    "id": "it names the task; use env.name",
    "env_id": "it names the task; use env.name",
    "wrappers": "wrappers are listed in env.wrappers",
    "render_mode": "parallax policy video sets it",
}


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """Everything that identifies a run.

    Attributes:
        env: Gymnasium's name of the task.
        env_kwargs: Keyword arguments of the task, for training and evaluation.
        env_wrappers: `module:Class` of wrappers around the task in training and evaluation,
            innermost first.
        hps: Name of the recipe the hyperparameters started from.
        alignment: `defaults`: each framework's own hyperparameters. `common`: only what every
            framework exposes is set, the rest stays at each framework's own default. `exact`:
            every hyperparameter has the recipe's value. `lockstep`: `exact`, and known
            differences of the update are removed by interventions.
        eval_every: Environment transitions between evaluations.
        evaluation_seed: Seeds the initial states of evaluation episodes.
        wrappers: `none` or `normalized`.
        n_envs: Parallel training environments, which are stepped together.
        threads: Threads of numerical libraries; changes results in the last digits.
        device: Device of the networks: `cpu`, or another that the framework supports, as `cuda`.
        intervention: Further changes of the training: names of
            `parallax.harness.interventions` with `+` between them; `none` for nothing.
        save_policy: Policy that is saved: the `last` one, or that of the `best` evaluation.
        acceleration: Other way to compute the same updates, by a name of
            `parallax.harness.contract.acceleration`; `none` for the framework's own.
        actors: Processes that the environments are divided among, for algorithms whose actors can
            run beside their learner; 1 steps all of them in the training's own process.
        script: The user's own copy of the framework's script, which is run in its place. Its name
            and hash are appended to the framework's name: it is a separate implementation.
        hyperparameters: Unified hyperparameters, as requested.
        overridden: Names of hyperparameters that differ from the recipe.
        python: Interpreter that trains, if it is not this one. Not part of the identity:
            a path does not say what is installed there.
        diagnosis: Whether and how the training is watched: `mode` and, where they are not the
            defaults, `thresholds` and `periods` by check, `period`, `only`, `skip` and
            `extra_checks`. Not part of the identity: it changes no result.
        logger: Tool that values are also logged for, besides the trace: `none`, `tensorboard` or
            `wandb`. Not part of the identity.
        checkpoint_every: Minutes between checkpoints; 0 is off. Not part of the identity either:
            a run that resumes from one ends as if it had not been interrupted.
        patches: Whether constants of upstream may be patched under `exact` and `lockstep`; if
            they may not, a run that needs a patch is refused. Not part of the identity.
        endpoint: Score that the study compares runs by: `final`, `last-K`, `auc` or `steps-P`. Not
            part of the identity: it is fixed here before there are results, and changes none.
        evaluate_untrained: Whether the policy is also evaluated at step 0. Not part of the
            identity: training and later evaluations are the same without it.
    """

    hyperparameters: Hyperparameters
    overridden: tuple[str, ...]
    python: str | None
    study: str = bounded_field()
    framework: str = bounded_field()
    algorithm: str = bounded_field(choices=tuple(ALGORITHMS))
    env: str = bounded_field()
    hps: str = bounded_field()
    alignment: str = bounded_field(choices=ALIGNMENTS)
    # The seeds that np.random.seed accepts.
    seed: int = bounded_field(minimum=0, maximum=2**32 - 1)
    steps: int = bounded_field(minimum=1, maximum=_MAX_STEPS)
    eval_every: int = bounded_field(minimum=1, maximum=2**53)
    eval_episodes: int = bounded_field(minimum=1, maximum=2**53)
    evaluation_seed: int = bounded_field(minimum=0, maximum=2**53)
    wrappers: str = bounded_field(choices=WRAPPERS)
    n_envs: int = bounded_field(minimum=1, maximum=2**53)
    threads: int = bounded_field(minimum=1, maximum=2**53)
    device: str = bounded_field()
    intervention: str = bounded_field()
    save_policy: str = bounded_field(choices=SAVE_POLICY_CHOICES)
    acceleration: str = bounded_field(choices=tuple(ACCELERATIONS))
    actors: int = bounded_field(minimum=1, maximum=MAX_ACTORS)
    replay: ReplayConfig = UNIFORM_REPLAY
    env_kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)
    env_wrappers: tuple[str, ...] = ()
    script: OwnScript | None = None
    diagnosis: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: NO_DIAGNOSIS, compare=False
    )
    logger: str = dataclasses.field(default="none", compare=False)
    checkpoint_every: float = dataclasses.field(default=DEFAULT_CHECKPOINT_MINUTES, compare=False)
    patches: bool = dataclasses.field(default=True, compare=False)
    endpoint: str = dataclasses.field(default=DEFAULT_ENDPOINT, compare=False)
    evaluate_untrained: bool = dataclasses.field(default=False, compare=False)

    @property
    def patch_constants(self) -> bool:
        """Return whether this run may change constants of upstream by patches."""
        return self.patches and self.alignment in ("exact", "lockstep")

    @property
    def variant(self) -> str:
        """Return the settings that distinguish this run within a study, as `key=value,...`."""
        parts = [f"steps={self.steps}"]
        parts += [
            f"{name}={getattr(self, name)}"
            for name, default in RUN_DEFAULTS.items()
            if getattr(self, name) != default
        ]
        parts += self.replay.parts
        parts += format_overrides(self.hyperparameters, self.overridden)
        text = ",".join(parts)
        if len(text) > _MAX_VARIANT_LENGTH:
            digest = hashlib.sha256(text.encode()).hexdigest()[:12]
            text = f"steps={self.steps},overrides={digest}"
        return text

    @property
    def env_options(self) -> dict[str, Any]:
        """Return the arguments of `parallax.envs.tasks.make_task_env` besides the task's name."""
        wrappers = {"wrappers": self.env_wrappers} if self.env_wrappers else {}
        return {**self.env_kwargs, **wrappers}

    @property
    def task_name(self) -> str:
        """Return the task's name with the run's changes of the task."""
        return format_task_name(self.env, self.env_kwargs, self.env_wrappers)

    @property
    def implementation(self) -> str:
        """Return the name by which runs are compared: the framework, with an own script's name."""
        return format_implementation(self.framework, self.script.label if self.script else "")

    def folder(self, results_dir: Path) -> Path:
        """Return the run folder below `results_dir`."""
        names = (self.study, self.task_name, self.algorithm, self.hps, self.implementation)
        return RunPath(*names, self.variant, self.seed).to_folder(results_dir)

    @property
    def title(self) -> str:
        """Short name for people."""
        changed = "" if self.intervention == NO_INTERVENTION else f"+{self.intervention}"
        changed += "" if self.replay.is_uniform else f"+{self.replay.name}"
        changed += "" if self.acceleration == NO_ACCELERATION else f"+{self.acceleration}"
        words = (f"{self.implementation}{changed}", self.algorithm, self.task_name, self.hps)
        return f"{' '.join(words)} seed={self.seed}"


def make_run_spec(
    values: Mapping[str, Any], hyperparameters: Mapping[str, Any], recipe: Mapping[str, Any]
) -> RunSpec:
    """Check user input and make a `RunSpec` of it.

    Args:
        values: Every other field of `RunSpec` by name; `eval_every` None is a tenth of the steps.
        hyperparameters: Unified hyperparameters, overrides included.
        recipe: The same without the user's overrides.

    Raises:
        SpecError: Names the field, its value and the remedy.
    """
    checked = _check_fields(_fill_evaluation_interval(values))
    _check_names_and_framework(checked)
    if checked["eval_every"] > checked["steps"]:
        raise SpecError(
            f"eval_every={checked['eval_every']} is longer than the run of "
            f"steps={checked['steps']}: lower eval_every or raise steps."
        )
    algorithm = checked["algorithm"]
    own = {field.name for field in dataclasses.fields(ALGORITHMS[algorithm])}
    for name in hyperparameters:
        if name not in own and describe_owning_algorithms(name):
            raise SpecError(f"hyperparameters.{name} {describe_owning_algorithms(name)}")
    requested: Hyperparameters = build_dataclass(
        ALGORITHMS[algorithm], hyperparameters, "hyperparameters"
    )
    base: Hyperparameters = build_dataclass(ALGORITHMS[algorithm], recipe, "recipe")
    overridden = list_overridden(requested, base)
    if checked["alignment"] == "common":
        _check_common_overrides(algorithm, requested, overridden)
    if checked["alignment"] == "defaults":
        _check_defaults_overrides(requested, overridden)
        protocol = {name: getattr(requested, name) for name in overridden}
        requested = dataclasses.replace(load_recipe(algorithm, checked["framework"]), **protocol)
        checked["hps"] = DEFAULTS_RECIPE
    return RunSpec(
        **checked,
        hyperparameters=requested,
        overridden=overridden,
        **_check_later_fields({"python": None, **values}),
    )


def _fill_evaluation_interval(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values with `eval_every` at a tenth of the steps if it is not set."""
    steps = values["steps"]
    if values["eval_every"] is not None or not isinstance(steps, int | float):
        return values
    if not 0 < steps <= _MAX_STEPS:  # which `_check_fields` says
        return values
    return {**values, "eval_every": max(1, math.ceil(steps / _DEFAULT_EVALUATIONS))}


def spec_to_dict(spec: RunSpec) -> dict[str, Any]:
    """Return a specification as plain data for `run.json`."""
    return dataclasses.asdict(spec) | {"replay": spec.replay.to_dict()}


def spec_from_dict(content: Any) -> RunSpec:
    """Return the specification in a `run.json`, also one of an earlier version.

    Raises:
        SpecError: `content` is not a run's spec.
    """
    names = [field.name for field in dataclasses.fields(RunSpec)]
    if not isinstance(content, Mapping) or not content:
        raise SpecError("spec is missing.")
    if "imported" in content:
        raise SpecError(
            "the run was imported from files of another tool: it cannot be trained, continued or "
            "reproduced here."
        )
    # Records that were written before a field existed lack it.
    content = {**RUN_DEFAULTS, "python": None, "overridden": (), **content}
    lacking = [name for name in names if name not in content and name not in _LATER_FIELDS]
    surplus = [str(name) for name in content if name not in names]
    if lacking or surplus:
        problems = [f"lacks {', '.join(lacking)}"] if lacking else []
        problems += [f"has no field {', '.join(surplus)}"] if surplus else []
        raise SpecError(f"spec {' and '.join(problems)}.")
    checked = _check_fields(content)
    check_folder_names(checked)
    values, overridden = content["hyperparameters"], content["overridden"]
    if not isinstance(values, Mapping):
        raise SpecError(f"hyperparameters={values!r} must be a mapping.")
    requested: Hyperparameters = build_dataclass(
        ALGORITHMS[checked["algorithm"]], values, "hyperparameters"
    )
    if not isinstance(overridden, list | tuple) or not all(
        isinstance(name, str) and name in values for name in overridden
    ):
        raise SpecError(f"overridden={overridden!r} must list names of hyperparameters.")
    return RunSpec(
        **checked,
        hyperparameters=requested,
        overridden=tuple(overridden),
        **_check_later_fields(content),
    )


def rename_study(spec: RunSpec, study: str) -> RunSpec:
    """Return the same run in another study, as after the study's folder was renamed.

    Raises:
        SpecError: No study can have that name.
    """
    check_folder_names({"study": study})
    return dataclasses.replace(spec, study=study)


def _check_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    if (algorithm := values["algorithm"]) in BROKEN_ALGORITHMS:
        raise SpecError(f"algorithm={algorithm} cannot be used ({BROKEN_ALGORITHMS[algorithm]}).")
    fields = {field.name: field for field in dataclasses.fields(RunSpec) if field.metadata}
    return {
        name: check_value(name, values[name], int if field.type is int else str, field.metadata)
        for name, field in fields.items()
    }


def _check_minutes(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _MAX_CHECKPOINT_MINUTES:
        raise SpecError(
            f"checkpoint_every={value!r} must be a number of minutes from 0, which is off, to "
            f"{_MAX_CHECKPOINT_MINUTES}."
        )
    return float(value)


def _check_endpoint(value: Any) -> str:
    if not isinstance(value, str) or not _ENDPOINT.fullmatch(value):
        raise SpecError(
            f"endpoint={format_value(value)} must be final, auc, last-K such as last-3, or steps-P "
            "such as steps-90."
        )
    return value


def _check_flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise SpecError(f"{name}={format_value(value)} must be true or false.")
    return value


def _check_logger(value: Any) -> str:
    if value not in LOGGERS:
        raise SpecError(f"logger={format_value(value)} must be one of {', '.join(LOGGERS)}.")
    return str(value)


def _check_env_kwargs(given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise SpecError(f"env.kwargs={format_value(given)} must hold values by name.")
    for name, value in given.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise SpecError(f"env.kwargs.{name} must be the name of an argument of the task.")
        if name in _RESERVED_KWARGS:
            raise SpecError(f"env.kwargs.{name} cannot be set: {_RESERVED_KWARGS[name]}.")
        if not is_plain_value(value):
            raise SpecError(
                f"env.kwargs.{name}={value!r} must be a finite number, a text, true, false, null, "
                "or a list or dictionary of these."
            )
    return dict(given)


def is_plain_value(value: Any) -> bool:
    """Return whether JSON can represent a value: finite numbers, and text as names."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and is_plain_value(value[key]) for key in value)
    if isinstance(value, list):
        return all(map(is_plain_value, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)


def _check_env_wrappers(given: Any) -> tuple[str, ...]:
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list | tuple) or not all(
        isinstance(name, str) and _CLASS_NAME.fullmatch(name) for name in listed
    ):
        raise SpecError(
            f"env.wrappers={format_value(given)} must list classes as module:Class, for example "
            "env.wrappers=[my_project.wrappers:Shaped]."
        )
    return tuple(listed)


def _check_names_and_framework(values: Mapping[str, Any]) -> None:
    check_new_folder_names(values)
    adapter = load_adapter(values["framework"])
    if not adapter.supports(values["algorithm"]):
        raise SpecError(
            f"framework={values['framework']} has no algorithm={values['algorithm']}: choose "
            + ", ".join(name for name in ALGORITHMS if adapter.supports(name))
        )


_OLD_DIAGNOSIS_KEYS = {"also": "extra_checks"}
_DIAGNOSIS_LISTS = {"only": "[ID, ...]", "skip": "[ID, ...]", "extra_checks": "[module:NAME, ...]"}


def _check_diagnosis(given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or given.get("mode") not in DIAGNOSIS_MODES:
        mode = given.get("mode") if isinstance(given, Mapping) else given
        raise SpecError(f"diagnosis={mode} must be one of {', '.join(DIAGNOSIS_MODES)}.")
    # `also` is the former name in run.json.
    settings: dict[str, Any] = {
        _OLD_DIAGNOSIS_KEYS.get(str(key), str(key)): value for key, value in given.items()
    }
    for key, form in _DIAGNOSIS_LISTS.items():
        names = settings.get(key, ())
        if not isinstance(names, list | tuple) or not all(
            isinstance(name, str) and (":" in name) == (":" in form) for name in names
        ):
            raise SpecError(f"diagnosis.{key}={format_value(names)} must list checks as {form}.")
    for key in ("periods", "thresholds"):
        if not isinstance(settings.get(key, {}), Mapping):
            raise SpecError(
                f"diagnosis.{key}={format_value(settings[key])} must hold numbers by check."
            )
    _check_diagnosis_numbers(settings)
    return settings


def _check_diagnosis_numbers(settings: Mapping[str, Any]) -> None:
    periods = {"period": settings.get("period")} | {
        f"{name}.period": value for name, value in settings.get("periods", {}).items()
    }
    for name, period in periods.items():
        if period is not None and (type(period) is not int or not 1 <= period <= _MAX_STEPS):
            raise SpecError(
                f"diagnosis.{name}={format_value(period)} must be null or 1 to 2^53 steps."
            )
    for name, value in settings.get("thresholds", {}).items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not abs(value) <= sys.float_info.max:  # JSON has no others
            raise SpecError(
                f"diagnosis.{name}.threshold={format_value(value)} must be a finite number."
            )


def check_folder_names(values: Mapping[str, Any]) -> None:
    """Check that names, as far as they are given, can be those of a run and its folders.

    Raises:
        SpecError: One cannot.
    """
    for name in _FOLDER_NAMES:
        if name in values:
            _check_folder_name(name, values[name])
    device = values.get("device", CPU)
    if not re.fullmatch(r"[a-z]+(:\d+)?", device):
        raise SpecError(f"device={device!r} must be {CPU}, cuda, or a name with a number: cuda:1.")
    intervention = values.get("intervention", NO_INTERVENTION)
    if not re.fullmatch(r"[a-z0-9.+-]+", intervention):
        raise SpecError(
            f"intervention={intervention!r} must be {NO_INTERVENTION}, or names with "
            f"{INTERVENTION_SEPARATOR} between them; parallax intervention list lists them."
        )
    if values["study"] in RESERVED_FOLDERS:
        raise SpecError(
            f"study={values['study']!r} {RESERVED_FOLDERS[values['study']]}: choose another."
        )
    if values.get("hps") == LIBRARY_DEFAULTS:
        raise SpecError(f"hps={LIBRARY_DEFAULTS!r} is a name in tables: choose another.")


def check_new_folder_names(values: Mapping[str, Any]) -> None:
    """Check names like `check_folder_names`, and that none looks like another name.

    Not for existing runs, which must stay readable: only people confuse such names.

    Raises:
        SpecError: One cannot be the name of a new run.
    """
    check_folder_names(values)
    for name in filter(values.__contains__, _FOLDER_NAMES):
        value = values[name]
        if value != value.strip():
            raise SpecError(f"{name}={value!r} must not begin or end with a space.")
        if unicodedata.combining(value[0]) or not unicodedata.is_normalized("NFC", value):
            raise SpecError(
                f"{name}={value!a} looks like another name: write each letter with its accents as "
                "one character (Unicode's form NFC)."
            )


def _check_folder_name(name: str, value: str) -> None:
    if not is_visible(value):
        raise SpecError(
            f"{name}={value!a} holds characters that cannot be shown, such as a tab or a "
            "line's end: leave them out."
        )
    if len(value.encode()) > _MAX_NAME_BYTES:
        raise SpecError(
            f"{name}={value[:40]!r}... names a folder and must have at most {_MAX_NAME_BYTES} "
            "bytes."
        )
    # A slash separates a task's namespace from its name; folders have another character there.
    parts = value.split("/", 1) if name == "env" and SLASH_SUBSTITUTE not in value else [value]
    for part in parts:
        if not part or part.startswith(".") or "/" in part or parse_seed_folder(part) is not None:
            raise SpecError(f"{name}={value!r} must be a valid folder name.")


def _check_python(given: Any) -> str | None:
    if not isinstance(given, str | None):
        raise SpecError(f"framework.python={given!r} must be the path of an interpreter.")
    return given or None


_LATER_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "python": _check_python,
    "replay": make_replay_config,
    "env_kwargs": _check_env_kwargs,
    "env_wrappers": _check_env_wrappers,
    "script": make_own_script,
    "diagnosis": _check_diagnosis,
    "logger": _check_logger,
    "checkpoint_every": _check_minutes,
    "patches": functools.partial(_check_flag, "patches"),
    "endpoint": _check_endpoint,
    "evaluate_untrained": functools.partial(_check_flag, "evaluate_untrained"),
}
"""Checks of fields that older records lack; the defaults mean what was done before."""


def _check_later_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: check(values[name]) for name, check in _LATER_FIELDS.items() if name in values}


def _check_common_overrides(
    algorithm: str, requested: Hyperparameters, overridden: tuple[str, ...]
) -> None:
    for name in overridden:
        if name not in ALGORITHMS[algorithm].common_fields:
            raise SpecError(
                f"hyperparameters.{name}={format_value(getattr(requested, name))} would have no "
                "effect: alignment=common leaves it at each framework's own default. Use "
                "alignment=exact to set it."
            )


def _check_defaults_overrides(requested: Hyperparameters, overridden: tuple[str, ...]) -> None:
    for name in overridden:
        if name in PROTOCOL_FIELDS:
            continue
        raise SpecError(
            f"hyperparameters.{name}={format_value(getattr(requested, name))} would have no "
            "effect: alignment=defaults trains with each framework's own values. Use "
            "alignment=exact to set it."
        )


def list_overridden(requested: Hyperparameters, base: Hyperparameters) -> tuple[str, ...]:
    """Return the names of the hyperparameters that differ from a recipe."""
    names = [field.name for field in dataclasses.fields(requested)]
    return tuple(name for name in names if getattr(requested, name) != getattr(base, name))


def format_overrides(requested: Hyperparameters, overridden: tuple[str, ...]) -> list[str]:
    """Return the parts of a variant that overridden hyperparameters make up, as `name=value`."""
    values = [format_value(getattr(requested, name)).replace(" ", "") for name in overridden]
    return [f"{name}={value}" for name, value in zip(overridden, values, strict=True)]
