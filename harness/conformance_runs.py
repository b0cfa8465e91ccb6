"""Short trainings on the scripted task, for the conformance suite."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.make import make_training_env
from envs.scripted import BOUND, ENV_ID, ScriptedEnv
from envs.tasks import load_task
from harness.adapter import Context, Native, Policy, Weights, load_adapter
from harness.fields import SpecError
from harness.provenance import weights_sha256
from harness.recipes import load_recipe
from harness.spec import Hyperparameters

STEPS = 192

# Small enough to train in a second, and such that each hyperparameter matters: a large step
# size makes ratios and values leave their clip ranges, a full buffer makes its size matter.
_SMALL: dict[str, Any] = {
    "learning_rate": 0.01,
    "rollout_steps": 64,
    "minibatch_size": 16,
    "epochs": 3,
    "value_clip_range": None,
    "hidden_sizes": (8, 8),
    "batch_size": 16,
    "buffer_size": 1000,
    "learning_starts": 64,
    "env_steps_per_round": 2,
    "gradient_steps_per_round": 2,
}

ALTERNATIVES: dict[str, tuple[Any, ...]] = {
    "learning_rate": (0.02,),
    "learning_rate_schedule": ("linear", "constant"),
    "rollout_steps": (96, 32),
    "minibatch_size": (32,),
    "epochs": (2,),
    "gamma": (0.9,),
    "gae_lambda": (0.5,),
    "clip_range": (0.05,),
    "clip_range_schedule": ("linear", "constant"),
    "value_clip_range": (0.05, 0.2, None),
    "normalize_advantage": (False, True),
    "ent_coef": (0.1,),
    "vf_coef": (1.0,),
    "max_grad_norm": (0.01,),
    "target_kl": (1e-6,),
    "adam_eps": (1e-3,),
    "hidden_sizes": ((12, 12),),
    "bootstrap_truncation": (False, True),
    "policy_learning_rate": (0.02,),
    "critic_learning_rate": (0.02,),
    "temperature_learning_rate": (0.02,),
    "batch_size": (24,),
    "buffer_size": (40,),
    "learning_starts": (96,),
    "tau": (0.5,),
    "env_steps_per_round": (4,),
    "gradient_steps_per_round": (4,),
    "exploration_noise": (0.5,),
    "policy_delay": (3,),
    "target_policy_noise": (0.9,),
    "target_noise_clip": (0.01,),
    "target_update_interval": (2,),
    "initial_temperature": (0.5,),
    "target_entropy": (-7.0,),
}
"""Other values to try per hyperparameter, the first that a framework accepts counts."""


@dataclasses.dataclass(frozen=True)
class Trained:
    """What one training left.

    Attributes:
        weights: All parameters.
        digest: Their hash.
        steps: Environment steps taken, counted in the environment.
        scheduled: Environment steps that the translation announced.
        actions: Every action that reached the task, [steps, 2].
        greedy: Greedy actions for observations far and near, [N, 2].
        low: Smallest action allowed.
        high: Largest action allowed.
    """

    weights: Weights
    digest: str
    steps: int
    scheduled: int
    actions: NDArray[np.float32]
    greedy: NDArray[np.float32]
    low: float
    high: float


class _Watcher:
    """A monitor that keeps what it is given."""

    def __init__(self) -> None:
        self.policy: Policy | None = None
        self.weights: Callable[[], Weights] | None = None

    def attach(self, policy: Policy, weights: Callable[[], Weights]) -> None:
        self.policy, self.weights = policy, weights

    def record(self, metrics: Mapping[str, float]) -> None:
        pass


def base_hyperparameters(framework: str, algorithm: str) -> Hyperparameters:
    """The framework's own recipe, made small where the framework lets it."""
    base = load_recipe(algorithm, framework)
    names = {field.name for field in dataclasses.fields(base)}
    for field, value in _SMALL.items():
        if field in names:
            candidate = dataclasses.replace(base, **{field: value})
            try:
                translate(framework, algorithm, candidate)
            except SpecError:
                continue
            base = candidate
    return base


def changed(
    framework: str, algorithm: str, base: Hyperparameters, field: str, value: Any
) -> Hyperparameters:
    """`base` with another value of `field`, and of learning rates that are tied to it."""
    rows = translate(framework, algorithm, base).alignment
    tied = [
        row.field
        for row in rows
        if row.kind == "constant"
        and field.endswith("learning_rate")
        and row.field.endswith("learning_rate")
        and row.value == getattr(base, field)
    ]
    return dataclasses.replace(base, **dict.fromkeys([field, *tied], value))


def translate(
    framework: str,
    algorithm: str,
    hyperparameters: Hyperparameters,
    steps: int = STEPS,
    seed: int = 0,
) -> Native:
    """Native settings on the scripted task."""
    context = Context(load_task(ENV_ID), steps, seed)
    return load_adapter(framework).translate(algorithm, hyperparameters, context)


@functools.lru_cache(maxsize=256)
def train(
    framework: str,
    algorithm: str,
    hyperparameters: Hyperparameters,
    steps: int = STEPS,
    seed: int = 0,
    ask: bool = False,
) -> Trained:
    """Trains on the scripted task; results are kept for the next who asks.

    Args:
        framework: Name of the adapter.
        algorithm: Name of the algorithm.
        hyperparameters: In unified units.
        steps: Environment transitions asked for.
        seed: Training seed.
        ask: Whether to call the greedy policy before every step.
    """
    native = translate(framework, algorithm, hyperparameters, steps, seed)
    watcher, count = _Watcher(), [0]
    some = np.linspace(-20, 20, 15, dtype=np.float32).reshape(5, 3)

    def before_step() -> None:
        count[0] += 1
        if ask and watcher.policy is not None:
            watcher.policy(some)

    env = make_training_env(
        ENV_ID,
        wrappers="none",
        gamma=hyperparameters.gamma,
        before_step=before_step,
        after_episode=lambda total, length: None,
    )
    context = Context(load_task(ENV_ID), steps, seed)
    load_adapter(framework).train(algorithm, native, context, lambda: env, watcher)
    assert watcher.policy is not None and watcher.weights is not None, "nothing was attached"
    weights = watcher.weights()
    return Trained(
        weights=weights,
        digest=weights_sha256(weights),
        steps=count[0],
        scheduled=native.total_steps,
        actions=np.array(_task(env).actions),
        greedy=watcher.policy(some),
        low=-BOUND,
        high=BOUND,
    )


def _task(env: gymnasium.Env[Any, Any]) -> ScriptedEnv:
    task = env.unwrapped
    assert isinstance(task, ScriptedEnv)
    return task
