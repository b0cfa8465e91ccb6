"""Tasks of mutation tests: initial configurations, success and quality of control.

Success and quality of control, the distance from failing at each step, follow muPRL (`envs/` of
testingautomated-usi/muPRL). For parking (highway-env; `envs/parking/` there) a configuration is the
goal bay and the pose of the car: training begins at the origin, tests anywhere near it. For
LunarLander (`envs/lunarlander/` there) it is the terrain and the initial push: a reset draws them,
so that they are set through the generator and read back from it.
"""

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from parallax.envs.tasks import make_task_env
from parallax.harness.contract.fields import SpecError

Floats = NDArray[np.float64]


PARKING_SIZE = 4
PARKING_BAYS = 19
"""Goal bays that tests draw from, of 28."""
MAX_CAR_POSITION = (10.0, 5.0)
"""Largest initial coordinates of a car in tests, in m; the smallest are 0."""
PARKING_STEPS = 100
"""Decisions within which a car must park, as in muPRL; highway-env's current limit is 500."""


def draw_parking_configurations(generator: np.random.Generator, n: int, size: int) -> Floats:
    """Draw configurations, float[n, 4]: index of the bay, heading in turns, x and y in m."""
    bays = generator.integers(0, PARKING_BAYS, n).astype(np.float64)
    places = generator.uniform(0, MAX_CAR_POSITION, (n, 2))
    return np.column_stack([bays, generator.uniform(0, 1, n), places])


def begin_parking(task: Any, configuration: Floats) -> Floats:
    """Put a task that was just reset into a configuration; return the flat observation."""
    bay, heading, *place = configuration
    car, lane = task.vehicle, task.road.network.lanes_list()[int(bay)]
    car.position, car.heading, car.speed = np.array(place), 2 * np.pi * heading, 0.0
    car.goal.position, car.goal.heading = lane.position(lane.length / 2, 0), lane.heading
    shown = gymnasium.spaces.flatten(task.observation_space, task.observation_type.observe())
    return np.array(shown)


def read_parking(task: Any) -> Floats:
    """Return the configuration of a task that was just reset, float[4]."""
    car, lanes = task.vehicle, task.road.network.lanes_list()
    away = [np.linalg.norm(lane.position(lane.length / 2, 0) - car.goal.position) for lane in lanes]
    return np.array([np.argmin(away), car.heading / (2 * np.pi), *car.position])


def measure_parking_quality(task: Any) -> float:
    """Return the remaining share of the time limit; muPRL evaluates it at the end (the minimum)."""
    return float(1 - task.time * task.config["policy_frequency"] / PARKING_STEPS)


def is_car_parked(task: Any) -> bool:
    """Return whether the car is in its bay."""
    seen = task.observation_type_parking.observe()
    return bool(task._is_success(seen["achieved_goal"], seen["desired_goal"]))


FREE_HEIGHTS = (0, 1, 2, 8, 9, 10, 11)
"""Indices of the terrain heights, of twelve, that are not levelled for the helipad."""
TERRAIN_HEIGHTS, PUSH_FORCES = 12, 2
LANDER_SIZE = len(FREE_HEIGHTS) + PUSH_FORCES
DRAWS_PER_STEP = 2
"""Random numbers that each step draws, whatever the action: `dispersion` of the engines
(gymnasium/envs/box2d/lunar_lander.py, `step`)."""
DRAWS_PER_RESET = TERRAIN_HEIGHTS + PUSH_FORCES + DRAWS_PER_STEP
_GENERATOR_PERIOD = 2**128  # of PCG64: advancing by the period minus n goes n draws back


class _ScriptedGenerator:
    """Generator whose first draws are given; the others come from another generator."""

    def __init__(self, given: list[Any], behind: np.random.Generator) -> None:
        self._given, self._behind = iter(given), behind

    def uniform(self, low: float, high: float, size: Any = None) -> Any:
        """Return the next given draw, or a draw of the other generator."""
        given = next(self._given, None)
        return self._behind.uniform(low, high, size) if given is None else given


def draw_lander_configurations(generator: np.random.Generator, n: int, size: int) -> Floats:
    """Draw configurations as the task does, float[n, 9]: 7 heights and 2 forces."""
    highest, strongest = _read_draw_ranges()
    heights = generator.uniform(0, highest, (n, len(FREE_HEIGHTS)))
    return np.column_stack([heights, generator.uniform(-strongest, strongest, (n, PUSH_FORCES))])


def begin_lander(task: Any, configuration: Floats) -> NDArray[np.float32]:
    """Reset the task into a configuration; return the observation."""
    heights, (x, y) = np.zeros(TERRAIN_HEIGHTS), configuration[len(FREE_HEIGHTS) :]
    heights[list(FREE_HEIGHTS)] = configuration[: len(FREE_HEIGHTS)]
    own = task.np_random
    task.np_random = _ScriptedGenerator([heights, float(x), float(y)], own)
    try:
        observation, _ = task.reset()
    finally:
        task.np_random = own
    return np.array(observation)


def read_lander(task: Any) -> Floats:
    """Return the configuration of a task that was just reset, float[9]."""
    highest, strongest = _read_draw_ranges()
    before = copy.deepcopy(task.np_random)
    before.bit_generator.advance(_GENERATOR_PERIOD - DRAWS_PER_RESET)
    heights = before.uniform(0, highest, size=TERRAIN_HEIGHTS)
    return np.array(
        [*heights[list(FREE_HEIGHTS)], *before.uniform(-strongest, strongest, PUSH_FORCES)]
    )


def skip_lander_draws(task: Any, steps: int) -> None:
    """Advance the task's generator as `steps` steps would."""
    task.np_random.bit_generator.advance(DRAWS_PER_STEP * steps)


def measure_lander_quality(task: Any) -> float:
    """Return the distance of the lander from leaving the screen and from crashing.

    1 - |x - centre| / half width; at most 1 - 1 / (1 + d) while a leg at distance d touches the
    ground; 0 after a crash.
    """
    if task.game_over:
        return 0.0
    place, half = task.lander.position, _compute_half_width()
    away = [_compute_distance(place, leg.position) for leg in task.legs if leg.ground_contact]
    room = max(0.0, 1 - abs(place.x - half) / half)
    return float(min([room, *(1 - 1 / (1 + one) for one in away)]))


def has_landed(task: Any) -> bool:
    """Return whether the lander has come to rest, anywhere."""
    return not task.lander.awake and not task.game_over


def _compute_distance(one: Any, other: Any) -> float:
    return float(np.hypot(one.x - other.x, one.y - other.y))


def _compute_half_width() -> float:
    from gymnasium.envs.box2d.lunar_lander import SCALE, VIEWPORT_W

    return float(VIEWPORT_W / SCALE / 2)


def _read_draw_ranges() -> tuple[float, float]:
    """Return the largest height of the terrain in m and the largest force in N."""
    from gymnasium.envs.box2d.lunar_lander import INITIAL_RANDOM, SCALE, VIEWPORT_H

    return VIEWPORT_H / SCALE / 2, INITIAL_RANDOM


@dataclasses.dataclass(frozen=True)
class PolicyTestTask:
    """Test description of one kind of task; its functions take a task without wrappers.

    Attributes:
        names: Gymnasium names without versions.
        size: Returns the length of a configuration of a task.
        draw: Draws configurations, float[n, size], as muPRL does.
        begin: Puts a task that was just reset into a configuration; returns the observation.
        read: Returns the configuration right after a reset.
        quality: Returns the quality of control at a step, at most 1; control is lost at 0.
        steps: Steps that an agent has, or must survive.
        reached: Returns whether a finished episode was a success; None if success is to survive.
        episodes: Episodes per configuration. muPRL plays one to three; since agents are greedy,
            one is enough for tasks that draw no random numbers after the reset.
        skip: Advances the task's generator as steps would, if steps draw random numbers.
    """

    names: tuple[str, ...]
    size: Callable[[Any], int]
    draw: Callable[[np.random.Generator, int, int], Floats]
    begin: Callable[[Any, Floats], NDArray[Any]]
    read: Callable[[Any], Floats]
    quality: Callable[[Any], float]
    steps: int
    reached: Callable[[Any], bool] | None = None
    episodes: int = 1
    skip: Callable[[Any, int], None] = lambda task, steps: None


def find_test_task(env_id: str) -> PolicyTestTask:
    """Return the test description of a task.

    Raises:
        SpecError: There is none for this task.
    """
    name = env_id.partition("-v")[0]
    for known in POLICY_TEST_TASKS.values():
        if name in known.names:
            return known
    there = ", ".join(name for known in POLICY_TEST_TASKS.values() for name in known.names)
    raise SpecError(f"env={env_id}: mutation tests do not support this task. Use one of {there}.")


def _begin_cartpole(task: Any, configuration: Floats) -> NDArray[Any]:
    task.state = np.array(configuration, dtype=np.float64)
    return np.array(configuration, dtype=np.float32)


def _read_cartpole(task: Any) -> Floats:
    return np.array(task.state, dtype=np.float64)


def _measure_cartpole_quality(task: Any) -> float:
    position, _, angle, _ = task.state
    limits = (task.x_threshold, abs(position)), (task.theta_threshold_radians, abs(angle))
    return float(min((limit - value) / limit for limit, value in limits))


def _count_mujoco_numbers(task: Any) -> int:
    return len(task.init_qpos) + len(task.init_qvel)


def _begin_mujoco(task: Any, configuration: Floats) -> NDArray[Any]:
    positions = len(task.init_qpos)
    task.set_state(
        task.init_qpos + configuration[:positions], task.init_qvel + configuration[positions:]
    )
    return np.array(task._get_obs())


def _read_mujoco(task: Any) -> Floats:
    return np.concatenate([task.data.qpos - task.init_qpos, task.data.qvel - task.init_qvel])


def _make_height_quality(index: int, lowest: float, span: float) -> Callable[[Any], float]:
    """Return the quality of a walker whose height is position `index`: 0 at `lowest`, 1 above."""
    return lambda task: float((task.data.qpos[index] - lowest) / span)


def _make_uniform_draw(width: float) -> Callable[[np.random.Generator, int, int], Floats]:
    return lambda generator, n, size: generator.uniform(-width, width, (n, size))


POLICY_TEST_TASKS: Mapping[str, PolicyTestTask] = {
    "cartpole": PolicyTestTask(
        ("CartPole",),
        lambda task: 4,
        _make_uniform_draw(0.05),
        _begin_cartpole,
        _read_cartpole,
        _measure_cartpole_quality,
        500,
    ),
    "humanoid": PolicyTestTask(
        ("Humanoid",),
        _count_mujoco_numbers,
        _make_uniform_draw(0.01),
        _begin_mujoco,
        _read_mujoco,
        _make_height_quality(2, 1.0, 1.0),
        200,
    ),
    # Not in muPRL: the hopper has fallen at a height of 0.7, and stands at 1.25.
    "hopper": PolicyTestTask(
        ("Hopper",),
        _count_mujoco_numbers,
        _make_uniform_draw(0.005),
        _begin_mujoco,
        _read_mujoco,
        _make_height_quality(1, 0.7, 0.55),
        200,
    ),
    "lander": PolicyTestTask(
        ("LunarLander",),
        lambda task: LANDER_SIZE,
        draw_lander_configurations,
        begin_lander,
        read_lander,
        measure_lander_quality,
        1000,
        reached=has_landed,
        episodes=3,
        skip=skip_lander_draws,
    ),
    "parking": PolicyTestTask(
        ("parking",),
        lambda task: PARKING_SIZE,
        draw_parking_configurations,
        begin_parking,
        read_parking,
        measure_parking_quality,
        PARKING_STEPS,
        reached=is_car_parked,
    ),
}
"""Test descriptions by kind of task."""


@dataclasses.dataclass(frozen=True, eq=False)
class PlayResult:
    """Outcome of an agent in configurations.

    Attributes:
        success: Whether it succeeds in more than half of the episodes, bool[configurations].
        quality: Smallest quality of control in an episode, float[configurations].
    """

    success: NDArray[np.bool_]
    quality: Floats


PlayedPolicy = Callable[[NDArray[Any]], NDArray[Any]]


def play_configurations(
    kind: PolicyTestTask, env_id: str, policy: PlayedPolicy, configurations: Floats
) -> PlayResult:
    """Play in all configurations in parallel environments.

    Args:
        kind: Test description of the task.
        env_id: Gymnasium's name.
        policy: Observations [n, observations] to greedy actions [n, ...].
        configurations: float[n, size].
    """
    envs = [make_task_env(env_id, disable_env_checker=True) for _ in configurations]
    played = [_play_episode(kind, envs, policy, configurations, n) for n in range(kind.episodes)]
    for env in envs:
        env.close()
    share = np.mean([one.success for one in played], axis=0)
    return PlayResult(share > 0.5, np.min([one.quality for one in played], axis=0))


def _play_episode(
    kind: PolicyTestTask,
    envs: Sequence[gymnasium.Env[Any, Any]],
    policy: PlayedPolicy,
    configurations: Floats,
    episode: int,
) -> PlayResult:
    """Play one episode in each configuration."""
    n = len(envs)
    for number, env in enumerate(envs):
        env.reset(seed=number + n * episode)
    tasks = [env.unwrapped for env in envs]
    seen = np.array([kind.begin(task, c) for task, c in zip(tasks, configurations, strict=True)])
    quality = np.array([kind.quality(task) for task in tasks])
    alive, success = np.ones(n, bool), np.zeros(n, bool)
    for _ in range(kind.steps):
        acting = np.flatnonzero(alive)
        if not len(acting):
            break
        for number, action in zip(acting.tolist(), policy(seen[acting]), strict=True):
            # The limit is `steps`, not the task's own time limit.
            seen[number], _, ended, _, _ = envs[number].step(action)
            quality[number] = min(quality[number], kind.quality(tasks[number]))
            alive[number] = not ended
            if ended and kind.reached is not None:
                success[number] = kind.reached(tasks[number])
    return PlayResult(alive if kind.reached is None else success, quality)


def collect_start_configurations(
    env: gymnasium.Env[Any, Any], kind: PolicyTestTask, lengths: Sequence[int]
) -> Floats:
    """Return the initial configurations of a training's episodes, float[len(lengths) + 1, size].

    Args:
        env: Training environment right after its first reset.
        kind: Test description of the task.
        lengths: Steps of the finished episodes; one more episode began.
    """
    task = env.unwrapped
    found = [kind.read(task)]
    for steps in lengths:
        kind.skip(task, steps)
        env.reset()
        found.append(kind.read(task))
    return np.array(found)
