"""State of environments and random generators, to resume in the middle of episodes."""

import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from parallax.harness.contract.state_codec import (
    ObjectCodec,
    State,
    StateMismatchError,
    StateReader,
    StateWriter,
    make_stateless_codec,
)

Environments = Sequence[gymnasium.Env[Any, Any]]


def read_env_states(envs: Environments) -> State:
    """Wrappers, tasks, simulations and generators of environments.

    Raises:
        UnsupportedStateError: One has an object whose state cannot be serialized.
    """
    reader = StateReader(_make_codecs())
    return [reader.read(env, "env") for env in envs]


def load_env_states(envs: Environments, state: State) -> None:
    """Load a state into environments that were made in the same way.

    Raises:
        StateMismatchError: They were not.
    """
    if len(envs) != len(state):
        raise StateMismatchError(f"there are {len(envs)} environments and were {len(state)}")
    writer = StateWriter(_make_codecs(), _own_types(envs))
    for env, env_state in zip(envs, state, strict=True):
        writer.write(env, env_state, "env")


def _own_types(envs: Environments) -> list[type[Any]]:
    """Return the classes that the modules of the environments and their wrappers define.

    Objects of them may be made in the middle of an episode, so that a set-up has none yet.
    """
    modules = set()
    for layer in envs:
        while layer is not None:
            modules.add(type(layer).__module__)
            layer = getattr(layer, "env", None)  # type: ignore[assignment]
    return [
        value
        for name in sorted(modules)
        for value in vars(sys.modules[name]).values()
        if isinstance(value, type) and value.__module__ == name
    ]


def _make_codecs() -> tuple[ObjectCodec, ...]:
    # What is not imported is needed by no task that is in use.
    kinds: list[ObjectCodec] = []
    if (mujoco := sys.modules.get("mujoco")) is not None:
        kinds += [
            ObjectCodec(mujoco.MjData, _read_simulation, _write_simulation),
            make_stateless_codec(mujoco.MjModel),
        ]
    if (ale := sys.modules.get("ale_py")) is not None:
        kinds += [ObjectCodec(ale.ALEInterface, _read_emulator, _write_emulator)]
    return tuple(kinds)


def _read_simulation(data: Any, inner: Callable[[Any], State]) -> State:
    mujoco: Any = sys.modules["mujoco"]
    physics = np.empty(mujoco.mj_stateSize(data.model, _get_physics_bits(mujoco)))
    mujoco.mj_getState(data.model, data, physics, _get_physics_bits(mujoco))
    return {
        "physics": physics,
        "results": {n: array.copy() for n, array in _get_computed_arrays(data).items()},
    }


def _write_simulation(live: Any, state: State, inner: Callable[[Any, State], Any]) -> Any:
    mujoco: Any = sys.modules["mujoco"]
    if live is None or mujoco.mj_stateSize(live.model, _get_physics_bits(mujoco)) != len(
        state["physics"]
    ):
        raise StateMismatchError("a simulation is of another model than it was")
    mujoco.mj_setState(live.model, live, state["physics"], _get_physics_bits(mujoco))
    # As they were, not computed anew: tasks look at results that lag behind by one substep.
    results = _get_computed_arrays(live)
    for name, array in state["results"].items():
        if name in results and results[name].shape == array.shape:
            results[name][...] = array
    return live


def _get_physics_bits(mujoco: Any) -> int:
    # All that a step of the physics depends on: where it begins, and where its solver does.
    return int(mujoco.mjtState.mjSTATE_INTEGRATION)


def _get_computed_arrays(data: Any) -> dict[str, Any]:
    """Return the arrays computed last, by name, without contacts and constraints of each step."""
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
        raise StateMismatchError("there is no emulator of a game, and was one")
    ale: Any = sys.modules["ale_py"]
    game_state = ale.ALEState.__new__(ale.ALEState)
    game_state.__setstate__(state["game"])
    # An emulator that has just been made keeps what is no part of a state until a game has begun.
    live.reset_game()
    live.act(ale.Action.NOOP)
    live.restoreSystemState(game_state)
    return live


def read_rng_state() -> State:
    """Return the states of the generators of Python, NumPy and, if loaded, PyTorch."""
    version, words, gauss = random.getstate()
    torch: Any = sys.modules.get("torch")
    return {
        "python": {"version": version, "words": list(words), "gauss": gauss},
        "numpy": np.random.get_state(legacy=False),
        "torch": torch.get_rng_state().numpy() if torch else None,
    }


def load_rng_state(state: State) -> None:
    """Restore these states."""
    python = state["python"]
    random.setstate((python["version"], tuple(python["words"]), python["gauss"]))
    np.random.set_state(state["numpy"])
    torch: Any = sys.modules.get("torch")
    if torch and state["torch"] is not None:
        torch.set_rng_state(torch.from_numpy(np.array(state["torch"])))
