"""What watches a training from behind the environment: evaluation, trace, step count.

Evaluation is greedy: complete episodes side by side, one forward pass per step for all, from
states that are the same for every framework.
"""

import dataclasses
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.lockstep import make_lockstep
from envs.make import frozen_normalizer, make_training_env, share_statistics
from harness.contract.adapter import Policy, Weights
from harness.contract.run_spec import RunSpec
from harness.record.folder import RunFolder

if TYPE_CHECKING:
    from envs.lockstep import Lockstep

Array = NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """One evaluation.

    Attributes:
        returns: Undiscounted sum of the task's own rewards per episode, float64[N]; NaN where
            an episode met a number that is not finite.
        lengths: Steps taken per episode, int64[N].
    """

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]

    @property
    def is_finite(self) -> bool:
        """Whether every return is a number."""
        # They are recorded as float32: what it cannot hold is not a return.
        return bool((np.abs(self.returns) <= np.finfo(np.float32).max).all())


def evaluate(
    policy: Callable[[NDArray[np.float32]], Array],
    env: "Lockstep",
    seeds: Sequence[int],
    normalize: Callable[[Array], Array] = lambda observations: observations,
) -> Evaluation:
    """Plays one complete episode per copy of the task; draws no random number.

    The policy sees the rows of finished episodes as well, because the last digits of a matrix
    product depend on the number of rows. An observation, raw or normalised, action or reward
    that is not finite ends its episode with return NaN; such an action is not taken.

    Args:
        policy: Observations float32[N, observations] to actions [N, actions], used as returned.
        env: N copies of the task.
        seeds: One reset seed per copy.
        normalize: Frozen normalisation of observations [N, observations].
    """
    observations = env.reset(seeds)
    lengths = np.zeros(len(seeds), np.int64)
    active = _finite(observations)
    returns = np.where(active, 0.0, np.nan)
    while active.any():
        shown, sound = _shown(normalize(observations))
        actions = np.asarray(policy(shown))
        playing = active & sound & _finite(actions)
        observations, rewards, terminated, truncated = env.step(actions, playing)
        returns += rewards
        lengths += playing
        healthy = playing & np.isfinite(rewards) & _finite(observations)
        returns[active & ~healthy] = np.nan
        active = healthy & ~(terminated | truncated)
    return Evaluation(returns, lengths)


def _shown(observations: Array) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    # Rows that are not finite become zeros, for policies that refuse them.
    shown = np.array(observations, np.float32, order="C")
    sound = _finite(shown)
    if not sound.all():
        shown[~sound] = 0
    return shown, sound


def _finite(rows: Array) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = np.isfinite(rows).reshape(len(rows), -1)
    finite: NDArray[np.bool_] = np.logical_and.reduce(flags, axis=1)
    return finite


def episode_seeds(
    evaluation_seed: int, env_id: str, seed: int, evaluation: int, episodes: int
) -> list[int]:
    """One reset seed per episode; nothing else decides about them.

    The numbers must not be negative. Fewer episodes are the first of more.

    Args:
        evaluation_seed: The study's choice of initial states.
        env_id: Gymnasium's name of the task.
        seed: Index of the training run.
        evaluation: Index of the evaluation within the run.
        episodes: How many seeds to draw.

    Returns:
        Integers below 2**32.
    """
    # Python's own hash of a text differs between processes.
    entropy = [evaluation_seed, zlib.crc32(env_id.encode()), seed, evaluation]
    return [int(state) for state in np.random.SeedSequence(entropy).generate_state(episodes)]


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
