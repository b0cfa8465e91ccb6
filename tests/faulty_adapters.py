"""Adapters that are wrong in one way each. An import path, so that workers find them too."""

import dataclasses
import math
import subprocess
import sys
from contextlib import suppress
from unittest import mock

import gymnasium
import numpy as np
import torch

import parallax.adapters.sb3.train
from parallax.adapters.cleanrl import CleanRLAdapter
from parallax.adapters.sb3 import SB3Adapter
from parallax.adapters.torchrl import TorchRLAdapter
from parallax.envs.make import StepHook


def passing(adapter, **changes):
    """An adapter that hands upstream other settings than it declares.

    A change is a function of the settings; its name has double underscores for other characters.
    """

    class Passing(adapter):
        def translate(self, algorithm, hyperparameters, context):
            native = super().translate(algorithm, hyperparameters, context)
            settings = dict(native.settings)
            old = dict(settings)
            for name, change in changes.items():
                settings[NAMES.get(name, name)] = change(old)
            return dataclasses.replace(native, settings=settings)

    return Passing


NAMES = {
    "actor_lr": "Adam(actor).lr",
    "critic_lr": "Adam(critic).lr",
    "std": "AdditiveGaussianModule.std",
    "anneal_lr": "script.anneal_lr",
    "learning_starts_option": "learning-starts",
}

FlippedTau = passing(SB3Adapter, tau=lambda old: 1 - old["tau"])
DoubledTau = passing(SB3Adapter, tau=lambda old: 2 * old["tau"])
SwappedLearningRates = passing(
    TorchRLAdapter,
    actor_lr=lambda old: old["Adam(critic).lr"],
    critic_lr=lambda old: old["Adam(actor).lr"],
)
IgnoredPolicyDelay = passing(SB3Adapter, policy_delay=lambda old: 1)
UnscaledNoise = passing(TorchRLAdapter, std=lambda old: 0.05)
TwoUpdates = passing(SB3Adapter, gradient_steps=lambda old: 2 * old["gradient_steps"])
UnseededRandomState = passing(SB3Adapter, seed=lambda old: None)
IgnoredSeed = passing(SB3Adapter, seed=lambda old: 0)
IgnoredLambda = passing(SB3Adapter, gae_lambda=lambda old: 0.95)
NoWarmUp = passing(CleanRLAdapter, learning_starts_option=lambda old: 0)
NoAnnealing = passing(TorchRLAdapter, anneal_lr=lambda old: False)
LargeMinibatches = passing(SB3Adapter, batch_size=lambda old: 2 * old["batch_size"])
SwappedDiscounts = passing(
    SB3Adapter, gamma=lambda old: old["gae_lambda"], gae_lambda=lambda old: old["gamma"]
)
LeakyNull = passing(
    SB3Adapter,
    max_grad_norm=lambda old: 0.05 if math.isinf(old["max_grad_norm"]) else old["max_grad_norm"],
)
LoudTargets = passing(SB3Adapter, target_policy_noise=lambda old: 2 * old["target_policy_noise"])
LooseTargets = passing(SB3Adapter, target_noise_clip=lambda old: 2 * old["target_noise_clip"])


class SilentConstant(SB3Adapter):
    """Takes any `policy_delay` of SAC and trains with 1."""

    def translate(self, algorithm, hyperparameters, context):
        hyperparameters = dataclasses.replace(hyperparameters, policy_delay=1)
        return super().translate(algorithm, hyperparameters, context)


class UndeclaredField(SB3Adapter):
    def translate(self, algorithm, hyperparameters, context):
        native = super().translate(algorithm, hyperparameters, context)
        return dataclasses.replace(native, alignment=native.alignment[1:])


class WrongBudget(SB3Adapter):
    def translate(self, algorithm, hyperparameters, context):
        native = super().translate(algorithm, hyperparameters, context)
        return dataclasses.replace(native, total_steps=native.total_steps + 1)


class VectorStepsCountedOnce(SB3Adapter):
    def train(self, algorithm, native, context, make_env, monitor):
        more = dataclasses.replace(context, steps=context.steps * context.n_envs)
        super().train(algorithm, native, more, make_env, monitor)


class Attaching(SB3Adapter):
    """Hands the monitor another policy or other weights than upstream's."""

    def policy(self, policy, observations):
        return policy(observations)

    def weights(self, weights):
        return weights()

    def train(self, algorithm, native, context, make_env, monitor):
        outer = self

        class Wrapped:
            record = monitor.record

            safe_point = monitor.safe_point

            def attach(self, policy, weights, *parts):
                monitor.attach(
                    lambda x: outer.policy(policy, x), lambda: outer.weights(weights), *parts
                )

        super().train(algorithm, native, context, make_env, Wrapped())


class SampledPolicy(Attaching):
    def policy(self, policy, observations):
        actions = policy(observations)
        return actions + 0.01 * torch.randn(actions.shape).numpy()


class FrozenSamplePolicy(Attaching):
    """Samples with a seed of its own, the same at every call."""

    def policy(self, policy, observations):
        actions = policy(observations)
        return actions + 0.01 * np.random.default_rng(0).normal(size=actions.shape)


class NarrowCritics(SB3Adapter):
    """Takes `hidden_sizes` for the policy only."""

    def translate(self, algorithm, hyperparameters, context):
        native = super().translate(algorithm, hyperparameters, context)
        settings = dict(native.settings)
        widths = settings["policy_kwargs.net_arch"]
        settings["policy_kwargs.net_arch"] = {"pi": widths, "qf": [8, 8]}
        return dataclasses.replace(native, settings=settings)


class SameLuckForAllCopies(SB3Adapter):
    def train(self, algorithm, native, context, make_env, monitor):
        class SameSeed(gymnasium.Wrapper):
            def reset(self, *, seed=None, options=None):
                return self.env.reset(seed=None if seed is None else 5, options=options)

        super().train(algorithm, native, context, lambda: SameSeed(make_env()), monitor)


class RescaledPolicy(Attaching):
    def policy(self, policy, observations):
        return 2 * policy(observations)


class UnnamedTargets(Attaching):
    def weights(self, weights):
        return {name.replace("target", "other"): value for name, value in weights().items()}


class StaleWeights(Attaching):
    def weights(self, weights):
        return {name: np.zeros_like(value) for name, value in weights().items()}


class SwallowedError(SB3Adapter):
    def train(self, *arguments):
        with suppress(Exception):
            super().train(*arguments)


class SwallowedInterrupt(SB3Adapter):
    def train(self, *arguments):
        with suppress(KeyboardInterrupt):
            super().train(*arguments)


class StrayProcess(SB3Adapter):
    def train(self, *arguments):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        super().train(*arguments)


class Around(SB3Adapter):
    """Trains on the task with something around it."""

    def around(self, env):
        return env

    def train(self, algorithm, native, context, make_env, monitor):
        super().train(algorithm, native, context, lambda: self.around(make_env()), monitor)


class QuietRewards(Around):
    def around(self, env):
        return gymnasium.wrappers.TransformReward(env, lambda reward: reward / 10)


class ShiftedActions(Around):
    def around(self, env):
        space = env.action_space
        shift = (space.high - space.low) / 4
        return gymnasium.wrappers.TransformAction(
            env, lambda action: np.clip(action + shift, space.low, space.high), space
        )


class ShrunkenActions(Around):
    def around(self, env):
        return gymnasium.wrappers.TransformAction(env, lambda a: 0.8 * a, env.action_space)


class OneSample(gymnasium.spaces.Box):
    def sample(self, *args, **kwargs):
        self.first = getattr(self, "first", super().sample())
        return self.first.copy()


class RepeatedWarmUp(Around):
    """Draws one random action and repeats it."""

    def around(self, env):
        space = env.action_space
        env.action_space = OneSample(space.low, space.high, space.shape, space.dtype)
        return env


class UnwrappedTask(Around):
    def around(self, env):
        while not isinstance(env, StepHook):
            env = env.env
        return env


class ApartTargets(SB3Adapter):
    """Draws new weights of targets."""

    def train(self, *arguments):
        build = parallax.adapters.sb3.train.build_model

        def apart(*given):
            model = build(*given)
            with torch.no_grad():
                for parameter in model.critic_target.parameters():
                    parameter.add_(0.1)
            return model

        with mock.patch("parallax.adapters.sb3.train.build_model", apart):
            super().train(*arguments)
