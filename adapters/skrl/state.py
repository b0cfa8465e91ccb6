"""What a training with skrl goes on from: its agent, and the observation that it acts on next."""

from collections.abc import Callable, Mapping
from typing import Any

from skrl.memories.torch import Memory

from adapters.torch_common.state import resumable
from harness.contract.adapter import Resumable
from harness.contract.capture import Kind, State


def whole(parts: Mapping[str, Any], outside: list[Any]) -> Resumable:
    """How a training goes on.

    Args:
        parts: Agent, trainer, environment of skrl's, and the count of the loop.
        outside: What they hold and others keep.
    """
    trainer, env = parts["trainer"], parts["env"]
    others = lambda: [*outside, env._env, env.unwrapped, trainer._progress]  # noqa: E731
    return resumable(parts, others, Kind(Memory, _read, _write))


def _read(memory: Memory, read: Callable[[Any], State]) -> State:
    # Views of the tensors would be told a second time.
    indices = memory.filled, memory.env_index, memory.memory_index
    return {"tensors": read(memory.tensors), "indices": [int(index) for index in indices]}


def _write(live: Any, state: State, write: Callable[[Any, State], Any]) -> Any:
    write(live.tensors, state["tensors"])
    filled, live.env_index, live.memory_index = state["indices"]
    live.filled = bool(filled)
    return live
