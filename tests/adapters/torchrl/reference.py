"""TorchRL's own training scripts, which lie in its wheel, run as they are shipped.

Their text is executed unchanged, with stand-ins for what they import: hydra and the progress bar;
one environment in this process; a replay buffer without prefetching. Random streams are lined up
with the recipes': generators are seeded when the first network is made, networks know their input
sizes at once, and draws of trial calls and of test environments are taken back.
"""

import builtins
import contextlib
import hashlib
import importlib.metadata
import types
from pathlib import Path

import numpy as np
import torch
from omegaconf import OmegaConf
from torchrl.collectors import Collector
from torchrl.data import TensorDictReplayBuffer
from torchrl.envs import GymWrapper
from torchrl.modules import MLP

from parallax.adapters.torchrl import networks, ppo, sac, td3
from parallax.envs.make import make_training_env

FILES = {
    "ppo/ppo_mujoco.py": "ba7052ca03f6cde4cd7fa44dbe8143042db72bc609679520596d5e8febd8e70d",
    "ppo/utils_mujoco.py": "ddb0e1d7674c271909c64689280e8a2cc0a79987daf1ce3af700df9ea30c6e2f",
    "td3/td3.py": "3515d6e8d7273fbc38554b3fda39754a859eae9b7cd363dce4fb383f896b8c2e",
    "td3/utils.py": "9cd739c820ecb4a5d1564423a16300adc759cc807b863b3ac605ba161bed911e",
    "sac/sac.py": "7df71061e75e8fe124fd9bd0502d539c741127d93272341da2dbd300fa1bc4cd",
    "sac/utils.py": "43888e189136c7d356b19b5f39f6c4fee6f3c8eb435b1433c8504758613e8bbc",
}
"""The scripts of 0.14.1 and the hashes of their bytes."""
SCRIPTS = {
    "ppo": ("ppo/ppo_mujoco.py", "utils_mujoco", "ppo/utils_mujoco.py"),
    "td3": ("td3/td3.py", "utils", "td3/utils.py"),
    "sac": ("sac/sac.py", "utils", "sac/utils.py"),
}
NETWORKS = {"ppo": ppo.NETWORKS, "td3": td3.NETWORKS, "sac": sac.NETWORKS}
NEVER = 10**9

PPO = {
    "env": {
        "backend": "gym",
        "config_overrides": None,
        "num_envs": 1,
        "batch_mode": "parallel",
        "normalize_observation": False,
        "max_episode_steps": None,
    },
    "collector": {"frames_per_batch": 2048},
    "loss": {
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "clip_epsilon": 0.2,
        "anneal_clip_epsilon": False,
        "critic_coeff": 0.25,
        "entropy_coeff": 0.0,
        "loss_critic_type": "l2",
        "ppo_epochs": 10,
        "mini_batch_size": 64,
    },
    "optim": {"lr": 3e-4, "device": "cpu", "anneal_lr": True},
    "logger": {"backend": None, "test_interval": NEVER, "num_test_episodes": 1},
    "checkpoint": {"path": None, "interval": 0},
}
OFF_POLICY = {
    "env": {"library": "gym", "max_episode_steps": None},
    "collector": {
        "init_random_frames": 25_000,
        "frames_per_batch": 1000,
        "env_per_collector": 1,
        "device": "cpu",
        "reset_at_each_iter": False,
    },
    "replay_buffer": {"size": 1_000_000, "prb": False, "scratch_dir": None},
    "optim": {
        "utd_ratio": 1.0,
        "gamma": 0.99,
        "loss_function": "l2",
        "lr": 3e-4,
        "weight_decay": 0.0,
        "batch_size": 256,
        "target_update_polyak": 0.995,
    },
    "network": {"hidden_sizes": [256, 256], "activation": "relu", "device": "cpu"},
    "logger": {"backend": None, "exp_name": "", "video": False, "eval_iter": NEVER},
}
OWN = {
    "td3": {
        "optim": {
            "adam_eps": 1e-4,
            "policy_update_delay": 2,
            "policy_noise": 0.2,
            "noise_clip": 0.5,
        }
    },
    "sac": {
        "optim": {"adam_eps": 1e-8, "alpha_init": 1.0},
        "network": {"default_policy_scale": 1.0, "scale_lb": 0.1},
    },
}


def train(algorithm, env_id, seed, steps, **changes):
    """Weights after the script has run, by the names that the adapter gives them.

    Args:
        algorithm: `ppo`, `td3` or `sac`.
        env_id: Gymnasium's name of the task.
        seed: Of all generators.
        steps: Requested frames.
        changes: Sections of the configuration: names and values.
    """
    precision = torch.get_float32_matmul_precision()
    run = Run(algorithm, env_id, seed)
    # The scripts select less precise matrix products when they are read.
    torch.set_float32_matmul_precision(precision)
    run.main(run.config(steps, changes))
    return networks.copy_weights(run.loss, NETWORKS[algorithm])


class Run:
    """One execution of a script."""

    def __init__(self, algorithm, env_id, seed):
        self.algorithm, self.env_id, self.seed = algorithm, env_id, seed
        self.loss = self._state = None
        self._sizes = self._made = 0
        script, name, utils = SCRIPTS[algorithm]
        self.utils = self._execute(utils, {})
        self._replace_in_utils()
        self.render_script = self._execute(script, {name: types.SimpleNamespace(**self.utils)})
        self.main = self.render_script["main"]
        if algorithm == "ppo":
            self._replace_in_ppo()

    def config(self, steps, changes):
        base = OmegaConf.create(PPO if self.algorithm == "ppo" else OFF_POLICY)
        requested = {
            "env": {"env_name": self.env_id, "name": self.env_id, "seed": self.seed},
            "collector": {"total_frames": steps},
            "compile": {"compile": False, "compile_mode": None, "cudagraphs": False},
        }
        return OmegaConf.merge(base, OWN.get(self.algorithm, {}), requested, changes)

    def _execute(self, file, own):
        stands_in = {
            "hydra": types.SimpleNamespace(main=lambda **kwargs: lambda function: function),
            "tqdm": types.SimpleNamespace(tqdm=_Silent),
            "torchrl.envs.libs.gym": types.SimpleNamespace(
                GymEnv=lambda *args, **kwargs: self.make_env(),
                set_gym_backend=lambda *args: contextlib.nullcontext(),
            ),
        } | own

        def import_(name, *args, **kwargs):
            return (
                stands_in[name] if name in stands_in else builtins.__import__(name, *args, **kwargs)
            )

        names = {"__name__": file, "__builtins__": {**vars(builtins), "__import__": import_}}
        exec(compile(read(file), file, "exec"), names)
        return names

    def make_env(self):
        env = make_training_env(
            self.env_id,
            wrappers="none",
            gamma=0.99,
            before_step=lambda: None,
            after_episode=lambda episode_return, length: None,
        )
        size = env.observation_space.shape[0]
        self._sizes = size, size + env.action_space.shape[0]
        return GymWrapper(env, device="cpu")

    def make_mlp(self, in_features=None, **kwargs):
        """Seeds before the first; remembers the stream after the last."""
        if not self._made:
            torch.manual_seed(self.seed)
            np.random.seed(self.seed)
        if in_features is None:  # the actor comes first, then the critic
            in_features = self._sizes[self._made]
        self._made += 1
        made = MLP(in_features=in_features, **kwargs)
        self._state = torch.get_rng_state()
        return made

    def make_collector(self, env, policy, **kwargs):
        """Seeds the environment right before, and not once more after."""
        env.set_seed(self.seed)
        collector = Collector(env, policy, auto_register_policy_transforms=False, **kwargs)
        collector.set_seed = lambda *args, **kwargs: None
        return collector

    def _replace_in_utils(self):
        self.utils["MLP"] = self.make_mlp
        if self.algorithm == "ppo":
            return
        self.utils["EnvCreator"] = lambda make: make
        self.utils["ParallelEnv"] = lambda count, make, **kwargs: make()
        self.utils["Collector"] = self.make_collector
        self.utils["TensorDictReplayBuffer"] = lambda prefetch=0, **kwargs: TensorDictReplayBuffer(
            **kwargs
        )
        name = f"make_{self.algorithm}_agent"
        self.utils[name] = self._without_trial(self.utils[name])
        self.utils["make_loss_module"] = self._storing(self.utils["make_loss_module"], 0)

    def _replace_in_ppo(self):
        make_env, loss = self.render_script["make_env"], self.render_script["ClipPPOLoss"]
        self.render_script["Collector"] = lambda create_env_fn, policy, **kwargs: (
            self.make_collector(create_env_fn, policy, **kwargs)
        )
        self.render_script["make_env"] = _taken_back(make_env)
        self.render_script["ClipPPOLoss"] = self._storing(loss)
        self.render_script["eval_model"] = lambda *args, **kwargs: torch.zeros(1)

    def _without_trial(self, make):
        def made(*args, **kwargs):
            result = make(*args, **kwargs)
            torch.set_rng_state(self._state)
            return result

        return made

    def _storing(self, make, place=None):
        def store_result(*args, **kwargs):
            result = make(*args, **kwargs)
            self.loss = result if place is None else result[place]
            return result

        return store_result


def _taken_back(function):
    def called(*args, **kwargs):
        state = torch.get_rng_state()
        result = function(*args, **kwargs)
        torch.set_rng_state(state)
        return result

    return called


class _Silent:
    def __init__(self, **kwargs):
        self.format_dict = {"rate": 0.0}

    def update(self, count):
        pass


def read(file):
    """The text of a script of the wheel; the hash is checked."""
    distribution = importlib.metadata.distribution("torchrl")
    path = Path(str(distribution.locate_file("sota-implementations"))) / file
    content = path.read_bytes()
    assert hashlib.sha256(content).hexdigest() == FILES[file], f"{file} is not that of 0.14.1"
    return content.decode()
