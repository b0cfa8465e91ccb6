"""Parallel environments of one task, stepped together.

MuJoCo tasks are stepped in a batch without their Gymnasium classes; tests show that they agree with
Gymnasium bit for bit.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import gymnasium
import mujoco
import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from parallax.envs.optional_tasks import ActionMemoryReset, is_minatar_game
from parallax.envs.tasks import make_task_env

Array = NDArray[Any]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
BatchedStep = tuple[Floats, Floats, Flags, Flags]
"""Observations, rewards, terminated and truncated, as `BatchedEnv.step` returns them."""
SimulationState = Mapping[str, Floats]
"""Arrays of the simulation that a task reads, by name, each float64[N, size]."""
StepOutcome = tuple[Floats, Floats, Flags]
"""Observations float64[N, observations], rewards float64[N], terminated bool[N]."""


class BatchedEnv(Protocol):
    """N environments of one task; finished environments are inactive until the next reset."""

    def reset(self, seeds: Sequence[int]) -> Floats:
        """Start an episode in every environment.

        Args:
            seeds: One per environment, as for Gymnasium's `reset`.

        Returns:
            Observations float64[N, observations], or [N, channels, height, width] of images.

        Raises:
            ValueError: There is not one seed per environment.
        """

    def step(self, actions: Array, active: Flags) -> BatchedStep:
        """Step the active environments.

        Args:
            actions: Array [N, actions], or [N] of discrete actions, passed to the task unchanged.
            active: Mask of the environments to step, bool[N].

        Returns:
            Observations float64[N, observations], rewards float64[N], terminated bool[N] and
            truncated bool[N]. An inactive environment keeps its observation and gets 0 and False.

        Raises:
            ValueError: `actions` has another shape.
        """


def make_batched_env(env_id: str, n: int, **options: Any) -> BatchedEnv:
    """Return N environments of a task, as fast as possible while bit-equal to Gymnasium.

    Args:
        env_id: Gymnasium's name.
        n: Number of environments.
        options: Further arguments of `make_task_env`.

    Raises:
        TaskError: The environment does not exist or cannot be made.
    """
    options = {"disable_env_checker": True, **options}
    env = make_task_env(env_id, **options)
    task = find_mujoco_task(env.spec)
    if task is not None and not options.get("wrappers"):
        return MujocoBatchedEnv(env, task, n)
    envs = [env, *(make_task_env(env_id, **options) for _ in range(n - 1))]
    if is_minatar_game(env_id):
        envs = [ActionMemoryReset(game) for game in envs]
    return GymnasiumBatchedEnv(envs)


class GymnasiumBatchedEnv:
    """Batch of separate Gymnasium environments, for any task."""

    def __init__(self, envs: Sequence[gymnasium.Env[Any, Any]]) -> None:
        self._envs = envs
        self._observations = np.empty(0)
        self._shape = (len(envs), *(envs[0].action_space.shape or ()))

    def reset(self, seeds: Sequence[int]) -> Floats:
        """See `BatchedEnv.reset`."""
        pairs = zip(self._envs, seeds, strict=True)
        started = [env.reset(seed=seed)[0] for env, seed in pairs]
        self._observations = np.array(started, np.float64)
        return self._observations

    def step(self, actions: Array, active: Flags) -> BatchedStep:
        """See `BatchedEnv.step`."""
        if actions.shape != self._shape:
            raise ValueError(f"actions have shape {actions.shape}; {self._shape} is needed.")
        self._observations = self._observations.copy()
        rewards = np.zeros(len(self._envs))
        terminated, truncated = np.zeros((2, len(self._envs)), np.bool_)
        for i in np.flatnonzero(active).tolist():
            step = self._envs[i].step(actions[i])
            self._observations[i], rewards[i], terminated[i], truncated[i], _ = step
        return self._observations, rewards, terminated, truncated


# Weights and ranges from here on are the defaults of the classes in gymnasium/envs/mujoco; a task
# with other arguments is not in `MUJOCO_TASKS` (see `find_mujoco_task`).
def compute_runner_outcome(
    before: SimulationState,
    after: SimulationState,
    actions: Array,
    dt: float,
    *,
    hidden: int,
    effort: float,
) -> StepOutcome:
    """HalfCheetah and Swimmer: forward speed minus effort, without termination.

    The first `hidden` positions are not observed.
    """
    rewards = _compute_speed(before["qpos"], after["qpos"], dt) - _compute_effort(actions, effort)
    return _build_observations(after, hidden), rewards, np.zeros(len(actions), np.bool_)


def compute_walker_outcome(
    before: SimulationState,
    after: SimulationState,
    actions: Array,
    dt: float,
    *,
    healthy: Callable[[SimulationState], Flags],
    fallen_bonus: float,
) -> StepOutcome:
    """Hopper and Walker2d: speed minus effort, plus 1 while healthy; a fall terminates."""
    upright = healthy(after)
    bonus = np.where(upright, 1.0, fallen_bonus)
    rewards = (
        _compute_speed(before["qpos"], after["qpos"], dt) + bonus - _compute_effort(actions, 1e-3)
    )
    return _build_observations(after, hidden=1, speed_limit=10), rewards, ~upright


def is_hopper_healthy(state: SimulationState) -> Flags:
    """Return whether it is above 0.7 m, upright within 0.2 rad, and all else within 100."""
    height, angle = state["qpos"][:, 1], state["qpos"][:, 2]
    rest = np.concatenate([state["qpos"][:, 2:], state["qvel"]], axis=1)
    bounded: Flags = (np.abs(rest) < 100).all(axis=1)
    return bounded & (height > 0.7) & (height < np.inf) & (np.abs(angle) < 0.2)


def is_walker_healthy(state: SimulationState) -> Flags:
    """Return whether it is between 0.8 and 2 m and upright within 1 rad."""
    height, angle = state["qpos"][:, 1], state["qpos"][:, 2]
    return (height > 0.8) & (height < 2.0) & (np.abs(angle) < 1.0)


def compute_ant_outcome(
    before: SimulationState, after: SimulationState, actions: Array, dt: float, *, contact: bool
) -> StepOutcome:
    """Ant: the torso's speed plus 1 minus effort; `contact` adds contact forces (v5)."""
    observations = _build_observations(after, hidden=2)
    height = after["qpos"][:, 2]
    finite = np.isfinite(after["qpos"]).all(axis=1) & np.isfinite(after["qvel"]).all(axis=1)
    upright = finite & (height >= 0.2) & (height <= 1.0)
    bonus, costs = np.ones(len(actions)), _compute_effort(actions, 0.5)
    if contact:
        forces = np.clip(after["contact"], -1.0, 1.0)
        bonus, costs = np.where(upright, 1.0, 0.0), costs + _compute_effort(forces, 5e-4)
        observations = np.concatenate([observations, forces[:, 6:]], axis=1)  # not the world's
    return (
        observations,
        _compute_speed(before["torso"], after["torso"], dt) + bonus - costs,
        ~upright,
    )


def compute_pendulum_outcome(
    before: SimulationState,
    after: SimulationState,
    actions: Array,
    dt: float,
    *,
    fallen_bonus: float,
) -> StepOutcome:
    """InvertedPendulum: 1 while the pole stands within 0.2 rad."""
    observations = _build_observations(after, hidden=0)
    fallen = ~np.isfinite(observations).all(axis=1) | (np.abs(observations[:, 1]) > 0.2)
    return observations, np.where(fallen, fallen_bonus, 1.0), fallen


def compute_double_pendulum_outcome(
    before: SimulationState,
    after: SimulationState,
    actions: Array,
    dt: float,
    *,
    fallen_bonus: float,
    constraints: int,
) -> StepOutcome:
    """InvertedDoublePendulum: 10 minus distance and swing, while the tip is above 1 m."""
    angles = np.ascontiguousarray(after["qpos"][:, 1:])
    speeds = np.clip(after["qvel"], -10, 10)
    forces = np.clip(after["constraint"], -10, 10)[:, :constraints]
    fallen = after["tip"][:, 2] <= 1
    # One number at a time, as Gymnasium: an array's square can differ in the last digit.
    distance = np.array([0.01 * x**2 + (y - 2) ** 2 for x, _, y in after["tip"]])
    swing = np.array([1e-3 * v**2 + 5e-3 * w**2 for _, v, w in after["qvel"]])
    rewards = np.where(fallen, fallen_bonus, 10.0) - distance - swing
    parts = [after["qpos"][:, :1], np.sin(angles), np.cos(angles), speeds, forces]
    return np.concatenate(parts, axis=1), rewards, fallen


def compute_reacher_outcome(
    before: SimulationState, after: SimulationState, actions: Array, dt: float, *, lagging: bool
) -> StepOutcome:
    """Reacher: minus distance to the target and effort; `lagging` uses the old distance (v4)."""
    gap = after["tip"] - after["target"]
    rewarded = before["tip"] - before["target"] if lagging else gap
    # vecdot sums in the same order as the norm of one vector; a norm along an axis does not.
    rewards = -np.sqrt(np.vecdot(rewarded, rewarded)) - _compute_effort(actions, 1.0)
    angles = np.ascontiguousarray(after["qpos"][:, :2])
    positions, speeds = after["qpos"][:, 2:], after["qvel"][:, :2]
    parts = [np.cos(angles), np.sin(angles), positions, speeds, gap if lagging else gap[:, :2]]
    return np.concatenate(parts, axis=1), rewards, np.zeros(len(actions), np.bool_)


def _compute_speed(before: Array, after: Array, dt: float) -> Array:
    return (after[:, 0] - before[:, 0]) / dt


def _compute_effort(values: Array, weight: float) -> Array:
    effort: Array = weight * np.square(values).sum(axis=1)
    return effort


def _build_observations(
    state: SimulationState, hidden: int, speed_limit: float | None = None
) -> Array:
    speeds = state["qvel"]
    if speed_limit is not None:
        speeds = np.clip(speeds, -speed_limit, speed_limit)
    return np.concatenate([state["qpos"][:, hidden:], speeds], axis=1)


Views = Mapping[str, Floats]
"""One-dimensional views of a simulation's memory, by name."""


def _view_nothing(_: mujoco.MjData) -> Views:
    return {}


def _view_pole_tip(data: mujoco.MjData) -> Views:
    return {"tip": data.site_xpos[0], "constraint": data.qfrc_constraint}


def _view_fingertip(data: mujoco.MjData) -> Views:
    tip, target = (data.xpos[data.body(name).id] for name in ("fingertip", "target"))
    return {"tip": tip, "target": target}


def _view_torso(data: mujoco.MjData) -> Views:
    # Body positions lag behind qpos by one physics step; Gymnasium computes the speed from them.
    return {"torso": data.xpos[data.body("torso").id]}


def _view_torso_and_contact(data: mujoco.MjData) -> Views:
    return {**_view_torso(data), "contact": data.cfrc_ext.reshape(-1)}


@dataclasses.dataclass(frozen=True)
class MujocoTask:
    """One task without its Gymnasium class.

    Attributes:
        outcome: Computes a step's outcome from the state before and after it, the actions and
            the seconds per step.
        extras: Returns the arrays that the outcome reads besides positions and velocities.
        contact_forces: Whether the outcome reads `cfrc_ext`, which MuJoCo computes only on demand.
    """

    outcome: Callable[[SimulationState, SimulationState, Array, float], StepOutcome]
    extras: Callable[[mujoco.MjData], Views] = _view_nothing
    contact_forces: bool = False


def find_mujoco_task(spec: EnvSpec | None) -> MujocoTask | None:
    """Return the task of `spec`, if it is in the table and as Gymnasium registers it."""
    if spec is None or spec.kwargs or spec.additional_wrappers:
        return None
    return MUJOCO_TASKS.get(spec.entry_point) if isinstance(spec.entry_point, str) else None


def _make_mujoco_tasks() -> dict[str, MujocoTask]:
    """Return every task's version 4 and version 5, by Gymnasium's module and class."""
    cheetah = MujocoTask(partial(compute_runner_outcome, hidden=1, effort=0.1))
    swimmer = MujocoTask(partial(compute_runner_outcome, hidden=2, effort=1e-4))
    # Version 4 adds the bonus also in the step of the fall.
    hopper, walker, pendulum = (
        [MujocoTask(partial(outcome, fallen_bonus=bonus)) for bonus in (1.0, 0.0)]
        for outcome in (
            partial(compute_walker_outcome, healthy=is_hopper_healthy),
            partial(compute_walker_outcome, healthy=is_walker_healthy),
            compute_pendulum_outcome,
        )
    )
    double_pendulum = [
        MujocoTask(
            partial(compute_double_pendulum_outcome, fallen_bonus=bonus, constraints=n),
            _view_pole_tip,
        )
        for bonus, n in ((10.0, 3), (0.0, 1))
    ]
    reacher = [
        MujocoTask(partial(compute_reacher_outcome, lagging=lagging), _view_fingertip)
        for lagging in (True, False)
    ]
    ant = (
        MujocoTask(partial(compute_ant_outcome, contact=False), _view_torso),
        MujocoTask(
            partial(compute_ant_outcome, contact=True), _view_torso_and_contact, contact_forces=True
        ),
    )
    versions = {
        ("half_cheetah", "HalfCheetahEnv"): (cheetah, cheetah),
        ("swimmer", "SwimmerEnv"): (swimmer, swimmer),
        ("hopper", "HopperEnv"): hopper,
        ("walker2d", "Walker2dEnv"): walker,
        ("inverted_pendulum", "InvertedPendulumEnv"): pendulum,
        ("inverted_double_pendulum", "InvertedDoublePendulumEnv"): double_pendulum,
        ("reacher", "ReacherEnv"): reacher,
        ("ant", "AntEnv"): ant,
    }
    return {
        f"gymnasium.envs.mujoco.{module}_v{version}:{name}": task
        for (module, name), tasks in versions.items()
        for version, task in zip((4, 5), tasks, strict=True)
    }


MUJOCO_TASKS: Mapping[str, MujocoTask] = _make_mujoco_tasks()
"""Tasks by the entry point that Gymnasium registers them with."""


# Everything that a physics step depends on. An int, since MuJoCo reads its own enum slower.
_PHYSICS_BITS = int(mujoco.mjtState.mjSTATE_INTEGRATION)
_STATE_PARTS = {
    "qpos": mujoco.mjtState.mjSTATE_QPOS,
    "qvel": mujoco.mjtState.mjSTATE_QVEL,
    "ctrl": mujoco.mjtState.mjSTATE_CTRL,
}


class MujocoBatchedEnv:
    """N environments of a task of `MUJOCO_TASKS`, each one row of an array.

    The environments take turns in one simulation: its memory stays in the processor's cache,
    while N simulations would evict it and the policy's weights. The outcome of a step is then
    computed for all rows at once.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], task: MujocoTask, n: int) -> None:
        """Take over `env`, an environment of `task`."""
        assert env.spec is not None
        simulator: Any = env.unwrapped
        self._env, self._task = env, task
        self._model, self._data = simulator.model, simulator.data
        self._frames, self._dt = simulator.frame_skip, simulator.dt
        if self._model.ntree == 1:
            # Constraints on one kinematic tree are never independent: searching for islands
            # takes time and finds none.
            self._model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
        self._limit = env.spec.max_episode_steps or np.inf
        self._lengths = np.zeros(n, np.int64)
        extras = task.extras(self._data)
        self._extras = list(extras.values())
        physics = mujoco.mj_stateSize(self._model, _PHYSICS_BITS)
        self._columns = _compute_columns(self._model, physics, extras)
        self._rows = np.zeros((n, physics + sum(view.size for view in self._extras)))
        self._physics = [row[:physics] for row in self._rows]
        self._extra_rows = [row[physics:] for row in self._rows]
        self._state = self._read_state()

    def reset(self, seeds: Sequence[int]) -> Floats:
        """Start every episode in Gymnasium; see `BatchedEnv.reset`."""
        observations = []
        for i, seed in zip(range(len(self._rows)), seeds, strict=True):
            observations.append(self._env.reset(seed=seed)[0])
            self._save_state(i)
        self._lengths[:] = 0
        self._state = self._read_state()
        return np.array(observations)

    def step(self, actions: Array, active: Flags) -> BatchedStep:
        """See `BatchedEnv.step`."""
        controls = self._rows[:, self._columns["ctrl"]]
        if actions.shape != controls.shape:
            raise ValueError(f"actions have shape {actions.shape}; {controls.shape} is needed.")
        controls[:] = actions
        model, data, frames = self._model, self._data, self._frames
        for i in np.flatnonzero(active).tolist():
            mujoco.mj_setState(model, data, self._physics[i], _PHYSICS_BITS)
            mujoco.mj_step(model, data, frames)
            if self._task.contact_forces:
                # As gymnasium's `_step_mujoco_simulation`: mj_step alone computes no cfrc_ext.
                mujoco.mj_rnePostConstraint(model, data)
            self._save_state(i)
        self._lengths += active
        before, self._state = self._state, self._read_state()
        outcome = self._task.outcome(before, self._state, actions, self._dt)
        observations, rewards, terminated = outcome
        truncated = self._lengths >= self._limit
        return observations, np.where(active, rewards, 0.0), terminated & active, truncated & active

    def _save_state(self, i: int) -> None:
        mujoco.mj_getState(self._model, self._data, self._physics[i], _PHYSICS_BITS)
        if self._extras:
            np.concatenate(self._extras, out=self._extra_rows[i])

    def _read_state(self) -> SimulationState:
        rows = self._rows.copy()
        return {name: rows[:, columns] for name, columns in self._columns.items()}


def _compute_columns(
    model: mujoco.MjModel, start: int, extras: Mapping[str, Floats]
) -> dict[str, slice]:
    columns = {}
    for name, part in _STATE_PARTS.items():
        # MuJoCo orders the parts by their bits.
        first = mujoco.mj_stateSize(model, _PHYSICS_BITS & (part - 1))
        columns[name] = slice(first, first + mujoco.mj_stateSize(model, part))
    for name, view in extras.items():
        columns[name] = slice(start, start + view.size)
        start += view.size
    return columns
