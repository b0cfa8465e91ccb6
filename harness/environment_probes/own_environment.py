"""A user's own wrapper or environment: its roles are detected, then questions are answered."""

import importlib
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from parallax.harness.contract.probing.environments import (
    ACTION_CLIP,
    ACTION_RESCALE,
    EPISODE_STATISTICS,
    EPISODES,
    FRAME_STACK,
    OBSERVATION_NORMALIZATION,
    OBSERVATION_SIZE,
    RECEIVED,
    REWARD_NORMALIZATION,
    TERMINATED,
    TIME_LIMIT,
    EnvironmentDriver,
    EnvironmentImplementation,
    EpisodeScript,
    make_single_env,
)
from parallax.harness.environment_probes.answers import (
    AS_DEFINED,
    DIFFERS,
    NOT_MEASURED,
    EnvironmentAnswer,
    EnvironmentQuestion,
)
from parallax.harness.environment_probes.episodes import join_answers
from parallax.harness.environment_probes.trace import make_wrapped_driver

ENVIRONMENT = "environment"
GAMMA, LIMIT, STACK = 0.97, 5, 3
NO_LIMIT = 1_000_000
_LIMIT_NAMES = ("max_episode_steps", "max_steps", "limit", "time_limit")
_KNOWN_ARGUMENTS = {
    "gamma": GAMMA,
    "min_action": -1.0,
    "max_action": 1.0,
    "stack_size": STACK,
    "num_stack": STACK,
    "n_stack": STACK,
}
_STEPS = 20


def load_own_target(name: str) -> Any:
    """Return the object that `module:Class` names.

    Raises:
        ValueError: It does not exist.
    """
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(f"--environments {name} must be module:Class, such as my_code:MyWrapper.")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # whatever the code of the module raises
        raise ValueError(
            f"--environments {name} cannot be loaded: {type(error).__name__}: {error}. Name a "
            "module that Python finds, and a class in it."
        ) from error


def list_own_implementations(name: str) -> tuple[EnvironmentImplementation, ...]:
    """Return the implementations that `module:Class` names.

    Args:
        name: Name of a subclass of `gymnasium.Wrapper` or `gymnasium.Env`, of an
            `EnvironmentImplementation`, or of several.

    Raises:
        ValueError: It is none of these.
    """
    target = load_own_target(name)
    if isinstance(target, EnvironmentImplementation):
        return (target,)
    if isinstance(target, Sequence):
        return tuple(target)
    if isinstance(target, type) and issubclass(target, gymnasium.Wrapper):
        return list_wrapper_implementations(name, target)
    if isinstance(target, type) and issubclass(target, gymnasium.Env):
        sources = {ENVIRONMENT: (target.step, "")}
        settings = {"make": target}
        return (
            EnvironmentImplementation(
                name, (ENVIRONMENT,), _refuse_scripts, settings=settings, sources=sources
            ),
        )
    raise ValueError(
        f"--environments {name} is {target!r}: a subclass of gymnasium.Wrapper or gymnasium.Env, "
        "or an EnvironmentImplementation, is needed."
    )


def _refuse_scripts(scripts: Sequence[EpisodeScript]) -> EnvironmentDriver:
    raise NotImplementedError("it is a task of its own and follows no script")


def list_wrapper_implementations(
    name: str, wrapper: Callable[..., Any]
) -> tuple[EnvironmentImplementation, ...]:
    """Return a wrapper's implementation with its detected roles.

    Args:
        name: Label.
        wrapper: The class; called with the environment and known values of its required
            arguments, such as `max_episode_steps` and `gamma`.
    """
    parameters = inspect.signature(wrapper).parameters
    known = {key: value for key, value in _KNOWN_ARGUMENTS.items() if key in parameters}
    limit = next((key for key in _LIMIT_NAMES if key in parameters), None)
    far = known | ({limit: NO_LIMIT} if limit else {})
    roles, settings = find_roles(partial(wrapper, **far))
    sources = dict.fromkeys((*roles, TIME_LIMIT), (getattr(wrapper, "step", None), ""))
    found = [
        EnvironmentImplementation(
            name,
            roles,
            partial(make_wrapped_driver, wrap=partial(wrapper, **far)),
            settings={"gamma": GAMMA, **settings},
            sources=sources,
        )
    ]
    if limit:
        near = partial(wrapper, **(known | {limit: LIMIT}))
        found.append(
            EnvironmentImplementation(
                f"{name} with a limit of {LIMIT} steps",
                (TIME_LIMIT,),
                partial(make_wrapped_driver, wrap=near),
                settings={"limit": LIMIT},
                sources=sources,
            )
        )
    return tuple(found)


def find_roles(wrap: Callable[[Any], Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Detect a wrapper's roles by its changes to the scripted task.

    Returns:
        Roles, and settings that questions about them need.
    """
    script = EpisodeScript(0, ((6, TERMINATED),))
    plain, wrapped = (make_single_env(script) for _ in range(2))
    wrapped = wrap(wrapped)
    observations, rewards, recorded = _compare_steps(plain, wrapped)
    stacked = observations is None
    roles, settings = [], dict[str, Any]()
    if stacked:
        roles.append(FRAME_STACK)
        settings["stack"] = int(np.prod(np.shape(wrapped.reset()[0]))) // OBSERVATION_SIZE
    elif not observations:
        roles.append(OBSERVATION_NORMALIZATION)
    if not rewards:
        roles.append(REWARD_NORMALIZATION)
    if observations and rewards:
        roles += _find_action_roles(wrap, settings) or [EPISODES]
    if recorded:
        roles.append(EPISODE_STATISTICS)
    return tuple(roles), settings


def _compare_steps(plain: Any, wrapped: Any) -> tuple[bool | None, bool, bool]:
    """Return whether observations (None if their shape changes) and rewards mostly agree.

    "Mostly", because a faulty wrapper may change some of them. The last flag says whether an
    episode was recorded.
    """
    action = np.zeros(1, np.float32)
    shown = [(plain.reset(seed=0)[0], wrapped.reset(seed=0)[0])]
    paid, recorded = [], False
    for _ in range(_STEPS):
        first, second = plain.step(action), wrapped.step(action)
        recorded = recorded or "episode" in second[4]
        shown.append((first[0], second[0]))
        paid.append((first[1], second[1]))
        if first[2] or first[3] or second[2] or second[3]:
            plain.reset()
            wrapped.reset()
    if np.shape(shown[0][0]) != np.shape(shown[0][1]):
        return None, _agree_mostly(paid), recorded
    return _agree_mostly(shown), _agree_mostly(paid), recorded


def _agree_mostly(pairs: Sequence[tuple[Any, Any]]) -> bool:
    close = [
        np.allclose(np.asarray(a, float)[..., :2], np.asarray(b, float)[..., :2], atol=1e-5)
        if np.ndim(a)
        else np.isclose(a, b, atol=1e-5)
        for a, b in pairs
    ]
    return bool(np.mean(close) > 0.4)


def _find_action_roles(wrap: Callable[[Any], Any], settings: dict[str, Any]) -> list[str]:
    received = {}
    for action in (0.25, -0.5, 9.0):
        env = wrap(make_single_env(EpisodeScript(low=-2.0, high=6.0)))
        env.reset(seed=0)
        try:
            seen = env.step(np.full(1, action, np.float32))[0]
        except (AssertionError, ValueError):
            continue
        received[action] = float(np.ravel(seen)[RECEIVED])
    inside = np.isclose(received.get(0.25, 0.25), 0.25) and np.isclose(
        received.get(-0.5, -0.5), -0.5
    )
    if not inside:
        space = wrap(make_single_env(EpisodeScript(low=-2.0, high=6.0))).action_space
        if np.isclose(float(np.ravel(space.high)[0]), 6.0):
            return [ACTION_CLIP]
        settings |= {"low": float(np.ravel(space.low)[0]), "high": float(np.ravel(space.high)[0])}
        return [ACTION_RESCALE]
    return [EPISODES] if np.isclose(received.get(9.0, 9.0), 9.0) else [EPISODES, ACTION_CLIP]


def _play(env: Any, seed: int, n_steps: int) -> list[Any]:
    """Return a task's outputs for a seed and the first actions sampled from its action space."""
    env.action_space.seed(0)
    found: list[Any] = [np.array(env.reset(seed=seed)[0])]
    for _ in range(n_steps):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        found += [np.array(observation), float(reward), bool(terminated), bool(truncated)]
        if terminated or truncated:
            break
    return found


def measure_repeatability(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Check that seed and actions determine all outputs, in a new copy and after a reset."""
    make = implementation.settings["make"]
    first, second = make(), make()
    found = []
    expected = _play(first, 3, _STEPS)
    if not _is_same(expected, _play(second, 3, _STEPS)):
        found.append("two copies with the same seed and actions differ")
    if not _is_same(expected, _play(first, 3, _STEPS)):
        found.append("a reset with the same seed does not start the same episode again")
    if found == [] and _is_same(expected[:1], _play(second, 4, 0)):
        return EnvironmentAnswer(
            AS_DEFINED, "seed and actions determine the episode, every seed starts alike"
        )
    return join_answers(found, "seed and actions determine the episode")


def _is_same(first: Sequence[Any], second: Sequence[Any]) -> bool:
    return len(first) == len(second) and all(
        np.array_equal(a, b) for a, b in zip(first, second, strict=True)
    )


def measure_spaces(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Check that observations and flags are as declared."""
    env = implementation.settings["make"]()
    found = []
    observation = env.reset(seed=0)[0]
    for _ in range(_STEPS):
        if not env.observation_space.contains(observation):
            found.append("an observation is not in its space")
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        if not np.isscalar(reward) and np.ndim(reward):
            found.append("the reward is an array")
        if not all(isinstance(flag, bool | np.bool_) for flag in (terminated, truncated)):
            found.append("an end flag is no bool")
        if terminated or truncated:
            observation = env.reset()[0]
    return join_answers(found, "observations are in their space, flags are bools")


def measure_own_overwriting(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Check whether a later step or reset changes an observation that was returned before."""
    env = implementation.settings["make"]()
    first = env.reset(seed=0)[0]
    if not isinstance(first, np.ndarray):
        return EnvironmentAnswer(NOT_MEASURED, "observations are no arrays")
    before = first.copy()
    second = env.step(env.action_space.sample())[0]
    middle = second.copy()
    env.step(env.action_space.sample())
    if not np.array_equal(first, before) or not np.array_equal(second, middle):
        return EnvironmentAnswer(DIFFERS, "returned observations are overwritten by a later step")
    return EnvironmentAnswer(AS_DEFINED, "returned arrays stay as they are")


OWN_QUESTIONS = (
    EnvironmentQuestion(
        "environment.repeatable",
        ENVIRONMENT,
        "Do seed and actions determine the episode?",
        "they do",
        measure_repeatability,
    ),
    EnvironmentQuestion(
        "environment.spaces",
        ENVIRONMENT,
        "Are observations, rewards and flags as declared?",
        "they are",
        measure_spaces,
    ),
    EnvironmentQuestion(
        "environment.overwriting",
        ENVIRONMENT,
        "Do later steps change observations that were returned before?",
        "they do not",
        measure_own_overwriting,
    ),
)
