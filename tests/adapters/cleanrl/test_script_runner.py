import sys

import gymnasium
import numpy as np
import pytest
import support
import torch

from parallax.adapters.cleanrl import script_runner as bridge
from parallax.adapters.cleanrl.facades import GymSyncVectorEnv, SeedableEnv


def globals_that_scripts_could_patch():
    wrappers = gymnasium.wrappers
    return {
        "gym": sys.modules.get("gym"),
        "gymnasium": sys.modules["gymnasium"],
        "import": __builtins__["__import__"],
        "argv": list(sys.argv),
        "vector": gymnasium.vector.SyncVectorEnv,
        "normalize": wrappers.NormalizeObservation,
        "cudnn": torch.backends.cudnn.deterministic,
        "main": sys.modules["__main__"],
    }


@pytest.mark.parametrize("algorithm", ["ppo", "td3", "sac"])
def test_nothing_global_stays_patched(algorithm, tmp_path):
    before = globals_that_scripts_could_patch()
    unified = {"rollout_steps": 128} if algorithm == "ppo" else {"learning_starts": 50}
    steps = 128 if algorithm == "ppo" else 80
    spec = support.spec(
        "cleanrl", algorithm, hyperparameters=unified, steps=steps, eval_every=steps // 2
    )
    _, run = support.run(spec, tmp_path)
    assert run["status"] == "completed"
    assert globals_that_scripts_could_patch() == before


class Countdown(gymnasium.Env):
    """Ends after `length` steps, by a time limit or not."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, length, truncates):
        self.length, self.truncates, self.t = length, truncates, 0

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        end = self.t == self.length
        observation = np.full(1, self.t, np.float32)
        return observation, 1.0, end and not self.truncates, end and self.truncates, {}


@pytest.mark.parametrize("truncates", [True, False])
def test_old_interface_distinguishes_time_limits_from_terminations(truncates):
    envs = GymSyncVectorEnv([lambda: SeedableEnv(Countdown(2, truncates))])
    assert envs.reset().tolist() == [[0]]
    envs.step(np.zeros((1, 1)))
    observations, rewards, dones, infos = envs.step(np.zeros((1, 1)))
    assert observations.tolist() == [[0]] and rewards.tolist() == [1] and dones.tolist() == [True]
    assert infos[0]["terminal_observation"].tolist() == [2]
    assert infos[0]["TimeLimit.truncated"] is truncates


def test_imported_names_of_scripts_exist_except_in_replaced_modules():
    facades = {"argparse": object()}
    import_ = bridge._make_builtins(facades)["__import__"]
    assert import_("argparse") is facades["argparse"]
    assert import_("random") is sys.modules["random"]
