"""The task table: facts that the harness and its translations need about an environment."""

import dataclasses
import difflib
import functools
import hashlib
import inspect
import json
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import gymnasium

# The eight tasks of the thesis, Humanoid, and their successors.
_MUJOCO = [
    "Ant",
    "HalfCheetah",
    "Hopper",
    "Humanoid",
    "InvertedDoublePendulum",
    "InvertedPendulum",
    "Reacher",
    "Swimmer",
    "Walker2d",
]
# The games of MinAtar, which need the extra `minatar`; their observations are images.
IMAGE_TASK_IDS: tuple[str, ...] = tuple(
    f"MinAtar/{game}-v1" for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
)
# Gymnasium's classic control tasks, and LunarLander, which needs the extra `box2d`.
DISCRETE_TASK_IDS: tuple[str, ...] = (
    "CartPole-v1",
    "Acrobot-v1",
    "MountainCar-v0",
    "LunarLander-v3",
    *IMAGE_TASK_IDS,
)
# Parking needs the extra `parking`; its observations are flattened.
TASK_IDS: tuple[str, ...] = (
    *(f"{name}-{version}" for name in _MUJOCO for version in ("v4", "v5")),
    "Pendulum-v1",
    "parking-v0",
    *DISCRETE_TASK_IDS,
)
MEMORY_TASK_IDS: tuple[str, ...] = ("CartPoleHidden-v0", "PendulumHidden-v0", "MemoryChain-20-v0")
"""Tasks of `parallax.envs.memory_tasks`; chains of other lengths exist by name, too."""

REFERENCE_TASK_IDS: tuple[str, ...] = (
    *(name for name in TASK_IDS if not name.startswith(("Humanoid", "parking"))),
    *MEMORY_TASK_IDS,
)
"""Tasks whose scores without training are published with this project."""


class TaskError(ValueError):
    """An environment that does not exist or that no framework here can train on."""


@dataclasses.dataclass(frozen=True)
class Task:
    """Sizes and bounds of one environment.

    Attributes:
        env_id: Gymnasium's name.
        observation_size: Number of observation dimensions; of an image, all its values.
        action_low: Smallest action per dimension, in action units; empty for discrete actions.
        action_high: Largest action per dimension, in action units; empty for discrete actions.
        max_episode_steps: Time limit in steps; 0 is none.
        choices: Number of discrete actions, counted from 0; 0 if actions are continuous.
        image: Channels, height and width where observations are images; empty where they are flat.
        brightest: Largest value in an image; networks see images divided by it.
    """

    env_id: str
    observation_size: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    max_episode_steps: int
    choices: int = 0
    image: tuple[int, ...] = ()
    brightest: int = 1

    @property
    def actions(self) -> str:
        """Return the kind of actions: `continuous` or `discrete`."""
        return "discrete" if self.choices else "continuous"

    @property
    def action_size(self) -> int:
        """Return the number of action dimensions; 0 for discrete actions."""
        return len(self.action_low)


def make_task_env(
    env_id: str, wrappers: Sequence[str] = (), **kwargs: Any
) -> "gymnasium.Env[Any, Any]":
    """Return `gymnasium.make(env_id)` without the warnings that v4 tasks are out of date.

    `parallax.envs.optional_tasks` adapts observations that no network here can read.

    Args:
        env_id: Gymnasium's name.
        wrappers: `module:Class` of wrappers around the task, innermost first; each is called with
            just the environment.
        kwargs: Keyword arguments of the task.

    Raises:
        TaskError: The environment does not exist or cannot be made.
    """
    import gymnasium  # help needs only the table of tasks

    from parallax.envs import memory_tasks, optional_tasks

    limit = kwargs.get("max_episode_steps")
    if limit is not None and not (type(limit) is int and 0 < limit <= 1_000_000):
        raise TaskError(
            f"env.kwargs.max_episode_steps={limit!r} must be an integer from 1 to 1,000,000."
        )
    silence_mujoco()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is out of date.*")
        try:
            memory_tasks.register_memory_task(env_id)
            options = optional_tasks.register_task(env_id)
            env = gymnasium.make(env_id, **{**options, **kwargs})
            env = optional_tasks.wrap_game(env) if optional_tasks.is_atari_game(env_id) else env
        except (Exception, SystemExit) as error:  # whatever the code of the task raises
            reason = _describe_unknown_kwargs(env_id, kwargs) or _describe_error(error)
            raise TaskError(f"env={env_id} cannot be made: {reason}") from error
    env = optional_tasks.adapt_observations(env, env_id)
    for name in wrappers:
        env = _wrap_env(env, name)
    return env


def _describe_unknown_kwargs(env_id: str, kwargs: Mapping[str, Any]) -> str:
    """Return a message on arguments that the task's constructor does not take, or ""."""
    import gymnasium

    try:
        creator = gymnasium.spec(env_id).entry_point
        creator = creator if callable(creator) else EntryPoint("task", creator or "", "").load()
        known = dict(inspect.signature(creator).parameters)
    except (Exception, SystemExit):  # it does not exist, or its code cannot be imported
        return ""
    accepted = sorted(known.keys() - {"render_mode", "self"})
    unknown = [name for name in kwargs if name not in known]
    if not unknown or any(one.kind is one.VAR_KEYWORD for one in known.values()):
        return ""
    close = difflib.get_close_matches(unknown[0], accepted, 1)
    nearest = f" Did you mean env.kwargs.{close[0]}?" if close else ""
    value = f"env.kwargs.{unknown[0]}={kwargs[unknown[0]]!r} is not an argument of the task."
    return f"{value}{nearest} It takes {', '.join(accepted) or 'none'}."


def _describe_error(error: BaseException) -> str:
    is_missing = isinstance(error, ModuleNotFoundError)
    folder = " (PYTHONPATH=. finds modules in the current folder)" if is_missing else ""
    says_why = str(error) and not isinstance(error, SystemExit)
    return f"{error if says_why else type(error).__name__}{folder}"


def _wrap_env(env: "gymnasium.Env[Any, Any]", name: str) -> "gymnasium.Env[Any, Any]":
    """Return the environment inside the wrapper `module:Class`.

    Raises:
        TaskError: There is no such wrapper, or it cannot be made.
    """
    import gymnasium

    try:
        kind = EntryPoint("wrapper", name, "").load()
        if not (isinstance(kind, type) and issubclass(kind, gymnasium.Wrapper)):
            raise TypeError("it is not a subclass of gymnasium.Wrapper")
        wrapped: gymnasium.Env[Any, Any] = kind(env)
    except (Exception, SystemExit) as error:  # whatever the code of the wrapper raises
        remedy = "Name it as module:Class, of a class that takes the environment alone."
        problem = f"env.wrappers={name} cannot be used: {_describe_error(error)}."
        raise TaskError(f"{problem} {remedy}") from error
    return wrapped


def hash_wrapper_sources(names: Sequence[str]) -> dict[str, str]:
    """Return the SHA-256 of the file that defines each wrapper `module:Class`, by its name.

    Wrappers of Gymnasium are left out: its version is recorded with the run.
    """
    digests = {}
    for name in [name for name in names if not name.startswith("gymnasium.")]:
        file = inspect.getsourcefile(EntryPoint("wrapper", name, "").load())
        if file:
            digests[name] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return digests


def load_task(env_id: str, **options: Any) -> Task:
    """Make the environment once and read its sizes.

    Raises:
        TaskError: The environment is unknown, or its spaces are of an unsupported kind.
    """
    # As a text, because arguments of a cached function must be hashable.
    return _read_task(env_id, json.dumps(options, sort_keys=True))


def _check_one_step(
    env: "gymnasium.Env[Any, Any]", env_id: str, options: Mapping[str, Any]
) -> None:
    """Check that a task can be reset and stepped with the arguments and wrappers of a run.

    Raises:
        TaskError: It cannot; names the arguments and wrappers.
    """
    if not options:
        return
    try:
        env.reset(seed=0)
        env.step(env.action_space.sample())
    except (Exception, SystemExit) as error:  # whatever the code of the task raises
        wrappers = options.get("wrappers", ())
        values = {name: value for name, value in options.items() if name != "wrappers"}
        given = [f"env.kwargs.{name}={json.dumps(value)}" for name, value in values.items()]
        given += [f"env.wrappers={','.join(wrappers)}"] if wrappers else []
        raise TaskError(
            f"env={env_id} cannot be stepped with {' and '.join(given)}: "
            f"{type(error).__name__}: {error}. Give values that the task supports."
        ) from error


@functools.lru_cache
def _read_task(env_id: str, options: str) -> Task:
    given = json.loads(options)
    env = make_task_env(env_id, **given)
    try:
        _check_one_step(env, env_id, given)
        limit = (env.spec.max_episode_steps if env.spec else None) or 0
        fields = _read_observation_fields(env, env_id) | _read_action_fields(env, env_id)
        return Task(env_id=env_id, max_episode_steps=limit, **fields)
    finally:
        env.close()


def _read_observation_fields(env: "gymnasium.Env[Any, Any]", env_id: str) -> dict[str, Any]:
    from gymnasium.spaces import Box

    from parallax.envs.optional_tasks import FloatImages, is_stack_of_frames

    space = env.observation_space
    is_frames = is_stack_of_frames(space)
    is_image = is_frames or isinstance(env, FloatImages)
    if not isinstance(space, Box) or (len(space.shape) != 1 and not is_image):
        raise TaskError(
            f"env={env_id} has observations {space}; a flat Box is needed, images of "
            "booleans, height x width x channels, as MinAtar's, or of bytes, frames x height x "
            "width, as Atari's. A task of your own can flatten what it shows "
            "(gymnasium.wrappers.FlattenObservation)."
        )
    return {
        "observation_size": int(np.prod(space.shape)),
        "image": space.shape if is_image else (),
        "brightest": 255 if is_frames else 1,
    }


def _read_action_fields(env: "gymnasium.Env[Any, Any]", env_id: str) -> dict[str, Any]:
    from gymnasium.spaces import Box, Discrete

    space = env.action_space
    if isinstance(space, Discrete):
        if space.start != 0:
            raise TaskError(f"env={env_id} has actions {space}; they must begin at 0.")
        return {"action_low": (), "action_high": (), "choices": int(space.n)}
    if not isinstance(space, Box) or len(space.shape) != 1:
        raise TaskError(f"env={env_id} has actions {space}; a flat Box or Discrete is needed.")
    if not space.is_bounded():
        raise TaskError(f"env={env_id} has unbounded actions {space}; give them bounds.")
    low, high = (tuple(map(float, bound)) for bound in (space.low, space.high))
    return {"action_low": low, "action_high": high}


def silence_mujoco() -> None:
    """Report MuJoCo's warnings as Python warnings, so that no MUJOCO_LOG.TXT is left behind."""
    try:
        import mujoco
    except ModuleNotFoundError:
        return
    mujoco.set_mju_user_warning(_forward_mujoco_warning)


def _forward_mujoco_warning(message: str) -> None:
    # Gymnasium's own model files cause this one; users can do nothing about it.
    if "settotalmass" not in message:
        warnings.warn(f"MuJoCo: {message}", RuntimeWarning, stacklevel=2)
