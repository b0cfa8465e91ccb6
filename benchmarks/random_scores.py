"""Episode returns of two untrained policies: uniformly random actions, and doing nothing.

    python benchmarks/random_scores.py random > analysis/data/published/random.csv
    python benchmarks/random_scores.py do_nothing > analysis/data/published/do_nothing.csv
    python benchmarks/random_scores.py random MinAtar/Breakout-v1   # the rows of some tasks only

Doing nothing is action 0; for discrete actions, it is the single action that scores best if it is
always taken, since not every such task has an action that does nothing. Each task is played for 300
episodes from seeds 0 to 299; it takes some minutes. LunarLander needs the extra
`box2d`, the games of MinAtar `minatar`.
"""

import argparse
import csv
import sys
import warnings
from importlib.metadata import version as version_of
from pathlib import Path

import gymnasium as gym
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from parallax.envs import memory_tasks, optional_tasks
from parallax.envs.batched_env import make_batched_env
from parallax.envs.tasks import make_task_env

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
    ("CartPoleHidden", "v0"),
    ("PendulumHidden", "v0"),
    ("MemoryChain-20", "v0"),
)
EPISODES = 300
MAX_STEPS = 2_000  # some games go on as long as nothing is done
COLUMNS = (
    *("algorithm", "env", "version", "hps", "framework", "statistic", "steps"),
    *("mean", "spread", "spread_kind", "trials", "source", "note"),
)


def play_random(env_id: str) -> np.ndarray:
    """Return each episode's return for random actions."""
    memory_tasks.register_memory_task(env_id)
    optional_tasks.register_task(env_id)
    env = gym.make(env_id)
    env = optional_tasks.ActionMemoryReset(env) if optional_tasks.is_minatar_game(env_id) else env
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


def play_constant(env_id: str) -> tuple[np.ndarray, str]:
    """Return each episode's return for the policy that does nothing, and its action."""
    space = make_task_env(env_id).action_space
    if isinstance(space, gym.spaces.Box):
        return play_batched(env_id, np.zeros(space.shape, space.dtype)), "action 0"
    assert isinstance(space, gym.spaces.Discrete)
    found = {action: play_batched(env_id, action) for action in range(int(space.n))}
    found = {action: returns for action, returns in found.items() if len(returns)}
    best = max(found, key=lambda action: float(found[action].mean()))
    return found[best], f"action {best}, the best of {len(found)} constant ones"


def play_batched(env_id: str, action: np.ndarray | int) -> np.ndarray:
    """Return each episode's return for one action, played in parallel; none if one has no end."""
    env, active = make_batched_env(env_id, EPISODES), np.ones(EPISODES, dtype=bool)
    env.reset(range(EPISODES))
    actions, returns = np.array([action] * EPISODES), np.zeros(EPISODES)
    for _ in range(MAX_STEPS):
        _, rewards, terminated, truncated = env.step(actions, active)
        returns += rewards
        active &= ~(terminated | truncated)
        if not active.any():
            return returns
    return np.zeros(0)


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    gym.logger.min_level = gym.logger.ERROR
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy", choices=["random", "do_nothing"])
    parser.add_argument("tasks", nargs="*", help="such as CartPole-v1 (default: all)")
    options = parser.parse_args()
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    source = f"benchmarks/random_scores.py, gymnasium {gym.__version__}"
    for task, version in TASKS:
        if options.tasks and f"{task}-{version}" not in options.tasks:
            continue
        name = f"{task}-{version}"
        returns, action = (
            (play_random(name), "") if options.policy == "random" else play_constant(name)
        )
        mean, sd = f"{returns.mean():.2f}", f"{returns.std(ddof=1):.2f}"
        package = (
            f", MinAtar {version_of('MinAtar')}" if optional_tasks.is_minatar_game(task) else ""
        )
        row = [options.policy, task, version, "", "gymnasium", "mean over episodes", 0, mean, sd]
        note = "; ".join(filter(None, ["spread over episodes", action]))
        writer.writerow([*row, "sd", EPISODES, source + package, note])
        print(f"{name}: {mean} +- {sd} {action}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
