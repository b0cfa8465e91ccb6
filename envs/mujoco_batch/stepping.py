"""Parallel environments of a MuJoCo task, stepped in one simulation."""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import mujoco
import numpy as np
from numpy.typing import NDArray

from parallax.envs.mujoco_batch.tasks import MujocoTask, SimulationState

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# All that a physics step depends on. As an int: MuJoCo takes longer to read its own enum.
_PHYSICS_BITS = int(mujoco.mjtState.mjSTATE_INTEGRATION)
_STATE_PARTS = {
    "qpos": mujoco.mjtState.mjSTATE_QPOS,
    "qvel": mujoco.mjtState.mjSTATE_QVEL,
    "ctrl": mujoco.mjtState.mjSTATE_CTRL,
}


class MujocoBatchedEnv:
    """N environments of a task of the raw table, each one row of an array.

    The environments take turns in the environment's own simulation: its working memory stays in
    the processor's cache, which N simulations would push out, and the policy's weights with
    it. What a step leads to is then computed for all rows at once.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], task: MujocoTask, n: int) -> None:
        """Take over `env`, the environment that `task` stands for."""
        assert env.spec is not None
        simulator: Any = env.unwrapped
        self._env, self._task = env, task
        self._model, self._data = simulator.model, simulator.data
        self._frames, self._dt = simulator.frame_skip, simulator.dt
        if self._model.ntree == 1:
            # Constraints on one kinematic tree are never independent: looking for islands
            # among them takes time and finds none.
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
        """Has Gymnasium start every episode; see `parallax.envs.batched_env.BatchedEnv`."""
        observations = []
        for i, seed in zip(range(len(self._rows)), seeds, strict=True):
            observations.append(self._env.reset(seed=seed)[0])
            self._save_state(i)
        self._lengths[:] = 0
        self._state = self._read_state()
        return np.array(observations)

    def step(self, actions: NDArray[Any], active: Flags) -> tuple[Floats, Floats, Flags, Flags]:
        """Step the active environments; see `parallax.envs.batched_env.BatchedEnv`."""
        controls = self._rows[:, self._columns["ctrl"]]
        if actions.shape != controls.shape:
            raise ValueError(f"actions have shape {actions.shape}; {controls.shape} is needed.")
        controls[:] = actions
        model, data, frames = self._model, self._data, self._frames
        for i in np.flatnonzero(active).tolist():
            mujoco.mj_setState(model, data, self._physics[i], _PHYSICS_BITS)
            mujoco.mj_step(model, data, frames)
            if self._task.contact_forces:
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
        # MuJoCo lays the parts out in the order of their bits.
        first = mujoco.mj_stateSize(model, _PHYSICS_BITS & (part - 1))
        columns[name] = slice(first, first + mujoco.mj_stateSize(model, part))
    for name, view in extras.items():
        columns[name] = slice(start, start + view.size)
        start += view.size
    return columns
