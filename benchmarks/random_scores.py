"""Returns of uniformly random actions, the zero of normalised scores.

    python benchmarks/random_scores.py > analysis/data/published/random.csv
    python benchmarks/random_scores.py MinAtar/Breakout-v1      # the rows of some tasks only

Each task is played for 300 episodes from seeds 0 to 299; it takes some minutes. LunarLander needs
the extra `box2d`, the games of MinAtar `minatar`.
"""

import csv
import sys
import warnings
from importlib.metadata import version as version_of
from pathlib import Path

import gymnasium as gym
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from parallax.envs import optional_tasks as minatar

MUJOCO = (
    "HalfCheetah",
    "Ant",
    "Hopper",
    "Walker2d",
    "InvertedPendulum",
    "InvertedDoublePendulum",
    "Swimmer",
    "Reacher",
)
TASKS = (
    *((name, version) for name in MUJOCO for version in ("v4", "v5")),
    ("Pendulum", "v1"),
    ("CartPole", "v1"),
    ("Acrobot", "v1"),
    ("MountainCar", "v0"),
    ("LunarLander", "v3"),
    *(
        (f"MinAtar/{game}", "v1")
        for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
    ),
)
EPISODES = 300
COLUMNS = (
    *("algorithm", "env", "version", "hps", "framework", "statistic", "steps"),
    *("mean", "spread", "spread_kind", "trials", "source", "note"),
)


def play(env_id: str) -> np.ndarray:
    """Return of each episode."""
    minatar.register_minatar(env_id)
    env = gym.make(env_id)
    env = minatar.ActionMemoryReset(env) if minatar.is_minatar_game(env_id) else env
    returns = np.zeros(EPISODES)
    for episode in range(EPISODES):
        env.action_space.seed(episode)
        env.reset(seed=episode)
        done = False
        while not done:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            returns[episode] += float(reward)
            done = terminated or truncated
    env.close()
    return returns


def main() -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    gym.logger.min_level = gym.logger.ERROR
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    source = f"benchmarks/random_scores.py, gymnasium {gym.__version__}"
    wanted = sys.argv[1:] or [f"{task}-{version}" for task, version in TASKS]
    for task, version in TASKS:
        if f"{task}-{version}" not in wanted:
            continue
        returns = play(f"{task}-{version}")
        mean, sd = f"{returns.mean():.2f}", f"{returns.std(ddof=1):.2f}"
        package = f", MinAtar {version_of('MinAtar')}" if minatar.is_minatar_game(task) else ""
        row = ["random", task, version, "", "gymnasium", "mean over episodes", 0, mean, sd]
        writer.writerow([*row, "sd", EPISODES, source + package, "spread over episodes"])
        print(f"{task}-{version}: {mean} +- {sd}", file=sys.stderr)


if __name__ == "__main__":
    main()
