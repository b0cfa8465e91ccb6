"""sbx's DQN: loading a model divides the target network's interval by the number of environments.

`DQN._setup_model` divides `target_update_interval`, and `load` calls it on the saved, already
divided number. So after each load the target network moves several times as often.
Stable-Baselines3 had the same bug from 1.4.0 to 1.8.0 (issue 1463). Run: python sbx_dqn_load.py
"""

import io
from importlib.metadata import version

import gymnasium
from sbx import DQN
from stable_baselines3.common.vec_env import DummyVecEnv

N_ENVS, INTERVAL = 4, 1000


def main() -> int:
    """Print the interval in calls of `step` after each load; 1 if it changes."""
    envs = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * N_ENVS)
    model = DQN("MlpPolicy", envs, target_update_interval=INTERVAL, buffer_size=100)
    found = [model.target_update_interval]
    for _ in range(3):
        file = io.BytesIO()
        model.save(file)
        model = DQN.load(file, env=envs)
        found.append(model.target_update_interval)
    print(f"sbx {version('sbx-rl')}, target_update_interval={INTERVAL}, {N_ENVS} environments")
    print(f"interval, then after each load: {found}")
    print(f"expected:                       {[INTERVAL // N_ENVS] * 4}")
    return int(len(set(found)) > 1)


if __name__ == "__main__":
    raise SystemExit(main())
