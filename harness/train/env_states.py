"""States of environments in the middle of episodes, and of random generators."""

import hashlib
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
    check_buffer_positions,
    check_torch_position,
)

Environments = Sequence[gymnasium.Env[Any, Any]]


def read_env_states(envs: Environments) -> State:
    """Return the state of environments: wrappers, tasks, simulations and generators.

    Raises:
        UnsupportedStateError: One has an object whose state cannot be serialized.
    """
    reader = StateReader(_make_codecs())
    return [reader.read(env, "env") for env in envs]


def load_env_states(envs: Environments, state: State) -> None:
    """Load a state into environments that were made in the same way.

    Raises:
        StateMismatchError: They were made in another way.
    """
    if len(envs) != len(state):
        raise StateMismatchError(
            f"there are {len(envs)} environments, but the state has {len(state)}"
        )
    writer = StateWriter(_make_codecs(), _own_types(envs))
    for env, env_state in zip(envs, state, strict=True):
        writer.restore(env, env_state, "env")


def _own_types(envs: Environments) -> list[type[Any]]:
    """Return the classes that the modules of the environments and their wrappers define.

    Such objects may be created in the middle of an episode, and not exist in new environments.
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
    # A library that is not imported is needed by no task that is in use.
    codecs: list[ObjectCodec] = []
    if (mujoco := sys.modules.get("mujoco")) is not None:
        codecs.append(ObjectCodec(mujoco.MjData, _read_simulation, _write_simulation))
        codecs.append(ObjectCodec(mujoco.MjModel, _read_model, _check_model))
    if (ale := sys.modules.get("ale_py")) is not None:
        codecs.append(ObjectCodec(ale.ALEInterface, _read_emulator, _write_emulator))
    return tuple(codecs)


def _read_simulation(data: Any, inner: Callable[[Any], State]) -> State:
    mujoco: Any = sys.modules["mujoco"]
    signature = _get_state_signature(mujoco)
    physics = np.empty(mujoco.mj_stateSize(data.model, signature))
    mujoco.mj_getState(data.model, data, physics, signature)
    return {
        "physics": physics,
        "results": {n: array.copy() for n, array in _get_computed_arrays(data).items()},
    }


def _write_simulation(live: Any, state: State, inner: Callable[[Any, State], Any]) -> Any:
    mujoco: Any = sys.modules["mujoco"]
    signature, physics = _get_state_signature(mujoco), state["physics"]
    if live is None or mujoco.mj_stateSize(live.model, signature) != len(physics):
        raise StateMismatchError("a simulation is of another model than it was")
    # mjSTATE_INTEGRATION has no derived quantities such as positions of bodies.
    mujoco.mj_setState(live.model, live, physics, signature)
    # Restored, not computed again: tasks read results that lag behind by one substep.
    results = _get_computed_arrays(live)
    for name, array in state["results"].items():
        if name in results and results[name].shape == array.shape:
            results[name][...] = array
    return live


def _read_model(model: Any, inner: Callable[[Any], State]) -> State:
    mujoco: Any = sys.modules["mujoco"]
    compiled = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, compiled)
    return hashlib.sha256(compiled.tobytes()).hexdigest()


def _check_model(live: Any, state: State, inner: Callable[[Any, State], Any]) -> Any:
    # Not restored: a model from a file could make MuJoCo read and write outside its memory.
    if live is None or state != _read_model(live, lambda part: part):
        raise StateMismatchError(
            "a simulation's model is another one: its file was edited, or the task changes it"
        )
    return live


def _get_state_signature(mujoco: Any) -> int:
    # All that a step of the physics depends on: its start, and that of its solver.
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
        raise StateMismatchError("the saved state has a game emulator, but this task has none")
    ale: Any = sys.modules["ale_py"]
    game_state = ale.ALEState.__new__(ale.ALEState)
    game_state.__setstate__(state["game"])
    # Until a game has begun, a new emulator has values that are not part of a state.
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
        "cuda": [state.numpy() for state in torch.cuda.get_rng_state_all()]
        if torch and torch.cuda.is_initialized()
        else None,
    }


def load_rng_state(state: State) -> None:
    """Restore the states that `read_rng_state` returned."""
    python = state["python"]
    random.setstate((python["version"], tuple(python["words"]), python["gauss"]))
    check_buffer_positions(state["numpy"])
    np.random.set_state(state["numpy"])
    torch: Any = sys.modules.get("torch")
    if torch and state["torch"] is not None:
        check_torch_position(state["torch"])
        torch.set_rng_state(torch.from_numpy(np.array(state["torch"])))
    if torch and state.get("cuda") is not None:
        torch.cuda.set_rng_state_all([torch.from_numpy(np.array(s)) for s in state["cuda"]])
