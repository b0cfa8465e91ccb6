"""What is kept of the environments of a training, which goes on in the middle of episodes."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from harness.contract.capture import Kind, NotLaidInError, Reader, State, Writer, fixed

Environments = Sequence[gymnasium.Env[Any, Any]]


def read(envs: Environments) -> State:
    """Wrappers, tasks, simulations and generators of environments.

    Raises:
        NotCapturedError: One holds something whose state nobody knows how to tell.
    """
    reader = Reader(_kinds())
    return [reader.read(env, "env") for env in envs]


def lay_in(envs: Environments, state: State) -> None:
    """Gives environments that were made in the same way a state.

    Raises:
        NotLaidInError: They were not.
    """
    if len(envs) != len(state):
        raise NotLaidInError(f"there are {len(envs)} environments and were {len(state)}")
    writer = Writer(_kinds())
    for env, told in zip(envs, state, strict=True):
        writer.write(env, told, "env")


def _kinds() -> tuple[Kind, ...]:
    # What is not imported is needed by no task that is in use.
    kinds: list[Kind] = []
    if (mujoco := sys.modules.get("mujoco")) is not None:
        kinds += [Kind(mujoco.MjData, _read_simulation, _write_simulation), fixed(mujoco.MjModel)]
    if (ale := sys.modules.get("ale_py")) is not None:
        kinds += [Kind(ale.ALEInterface, _read_emulator, _write_emulator)]
    return tuple(kinds)


def _read_simulation(data: Any, inner: Callable[[Any], State]) -> State:
    mujoco: Any = sys.modules["mujoco"]
    physics = np.empty(mujoco.mj_stateSize(data.model, _physics(mujoco)))
    mujoco.mj_getState(data.model, data, physics, _physics(mujoco))
    return {"physics": physics, "results": {n: array.copy() for n, array in _results(data).items()}}


def _write_simulation(live: Any, state: State, inner: Callable[[Any, State], Any]) -> Any:
    mujoco: Any = sys.modules["mujoco"]
    if live is None or mujoco.mj_stateSize(live.model, _physics(mujoco)) != len(state["physics"]):
        raise NotLaidInError("a simulation is of another model than it was")
    mujoco.mj_setState(live.model, live, state["physics"], _physics(mujoco))
    # As they were, not computed anew: tasks look at results that lag behind by one substep.
    results = _results(live)
    for name, array in state["results"].items():
        if name in results and results[name].shape == array.shape:
            results[name][...] = array
    return live


def _physics(mujoco: Any) -> int:
    # All that a step of the physics depends on: where it begins, and where its solver does.
    return int(mujoco.mjtState.mjSTATE_INTEGRATION)


def _results(data: Any) -> dict[str, Any]:
    """What was computed last, by name; contacts and constraints are found anew in each step."""
    found = {}
    for name in dir(data):
        if not name.startswith(("_", "efc_", "iefc_", "efm_", "contact", "island_", "map_")):
            value = getattr(data, name)
            if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and value.size:
                found[name] = value
    return found


def _read_emulator(emulator: Any, inner: Callable[[Any], State]) -> State:
    return {"game": emulator.cloneSystemState().__getstate__()}


def _write_emulator(live: Any, state: State, inner: Callable[[Any, State], Any]) -> Any:
    if live is None:
        raise NotLaidInError("there is no emulator of a game, and was one")
    ale: Any = sys.modules["ale_py"]
    told = ale.ALEState.__new__(ale.ALEState)
    told.__setstate__(state["game"])
    # An emulator that has just been made keeps what is no part of a state until a game has begun.
    live.reset_game()
    live.act(ale.Action.NOOP)
    live.restoreSystemState(told)
    return live
