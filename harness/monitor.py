"""What watches a training from behind the environment: evaluation, trace, step count."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from envs.lockstep import make_lockstep
from envs.make import frozen_normalizer, make_training_env, share_statistics
from harness.adapter import Policy, Weights
from harness.evaluation import Evaluation, evaluate
from harness.record.folder import RunFolder
from harness.run_spec import RunSpec
from harness.seeding import episode_seeds


class TrainingError(RuntimeError):
    """A training that cannot go on, worded for the user."""


class TrainingMonitor:
    """Counts the steps of the task itself and evaluates on schedule.

    An evaluation at step k sees the weights after every update that the first k steps led
    to: it takes place right before step k + 1, or after training. It draws no random number
    from a global generator and does not touch the training environment.
    """

    def __init__(self, spec: RunSpec, folder: RunFolder) -> None:
        self._spec = spec
        self._folder = folder
        self._policy: Policy | None = None
        self._weights: Callable[[], Weights] | None = None
        self._envs: list[gymnasium.Env[Any, Any]] = []
        self._episodes = make_lockstep(spec.env, spec.eval_episodes)
        self._next_evaluation = spec.eval_every
        self.steps = 0
        self.evaluation_seconds = 0.0

    def attach(self, policy: Policy, weights: Callable[[], Weights]) -> None:
        """Takes what follows the training."""
        self._policy = policy
        self._weights = weights

    def weights(self) -> Weights:
        """All parameters as they are now."""
        if self._weights is None:
            raise TrainingError("the adapter has attached no weights")
        return self._weights()

    def record(self, metrics: Mapping[str, float]) -> None:
        """Adds values to the trace at the current step."""
        self._folder.record(self.steps, metrics)

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """The next of the `n_envs` training environments."""
        if len(self._envs) == self._spec.n_envs:
            raise TrainingError(f"upstream makes more than n_envs={self._spec.n_envs} environments")
        env = make_training_env(
            self._spec.env,
            wrappers=self._spec.wrappers,
            gamma=self._spec.hyperparameters.gamma,
            before_step=self._before_step,
            after_episode=self._after_episode,
        )
        if self._envs:
            share_statistics(self._envs[0], env)
        self._envs.append(env)
        return env

    def finish(self, scheduled_steps: int) -> None:
        """Evaluates at the last step.

        Raises:
            TrainingError: Upstream took another number of steps than was scheduled.
        """
        if self.steps != scheduled_steps:
            raise TrainingError(
                f"upstream took {self.steps} environment steps where {scheduled_steps} were due"
            )
        self._evaluate()
        self._folder.flush()

    def _before_step(self) -> None:
        if self.steps == self._next_evaluation:
            self._evaluate()
            self._next_evaluation += self._spec.eval_every
        self.steps += 1

    def _after_episode(self, episode_return: float, length: int) -> None:
        self.record({"episode/return": episode_return, "episode/length": float(length)})

    def _evaluate(self) -> None:
        if self._policy is None or not self._envs:
            raise TrainingError("the adapter has attached no policy")
        started = time.monotonic()
        spec = self._spec
        index = self._folder.evaluations
        seeds = episode_seeds(spec.evaluation_seed, spec.env, spec.seed, index, spec.eval_episodes)
        normalize = frozen_normalizer(self._envs[0])
        evaluation = evaluate(self._policy, self._episodes, seeds, normalize)
        self._folder.add_evaluation(self.steps, evaluation.returns, evaluation.lengths)
        self._check_finite(evaluation)
        self.evaluation_seconds += time.monotonic() - started

    def _check_finite(self, evaluation: Evaluation) -> None:
        if not evaluation.is_finite:
            raise TrainingError(
                f"an evaluation at step {self.steps} returned a number that is not finite: "
                "the policy or the environment has diverged"
            )
