"""Returns of uniformly random actions, the zero of normalised scores.

    python benchmarks/random_scores.py > analysis/data/published/random.csv

Each task is played for 300 episodes from seeds 0 to 299; it takes some minutes. LunarLander needs
the extra `box2d`.
"""

import csv
import sys
import warnings

import gymnasium as gym
import numpy as np

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
)
EPISODES = 300
COLUMNS = (
    *("algorithm", "env", "version", "hps", "framework", "statistic", "steps"),
    *("mean", "spread", "spread_kind", "trials", "source", "note"),
)


def play(env_id: str) -> np.ndarray:
    """Return of each episode."""
    env = gym.make(env_id)
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
    for task, version in TASKS:
        returns = play(f"{task}-{version}")
        mean, sd = f"{returns.mean():.2f}", f"{returns.std(ddof=1):.2f}"
        row = ["random", task, version, "", "gymnasium", "mean over episodes", 0, mean, sd]
        writer.writerow([*row, "sd", EPISODES, source, "spread over episodes"])
        print(f"{task}-{version}: {mean} +- {sd}", file=sys.stderr)


if __name__ == "__main__":
    main()
