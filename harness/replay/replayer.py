"""Sampler through which an adapter's buffer uses a replay strategy."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.replay import ReplayConfig, make_replay_config
from parallax.harness.replay.corrected_priorities import AtdcStrategy, ImpStrategy
from parallax.harness.replay.prioritized import (
    ComputeCurrentErrors,
    Floats,
    Indices,
    ProportionalStrategy,
    RankStrategy,
    SumTree,
)


@dataclasses.dataclass
class ReplayTimers:
    """Total times of a training so far, which a resumed training continues.

    They are CPU times of the process, so that other processes on the machine make no difference.

    Attributes:
        sampling: Drawing indices and reading the transitions, corrections of priorities included.
        sweeping: Computing the errors of the whole memory.
        priorities: Correcting weights and storing errors.
        learning: From drawing a minibatch to the end of its last optimizer step, without
            `priorities`.
        measuring: Comparing predicted priorities with real ones, which no training needs.
    """

    minibatches: int = 0
    sampling: float = 0.0
    sweeping: float = 0.0
    priorities: float = 0.0
    learning: float = 0.0
    measuring: float = 0.0
    _since: float | None = None

    @property
    def interleaved_seconds(self) -> float:
        """Return the seconds of the work that only some draws of a minibatch include."""
        return self.sweeping + self.measuring

    def to_dict(self) -> dict[str, float]:
        """Return all totals by name, in seconds except for `minibatches`."""
        names = [field.name for field in dataclasses.fields(self)]
        return {name: float(getattr(self, name)) for name in names if name != "_since"}

    def read_clock(self) -> float:
        """Return the CPU seconds of this process."""
        return time.process_time()

    def add_seconds(self, what: str, started: float) -> None:
        """Add the seconds since `started` to one of the totals; they do not count as learning."""
        seconds = self.read_clock() - started
        setattr(self, what, getattr(self, what) + seconds)
        if self._since is not None:
            self._since += seconds

    def start_learning(self) -> None:
        """Count a minibatch, and start the time of learning from it."""
        self.minibatches += 1
        self._since = self.read_clock()

    def add_learning(self) -> None:
        """Count the time up to an optimizer's step as learning."""
        if self._since is not None:
            now = self.read_clock()
            self.learning += now - self._since
            self._since = now

    def end_learning(self) -> None:
        """End the time that counts as learning from the current minibatch."""
        self._since = None


COMPARISONS_PER_RUN = 30
"""Comparisons in a run, at equal intervals; ten in each third of it."""
TRANSITIONS_PER_COMPARISON = 200
"""Transitions at a comparison; ten of them give the 2000 of each of the paper's stages."""
_MAX_SUMMED_TRANSITIONS = 50_000
"""Maximum of transitions that the real sum includes; drawn uniformly from larger memories."""
# Differs from the stream of sampling; another constant would change the numbers of all runs.
_COMPARISON_STREAM = 0x6C6F6F6B73


@dataclasses.dataclass(frozen=True)
class ProbabilityErrors:
    """Relative errors of probabilities, without unit.

    Attributes:
        mean: Mean of the absolute errors, as in equation 13 but not times 100.
        median: Their median, which a single transition of almost zero error does not dominate.
    """

    mean: float
    median: float


def compare_probabilities(
    strategy: ProportionalStrategy,
    compute_errors: ComputeCurrentErrors,
    generator: np.random.Generator,
) -> ProbabilityErrors | None:
    """Return the errors of predicted probabilities, or None if they cannot be computed."""
    places = np.arange(strategy.size)
    if strategy.size > _MAX_SUMMED_TRANSITIONS:
        places = generator.integers(strategy.size, size=_MAX_SUMMED_TRANSITIONS)
    errors = strategy.check_errors(compute_errors(places))
    powers = strategy.compute_powers(errors)
    # An estimate of the whole memory's sum from the sample of it.
    total = powers.sum() * strategy.size / len(places)
    stored = strategy.compute_probabilities(places)
    if total <= 0 or stored.sum() <= 0:
        return None
    # Probabilities of a sample of the memory do not sum to 1.
    drawn = generator.choice(len(places), TRANSITIONS_PER_COMPARISON, p=stored / stored.sum())
    estimated = strategy.estimate_probabilities(places[drawn], errors[drawn])
    if estimated is None:
        return None
    real = powers[drawn] / total
    # With epsilon=0 a real probability can be 0, of which there is no relative error.
    known = real > 0
    if not known.any():
        return None
    relative = np.abs(estimated[known] - real[known]) / real[known]
    return ProbabilityErrors(float(relative.mean()), float(np.median(relative)))


class ComparisonSchedule:
    """Times of comparison: the middle of each of `COMPARISONS_PER_RUN` equal parts of a run.

    Attributes:
        taken: Number of these points that have passed.
    """

    def __init__(self, seed: int, steps: int) -> None:
        """Create a schedule of which no point has passed."""
        self.taken = 0
        self._steps = steps
        self._generator = np.random.default_rng([seed, _COMPARISON_STREAM])

    def is_due(self, added: int) -> bool:
        """Return whether a point without a comparison has passed after `added` transitions."""
        return self._count_passed_points(added) > self.taken

    def compare(
        self, strategy: ProportionalStrategy, compute_errors: ComputeCurrentErrors
    ) -> ProbabilityErrors | None:
        """Compare now; several points that have passed since the last call count as one."""
        self.taken = self._count_passed_points(strategy.added)
        return compare_probabilities(strategy, compute_errors, self._generator)

    def _count_passed_points(self, added: int) -> int:
        return min(int(added * COMPARISONS_PER_RUN / self._steps + 0.5), COMPARISONS_PER_RUN)


_STRATEGY_CLASSES: Mapping[str, Any] = {
    "per": ProportionalStrategy,
    "rank": RankStrategy,
    "atdc": AtdcStrategy,
    "imp": ImpStrategy,
}
_SAMPLING_STREAM = 0x7265706C6179
"""Separates the random numbers of sampling from all others of the same seed."""

MakeSumTree = Callable[[int], SumTree]


def make_replay_strategy(
    replay: ReplayConfig | Mapping[str, Any], capacity: int, steps: int, tree: MakeSumTree
) -> ProportionalStrategy:
    """Return a replay strategy that stores nothing yet.

    Raises:
        SpecError: The hyperparameters are invalid.
        ValueError: They are those of uniform replay, which is upstream's own.
    """
    checked = replay if isinstance(replay, ReplayConfig) else make_replay_config(replay)
    if checked.is_uniform:
        raise ValueError("replay=uniform needs no strategy.")
    made: ProportionalStrategy = _STRATEGY_CLASSES[checked.name](
        checked, capacity, steps, tree(capacity)
    )
    return made


def make_sampling_generator(seed: int) -> np.random.Generator:
    """Return the generator with which a run draws transitions."""
    return np.random.default_rng([seed, _SAMPLING_STREAM])


def reduce_critic_errors(errors: NDArray[Any], critics: str) -> NDArray[Any]:
    """Return one absolute error for each transition.

    Args:
        errors: Errors of every critic, [critics, n].
        critics: `mean`, `max`, `first`, or `net` for the absolute value of the mean error.
    """
    if critics == "net":
        return np.asarray(np.abs(errors.mean(axis=0)))
    absolute = np.abs(errors)
    if critics == "first":
        return np.asarray(absolute[0])
    return np.asarray(absolute.max(axis=0) if critics == "max" else absolute.mean(axis=0))


_SWEEP_CHUNK = 16_384
"""Transitions whose errors are computed at once in a sweep of the whole memory."""

ComputeCriticErrors = Callable[[Indices], NDArray[Any]]
"""Errors of every critic, [critics, n], of stored transitions under the current networks.

It does not use the training's random numbers.
"""
RecordMetrics = Callable[[Mapping[str, float]], None]


class ReplaySampler:
    """A replay strategy in a training.

    The buffer reports the transitions that it stores, and requests the indices of a minibatch, and
    the weights of the losses once it knows the errors.

    Attributes:
        account: CPU times of its work.
        drawn: Indices of the last minibatch.
    """

    def __init__(self, strategy: ProportionalStrategy, seed: int, steps: int, critics: str) -> None:
        """Create the sampler at the beginning of a training.

        Args:
            strategy: An empty strategy.
            seed: Seed of the run.
            steps: Environment transitions of the whole run.
            critics: As for `reduce_critic_errors`.
        """
        self.strategy, self.account = strategy, ReplayTimers()
        self.drawn: Indices = np.zeros(0, np.int64)
        self._weights: Floats = np.zeros(0)
        self._generator, self._critics = make_sampling_generator(seed), critics
        self._schedule = ComparisonSchedule(seed, steps)
        self._record: RecordMetrics | None = None
        self._is_weight_due = False

    def set_recorder(self, record: RecordMetrics) -> None:
        """Set the function that records how well priorities are predicted."""
        self._record = record

    def draw(self, n: int, critic_errors: ComputeCriticErrors) -> Indices:
        """Return a minibatch's indices; call `compute_loss_weights` before the next one."""
        compute_errors, added = self._make_error_function(critic_errors), self.strategy.added
        self.account.end_learning()
        if self._record and self._schedule.is_due(added):
            started = self.account.read_clock()
            self._is_weight_due = True
            if (found := self._schedule.compare(self.strategy, compute_errors)) is not None:
                self._record({"replay/mape": found.mean, "replay/median_ape": found.median})
            self.account.add_seconds("measuring", started)
        if self.strategy.is_due():
            started = self.account.read_clock()
            self.strategy.sweep(compute_errors)
            self.account.add_seconds("sweeping", started)
        self.drawn, self._weights = self.strategy.sample(self._generator, n)
        return self.drawn

    def compute_loss_weights(self, critic_errors: NDArray[Any]) -> Floats:
        """Return the weights of the losses of the last minibatch, float64[n], and store its errors.

        Args:
            critic_errors: Errors of every critic, [critics, n].
        """
        started = self.account.read_clock()
        errors = reduce_critic_errors(critic_errors, self._critics)
        # Before update: Imp-PER needs the probabilities with which the minibatch was drawn, which
        # update overwrites.
        weights = self.strategy.correct_weights(self.drawn, self._weights, errors)
        self.strategy.update(self.drawn, errors)
        self.account.add_seconds("priorities", started)
        if self._record and self._is_weight_due:
            self._record({"replay/mean_weight": float(np.mean(weights))})
            self._is_weight_due = False
        return weights

    def _make_error_function(
        self, compute_critic_errors: ComputeCriticErrors
    ) -> ComputeCurrentErrors:
        def compute_errors(places: Indices) -> NDArray[Any]:
            starts = range(0, len(places), _SWEEP_CHUNK)
            parts = [
                compute_critic_errors(places[start : start + _SWEEP_CHUNK]) for start in starts
            ]
            return reduce_critic_errors(np.concatenate(parts, axis=1), self._critics)

        return compute_errors


def make_replay_sampler(
    settings: Mapping[str, Any], capacity: int, tree: MakeSumTree
) -> ReplaySampler:
    """Return the sampler for a buffer of `capacity` transitions from a serialized strategy."""
    fields = dict(settings)
    steps, seed = fields.pop("steps"), fields.pop("seed")
    strategy = make_replay_strategy(fields, capacity, steps, tree)
    return ReplaySampler(strategy, seed, steps, fields["critics"])
