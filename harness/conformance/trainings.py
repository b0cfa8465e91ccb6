"""Short trainings on a scripted task that report to a monitor of ours, in a second each."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from envs.make import make_training_env
from envs.scripted import DISCRETE_ENV_ID, ENV_ID, ScriptedEnv
from envs.tasks import load_task
from harness.conformance.observer import Observed, Observer
from harness.contract import watchers
from harness.contract.adapter import (
    CPU,
    Context,
    Loadable,
    MakeEnv,
    Native,
    Policy,
    Resumable,
    Weights,
    load_adapter,
)
from harness.contract.algorithms import ALGORITHMS, Hyperparameters
from harness.contract.events import Attached, Events
from harness.contract.fields import SpecError
from harness.contract.recipes import load_recipe
from harness.contract.watchers import UnwatchedError, applicable_watchers, watching
from harness.record.provenance import weights_sha256

# Two small rollouts, or as many steps of learning as of random actions.
STEPS = 128
TASKS = {"continuous": ENV_ID, "discrete": DISCRETE_ENV_ID}


def task_of(algorithm: str) -> str:
    """The scripted task whose actions are of the algorithm's kind."""
    return TASKS[ALGORITHMS[algorithm].actions]


def base_hyperparameters(framework: str, algorithm: str) -> Hyperparameters:
    """The framework's own recipe, made small where the framework lets it.

    Raises:
        SpecError: The framework refuses its own recipe, whatever is changed.
    """
    base = load_recipe(algorithm, framework)
    for field, value in type(base).small.items():
        base = with_value(framework, algorithm, base, field, value) or base
    translate(framework, algorithm, base)
    return base


def with_value(
    framework: str, algorithm: str, base: Hyperparameters, field: str, value: Any
) -> Hyperparameters | None:
    """`base` with another value of `field`; None where the framework refuses it.

    What the framework ties to `field`, such as the other learning rates, goes with it.
    """
    if field not in {known.name for known in dataclasses.fields(base)}:
        return None
    tied = _tied(framework, algorithm, base, field)
    changed = dataclasses.replace(base, **dict.fromkeys([field, *tied], value))
    return changed if _accepted(framework, algorithm, changed) else None


def _tied(framework: str, algorithm: str, base: Hyperparameters, field: str) -> list[str]:
    if not _accepted(framework, algorithm, base):
        return []
    what = field.partition("_")[2]  # such as the learning rate of `policy_learning_rate`
    return [
        row.field
        for row in translate(framework, algorithm, base).alignment
        if row.kind == "tied"
        and what
        and row.field.endswith(what)
        and row.value == getattr(base, field)
    ]


def _accepted(framework: str, algorithm: str, hyperparameters: Hyperparameters) -> bool:
    try:
        translate(framework, algorithm, hyperparameters)
    except SpecError:
        return False
    return True


@dataclasses.dataclass(frozen=True)
class Circumstances:
    """What a training is besides its framework, algorithm and hyperparameters.

    Attributes:
        steps: Environment transitions asked for.
        seed: Training seed.
        ask: Whether to call the greedy policy before every step.
        env_id: Which scripted task.
        n_envs: Copies of it.
        wrappers: `none` or `normalized`.
        reward_scale: What the task's rewards are multiplied by.
        device: Where networks compute.
    """

    steps: int = STEPS
    seed: int = 0
    ask: bool = False
    env_id: str = ENV_ID
    n_envs: int = 1
    wrappers: str = "none"
    reward_scale: float = 1.0
    device: str = CPU

    @property
    def context(self) -> Context:
        """What a translation may know."""
        return Context(
            load_task(self.env_id), self.steps, self.seed, self.n_envs, device=self.device
        )


def around_of(algorithm: str, **circumstances: Any) -> Circumstances:
    """Circumstances on the scripted task whose actions are of the algorithm's kind."""
    return Circumstances(**{"env_id": task_of(algorithm)} | circumstances)


def translate(
    framework: str, algorithm: str, hyperparameters: Hyperparameters, **circumstances: Any
) -> Native:
    """Native settings on a scripted task.

    Args:
        framework: Name of the adapter.
        algorithm: Name of the algorithm.
        hyperparameters: In unified units.
        circumstances: Fields of `Circumstances`.

    Raises:
        SpecError: The framework refuses.
    """
    context = around_of(algorithm, **circumstances).context
    return load_adapter(framework).translate(algorithm, hyperparameters, context)


_FAR = 1e4 * np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
"""Observations far away, float32[64, 3]."""
_SOME = np.linspace(-20, 20, 15, dtype=np.float32).reshape(5, 3)
"""Observations near and far, float32[5, 3]."""


def _images(count: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Images of zeros and ones, float32[count, channels, height, width]."""
    return np.random.default_rng(0).integers(0, 2, (count, *shape)).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Trained:
    """What one training left.

    Attributes:
        weights: All parameters.
        digest: Their hash.
        steps: Environment steps taken, counted in the environments.
        scheduled: Environment steps that the translation announced.
        actions: Every action that reached a task, float32[steps, 2] or choices [steps].
        greedy: Greedy actions for observations near and far, float32[5, 2] or int64[5].
        noise: Difference of each action from the greedy one, as a share of half the range.
        greedy_reversed: `greedy`, asked about the same observations the other way round.
        starts: The first observation of each copy of the task, float64[n_envs, 3].
        far: Greedy actions for observations far away in all directions, float32[64, 2].
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


class _Watched(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps the first observation, and shows `monitor` what it acts on, outside all others."""

    def __init__(self, env: gymnasium.Env[Any, Any], monitor: "_Monitor") -> None:
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


class _Monitor:
    """What a training reports to, and what it kept."""

    def __init__(self, around: Circumstances) -> None:
        self.events = Events()
        self._around = around
        self.policy: Policy | None = None
        self.weights: Callable[[], Weights] | None = None
        self.tasks: list[ScriptedEnv] = []
        self.copies: list[_Watched] = []
        self.noise: list[NDArray[np.float32]] = []

    def attach(
        self,
        policy: Policy,
        weights: Callable[[], Weights],
        loadable: Loadable | None = None,
        resumable: Resumable | None = None,
    ) -> None:
        self.policy, self.weights = policy, weights
        self.events.tell(Attached(policy, weights))

    def record(self, metrics: Mapping[str, float]) -> None:
        pass

    def boundary(self) -> None:
        pass

    def before_action(self, observation: NDArray[Any], action: NDArray[np.float32]) -> None:
        if self._around.ask and self.policy is not None:
            greedy = self.policy(np.asarray(observation, np.float32)[None])
            self.noise.append(action - greedy[0])

    def make_env(self, gamma: float) -> gymnasium.Env[Any, Any]:
        around, seam = self._around, self.events.seam()
        env = make_training_env(around.env_id, wrappers=around.wrappers, gamma=gamma, **seam)
        assert isinstance(env.unwrapped, ScriptedEnv)
        self.tasks.append(env.unwrapped)
        if around.reward_scale != 1:
            scale = around.reward_scale
            env = gymnasium.wrappers.TransformReward(env, lambda reward: scale * float(reward))
        self.copies.append(_Watched(env, self))
        return self.copies[-1]


def train(
    framework: str, algorithm: str, hyperparameters: Hyperparameters, **circumstances: Any
) -> Trained:
    """Trains on a scripted task; results are kept for the next who asks.

    Args:
        framework: Name of the adapter.
        algorithm: Name of the algorithm.
        hyperparameters: In unified units.
        circumstances: Fields of `Circumstances`.

    Raises:
        SpecError: The framework refuses.
    """
    return kept(framework, algorithm, hyperparameters, around_of(algorithm, **circumstances))


def trained_anew(
    framework: str, algorithm: str, hyperparameters: Hyperparameters, around: Circumstances
) -> Trained:
    """The same without looking whether it has been done."""
    monitor = _Monitor(around)
    native = load_adapter(framework).translate(algorithm, hyperparameters, around.context)
    _train(framework, algorithm, native, around, hyperparameters.gamma, monitor)
    assert monitor.policy is not None and monitor.weights is not None, "nothing was attached"
    weights = monitor.weights()
    assert weights, "no parameters were handed over"
    task = around.context.task
    half = 1.0 if task.choices else (task.action_high[0] - task.action_low[0]) / 2
    some = _images(len(_SOME), task.image) if task.image else _SOME
    far = _images(len(_FAR), task.image) if task.image else _FAR
    return Trained(
        weights=weights,
        digest=weights_sha256(weights),
        steps=monitor.events.steps,
        scheduled=native.total_steps,
        actions=np.concatenate([np.array(task.actions) for task in monitor.tasks if task.actions]),
        greedy=monitor.policy(some),
        noise=np.array(monitor.noise, np.float32) / half,
        greedy_reversed=monitor.policy(some[::-1].copy())[::-1],
        starts=np.array([copy.start for copy in monitor.copies if copy.start is not None]),
        far=monitor.policy(far),
    )


kept = functools.lru_cache(maxsize=512)(trained_anew)


def observe(
    framework: str, algorithm: str, hyperparameters: Hyperparameters, **circumstances: Any
) -> Observed:
    """Trains as `train` does and counts what happens.

    Skips the test where nobody watches the library that the adapter declares to train with.

    Raises:
        AssertionError: No optimiser step was seen.
        LookupError: This project is not installed as it is now.
    """
    registered = set(watchers.installed_watchers())
    unwatched = sorted(set(libraries(framework)) - registered)
    if unwatched and registered:  # where there are none at all, `watching` says why
        pytest.skip(f"{framework} trains with {', '.join(unwatched)}, which nobody watches")
    around = around_of(algorithm, **circumstances)
    observed = kept_observed(framework, algorithm, hyperparameters, around)
    assert observed.learning_rates, (
        f"no optimiser step was seen: {framework} declares to train with "
        f"{', '.join(libraries(framework))} (its adapter's `libraries`)"
    )
    return observed


def libraries(framework: str) -> tuple[str, ...]:
    """Libraries that a framework trains with, as its adapter declares; PyTorch by default."""
    return tuple(getattr(load_adapter(framework), "libraries", ("torch",)))


@functools.lru_cache(maxsize=64)
def kept_observed(
    framework: str, algorithm: str, hyperparameters: Hyperparameters, around: Circumstances
) -> Observed:
    """What was counted of one training."""
    monitor = _Monitor(around)
    observer = Observer(monitor.events, _SOME)
    native = load_adapter(framework).translate(algorithm, hyperparameters, around.context)
    try:
        with watching(monitor.events, applicable_watchers(libraries(framework))):
            _train(framework, algorithm, native, around, hyperparameters.gamma, monitor)
    except UnwatchedError as reason:
        pytest.skip(str(reason))
    return observer.observed()


def _train(
    framework: str,
    algorithm: str,
    native: Native,
    around: Circumstances,
    gamma: float,
    monitor: _Monitor,
) -> None:
    make_env: MakeEnv = lambda: monitor.make_env(gamma)  # noqa: E731
    load_adapter(framework).train(algorithm, native, around.context, make_env, monitor)
