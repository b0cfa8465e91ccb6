"""Costs of saving the state of a training, and of resuming from it.

    python benchmarks/checkpoints.py --transitions 100000 1000000 --batch 20000

A buffer of the size and types of Stable-Baselines3's for HalfCheetah, SAC's networks with Adam's
moments, and `--batch` new transitions between two checkpoints. Prints for each size: bytes and
seconds of the first checkpoint, of the second, and of one at which the buffer wraps around; seconds
to read and restore it; and the share of an interval of 20 minutes that the second takes. Times
depend on the machine and its other work.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from stable_baselines3.common.buffers import ReplayBuffer

from parallax.adapters.torch_common.state import make_checkpointable
from parallax.harness.record.checkpoints import CheckpointStore
from parallax.harness.record.lock import RunLock

OBSERVATIONS, ACTIONS = 17, 6
INTERVAL = 20 * 60  # seconds


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transitions", nargs="+", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--batch", type=int, default=20_000, help="new ones at each checkpoint")
    options = parser.parse_args()
    for size in options.transitions:
        with tempfile.TemporaryDirectory() as folder, RunLock.acquire(Path(folder)) as run_lock:
            measure_costs(size, options.batch, CheckpointStore(run_lock))


def measure_costs(size: int, batch: int, store: CheckpointStore) -> None:
    """Print the costs of a buffer of `size` transitions."""
    parts = make_training_parts(size)
    whole = make_checkpointable(parts)
    fill_buffer(parts["buffer"], size - batch)
    print(f"{size:,} transitions, {batch:,} of them new at each checkpoint")
    save_state(store, whole.state, "first checkpoint")
    fill_buffer(parts["buffer"], batch)
    seconds = save_state(store, whole.state, "second checkpoint")
    fill_buffer(parts["buffer"], batch)
    save_state(store, whole.state, "around the end of the buffer")
    started = time.monotonic()
    loaded = store.load(store.list_numbers()[0])
    read = time.monotonic() - started
    make_checkpointable(make_training_parts(size)).load_state(loaded.state)
    print(f"    resuming from it: {read:.2f} s to read, {time.monotonic() - started:.2f} s in all")
    print(f"    the second one takes {seconds / INTERVAL:.3%} of an interval of 20 minutes")


def make_training_parts(size: int) -> dict[str, Any]:
    """Return the large parts of a training of SAC."""
    observation = Box(-np.inf, np.inf, (OBSERVATIONS,), np.float64)
    buffer = ReplayBuffer(size, observation, Box(-1, 1, (ACTIONS,), np.float32), device="cpu")
    sizes = [(OBSERVATIONS, 2 * ACTIONS), *[(OBSERVATIONS + ACTIONS, 1)] * 4]
    networks = torch.nn.ModuleList(_make_network(*ends) for ends in sizes)
    optimizer = torch.optim.Adam(networks.parameters())
    torch.stack([parameter.sum() for parameter in networks.parameters()]).sum().backward()
    optimizer.step()
    return {"networks": networks, "optimizer": optimizer, "buffer": buffer}


def _make_network(inputs: int, outputs: int) -> torch.nn.Module:
    layer = torch.nn.Linear
    return torch.nn.Sequential(layer(inputs, 256), layer(256, 256), layer(256, outputs))


def fill_buffer(buffer: ReplayBuffer, rows: int) -> None:
    """Write `rows` transitions where the buffer would, and move its position."""
    rng = np.random.default_rng(buffer.pos)
    where = np.arange(buffer.pos, buffer.pos + rows) % buffer.buffer_size
    for array in (buffer.observations, buffer.next_observations, buffer.actions, buffer.rewards):
        array[where] = rng.normal(size=(rows, *array.shape[1:]))
    buffer.full |= buffer.pos + rows >= buffer.buffer_size
    buffer.pos = (buffer.pos + rows) % buffer.buffer_size


def save_state(store: CheckpointStore, state: Callable[[], Any], name: str) -> float:
    """Save a state and print what it took; return the seconds."""
    started = time.monotonic()
    saved = store.save({}, state())
    seconds = time.monotonic() - started
    mib = 2**20
    print(
        f"    {name}: {saved.new_bytes / mib:.1f} of {saved.state_bytes / mib:.1f} MiB written, "
        f"{seconds:.2f} s",
        flush=True,
    )
    return seconds


if __name__ == "__main__":
    main()
