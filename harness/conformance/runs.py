"""Short trainings on a scripted task that report to a monitor of ours."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.make import make_training_env
from envs.scripted import ENV_ID, ScriptedEnv
from envs.tasks import load_task
from harness.adapter import Context, MakeEnv, Native, Policy, Weights, load_adapter
from harness.conformance.observer import Observed, Observer
from harness.conformance.small import STEPS, translate
from harness.record.provenance import weights_sha256
from harness.spec import Hyperparameters

_SOME = np.linspace(-20, 20, 15, dtype=np.float32).reshape(5, 3)
"""Observations near and far, float32[5, 3]."""


@dataclasses.dataclass(frozen=True)
class Trained:
    """What one training left.

    Attributes:
        weights: All parameters.
        digest: Their hash.
        steps: Environment steps taken, counted in the environments.
        scheduled: Environment steps that the translation announced.
        actions: Every action that reached a task, float32[steps, 2].
        greedy: Greedy actions for observations near and far, float32[5, 2].
        noise: Difference of each action from the greedy one, as a share of half the range.
        greedy_reversed: `greedy`, asked about the same observations the other way round.
        starts: The first observation of each copy of the task, float64[n_envs, 3].
    """

    weights: Weights
    digest: str
    steps: int
    scheduled: int
    actions: NDArray[np.float32]
    greedy: NDArray[np.float32]
    noise: NDArray[np.float32]
    greedy_reversed: NDArray[np.float32]
    starts: NDArray[np.float64]


class _Watched(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Tells `watcher` of every step and reset, from outside all that an adapter gets."""

    def __init__(self, env: gymnasium.Env[Any, Any], watcher: "_Watcher") -> None:
        super().__init__(env)
        self._watcher, self._last = watcher, np.zeros(0)
        self.start: NDArray[np.float64] | None = None

    def reset(self, **arguments: Any) -> Any:
        self._watcher.observer.before_reset()
        self._last, info = self.env.reset(**arguments)
        self.start = self._last if self.start is None else self.start
        return self._last, info

    def step(self, action: Any) -> Any:
        self._watcher.before_step(self._last, np.asarray(action, np.float32))
        result = self.env.step(action)
        self._last = result[0]
        return result


class _Watcher:
    """A monitor, and what it saw."""

    def __init__(self, ask: bool) -> None:
        self.policy: Policy | None = None
        self.weights: Callable[[], Weights] | None = None
        self.observer = Observer()
        self.tasks: list[ScriptedEnv] = []
        self.copies: list[_Watched] = []
        self.noise: list[NDArray[np.float32]] = []
        self._ask = ask

    def attach(self, policy: Policy, weights: Callable[[], Weights]) -> None:
        self.policy, self.weights = policy, weights
        self.observer.attach(policy, weights, _SOME)

    def record(self, metrics: Mapping[str, float]) -> None:
        pass

    def before_step(self, observation: NDArray[Any], action: NDArray[np.float32]) -> None:
        self.observer.before_step()
        if self._ask and self.policy is not None:
            greedy = self.policy(np.asarray(observation, np.float32)[None])
            self.noise.append(action - greedy[0])

    def make_env(self, env_id: str, gamma: float) -> gymnasium.Env[Any, Any]:
        env = make_training_env(
            env_id,
            wrappers="none",
            gamma=gamma,
            before_step=lambda: None,
            after_episode=lambda total, length: None,
        )
        assert isinstance(env.unwrapped, ScriptedEnv)
        self.tasks.append(env.unwrapped)
        self.copies.append(_Watched(env, self))
        return self.copies[-1]


@functools.lru_cache(maxsize=512)
def train(
    framework: str,
    algorithm: str,
    hyperparameters: Hyperparameters,
    steps: int = STEPS,
    seed: int = 0,
    ask: bool = False,
    env_id: str = ENV_ID,
    n_envs: int = 1,
) -> Trained:
    """Trains on a scripted task; results are kept for the next who asks.

    Args:
        framework: Name of the adapter.
        algorithm: Name of the algorithm.
        hyperparameters: In unified units.
        steps: Environment transitions asked for.
        seed: Training seed.
        ask: Whether to call the greedy policy before every step.
        env_id: Which scripted task.
        n_envs: Copies of it.

    Raises:
        SpecError: The framework refuses.
    """
    watcher = _Watcher(ask)
    native = translate(framework, algorithm, hyperparameters, steps, seed, env_id, n_envs)
    context = Context(load_task(env_id), steps, seed, n_envs)
    _train(framework, algorithm, native, context, hyperparameters.gamma, watcher)
    assert watcher.policy is not None and watcher.weights is not None, "nothing was attached"
    weights = watcher.weights()
    half = (context.task.action_high[0] - context.task.action_low[0]) / 2
    return Trained(
        weights=weights,
        digest=weights_sha256(weights),
        steps=watcher.observer.steps,
        scheduled=native.total_steps,
        actions=np.concatenate([np.array(task.actions) for task in watcher.tasks if task.actions]),
        greedy=watcher.policy(_SOME),
        noise=np.array(watcher.noise, np.float32) / half,
        greedy_reversed=watcher.policy(_SOME[::-1].copy())[::-1],
        starts=np.array([copy.start for copy in watcher.copies if copy.start is not None]),
    )


@functools.lru_cache(maxsize=64)
def observe(framework: str, algorithm: str, hyperparameters: Hyperparameters) -> Observed:
    """Trains as `train` does and counts what happens."""
    watcher = _Watcher(ask=False)
    native = translate(framework, algorithm, hyperparameters)
    context = Context(load_task(ENV_ID), STEPS, 0)
    with watcher.observer:
        _train(framework, algorithm, native, context, hyperparameters.gamma, watcher)
    return watcher.observer.observed()


def _train(
    framework: str,
    algorithm: str,
    native: Native,
    context: Context,
    gamma: float,
    watcher: _Watcher,
) -> None:
    make_env: MakeEnv = lambda: watcher.make_env(context.task.env_id, gamma)  # noqa: E731
    load_adapter(framework).train(algorithm, native, context, make_env, watcher)
