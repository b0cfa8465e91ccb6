"""Construction of training environments, the same for every framework."""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import NormalizeObservation, NormalizeReward
from numpy.typing import NDArray

from parallax.envs.optional_tasks import is_atari_game, wrap_for_training
from parallax.envs.tasks import make_task_env

NORMALIZATION_CLIP = 10.0

Array = NDArray[Any]


class StepHook(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Wrapper that reports every reset and step before it happens, and every end of an episode.

    It wraps the task directly, so that steps and returns are those of the task itself, regardless
    of a framework's counts or a wrapper's rescaling.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        before_step: Callable[[], None],
        before_reset: Callable[[], None] | None = None,
        after_episode: Callable[[float, int], None] | None = None,
        after_step: Callable[[Any, Any, Any, bool, bool], None] | None = None,
    ) -> None:
        """Wrap `env`.

        Args:
            env: The task.
            before_step: Called before each step.
            before_reset: Called before each reset.
            after_episode: Called with return and length of each finished episode.
            after_step: Called with action, observation, reward, terminated and truncated of
                each step.
        """
        super().__init__(env)
        self._before_step, self._before_reset = before_step, before_reset
        self._after_episode, self._after_step = after_episode, after_step
        self._return, self._length = 0.0, 0

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        self._start_episode()
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step."""
        self._before_step()
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._report(action, observation, reward, terminated, truncated)
        return observation, reward, terminated, truncated, info

    def replay(self, starts: bool, *step: Any) -> None:
        """Report a step that a copy of this environment took in another process.

        Args:
            starts: Whether it is the first one of an episode.
            step: Action, observation, reward, terminated and truncated.
        """
        if starts:
            self._start_episode()
        self._before_step()
        self._report(*step)

    def silence(self) -> None:
        """Stop reporting, in a process whose steps another process reports."""
        self._before_step = lambda: None
        self._before_reset = self._after_episode = self._after_step = None

    def _start_episode(self) -> None:
        if self._before_reset:
            self._before_reset()
        self._return, self._length = 0.0, 0

    def _report(
        self, action: Any, observation: Any, reward: Any, terminated: bool, truncated: bool
    ) -> None:
        self._return += float(reward)
        self._length += 1
        if self._after_step:
            self._after_step(action, observation, reward, terminated, truncated)
        if (terminated or truncated) and self._after_episode:
            self._after_episode(self._return, self._length)


def make_training_env(
    env_id: str,
    *,
    wrappers: str,
    gamma: float,
    before_step: Callable[[], None],
    before_reset: Callable[[], None] | None = None,
    after_episode: Callable[[float, int], None] | None = None,
    after_step: Callable[[Any, Any, Any, bool, bool], None] | None = None,
    layers: Sequence[tuple[str, Mapping[str, Any]]] = (),
    options: Mapping[str, Any] = MappingProxyType({}),
) -> gymnasium.Env[Any, Any]:
    """Return one training environment, for Atari games with the training-only wrappers.

    Args:
        env_id: Gymnasium's name.
        wrappers: `none`, or `normalized`: observations and rewards scaled by running
            statistics and clipped to +-10 (thesis, appendix C.1).
        gamma: Discount factor of the return that rewards are scaled by.
        before_step: Called before each step of the task.
        before_reset: Called before each reset.
        after_episode: Called with the task's own return and length of each episode.
        after_step: Called with action, observation, reward, terminated and truncated of each step.
        layers: Wrappers that change the task, innermost first: `module:Class` and keyword
            arguments.
        options: Further arguments of `make_task_env`, the same as in evaluations of the policy.
    """
    hooks = before_step, before_reset, after_episode, after_step
    env: gymnasium.Env[Any, Any] = StepHook(make_task_env(env_id, **options), *hooks)
    env = wrap_for_training(env) if is_atari_game(env_id) else env
    for layer, arguments in layers:
        env = EntryPoint("layer", layer, "").load()(env, **arguments)
    if wrappers == "normalized":
        env = NormalizeObservation(env)
        env = gymnasium.wrappers.TransformObservation(env, _clip_value, env.observation_space)
        env = NormalizeReward(env, gamma=gamma)
        env = gymnasium.wrappers.TransformReward(env, _clip_value)
    return env


def share_statistics(first: gymnasium.Env[Any, Any], other: gymnasium.Env[Any, Any]) -> None:
    """Share one set of statistics between two normalised environments.

    Otherwise each would scale the policy's observations differently. Does nothing if the
    environments do not normalise.
    """
    for kind, name in ((NormalizeObservation, "obs_rms"), (NormalizeReward, "return_rms")):
        ours, theirs = _find_wrapper(first, kind), _find_wrapper(other, kind)
        if ours is not None and theirs is not None:
            setattr(theirs, name, getattr(ours, name))


def make_frozen_normalizer(env: gymnasium.Env[Any, Any]) -> Callable[[Array], Array]:
    """Return a function that normalises observations with the environment's current statistics.

    Later training does not change the function, and calling it does not change training.
    It is the identity if the environment does not normalise.
    """
    return make_normalizer(copy_observation_statistics(env))


def copy_observation_statistics(env: gymnasium.Env[Any, Any]) -> dict[str, Array]:
    """Return a copy of the current statistics of the environment's observation normalisation.

    Returns:
        `mean` and `var`, float64[observations], and `epsilon`, float64[]; empty where the
        environment does not normalise.
    """
    layer = _find_wrapper(env, NormalizeObservation)
    if layer is None:
        return {}
    mean, var = layer.obs_rms.mean.copy(), layer.obs_rms.var.copy()
    return {"mean": mean, "var": var, "epsilon": np.array(layer.epsilon)}


def make_normalizer(statistics: Mapping[str, Array]) -> Callable[[Array], Array]:
    """Return a function that normalises observations [..., observations] with some statistics.

    They are those of `copy_observation_statistics`; without any it is the identity.
    """
    if not statistics:
        return lambda batch: batch
    mean, var, epsilon = statistics["mean"], statistics["var"], float(statistics["epsilon"])
    return lambda batch: np.clip(
        (batch - mean) / np.sqrt(var + epsilon), -NORMALIZATION_CLIP, NORMALIZATION_CLIP
    )


def _find_wrapper(env: gymnasium.Env[Any, Any], kind: type[Any]) -> Any:
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, kind):
            return layer
        layer = layer.env
    return None


def _clip_value(value: Any) -> Any:
    return np.clip(value, -NORMALIZATION_CLIP, NORMALIZATION_CLIP)
