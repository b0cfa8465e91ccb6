"""Evaluation of loaded policies, from the initial states of their run or from others."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.envs.batched_env import make_batched_env
from parallax.envs.tasks import TaskError, load_task
from parallax.harness.contract.events import EvaluationResult
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import RunSpec
from parallax.harness.policies.loading import LoadedPolicy
from parallax.harness.train.evaluation import evaluate_greedy_policy
from parallax.harness.train.limits import check_episodes


@dataclasses.dataclass(frozen=True)
class EvaluationConditions:
    """Conditions of an evaluation.

    Attributes:
        episodes: Number of episodes; as in training if None.
        seed: Seed of the initial states; the run's `evaluation_seed` if None.
        env: Keyword arguments for the task, such as `max_episode_steps`.
    """

    episodes: int | None = None
    seed: int | None = None
    env: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def evaluate_loaded_policy(
    policy: LoadedPolicy, conditions: EvaluationConditions
) -> EvaluationResult:
    """Play complete episodes in parallel environments.

    By default these are the episodes of the evaluation that the policy was saved at: the run's last
    or best one.

    Args:
        policy: A loaded policy.
        conditions: Changes to the run's own evaluation.

    Raises:
        SpecError: The task cannot be created under these conditions.
    """
    spec = policy.spec
    episodes = spec.eval_episodes if conditions.episodes is None else conditions.episodes
    check_episodes(episodes)
    seeds = policy.seeds(episodes, conditions.seed)
    try:
        _check_spaces(spec, conditions.env)
        env = make_batched_env(spec.env, episodes, **spec.env_options | dict(conditions.env))
    except TaskError as error:
        raise SpecError(str(error)) from error
    return evaluate_greedy_policy(policy.policy, env, seeds, policy.normalize)


def get_recorded_returns(policy: LoadedPolicy) -> NDArray[np.float64]:
    """Return the recorded returns of the policy's own evaluation, float64[episodes]."""
    returns: NDArray[np.float64] = policy.evaluations.results[policy.evaluation]
    return returns


def has_same_returns(evaluation: EvaluationResult, recorded: NDArray[np.float64]) -> bool:
    """Return whether returns equal the recorded ones, as float32 since that is what is stored."""
    returns = evaluation.returns.astype(np.float32)
    return returns.shape == recorded.shape and bool((returns == recorded.astype(np.float32)).all())


def _check_spaces(spec: RunSpec, options: Mapping[str, Any]) -> None:
    """Require that a changed task has the observations and actions that the policy knows."""
    if not options:
        return
    before = load_task(spec.env, **spec.env_options)
    after = load_task(spec.env, **spec.env_options | dict(options))
    for name in ("observation_size", "image", "action_low", "action_high", "choices"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            changes = ", ".join(f"env.{key}={value}" for key, value in options.items())
            raise SpecError(
                f"{changes} changes {name} of {spec.task_name} from {old} in training to {new}; "
                "the policy cannot act there. Leave that option out."
            )
