"""What a loaded policy reaches: on the states that its run was evaluated from, or on others."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.envs.batched_env import make_batched_env
from parallax.envs.tasks import TaskError, load_task
from parallax.harness.contract.events import EvaluationResult
from parallax.harness.contract.fields import SpecError
from parallax.harness.policies.loading import LoadedPolicy
from parallax.harness.train.evaluation import evaluate_greedy_policy
from parallax.harness.train.limits import check_episodes


@dataclasses.dataclass(frozen=True)
class EvaluationConditions:
    """How a policy is evaluated.

    Attributes:
        episodes: How many; as many as in training if None.
        seed: Of the initial states, in place of the run's `evaluation_seed`, if not None.
        env: Keyword arguments for the task, such as `max_episode_steps`.
    """

    episodes: int | None = None
    seed: int | None = None
    env: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def evaluate_loaded_policy(
    policy: LoadedPolicy, conditions: EvaluationConditions
) -> EvaluationResult:
    """Plays complete episodes, side by side.

    Without conditions these are the episodes of the policy's own evaluation: the run's last one,
    or its best.

    Args:
        policy: A loaded policy.
        conditions: What is to be different.

    Raises:
        SpecError: The task cannot be made in that way.
    """
    spec = policy.spec
    episodes = spec.eval_episodes if conditions.episodes is None else conditions.episodes
    check_episodes(episodes)
    seeds = policy.seeds(episodes, conditions.seed)
    try:
        _check_spaces(spec.env, conditions.env)
        env = make_batched_env(spec.env, episodes, **conditions.env)
    except TaskError as error:
        raise SpecError(str(error)) from error
    return evaluate_greedy_policy(policy.policy, env, seeds, policy.normalize)


def get_recorded_returns(policy: LoadedPolicy) -> NDArray[np.float64]:
    """Returns of the policy's own evaluation as they were recorded, float64[episodes]."""
    returns: NDArray[np.float64] = policy.evaluations.results[policy.evaluation]
    return returns


def has_same_returns(evaluation: EvaluationResult, recorded: NDArray[np.float64]) -> bool:
    """Whether returns are those recorded, to the last bit that is recorded: as float32."""
    returns = evaluation.returns.astype(np.float32)
    return returns.shape == recorded.shape and bool((returns == recorded.astype(np.float32)).all())


def _check_spaces(env_id: str, options: Mapping[str, Any]) -> None:
    """Makes sure that a changed task shows and takes what the policy knows."""
    if not options:
        return
    before, after = load_task(env_id), load_task(env_id, **options)
    for name in ("observation_size", "image", "action_low", "action_high", "choices"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            told = ", ".join(f"env.{key}={value}" for key, value in options.items())
            raise SpecError(
                f"{told} gives {env_id} another {name} ({old} in training, {new} now), which the "
                "policy has not learned."
            )
