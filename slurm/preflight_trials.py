"""Trials of a preflight: each setting in a short form, and each such form once."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.fields import SpecError, format_value
from parallax.harness.contract.run_spec import RUN_DEFAULTS, RunSpec
from parallax.harness.train.prepare import PreparedRun, prepare_run

LOADING_SECONDS = 8.0
"""CPU seconds until a process has loaded a framework."""

_SHORT_COSTS = {
    ("sb3", "on-policy"): 0.4,
    ("sb3", "off-policy"): 0.3,
    ("cleanrl", "on-policy"): 0.8,
    ("cleanrl", "off-policy"): 0.4,
    ("torchrl", "on-policy"): 1.1,
    ("torchrl", "off-policy"): 0.7,
}
_FULL_COSTS = {"sb3": 3.3, "cleanrl": 5.0, "torchrl": 14.0}
_UNKNOWN_COST = 1.0
_WARMUP_STEPS = 4
_MAX_BUFFER_SIZE = 1_000
_MAX_UPDATE_CYCLES = 64
_NAMED_FIELDS = (
    *("alignment", "wrappers", "n_envs", "threads", "device", "intervention"),
    "acceleration",
)

WorkerKey = tuple[str, str | None, int]
"""Framework, interpreter and threads, which are the same for all trials of one process."""


@dataclasses.dataclass(frozen=True, eq=False)
class PreflightTrial:
    """A short run that represents one or several settings.

    Attributes:
        settings: Names of its settings, which differ in nothing that matters for a trial.
        is_full_rollout: Whether PPO collects a rollout of full length.
    """

    prepared: PreparedRun
    settings: tuple[str, ...]
    is_full_rollout: bool

    @property
    def group(self) -> WorkerKey:
        """Return the key of the process that can run it."""
        spec = self.prepared.spec
        return spec.framework, spec.python, spec.threads

    @property
    def cost(self) -> float:
        """Approximate CPU seconds that it takes, as measured on two busy cores."""
        spec = self.prepared.spec
        if self.is_full_rollout:
            return _FULL_COSTS.get(spec.framework, max(_FULL_COSTS.values()))
        return _SHORT_COSTS.get((spec.framework, type(spec.hyperparameters).family), _UNKNOWN_COST)


def make_trials(specs: Sequence[RunSpec]) -> list[PreflightTrial]:
    """Return the trials that the settings of runs need; runs that differ in the seed share one.

    PPO's rollout has its full length in one trial per framework, and in one per task.

    Raises:
        SpecError: A run cannot be carried out as requested.
    """
    adapters = {name: load_adapter(name) for name in {spec.framework for spec in specs}}
    trials: dict[RunSpec, PreparedRun] = {}
    names: dict[RunSpec, dict[str, None]] = {}  # in order, each once
    covered: set[object] = set()
    full: set[RunSpec] = set()
    for spec in dict.fromkeys(dataclasses.replace(spec, seed=0) for spec in specs):
        adapter = adapters[spec.framework]
        run = prepare_run(spec, adapter)
        trial = _make_full_trial(run, adapter)
        if hasattr(run.hyperparameters, "rollout_steps"):
            covers = {(spec.framework, spec.python), spec.task_name}
            if not covers <= covered:
                full.add(trial.spec)
            covered |= covers
        if trial.spec not in full:
            trial = _make_short_trial(run, adapter)
        trials[trial.spec] = trial
        names.setdefault(trial.spec, {})[format_setting_name(spec)] = None
    return [PreflightTrial(trials[key], tuple(names[key]), key in full) for key in trials]


def format_setting_name(spec: RunSpec) -> str:
    """Return a readable name of a setting: all identifying fields except length and seed."""
    parts = [
        f"{name}={getattr(spec, name)}"
        for name in _NAMED_FIELDS
        if getattr(spec, name) != RUN_DEFAULTS[name]
    ]
    parts += spec.replay.parts
    parts += [
        f"{name}={format_value(getattr(spec.hyperparameters, name))}" for name in spec.overridden
    ]
    return " ".join((spec.framework, spec.algorithm, spec.task_name, spec.hps, *parts))


def _make_full_trial(run: PreparedRun, adapter: Adapter) -> PreparedRun:
    """Return a trial of one update cycle in its full length."""
    hp: Any = run.hyperparameters
    if hasattr(hp, "epochs"):
        hp = dataclasses.replace(hp, epochs=1)
    return _prepare_trial(run, hp, getattr(hp, "rollout_steps", run.spec.n_envs), adapter)


def _make_short_trial(run: PreparedRun, adapter: Adapter) -> PreparedRun:
    """Return the shortest run that updates everything once; longer where the adapter refuses it."""
    shortened, steps = shorten_hyperparameters(run.hyperparameters, run.spec.n_envs)
    try:
        return _prepare_trial(run, shortened, steps, adapter)
    except SpecError:
        return _make_full_trial(run, adapter)


def _prepare_trial(
    run: PreparedRun, hyperparameters: Hyperparameters, steps: int, adapter: Adapter
) -> PreparedRun:
    # All hyperparameters are set explicitly: with alignment=common the framework would take those
    # shortened here from its own recipe. Equal trials of different recipes become one.
    spec = dataclasses.replace(
        run.spec,
        study="preflight",
        hps="preflight",
        alignment="exact",
        hyperparameters=hyperparameters,
        overridden=(),
        seed=0,
        steps=steps,
        eval_every=steps,
        eval_episodes=1,
        evaluation_seed=0,
    )
    trial = prepare_run(spec, adapter, must_learn=False)
    scheduled = trial.native.total_steps
    if scheduled == steps:
        return trial
    # The steps were rounded up to whole update cycles: evaluate only once, at the new end.
    whole = dataclasses.replace(spec, steps=scheduled, eval_every=scheduled)
    return prepare_run(whole, adapter, must_learn=False)


def shorten_hyperparameters(hyperparameters: Any, n_envs: int) -> tuple[Any, int]:
    """Return hyperparameters with as little to compute as possible, and the steps to take.

    A value that divides another still does, and values that are not shortened do not change.

    Returns:
        The same with shorter update cycles and a small buffer, and the environment transitions
        until every network has been updated.
    """
    values = dataclasses.asdict(hyperparameters)
    if "rollout_steps" in values:
        rollout = _shorten_rollout(values["rollout_steps"], values["minibatch_size"], n_envs)
        epochs = min(values["epochs"], 2)
        return dataclasses.replace(hyperparameters, rollout_steps=rollout, epochs=epochs), rollout
    changes, steps = _shorten_update_cycles(values, n_envs)
    return dataclasses.replace(hyperparameters, **changes), steps


def _shorten_rollout(rollout: int, minibatch: int, n_envs: int) -> int:
    # Two minibatches at least, and the remainder that an uneven rollout leaves.
    unit = math.lcm(minibatch, n_envs)
    shortest = -(-2 * minibatch // unit) * unit + rollout % unit
    return min(rollout, shortest)


def _shorten_update_cycles(values: Mapping[str, Any], n_envs: int) -> tuple[dict[str, int], int]:
    """Return changes to the hyperparameters of an off-policy algorithm, and the steps to take."""
    every = min(values["train_freq"], n_envs + values["train_freq"] % n_envs)
    delay, interval = values.get("policy_delay", 1), values.get("target_update_interval", 1)
    updates = values["gradient_steps"]
    if not updates % interval:
        updates = min(updates, -(-delay // interval) * interval)
    # Some frameworks begin to update a cycle or two late.
    rounds = min(-(-max(delay, interval) // updates), _MAX_UPDATE_CYCLES) + 2
    starts = min(values["learning_starts"], _WARMUP_STEPS * n_envs)
    steps = (-(-starts // every) + rounds) * every
    changes = {
        "train_freq": every,
        "gradient_steps": updates,
        "learning_starts": starts,
        "buffer_size": min(values["buffer_size"], max(_MAX_BUFFER_SIZE, steps)),
    }
    return changes, steps
