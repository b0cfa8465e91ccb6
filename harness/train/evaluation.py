"""Greedy evaluation on a schedule, from initial states that are the same for every framework.

Complete episodes are played in parallel, with one forward pass per step for all episodes.
"""

import functools
import itertools
import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from parallax.envs.batched_env import make_batched_env
from parallax.envs.tasks import REFERENCE_TASK_IDS, Task, load_task
from parallax.harness.contract.adapter import Policy, begin_episodes
from parallax.harness.contract.events import (
    EnvStep,
    EvaluationResult,
    PolicyAttached,
    TrainingEnd,
    TrainingError,
    TrainingEvents,
)
from parallax.harness.contract.run_spec import RunSpec
from parallax.harness.contract.state_codec import StateMismatchError
from parallax.harness.record.lock import Count, Duration

if TYPE_CHECKING:
    from parallax.envs.batched_env import BatchedEnv

Array = NDArray[Any]


# Above the index of any scheduled evaluation: `limits.MOST_EVALUATIONS` is 10^6.
UNTRAINED_INDEX = 2**31
"""Index of the evaluation at step 0, so that it does not change later ones' initial states."""
REFERENCE_INDEX = 2**31 + 1
"""Index of the episodes of policies without training."""
MAX_CONSTANT_ACTIONS, MAX_REFERENCE_STEPS = 20, 2_000


class _Progress(msgspec.Struct, frozen=True):
    """State of a `PolicyEvaluator`."""

    done: Count
    next: Count
    seconds: Duration
    cpu_seconds: float = math.nan  # older states lack it


class PolicyEvaluator:
    """Evaluates on schedule.

    If configured, the untrained policy is evaluated at step 0 too, before the first step.
    An evaluation at step k sees the weights after every update that the first k steps led
    to: it takes place right before step k + 1, or after training. It draws no random number
    from a global generator and does not touch the training environment.

    Attributes:
        seconds: Seconds spent on evaluations.
        cpu_seconds: CPU seconds of all cores; NaN after a checkpoint that lacks them.
        last_score: Mean return of the latest evaluation; None before the first.
    """

    def __init__(
        self,
        spec: RunSpec,
        events: TrainingEvents,
        normalizer: Callable[[], Callable[[Array], Array]],
    ) -> None:
        self._spec, self._events, self._normalizer = spec, events, normalizer
        self._policy: Policy | None = None
        self._episodes = make_batched_env(spec.env, spec.eval_episodes, **spec.env_options)
        self._done, self._next = 0, 0 if spec.evaluate_untrained else spec.eval_every
        self.seconds = self.cpu_seconds = 0.0
        self.last_score: float | None = None
        events.subscribe(PolicyAttached, self._attach)
        events.subscribe(EnvStep, self._before_step)
        events.subscribe(TrainingEnd, self._evaluate)

    def state(self) -> dict[str, Any]:
        """Return its progress."""
        cost = {"seconds": self.seconds, "cpu_seconds": self.cpu_seconds}
        return {"done": self._done, "next": self._next, **cost}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from the progress that `state` returned."""
        progress, planned = msgspec.convert(state, _Progress), self.list_past_steps()
        self._done, self._next = len(planned), planned.start + len(planned) * planned.step
        if (progress.done, progress.next) != (self._done, self._next):
            found = f"{progress.done} evaluations and the next at step {progress.next}"
            raise StateMismatchError(f"it has {found}, not {self._done} and {self._next}")
        self.seconds, self.cpu_seconds = progress.seconds, progress.cpu_seconds

    def list_past_steps(self) -> range:
        """Return the steps at which evaluations were due before the present one."""
        every = self._spec.eval_every
        return range(0 if self._spec.evaluate_untrained else every, self._events.steps, every)

    def measure_references(self) -> dict[str, dict[str, float | int]]:
        """Measure doing nothing and random actions, if no scores of them are published.

        Doing nothing is action 0, or the discrete action that scores best if always taken.

        Returns:
            Mean, standard deviation and number of episodes of each policy, by its name.
        """
        spec = self._spec
        if spec.env in REFERENCE_TASK_IDS and spec.task_name == spec.env:
            return {}
        started, cpu_started = time.monotonic(), time.process_time()
        seeds = compute_episode_seeds(
            spec.evaluation_seed, spec.env, spec.seed, REFERENCE_INDEX, spec.eval_episodes
        )
        task = load_task(spec.env, **spec.env_options)
        limit = max(MAX_REFERENCE_STEPS, task.max_episode_steps + 1)
        constant_policies, random_policy = _make_reference_policies(task, seeds)
        *constant, random = [
            evaluate_greedy_policy(_stop_late(policy, limit), self._episodes, seeds)
            for policy in (*constant_policies, random_policy)
        ]
        best = max(constant, key=lambda one: one.returns.mean() if one.is_finite else -math.inf)
        self.seconds += time.monotonic() - started
        self.cpu_seconds += time.process_time() - cpu_started
        return {
            name: _describe_reference(result)
            for name, result in (("do nothing", best), ("random actions", random))
            if result.is_finite
        }

    def _attach(self, event: PolicyAttached) -> None:
        self._policy = event.policy

    def _before_step(self, event: EnvStep) -> None:
        if self._events.steps == self._next:
            self._evaluate(event)
            self._next += self._spec.eval_every

    def _evaluate(self, event: EnvStep | TrainingEnd) -> None:
        if self._policy is None:
            raise TrainingError("the adapter has attached no policy")
        started, cpu_started = time.monotonic(), time.process_time()
        evaluation = evaluate_greedy_policy(
            self._policy, self._episodes, self._seeds(), self._normalizer()
        )
        self._done += 1
        self.last_score = float(np.mean(evaluation.returns))
        self._events.publish(evaluation)
        if not evaluation.is_finite:
            raise TrainingError(
                f"an evaluation at step {self._events.steps} returned a number that is not finite: "
                "the policy or the environment has diverged"
            )
        self.seconds += time.monotonic() - started
        self.cpu_seconds += time.process_time() - cpu_started

    def _seeds(self) -> list[int]:
        spec, index = self._spec, get_seed_index(self._spec, self._done)
        return compute_episode_seeds(
            spec.evaluation_seed, spec.env, spec.seed, index, spec.eval_episodes
        )


def _make_reference_policies(
    task: Task, seeds: Sequence[int]
) -> tuple[Sequence[Callable[[Array], Array]], Callable[[Array], Array]]:
    """Return a policy for each constant action to try, and one that acts at random."""
    rng = np.random.default_rng(seeds)
    if task.choices:
        actions = range(min(task.choices, MAX_CONSTANT_ACTIONS))
        repeat = [functools.partial(_repeat_action, action) for action in actions]
        return repeat, lambda shown: rng.integers(task.choices, size=len(shown))
    low, high = (np.array(bound, np.float32) for bound in (task.action_low, task.action_high))
    zero = np.clip(np.zeros_like(low), low, high)
    return [functools.partial(_repeat_action, zero)], (
        lambda shown: rng.uniform(low, high, (len(shown), len(low))).astype(np.float32)
    )


def _describe_reference(result: EvaluationResult) -> dict[str, float | int]:
    returns = result.returns
    deviation = float(returns.std(ddof=1)) if len(returns) > 1 else 0.0
    return {"mean": float(returns.mean()), "sd": deviation, "episodes": len(returns)}


def _repeat_action(action: Array | int, shown: Array) -> Array:
    return np.array([action] * len(shown))


def _stop_late(policy: Callable[[Array], Array], limit: int) -> Callable[[Array], Array]:
    """Return a policy whose actions become NaN: some tasks have no end if nothing is done."""
    steps = itertools.count()

    def act(shown: Array) -> Array:
        actions = policy(shown)
        return actions if next(steps) < limit else np.full(actions.shape, np.nan)

    return act


def evaluate_greedy_policy(
    policy: Callable[[NDArray[np.float32]], Array],
    env: "BatchedEnv",
    seeds: Sequence[int],
    normalize: Callable[[Array], Array] = lambda observations: observations,
) -> EvaluationResult:
    """Play one complete episode per copy of the task; draw no random number.

    The policy sees the rows of finished episodes as well, because the last digits of a matrix
    product depend on the number of rows. An observation, raw or normalised, action or reward
    that is not finite ends its episode with return NaN; such an action is not taken.

    Args:
        policy: Observations float32[N, observations] to actions [N, actions] or choices [N],
            used as returned. A recurrent one begins without memory.
        env: N copies of the task.
        seeds: One reset seed per copy.
        normalize: Frozen normalisation of observations [N, observations].
    """
    observations, player = env.reset(seeds), begin_episodes(policy)
    lengths = np.zeros(len(seeds), np.int64)
    active = _find_finite_rows(observations)
    returns = np.where(active, 0.0, np.nan)
    while active.any():
        shown, sound = _prepare_observations(normalize(observations))
        actions = np.asarray(player(shown))
        playing = active & sound & _find_finite_rows(actions)
        observations, rewards, terminated, truncated = env.step(actions, playing)
        player.observe_rewards(rewards)
        returns += rewards
        lengths += playing
        healthy = playing & np.isfinite(rewards) & _find_finite_rows(observations)
        returns[active & ~healthy] = np.nan
        active = healthy & ~(terminated | truncated)
    return EvaluationResult(returns, lengths)


def _prepare_observations(observations: Array) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    # Rows that are not finite become zeros, for policies that refuse them.
    shown = np.array(observations, np.float32, order="C")
    sound = _find_finite_rows(shown)
    if not sound.all():
        shown[~sound] = 0
    return shown, sound


def _find_finite_rows(rows: Array) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = np.isfinite(rows).reshape(len(rows), -1)
    finite: NDArray[np.bool_] = np.logical_and.reduce(flags, axis=1)
    return finite


def get_seed_index(spec: RunSpec, row: int) -> int:
    """Return the index that seeds evaluation `row`; row 0 is at step 0 if the run has that one."""
    if not spec.evaluate_untrained:
        return row
    return row - 1 if row else UNTRAINED_INDEX


def compute_episode_seeds(
    evaluation_seed: int, env_id: str, seed: int, evaluation: int, episodes: int
) -> list[int]:
    """Return one reset seed per episode, which depend on nothing but the arguments.

    The numbers must not be negative. Fewer episodes have the first seeds of more.

    Returns:
        Integers below 2**32.
    """
    # Python's own hash of a text differs between processes.
    entropy = [evaluation_seed, zlib.crc32(env_id.encode()), seed, evaluation]
    # Words of `generate_state` do not depend on how many are requested.
    return [int(state) for state in np.random.SeedSequence(entropy).generate_state(episodes)]
