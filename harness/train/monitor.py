"""What an adapter's training reports to, and who listens: evaluation, and the run's files."""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from envs.make import (
    frozen_normalizer,
    make_training_env,
    observation_statistics,
    share_statistics,
)
from harness.contract.adapter import CPU, Loadable, Policy, Resumable, Weights
from harness.contract.events import (
    Attached,
    End,
    EpisodeEnd,
    Evaluation,
    Events,
    Metrics,
    TrainingError,
)
from harness.interventions.catalogue import layers
from harness.record.folder import RunFolder
from harness.record.policy import StoredPolicy
from harness.train import environments, generators
from harness.train.checkpointing import Keeper, Part
from harness.train.evaluation import Evaluator
from harness.train.keeping import Best
from harness.train.prepare import Prepared


class TrainingMonitor:
    """What a training reports to; it tells `events` of what happens and knows nobody who listens.

    It makes the environments, and sees that upstream takes the steps that were scheduled.
    """

    def __init__(self, prepared: Prepared, folder: RunFolder, keeper: Keeper | None = None) -> None:
        """Listens to nothing yet.

        Args:
            prepared: The run.
            folder: What keeps what happens.
            keeper: What keeps the state of the training, if anything does.
        """
        self.events = Events()
        self._spec = spec = prepared.spec
        self._layers = layers(prepared.interventions)
        self._folder, self.keeper = folder, keeper
        self._boundary = keeper.boundary if keeper else _nothing
        self._weights: Callable[[], Weights] | None = None
        self.parts: dict[str, dict[str, float]] = {}
        self._envs: list[gymnasium.Env[Any, Any]] = []
        self.evaluator = Evaluator(spec, self.events, self.normalizer)
        self.best = Best(self.events, self.learned) if spec.keep == "best" else None
        keep(folder, self.events)

    @property
    def steps(self) -> int:
        """Environment steps taken."""
        return self.events.steps

    def attach(
        self,
        policy: Policy,
        weights: Callable[[], Weights],
        loadable: Loadable | None = None,
        resumable: Resumable | None = None,
    ) -> None:
        """Takes what follows the training."""
        self._weights = weights
        lacking = "" if resumable else f"the adapter of {self._spec.framework} {_SILENT}"
        if self._spec.device != CPU:
            resumable, lacking = None, f"device={self._spec.device} {_OWN_LUCK}"
        if self.keeper:
            self.keeper.watch(self._parts(resumable), lacking)
        self.events.tell(Attached(policy, weights))

    def boundary(self) -> None:
        """Keeps the state of the training, if it is time to; at first, may lay one in."""
        self._boundary()

    def _parts(self, resumable: Resumable | None) -> dict[str, Part]:
        """All that a training goes on from; random generators come last."""
        return {
            "clock": Part(lambda: self.steps, self._set_clock),
            "evaluations": Part(self.evaluator.state, self.evaluator.lay_in),
            "records": Part(self._folder.state, self._folder.lay_in),
            **({"best": Part(self.best.state, self.best.lay_in)} if self.best else {}),
            **({"adapter": Part(resumable.state, resumable.lay_in)} if resumable else {}),
            "environments": Part(
                lambda: environments.read(self._envs),
                lambda state: environments.lay_in(self._envs, state),
            ),
            "generators": Part(generators.read, generators.lay_in),
        }

    def _set_clock(self, steps: int) -> None:
        self.events.steps = steps

    def weights(self) -> Weights:
        """All parameters as they are now."""
        if self._weights is None:
            raise TrainingError("the adapter has attached no weights")
        return self._weights()

    def learned(self) -> StoredPolicy:
        """What the run has learned, as it is now."""
        return StoredPolicy(self.weights(), observation_statistics(self._envs[0]))

    def record(self, metrics: Mapping[str, float]) -> None:
        """Tells of values for the trace."""
        self.events.tell(Metrics(metrics))

    def account(self, parts: Mapping[str, Mapping[str, float]]) -> None:
        """Keeps what parts of the training have cost, for `run.json`."""
        self.parts |= {name: dict(seconds) for name, seconds in parts.items()}

    def normalizer(self) -> Callable[[Any], Any]:
        """Today's normalisation of observations, as a function."""
        return frozen_normalizer(self._envs[0])

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """The next of the `n_envs` training environments."""
        if len(self._envs) == self._spec.n_envs:
            raise TrainingError(f"upstream makes more than n_envs={self._spec.n_envs} environments")
        gamma = self._spec.hyperparameters.gamma
        spec, seam = self._spec, self.events.seam()
        env = make_training_env(
            spec.env, wrappers=spec.wrappers, gamma=gamma, layers=self._layers, **seam
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


_OWN_LUCK = "has random generators of its own, which are not kept"
_SILENT = "does not hand out its state (the fourth argument of monitor.attach)"


def _nothing() -> None:
    pass


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
