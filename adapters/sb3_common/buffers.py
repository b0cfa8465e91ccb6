"""What SB3's buffers hold, in the names that probes have."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def stored(algorithm: str, model: Any) -> Mapping[str, NDArray[Any]]:
    """The rollout, or the filled part of the replay buffer."""
    if algorithm == "ppo":
        buffer = model.rollout_buffer
        rows = buffer.buffer_size * buffer.n_envs
        names = {"returns", "values", "advantages", "log_probs", "rewards"}
        arrays = {name: getattr(buffer, name).reshape(rows) for name in names}
        for name in ("observations", "actions"):
            arrays[name] = getattr(buffer, name).reshape(rows, -1)
        return {name: np.array(array, dtype=float) for name, array in arrays.items()}
    buffer = model.replay_buffer
    size = buffer.size()
    return {
        "observations": buffer.observations[:size, 0].astype(float),
        "actions": buffer.actions[:size, 0].astype(float),
        "rewards": buffer.rewards[:size, 0].astype(float),
        "next_observations": buffer.next_observations[:size, 0].astype(float),
        "terminated": (buffer.dones * (1 - buffer.timeouts))[:size, 0].astype(float),
    }
