"""Runs a CleanRL script by itself, without the adapter: `reference.py OUTPUT SCRIPT ARGS...`.

With `--own-wrappers` before OUTPUT it keeps the four wrappers that change what it learns from.

The smallest stand-ins for what the script imports are put into `sys.modules`; this process
is thrown away afterwards. Writes the script's networks to OUTPUT (npz).
"""

import runpy
import sys
import types
import warnings
from pathlib import Path

import gymnasium
import numpy as np

warnings.simplefilter("ignore")


class OldEnv:
    def __init__(self, env_id):
        self.env = gymnasium.make(env_id)
        self.action_space, self.observation_space = (
            self.env.action_space,
            self.env.observation_space,
        )
        self.first_seed = None

    def seed(self, seed):
        self.first_seed = seed

    def reset(self):
        observation, _ = self.env.reset(seed=self.first_seed)
        self.first_seed = None
        return observation


class OldVector:
    num_envs = 1

    def __init__(self, makers):
        (maker,) = makers
        self.one = maker()
        space = self.one.observation_space
        self.single_observation_space = gymnasium.spaces.Box(
            space.low, space.high, space.shape, space.dtype
        )
        self.single_action_space = self.one.action_space
        if isinstance(self.single_action_space, gymnasium.spaces.Box):
            low, high = self.single_action_space.low[None], self.single_action_space.high[None]
            self.action_space = gymnasium.spaces.Box(low, high)

    def reset(self):
        return self.one.reset()[None]

    def step(self, actions):
        observation, reward, terminated, truncated, _ = self.one.env.step(actions[0])
        info = {}
        if terminated or truncated:
            info = {
                "terminal_observation": observation,
                "TimeLimit.truncated": truncated and not terminated,
            }
            observation = self.one.reset()
        return observation[None], np.array([reward]), np.array([terminated or truncated]), [info]

    def close(self):
        pass


class Vector028:
    """One environment under the vector interface of gymnasium 0.28, without statistics."""

    num_envs = 1

    def __init__(self, makers):
        (maker,) = makers
        self.env = maker()
        space = self.env.observation_space
        self.single_observation_space = gymnasium.spaces.Box(
            space.low, space.high, space.shape, space.dtype
        )
        self.single_action_space = space = self.env.action_space
        if isinstance(space, gymnasium.spaces.Box):
            self.action_space = gymnasium.spaces.Box(space.low[None], space.high[None])

    def reset(self, seed):
        observation, info = self.env.reset(seed=seed)
        return observation[None], info

    def step(self, actions):
        observation, reward, terminated, truncated, _ = self.env.step(actions[0])
        infos = {}
        if terminated or truncated:
            infos["final_observation"] = [observation]
            observation, _ = self.env.reset()
        flags = np.array([terminated]), np.array([truncated])
        return observation[None], np.array([reward]), *flags, infos

    def close(self):
        pass


def same(env, *args, **kwargs):
    return env


def transform_observation(env, function):
    # Older releases did not ask for the space.
    return TransformObservation(env, function, env.observation_space)


TransformObservation = gymnasium.wrappers.TransformObservation
WRAPPERS = ("NormalizeObservation", "TransformObservation", "NormalizeReward", "TransformReward")


def main(output, script, arguments, vector=Vector028, own_wrappers=False):
    writer = types.ModuleType("tensorboard")
    writer.SummaryWriter = type(
        "SummaryWriter",
        (),
        {
            "__init__": lambda self, folder: None,
            "add_text": lambda self, *a: None,
            "add_scalar": lambda self, *a: None,
            "close": lambda self: None,
        },
    )
    sys.modules["torch.utils.tensorboard"] = writer
    gym = types.ModuleType("gym")
    gym.make, gym.spaces = OldEnv, gymnasium.spaces
    gym.wrappers = types.SimpleNamespace(RecordEpisodeStatistics=same)
    gym.vector = types.SimpleNamespace(SyncVectorEnv=OldVector)
    sys.modules["gym"] = gym
    for name in () if own_wrappers else WRAPPERS:
        setattr(gymnasium.wrappers, name, same)
    if own_wrappers:
        gymnasium.wrappers.TransformObservation = transform_observation
    gymnasium.vector.SyncVectorEnv = vector
    sys.argv = [script, *arguments]
    names = runpy.run_path(script, run_name="__main__")
    networks = ("agent", "actor", "qf1", "qf2", "target_actor", "qf1_target", "qf2_target")
    networks += ("q_network", "target_network")
    state = {
        f"{network}.{key}": value.numpy()
        for network in networks
        if network in names
        for key, value in names[network].state_dict().items()
    }
    if "log_alpha" in names:
        state["log_alpha"] = names["log_alpha"].detach().numpy()
    np.savez(output, **state)


if __name__ == "__main__":
    own = sys.argv[1] == "--own-wrappers"
    output, script, *rest = sys.argv[1 + own :]
    main(Path(output), script, rest, own_wrappers=own)
