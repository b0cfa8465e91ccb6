"""Monitor of an adapter's training, and its subscribers: evaluation, and the run's files."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import msgspec
import numpy as np

from parallax.envs.make import (
    copy_observation_statistics,
    make_frozen_normalizer,
    make_training_env,
    share_statistics,
)
from parallax.harness.contract.adapter import (
    CPU,
    Checkpointable,
    Policy,
    PolicyIO,
    Weights,
    check_weights_fit,
)
from parallax.harness.contract.events import (
    EnvStep,
    EpisodeEnd,
    EvaluationResult,
    PolicyAttached,
    ReportedMetrics,
    TrainingEnd,
    TrainingError,
    TrainingEvents,
)
from parallax.harness.contract.state_codec import StateMismatchError
from parallax.harness.interventions.catalogue import collect_layers
from parallax.harness.record.folder import RunFolder
from parallax.harness.record.lock import Count
from parallax.harness.record.npz_files import StoredPolicy
from parallax.harness.train.checkpointing import CheckpointManager, CheckpointPart
from parallax.harness.train.env_states import (
    load_env_states,
    load_rng_state,
    read_env_states,
    read_rng_state,
)
from parallax.harness.train.evaluation import PolicyEvaluator
from parallax.harness.train.prepare import PreparedRun

_MAX_RETURN, _MAX_LENGTH = float(np.finfo(np.float32).max), 2**31 - 1  # of types in the file


def _is_within(array: Any, kind: str, least: float, most: float) -> bool:
    values = np.asarray(array)
    return values.dtype.kind == kind and bool(((least <= values) & (values <= most)).all())


class _BestState(msgspec.Struct, frozen=True):
    """State of a `BestPolicy`."""

    count: Count
    mean: float
    evaluation: Count | None
    policy: dict[str, dict[str, Any]] | None


class BestPolicy:
    """Policy with the largest mean return; the latest if several are equal.

    Attributes:
        evaluation: Index of its evaluation; None before the first.
        policy: The policy at that evaluation.
    """

    def __init__(self, events: TrainingEvents, learned: Callable[[], StoredPolicy]) -> None:
        """Subscribe to evaluations."""
        self._learned, self._count, self._mean = learned, 0, -np.inf
        self.evaluation: int | None = None
        self.policy: StoredPolicy | None = None
        events.subscribe(EvaluationResult, self._compare_evaluation)

    def _compare_evaluation(self, evaluation: EvaluationResult) -> None:
        mean = float(np.mean(evaluation.returns))
        if mean >= self._mean:
            self._mean, self.evaluation, self.policy = mean, self._count, self._learned()
        self._count += 1

    def state(self) -> dict[str, Any]:
        """Return its state as plain values and arrays."""
        return {
            "count": self._count,
            "mean": self._mean,
            "evaluation": self.evaluation,
            "policy": None if self.policy is None else dataclasses.asdict(self.policy),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from that state."""
        stored = msgspec.convert(state, _BestState)
        self._count, self._mean, self.evaluation = stored.count, stored.mean, stored.evaluation
        self.policy = None if stored.policy is None else StoredPolicy(**stored.policy)
        best = self.evaluation
        if self.policy is not None:
            own = self._learned()
            check_weights_fit(self.policy.weights, own.weights)
            check_weights_fit(self.policy.normalization, own.normalization)
        if (best is None) != (self.policy is None) or (best is not None and best >= self._count):
            raise StateMismatchError("its best policy does not belong to this run")


class TrainingMonitor:
    """Monitor of a training; it publishes events and does not know their subscribers.

    It creates the environments, and checks that upstream takes the scheduled number of steps.
    """

    def __init__(
        self,
        prepared: PreparedRun,
        folder: RunFolder,
        checkpoint_manager: CheckpointManager | None = None,
    ) -> None:
        """Create the monitor and subscribe the evaluator and the run folder to its events.

        Args:
            prepared: The run.
            folder: Stores evaluations and trace.
            checkpoint_manager: Saves and loads the state of the training; None for no checkpoints.
        """
        self.events = TrainingEvents()
        self.events.subscribe(EnvStep, self._check_step_is_due)
        self._spec = spec = prepared.spec
        self._scheduled_steps = prepared.native.total_steps
        self._layers = collect_layers(prepared.interventions)
        self._folder, self.checkpoint_manager = folder, checkpoint_manager
        self._weights: Callable[[], Weights] | None = None
        self.costs: dict[str, dict[str, float]] = {}
        self._envs: list[gymnasium.Env[Any, Any]] = []
        self.evaluator = PolicyEvaluator(spec, self.events, self.get_normalizer)
        self.best = (
            BestPolicy(self.events, self.get_stored_policy) if spec.save_policy == "best" else None
        )
        record_run_events(folder, self.events)

    @property
    def steps(self) -> int:
        """Environment steps taken."""
        return self.events.steps

    def attach(
        self,
        policy: Policy,
        weights: Callable[[], Weights],
        policy_io: PolicyIO | None = None,
        checkpointable: Checkpointable | None = None,
    ) -> None:
        """See `parallax.harness.contract.adapter.Monitor.attach`."""
        self._weights = weights
        lacking = ""
        if not self._spec.device.startswith((CPU, "cuda")):
            lacking = f"the random generators of device={self._spec.device} are not saved"
            checkpointable = None
        elif not checkpointable:
            lacking = (
                f"the adapter of {self._spec.framework} does not hand out its state (the fourth "
                "argument of monitor.attach)"
            )
        if self.checkpoint_manager:
            self.checkpoint_manager.watch(self._make_checkpoint_parts(checkpointable), lacking)
        self.events.publish(PolicyAttached(policy, weights))

    def safe_point(self) -> None:
        """Save the state of the training if that is due; the first call may load one."""
        if self.checkpoint_manager:
            self.checkpoint_manager.safe_point()

    def _make_checkpoint_parts(self, adapter: Checkpointable | None) -> dict[str, CheckpointPart]:
        """Return all parts of the training's state, in the order in which they are loaded."""
        parts = {
            "clock": CheckpointPart(lambda: self.steps, self._set_clock),
            "evaluations": CheckpointPart(self.evaluator.state, self.evaluator.load_state),
            "records": CheckpointPart(self._folder.state, self._load_records),
        }
        if self.best:
            parts["best"] = CheckpointPart(self.best.state, self.best.load_state)
        if adapter:
            parts["adapter"] = CheckpointPart(adapter.state, adapter.load_state)
        parts["environments"] = CheckpointPart(
            lambda: read_env_states(self._envs), lambda state: load_env_states(self._envs, state)
        )
        # Last, because loading the parts before may draw random numbers.
        parts["generators"] = CheckpointPart(read_rng_state, load_rng_state)
        return parts

    def _set_clock(self, steps: int) -> None:
        steps = msgspec.convert(steps, Count)
        if steps > self._scheduled_steps:
            raise StateMismatchError(f"step {steps} comes after the last, {self._scheduled_steps}")
        self.events.steps = steps

    def _load_records(self, state: Mapping[str, Any]) -> None:
        planned = list(self.evaluator.list_past_steps())
        arrays = [*state["returns"], *state["lengths"]]
        shape = (self._spec.eval_episodes,)
        fits = all(np.shape(array) == shape for array in arrays)
        # A run with other values could not be read once it is complete.
        fits &= all(_is_within(array, "f", -_MAX_RETURN, _MAX_RETURN) for array in state["returns"])
        fits &= all(_is_within(array, "i", 0, _MAX_LENGTH) for array in state["lengths"])
        if list(state["timesteps"]) != planned or not fits or len(arrays) != 2 * len(planned):
            raise StateMismatchError(f"its evaluations are not those until step {self.steps}")
        self._folder.load_state(state)

    def read_weights(self) -> Weights:
        """Return the current values of all parameters."""
        if self._weights is None:
            raise TrainingError("the adapter has attached no weights")
        return self._weights()

    def get_stored_policy(self) -> StoredPolicy:
        """Return the current policy of the run."""
        return StoredPolicy(self.read_weights(), copy_observation_statistics(self._envs[0]))

    def record(self, metrics: Mapping[str, float]) -> None:
        """Publish values for the trace."""
        self.events.publish(ReportedMetrics(metrics))

    def add_costs(self, parts: Mapping[str, Mapping[str, float]]) -> None:
        """Store the cost of parts of the training, for `run.json`."""
        self.costs |= {name: dict(seconds) for name, seconds in parts.items()}

    def get_normalizer(self) -> Callable[[Any], Any]:
        """Return the current normalization of observations as a function."""
        return make_frozen_normalizer(self._envs[0])

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """Create the next of the `n_envs` training environments."""
        spec = self._spec
        if len(self._envs) == spec.n_envs:
            raise TrainingError(f"upstream makes more than n_envs={spec.n_envs} environments")
        env = make_training_env(
            spec.env,
            wrappers=spec.wrappers,
            gamma=spec.hyperparameters.gamma,
            layers=self._layers,
            options=spec.env_options,
            **self.events.make_env_hooks(),
        )
        if self._envs:
            share_statistics(self._envs[0], env)
        self._envs.append(env)
        return env

    def finish(self, scheduled_steps: int) -> None:
        """Publish the end of training.

        Raises:
            TrainingError: Upstream took another number of steps than was scheduled.
        """
        if self.steps != scheduled_steps:
            raise self._make_steps_error(f"{self.steps} environment steps", scheduled_steps)
        self.events.publish(TrainingEnd())

    def _check_step_is_due(self, step: EnvStep) -> None:
        """Refuse a step after the last one: no safe point may follow.

        A checkpoint holds upstream's counters, such as how many steps it takes between two updates.
        """
        if self.steps >= self._scheduled_steps:
            raise self._make_steps_error("more environment steps", self._scheduled_steps)

    def _make_steps_error(self, taken: str, due: int) -> TrainingError:
        resumed = self.checkpoint_manager and self.checkpoint_manager.has_resumed
        remedy = "; delete the run's folder `checkpoint/`, from which it resumed" if resumed else ""
        return TrainingError(f"upstream took {taken} where {due} were due{remedy}")


def record_run_events(folder: RunFolder, events: TrainingEvents) -> None:
    """Store the trace and the evaluations in a run folder."""

    def end_of_episode(end: EpisodeEnd) -> None:
        values = {"episode/return": end.episode_return, "episode/length": float(end.length)}
        folder.record(events.steps, values)

    events.subscribe(EpisodeEnd, end_of_episode)
    events.subscribe(ReportedMetrics, lambda event: folder.record(events.steps, event.values))
    events.subscribe(
        EvaluationResult,
        lambda event: folder.add_evaluation(events.steps, event.returns, event.lengths),
    )
    events.subscribe(TrainingEnd, lambda _: folder.flush())
