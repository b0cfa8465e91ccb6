"""Whole short trainings whose last weights tell whether a change makes any difference."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from envs.make import make_training_env
from envs.scripted import DISCRETE_ENV_ID, ENV_ID
from envs.tasks import load_task
from harness.contract.adapter import Adapter, Context, Loadable, Policy, Resumable, Weights
from harness.contract.algorithms import ALGORITHMS, Hyperparameters
from harness.contract.fields import SpecError
from harness.contract.recipes import load_recipe
from harness.record.provenance import weights_sha256

STEPS = 128
"""Environment steps of a training: two small rollouts, or some hundred updates."""
_WARM_UP = 32
_MORE: Mapping[str, Mapping[str, Any]] = {
    "ppo": {
        **{"ent_coef": 0.01, "value_clip_range": 0.2, "learning_rate_schedule": "linear"},
        **{"max_grad_norm": 0.5, "target_kl": 0.05, "normalize_advantage": True},
    },
    "sac": {"learning_starts": _WARM_UP, "policy_delay": 2},
    "td3": {"learning_starts": _WARM_UP, "policy_delay": 1},
    "ddpg": {"learning_starts": _WARM_UP, "gamma": 0.9},
    "dqn": {
        **{"learning_starts": _WARM_UP, "max_grad_norm": 0.5},
        **{"target_update_interval": 8, "tau": 0.5},
    },
}
"""Settings of the second training: what is off by default is on, as far as a framework has it."""


def digests(adapter: Adapter, algorithm: str) -> tuple[str, ...]:
    """Hashes of all weights after two short trainings, with other settings.

    Args:
        adapter: Of the framework.
        algorithm: That is trained.

    Raises:
        Exception: Whatever ends a training.
    """
    base = _small(adapter, algorithm)
    more = _with(adapter, algorithm, base, _MORE.get(algorithm, {}))
    return tuple(weights_sha256(train(adapter, algorithm, used)) for used in (base, more))


def train(adapter: Adapter, algorithm: str, hyperparameters: Hyperparameters) -> Weights:
    """The weights at the end of a short training on a scripted task.

    Args:
        adapter: Of the framework.
        algorithm: That is trained.
        hyperparameters: In unified units.
    """
    monitor, context = _Monitor(), _context(algorithm)
    native = adapter.translate(algorithm, hyperparameters, context)
    gamma = float(getattr(hyperparameters, "gamma", 0.99))

    def make_env() -> gymnasium.Env[Any, Any]:
        return make_training_env(
            context.task.env_id, wrappers="none", gamma=gamma, before_step=lambda: None
        )

    adapter.train(algorithm, native, context, make_env, monitor)
    assert monitor.weights is not None, "nothing was attached"
    return monitor.weights()


class _Monitor:
    """Keeps where the weights are, and nothing else."""

    def __init__(self) -> None:
        self.weights: Callable[[], Weights] | None = None

    def attach(
        self,
        policy: Policy,
        weights: Callable[[], Weights],
        loadable: Loadable | None = None,
        resumable: Resumable | None = None,
    ) -> None:
        self.weights = weights

    def record(self, metrics: Mapping[str, float]) -> None:
        pass

    def boundary(self) -> None:
        pass


def _context(algorithm: str) -> Context:
    discrete = ALGORITHMS[algorithm].actions == "discrete"
    return Context(load_task(DISCRETE_ENV_ID if discrete else ENV_ID), STEPS, 0, 1)


def _small(adapter: Adapter, algorithm: str) -> Hyperparameters:
    recipe = load_recipe(algorithm, adapter.name)
    return _with(adapter, algorithm, recipe, type(recipe).small)


def _with(
    adapter: Adapter, algorithm: str, base: Hyperparameters, values: Mapping[str, Any]
) -> Hyperparameters:
    """`base` with each value that the framework takes; several rates are set together."""
    fields = {field.name for field in dataclasses.fields(base)}
    rates = [name for name in fields if name.endswith("learning_rate")]
    for field, value in values.items():
        if field not in fields:
            continue
        group = rates if field in rates else [field]
        changed = dataclasses.replace(base, **dict.fromkeys(group, value))
        try:
            adapter.translate(algorithm, changed, _context(algorithm))
        except SpecError:
            continue
        base = changed
    return base
