"""How long Tianshou's question for NaN takes: of its own buffer, and of the adapter's.

    python benchmarks/tianshou_buffer.py --sizes 1000 10000 100000

The trainer asks it after each collection, with TD3 and SAC after each environment step.
"""

import argparse
import statistics
import time

import numpy as np
from tabulate import tabulate
from tianshou.data import Batch, ReplayBuffer

from parallax.adapters.tianshou.train import make_buffer
from parallax.envs.tasks import make_task_env


def transition(env_id: str) -> Batch:
    """One transition of the task, as a collector adds it."""
    env = make_task_env(env_id)
    observation, _ = env.reset(seed=0)
    action = env.action_space.sample()
    following, reward, terminated, truncated, info = env.step(action)
    return Batch(
        obs=observation[None],
        act=action[None],
        rew=np.array([reward]),
        terminated=np.array([terminated]),
        truncated=np.array([truncated]),
        done=np.array([terminated or truncated]),
        obs_next=following[None],
        info=[info],
    )


def seconds(buffer: ReplayBuffer, size: int, content: Batch, repeats: int) -> list[float]:
    """Times of one question each, with `size` transitions in the buffer and one of them new."""
    for _ in range(size - repeats):
        buffer.add(content, buffer_ids=[0])
    buffer.hasnull()
    times = []
    for _ in range(repeats):
        buffer.add(content, buffer_ids=[0])
        started = time.process_time()
        buffer.hasnull()
        times.append(time.process_time() - started)
    return times


def main() -> None:
    """Prints a table of CPU times and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--repeats", type=int, default=25)
    options = parser.parse_args()
    content, rows = transition(options.env), []
    for size in options.sizes:
        print(f"{size} transitions ...", flush=True)
        buffers = ReplayBuffer(size), make_buffer(size, random_seed=0, n_envs=1)
        medians = [
            statistics.median(seconds(buffer, size, content, options.repeats)) * 1e6
            for buffer in buffers
        ]
        rows.append([size, *medians, medians[0] / medians[1]])
    headers = ["transitions", "Tianshou's, µs", "the adapter's, µs", "ratio"]
    print(tabulate(rows, headers, tablefmt="github", floatfmt=".4g"))


if __name__ == "__main__":
    main()
