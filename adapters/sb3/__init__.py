"""Stable-Baselines3: its public classes and `learn()`."""

import dataclasses
import importlib.util

from adapters.sb3.translate import translate
from envs.tasks import Task
from harness.adapter import Context, MakeEnv, Monitor, Native, Weights
from harness.fields import SpecError
from harness.spec import SAC, Hyperparameters


class SB3Adapter:
    """Adapter of Stable-Baselines3."""

    name = "sb3"
    packages = ("stable-baselines3", "torch")

    def supports(self, algorithm: str) -> bool:
        """PPO, TD3 and SAC."""
        return algorithm in ("ppo", "td3", "sac")

    def check_installed(self) -> None:
        """Raises `SpecError` where the package is missing."""
        if importlib.util.find_spec("stable_baselines3") is None:
            raise SpecError("framework=sb3 needs: pip install 'stable-baselines3>=2.9.2,<2.10'")

    def own_defaults(
        self, algorithm: str, defaults: Hyperparameters, task: Task
    ) -> Hyperparameters:
        """SAC's three optimisers share the one `learning_rate`."""
        if isinstance(defaults, SAC):
            shared = defaults.policy_learning_rate
            return dataclasses.replace(
                defaults, critic_learning_rate=shared, temperature_learning_rate=shared
            )
        return defaults

    def translate(
        self, algorithm: str, hyperparameters: Hyperparameters, context: Context
    ) -> Native:
        """See `adapters.sb3.translate`."""
        return translate(algorithm, hyperparameters, context)

    def train(
        self, algorithm: str, native: Native, context: Context, make_env: MakeEnv, monitor: Monitor
    ) -> Weights:
        """See `adapters.sb3.train`."""
        from adapters.sb3.train import train

        return train(algorithm, native, context, make_env, monitor)
