"""What an adapter's training reports to, and who listens: evaluation, and the run's files.

Evaluation is greedy: complete episodes side by side, one forward pass per step for all, from
states that are the same for every framework.
"""

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
from harness.contract.events import (
    Attached,
    End,
    EnvStep,
    EpisodeEnd,
    Evaluation,
    Events,
    Metrics,
)
from harness.contract.run_spec import RunSpec
from harness.record.folder import RunFolder

if TYPE_CHECKING:
    from envs.lockstep import Lockstep

Array = NDArray[Any]


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
    """What a training reports to; it tells `events` of what happens and knows nobody who listens.

    It makes the environments, and sees that upstream takes the steps that were scheduled.
    """

    def __init__(self, spec: RunSpec, folder: RunFolder) -> None:
        self.events = Events()
        self._spec = spec
        self._weights: Callable[[], Weights] | None = None
        self._envs: list[gymnasium.Env[Any, Any]] = []
        self.evaluator = Evaluator(spec, self.events, lambda: frozen_normalizer(self._envs[0]))
        keep(folder, self.events)

    @property
    def steps(self) -> int:
        """Environment steps taken."""
        return self.events.steps

    def attach(self, policy: Policy, weights: Callable[[], Weights]) -> None:
        """Takes what follows the training."""
        self._weights = weights
        self.events.tell(Attached(policy, weights))

    def weights(self) -> Weights:
        """All parameters as they are now."""
        if self._weights is None:
            raise TrainingError("the adapter has attached no weights")
        return self._weights()

    def record(self, metrics: Mapping[str, float]) -> None:
        """Tells of values for the trace."""
        self.events.tell(Metrics(metrics))

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """The next of the `n_envs` training environments."""
        if len(self._envs) == self._spec.n_envs:
            raise TrainingError(f"upstream makes more than n_envs={self._spec.n_envs} environments")
        gamma = self._spec.hyperparameters.gamma
        env = make_training_env(
            self._spec.env, wrappers=self._spec.wrappers, gamma=gamma, **self.events.seam()
        )
        if self._envs:
            share_statistics(self._envs[0], env)
        self._envs.append(env)
        return env

    def finish(self, scheduled_steps: int) -> None:
        """Tells that training is over.

        Raises:
            TrainingError: Upstream took another number of steps than was scheduled.
        """
        if self.steps != scheduled_steps:
            raise TrainingError(
                f"upstream took {self.steps} environment steps where {scheduled_steps} were due"
            )
        self.events.tell(End())


class Evaluator:
    """Evaluates on schedule.

    An evaluation at step k sees the weights after every update that the first k steps led
    to: it takes place right before step k + 1, or after training. It draws no random number
    from a global generator and does not touch the training environment.

    Attributes:
        seconds: Spent on it.
    """

    def __init__(
        self, spec: RunSpec, events: Events, normalizer: Callable[[], Callable[[Array], Array]]
    ) -> None:
        self._spec, self._events, self._normalizer = spec, events, normalizer
        self._policy: Policy | None = None
        self._episodes = make_lockstep(spec.env, spec.eval_episodes)
        self._done, self._next = 0, spec.eval_every
        self.seconds = 0.0
        events.subscribe(Attached, self._attach)
        events.subscribe(EnvStep, self._before_step)
        events.subscribe(End, self._evaluate)

    def _attach(self, event: Attached) -> None:
        self._policy = event.policy

    def _before_step(self, event: EnvStep) -> None:
        if self._events.steps == self._next:
            self._evaluate(event)
            self._next += self._spec.eval_every

    def _evaluate(self, event: EnvStep | End) -> None:
        if self._policy is None:
            raise TrainingError("the adapter has attached no policy")
        started = time.monotonic()
        evaluation = evaluate(self._policy, self._episodes, self._seeds(), self._normalizer())
        self._done += 1
        self._events.tell(evaluation)
        if not evaluation.is_finite:
            raise TrainingError(
                f"an evaluation at step {self._events.steps} returned a number that is not finite: "
                "the policy or the environment has diverged"
            )
        self.seconds += time.monotonic() - started

    def _seeds(self) -> list[int]:
        spec = self._spec
        return episode_seeds(
            spec.evaluation_seed, spec.env, spec.seed, self._done, spec.eval_episodes
        )


def keep(folder: RunFolder, events: Events) -> None:
    """Has a run folder keep the trace and the evaluations."""

    def end_of_episode(end: EpisodeEnd) -> None:
        values = {"episode/return": end.episode_return, "episode/length": float(end.length)}
        folder.record(events.steps, values)

    events.subscribe(EpisodeEnd, end_of_episode)
    events.subscribe(Metrics, lambda told: folder.record(events.steps, told.values))
    events.subscribe(
        Evaluation, lambda told: folder.add_evaluation(events.steps, told.returns, told.lengths)
    )
    events.subscribe(End, lambda _: folder.flush())
