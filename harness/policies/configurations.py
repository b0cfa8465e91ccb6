"""Tasks as tests: which initial configurations they have, and how well an agent copes with one.

What counts as success and the quality of control follow muPRL (`envs/` of
testingautomated-usi/muPRL): how far an agent is from failing, at each step.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from harness.contract.fields import SpecError

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Tested:
    """One kind of task.

    Attributes:
        names: Its gymnasium names, without versions.
        size: Numbers of a configuration, for a task that has been made.
        draw: Configurations, float[n, size], as the task itself draws them.
        begin: Puts a task that has been reset into a configuration; gives the observation.
        read: The configuration that a task is in right after a reset.
        quality: Quality of control at a step, from 1 down; below 0 is lost.
        steps: Steps that an agent must survive to succeed.

    Agents are greedy and these tasks draw no numbers once they have begun, so that one episode in
    each configuration tells what the reference's one to three do.
    """

    names: tuple[str, ...]
    size: Callable[[gymnasium.Env[Any, Any]], int]
    draw: Callable[[np.random.Generator, int, int], Floats]
    begin: Callable[[gymnasium.Env[Any, Any], Floats], NDArray[Any]]
    read: Callable[[gymnasium.Env[Any, Any]], Floats]
    quality: Callable[[gymnasium.Env[Any, Any]], float]
    steps: int


def kind_of(env_id: str) -> Tested:
    """How a task is tested.

    Raises:
        SpecError: Nobody has said so of this task.
    """
    name = env_id.partition("-v")[0]
    for known in TESTED.values():
        if name in known.names:
            return known
    there = ", ".join(name for known in TESTED.values() for name in known.names)
    raise SpecError(
        f"env={env_id}: what its configurations are and when an agent succeeds is not known; "
        f"it is for {there}."
    )


def _inner(env: gymnasium.Env[Any, Any]) -> Any:
    return env.unwrapped


def _begin_cartpole(env: gymnasium.Env[Any, Any], configuration: Floats) -> NDArray[Any]:
    _inner(env).state = np.array(configuration, dtype=np.float64)
    return np.array(configuration, dtype=np.float32)


def _read_cartpole(env: gymnasium.Env[Any, Any]) -> Floats:
    return np.array(_inner(env).state, dtype=np.float64)


def _quality_cartpole(env: gymnasium.Env[Any, Any]) -> float:
    task = _inner(env)
    position, _, angle, _ = task.state
    room = (task.x_threshold, abs(position)), (task.theta_threshold_radians, abs(angle))
    return float(min((limit - value) / limit for limit, value in room))


def _size_mujoco(env: gymnasium.Env[Any, Any]) -> int:
    task = _inner(env)
    return len(task.init_qpos) + len(task.init_qvel)


def _begin_mujoco(env: gymnasium.Env[Any, Any], configuration: Floats) -> NDArray[Any]:
    task = _inner(env)
    positions = len(task.init_qpos)
    task.set_state(
        task.init_qpos + configuration[:positions], task.init_qvel + configuration[positions:]
    )
    return np.array(task._get_obs())


def _read_mujoco(env: gymnasium.Env[Any, Any]) -> Floats:
    task = _inner(env)
    return np.concatenate([task.data.qpos - task.init_qpos, task.data.qvel - task.init_qvel])


def _height(lowest: float, upright: float) -> Callable[[gymnasium.Env[Any, Any]], float]:
    def quality(env: gymnasium.Env[Any, Any]) -> float:
        return float(
            (_inner(env).data.qpos[_HEIGHTS[type(_inner(env)).__name__]] - lowest) / upright
        )

    return quality


_HEIGHTS = {"HumanoidEnv": 2, "HopperEnv": 1}


def _uniform(width: float) -> Callable[[np.random.Generator, int, int], Floats]:
    return lambda generator, n, size: generator.uniform(-width, width, (n, size))


TESTED: Mapping[str, Tested] = {
    "cartpole": Tested(
        ("CartPole",),
        lambda env: 4,
        _uniform(0.05),
        _begin_cartpole,
        _read_cartpole,
        _quality_cartpole,
        500,
    ),
    "humanoid": Tested(
        ("Humanoid",),
        _size_mujoco,
        _uniform(0.01),
        _begin_mujoco,
        _read_mujoco,
        _height(1.0, 1.0),
        200,
    ),
    # Not in the reference: it falls at a height of 0.7, and stands at 1.25.
    "hopper": Tested(
        ("Hopper",),
        _size_mujoco,
        _uniform(0.005),
        _begin_mujoco,
        _read_mujoco,
        _height(0.7, 0.55),
        200,
    ),
}
"""By kind. LunarLander needs Box2D and its terrain, parking a package of its own: not here yet."""


@dataclasses.dataclass(frozen=True, eq=False)
class Played:
    """How an agent coped.

    Attributes:
        success: bool[configurations].
        quality: Smallest quality of control on the way, float[configurations].
    """

    success: NDArray[np.bool_]
    quality: Floats


def play(
    kind: Tested,
    env_id: str,
    policy: Callable[[NDArray[Any]], NDArray[Any]],
    configurations: Floats,
) -> Played:
    """Plays an episode in each configuration, side by side.

    Args:
        kind: How the task is tested.
        env_id: Gymnasium's name.
        policy: Observations [n, observations] to greedy actions [n, ...].
        configurations: float[n, size].
    """
    n = len(configurations)
    envs = [gymnasium.make(env_id).unwrapped for _ in range(n)]
    for number, env in enumerate(envs):
        env.reset(seed=number)
    seen = np.array([kind.begin(e, c) for e, c in zip(envs, configurations, strict=True)])
    quality = np.array([kind.quality(env) for env in envs])
    alive = np.ones(n, bool)
    for _ in range(kind.steps):
        acting = [number for number in range(n) if alive[number]]
        if not acting:
            break
        for number, action in zip(acting, policy(seen[acting]), strict=True):
            seen[number], _, ended, _, _ = envs[number].step(action)
            quality[number] = min(quality[number], kind.quality(envs[number]))
            alive[number] = not ended
    for env in envs:
        env.close()
    return Played(alive, quality)


def starts(env: gymnasium.Env[Any, Any], kind: Tested, count: int) -> Floats:
    """The configurations that a training's episodes began with, float[count, size].

    Holds where only resets draw random numbers from the task's generator.

    Args:
        env: The training's task, right after its first reset.
        kind: How it is tested.
        count: Of episodes.
    """
    found = [kind.read(env)]
    while len(found) < count:
        env.reset()
        found.append(kind.read(env))
    return np.array(found)
