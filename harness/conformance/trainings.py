"""Short trainings, about a second each, on a scripted task with a recording monitor."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from parallax.envs.make import make_training_env
from parallax.envs.scripted import DISCRETE_ENV_ID, ENV_ID, ScriptedEnv
from parallax.envs.tasks import load_task
from parallax.harness.conformance.observer import ObservedTraining, TrainingObserver
from parallax.harness.contract.adapter import (
    CPU,
    Checkpointable,
    MakeEnv,
    Policy,
    PolicyIO,
    RunContext,
    Weights,
)
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.events import (
    NoWatcherError,
    PolicyAttached,
    TrainingEvents,
    find_watcher_entry_points,
    load_watchers,
    watch_libraries,
)
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.contract.translation import NativeConfig
from parallax.harness.interventions.catalogue import (
    list_conversions,
    make_patches,
    make_replacement,
)
from parallax.harness.record.provenance import hash_weights
from parallax.harness.train.prepare import PreparedRun

# Two small rollouts, or as many learning steps as random steps.
STEPS = 128
SCRIPTED_TASKS = {"continuous": ENV_ID, "discrete": DISCRETE_ENV_ID}


def get_scripted_task(algorithm: str) -> str:
    """Return the id of the scripted task with the algorithm's kind of actions."""
    return SCRIPTED_TASKS[ALGORITHMS[algorithm].actions]


def make_base_hyperparameters(framework: str, algorithm: str) -> Hyperparameters:
    """Return the framework's own recipe, made smaller where the framework allows it.

    Raises:
        SpecError: The framework refuses its own recipe with every change.
    """
    base = load_recipe(algorithm, framework)
    for field, value in type(base).conformance_values.items():
        base = replace_hyperparameter(framework, algorithm, base, field, value) or base
    translate_hyperparameters(framework, algorithm, base)
    return base


def replace_hyperparameter(
    framework: str, algorithm: str, base: Hyperparameters, field: str, value: Any
) -> Hyperparameters | None:
    """Return `base` with another value of `field`, or None if the framework refuses it.

    Fields that the framework ties to `field`, such as other learning rates, change as well.
    """
    if field not in {known.name for known in dataclasses.fields(base)}:
        return None
    tied = _find_tied_fields(framework, algorithm, base, field)
    changed = dataclasses.replace(base, **dict.fromkeys([field, *tied], value))
    return changed if _is_accepted(framework, algorithm, changed) else None


def _find_tied_fields(
    framework: str, algorithm: str, base: Hyperparameters, field: str
) -> list[str]:
    if not _is_accepted(framework, algorithm, base):
        return []
    what = field.partition("_")[2]  # such as the learning rate of `policy_learning_rate`
    return [
        row.field
        for row in translate_hyperparameters(framework, algorithm, base).alignment
        if row.kind == "tied"
        and what
        and row.field.endswith(what)
        and row.value == getattr(base, field)
    ]


def _is_accepted(framework: str, algorithm: str, hyperparameters: Hyperparameters) -> bool:
    try:
        translate_hyperparameters(framework, algorithm, hyperparameters)
    except SpecError:
        return False
    return True


@dataclasses.dataclass(frozen=True)
class TrainingConditions:
    """Conditions of a training besides its framework, algorithm and hyperparameters.

    Attributes:
        queries_policy: Whether to call the greedy policy before every step.
        wrappers: `none` or `normalized`.
        reward_scale: Factor of the task's rewards.
        patch_constants: Whether constants of upstream may be patched.
        forced_patches: Hyperparameters whose patch is applied although upstream's constant has
            the requested value.
        converted_fields: Hyperparameters whose conversions are made; runs with `alignment=exact`
            make all.
    """

    steps: int = STEPS
    seed: int = 0
    queries_policy: bool = False
    env_id: str = ENV_ID
    n_envs: int = 1
    wrappers: str = "none"
    reward_scale: float = 1.0
    device: str = CPU
    patch_constants: bool = False
    forced_patches: tuple[str, ...] = ()
    converted_fields: tuple[str, ...] = ()

    @property
    def context(self) -> RunContext:
        """Return the context of a translation."""
        return RunContext(
            load_task(self.env_id),
            self.steps,
            self.seed,
            self.n_envs,
            device=self.device,
            patch_constants=self.patch_constants,
            converts_meanings=True,
        )


def make_training_conditions(algorithm: str, **fields: Any) -> TrainingConditions:
    """Return conditions with the scripted task that has the algorithm's kind of actions."""
    return TrainingConditions(**{"env_id": get_scripted_task(algorithm)} | fields)


def translate_hyperparameters(
    framework: str, algorithm: str, hyperparameters: Hyperparameters, **fields: Any
) -> NativeConfig:
    """Translate hyperparameters to native settings on a scripted task.

    Args:
        framework: Name of the adapter.
        algorithm: Name of the algorithm.
        hyperparameters: In unified units.
        fields: Fields of `TrainingConditions`.

    Raises:
        SpecError: The framework refuses.
    """
    context = make_training_conditions(algorithm, **fields).context
    return load_adapter(framework).translate(algorithm, hyperparameters, context)


_FAR_OBSERVATIONS = 1e4 * np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
"""Observations far from the origin, float32[64, 3]."""
_NEAR_OBSERVATIONS = np.linspace(-20, 20, 15, dtype=np.float32).reshape(5, 3)
"""Observations from -20 to 20, float32[5, 3]."""


def _make_images(count: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return images of zeros and ones, float32[count, channels, height, width]."""
    return np.random.default_rng(0).integers(0, 2, (count, *shape)).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """Results of one training.

    Attributes:
        steps: Environment steps taken, counted in the environments.
        scheduled: Environment steps that the translation announced.
        actions: Every action that reached a task, float32[steps, 2] or choices [steps].
        greedy: Greedy actions for `_NEAR_OBSERVATIONS`, float32[5, 2] or int64[5].
        noise: Difference of each action from the greedy one, as a share of half the range.
        greedy_reversed: `greedy` for the same observations in reverse order.
        starts: The first observation of each parallel environment, float64[n_envs, 3].
        far: Greedy actions for `_FAR_OBSERVATIONS`, float32[64, 2].
    """

    weights: Weights
    digest: str
    steps: int
    scheduled: int
    actions: NDArray[Any]
    greedy: NDArray[Any]
    noise: NDArray[np.float32]
    greedy_reversed: NDArray[Any]
    starts: NDArray[np.float64]
    far: NDArray[Any]


class _RecordingWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Outermost wrapper; stores the first observation, reports observations and actions."""

    def __init__(self, env: gymnasium.Env[Any, Any], monitor: "_ConformanceMonitor") -> None:
        super().__init__(env)
        self._monitor, self._last = monitor, np.zeros(0)
        self.start: NDArray[np.float64] | None = None

    def reset(self, **arguments: Any) -> Any:
        self._last, info = self.env.reset(**arguments)
        self.start = self._last if self.start is None else self.start
        return self._last, info

    def step(self, action: Any) -> Any:
        self._monitor.before_action(self._last, np.asarray(action, np.float32))
        result = self.env.step(action)
        self._last = result[0]
        return result


class _ConformanceMonitor:
    """Monitor that stores everything a training reports."""

    def __init__(self, conditions: TrainingConditions) -> None:
        self.events = TrainingEvents()
        self._conditions = conditions
        self.policy: Policy | None = None
        self.weights: Callable[[], Weights] | None = None
        self.tasks: list[ScriptedEnv] = []
        self.copies: list[_RecordingWrapper] = []
        self.noise: list[NDArray[np.float32]] = []

    def attach(
        self,
        policy: Policy,
        weights: Callable[[], Weights],
        policy_io: PolicyIO | None = None,
        checkpointable: Checkpointable | None = None,
    ) -> None:
        self.policy, self.weights = policy, weights
        self.events.publish(PolicyAttached(policy, weights))

    def record(self, metrics: Mapping[str, float]) -> None:
        pass

    def safe_point(self) -> None:
        pass

    def before_action(self, observation: NDArray[Any], action: NDArray[np.float32]) -> None:
        if self._conditions.queries_policy and self.policy is not None:
            self.noise.append(action - self.policy(np.asarray(observation, np.float32)[None])[0])

    def make_env(self, gamma: float) -> gymnasium.Env[Any, Any]:
        conditions, hooks = self._conditions, self.events.make_env_hooks()
        env = make_training_env(
            conditions.env_id, wrappers=conditions.wrappers, gamma=gamma, **hooks
        )
        assert isinstance(env.unwrapped, ScriptedEnv)
        self.tasks.append(env.unwrapped)
        if conditions.reward_scale != 1:
            scale = conditions.reward_scale
            env = gymnasium.wrappers.TransformReward(env, lambda reward: scale * float(reward))
        self.copies.append(_RecordingWrapper(env, self))
        return self.copies[-1]


def train_algorithm(
    framework: str, algorithm: str, hyperparameters: Hyperparameters, **fields: Any
) -> TrainingResult:
    """Train on a scripted task; results are cached.

    Args:
        framework: Name of the adapter.
        algorithm: Name of the algorithm.
        hyperparameters: In unified units.
        fields: Fields of `TrainingConditions`.

    Raises:
        SpecError: The framework refuses.
    """
    return train_cached(
        framework, algorithm, hyperparameters, make_training_conditions(algorithm, **fields)
    )


def train_uncached(
    framework: str, algorithm: str, hyperparameters: Hyperparameters, conditions: TrainingConditions
) -> TrainingResult:
    """Train on a scripted task without a cache."""
    monitor = _ConformanceMonitor(conditions)
    native = load_adapter(framework).translate(algorithm, hyperparameters, conditions.context)
    with _apply_changes(framework, algorithm, native, conditions, hyperparameters):
        make_env: MakeEnv = lambda: monitor.make_env(hyperparameters.gamma)  # noqa: E731
        load_adapter(framework).train(algorithm, native, conditions.context, make_env, monitor)
        return _collect_result(monitor, native, conditions)


def _collect_result(
    monitor: _ConformanceMonitor, native: NativeConfig, conditions: TrainingConditions
) -> TrainingResult:
    assert monitor.policy is not None and monitor.weights is not None, "nothing was attached"
    weights = monitor.weights()
    assert weights, "no parameters were handed over"
    task = conditions.context.task
    half = 1.0 if task.choices else (task.action_high[0] - task.action_low[0]) / 2
    some = _make_images(len(_NEAR_OBSERVATIONS), task.image) if task.image else _NEAR_OBSERVATIONS
    far = _make_images(len(_FAR_OBSERVATIONS), task.image) if task.image else _FAR_OBSERVATIONS
    return TrainingResult(
        weights=weights,
        digest=hash_weights(weights),
        steps=monitor.events.steps,
        scheduled=native.total_steps,
        actions=np.concatenate([np.array(task.actions) for task in monitor.tasks if task.actions]),
        greedy=monitor.policy(some),
        noise=np.array(monitor.noise, np.float32) / half,
        greedy_reversed=monitor.policy(some[::-1].copy())[::-1],
        starts=np.array([copy.start for copy in monitor.copies if copy.start is not None]),
        far=monitor.policy(far),
    )


train_cached = functools.lru_cache(maxsize=512)(train_uncached)


def observe_training(
    framework: str, algorithm: str, hyperparameters: Hyperparameters, **fields: Any
) -> ObservedTraining:
    """Train like `train_algorithm` and count steps and updates.

    Skips the test if no watcher is registered for the library that the adapter declares.

    Raises:
        AssertionError: No optimizer step was seen.
        LookupError: The installation of this project is outdated.
    """
    registered = set(find_watcher_entry_points())
    unwatched = sorted(set(get_libraries(framework)) - registered)
    if unwatched and registered:  # if none is registered, `load_watchers` explains why
        pytest.skip(
            f"{framework} trains with {', '.join(unwatched)}, for which there is no watcher"
        )
    conditions = make_training_conditions(algorithm, **fields)
    observed = observe_cached(framework, algorithm, hyperparameters, conditions)
    assert observed.learning_rates, (
        f"no optimizer step was seen: {framework} declares to train with "
        f"{', '.join(get_libraries(framework))} (its adapter's `libraries`)"
    )
    return observed


def get_libraries(framework: str) -> tuple[str, ...]:
    """Return the libraries that a framework's adapter declares; PyTorch by default."""
    return tuple(getattr(load_adapter(framework), "libraries", ("torch",)))


@functools.lru_cache(maxsize=64)
def observe_cached(
    framework: str, algorithm: str, hyperparameters: Hyperparameters, conditions: TrainingConditions
) -> ObservedTraining:
    """Return the counts of one training."""
    native = load_adapter(framework).translate(algorithm, hyperparameters, conditions.context)
    patches = _apply_changes(framework, algorithm, native, conditions, hyperparameters)
    context, gamma = conditions.context, hyperparameters.gamma
    return _observe_native(framework, algorithm, native, context, gamma, conditions, patches)


def observe_run(prepared: PreparedRun) -> ObservedTraining:
    """Return the counts of one training on a scripted task, with the run's interventions."""
    run, conditions = prepared.spec, make_training_conditions(prepared.spec.algorithm)
    changes = make_replacement(prepared.interventions).apply_replacement()
    name, gamma = run.framework, prepared.hyperparameters.gamma
    native, context = prepared.native, prepared.context
    return _observe_native(name, run.algorithm, native, context, gamma, conditions, changes)


def _observe_native(
    framework: str,
    algorithm: str,
    native: NativeConfig,
    context: RunContext,
    gamma: float,
    conditions: TrainingConditions,
    changes: contextlib.AbstractContextManager[None],
) -> ObservedTraining:
    monitor = _ConformanceMonitor(conditions)
    observer = TrainingObserver(monitor.events, _NEAR_OBSERVATIONS)
    try:
        with watch_libraries(monitor.events, load_watchers(get_libraries(framework))), changes:
            load_adapter(framework).train(
                algorithm, native, context, lambda: monitor.make_env(gamma), monitor
            )
    except NoWatcherError as reason:
        pytest.skip(str(reason))
    return observer.summarize()


def _apply_changes(
    framework: str,
    algorithm: str,
    native: NativeConfig,
    conditions: TrainingConditions,
    hyperparameters: Hyperparameters,
) -> contextlib.AbstractContextManager[None]:
    fields = (*native.patched_fields, *conditions.forced_patches)
    adapter = load_adapter(framework)
    changes = make_patches(adapter, algorithm, hyperparameters, fields)
    names = [native.conversions[field] for field in conditions.converted_fields]
    made = list_conversions((), native, adapter, algorithm)
    changes += tuple(item for item in made if item.name in names)
    return make_replacement(changes).apply_replacement()
