"""Two implementations that learn the same from the same: how far apart they are, and from where.

Both start from the same weights and learn, update after update, from the same minibatch with the
same random numbers, each in its own code. What remains between them is rounding, if every known
difference has been taken away; how fast rounding alone grows shows a copy of the first one, of
whose weights the last bit was changed.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from parallax.harness.contract.adapter import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.probing.protocol import Parameters
from parallax.harness.interventions.catalogue import Intervention, make_replacement
from parallax.harness.lockstep import first_divergence
from parallax.harness.lockstep.experiments import (
    EXPERIMENT_BUILDERS,
    MAX_UPDATES,
    UPDATES_PER_CYCLE,
)
from parallax.harness.lockstep.first_divergence import DivergencePoint
from parallax.harness.probes import catalogue
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.probe import Probe
from parallax.harness.probes.results import ProbeAnswer

CHECKED_UPDATES = (
    *(1, 2, 3, 4, 6, 8, 10, 14, 20, 30, 50, 70, 100, 140, 200, 300, 500, 700, 1000, 1400, 2000),
)
"""Updates after which weights are compared."""
FIRST_STAGE_UPDATES = 20
"""Updates of a first, short training: most that part do so within."""
ROUNDING_FACTOR = 100.0
"""How many times further apart than rounding alone two may be."""
MIN_DIFFERENCE_FLOAT32 = 1e-6
"""Differences, as a share of the largest weight, that are rounding whatever the copy does."""
MIN_DIFFERENCE_FLOAT64 = 1e-13
"""The same in float64."""
MAX_DETAILED_UPDATES = 24
"""Updates that are compared one by one where two part."""
UNINFORMATIVE_DIFFERENCE = 1e-2
"""Where two may be that far apart, as a share of the largest weight, equality says little."""
_STD_BIAS_TOLERANCE = 1e-2  # standard deviations that are one, found by trial


@dataclasses.dataclass(frozen=True)
class LockstepSide:
    """One implementation.

    Attributes:
        framework: Its name.
        interventions: What is changed of it.
    """

    framework: str
    interventions: tuple[Intervention, ...] = ()

    @property
    def label(self) -> str:
        """For messages."""
        return "+".join((self.framework, *(item.name for item in self.interventions)))


@dataclasses.dataclass(frozen=True)
class WeightDistance:
    """How far apart weights are after some updates.

    Attributes:
        updates: Updates of the critics, or of PPO's networks.
        apart: Largest difference of the two implementations, as a share of the largest weight of
            its network.
        network: Where that is.
        rounding: The same of two copies of the first one that differ in the last bit: the most
            up to here, since it grows, and by chance not evenly.
        least: Difference that is rounding whatever the copy does.
    """

    updates: int
    apart: float
    network: str
    rounding: float
    least: float = MIN_DIFFERENCE_FLOAT32

    @property
    def allowed_difference(self) -> float:
        """How far apart the two may be."""
        return max(self.least, ROUNDING_FACTOR * self.rounding)

    @property
    def is_rounding(self) -> bool:
        """Whether the two are no further apart than rounding makes them."""
        return self.apart <= self.allowed_difference

    @property
    def is_within_perturbation(self) -> bool:
        """Whether they are no further apart than two copies of one implementation."""
        return self.apart <= self.rounding


@dataclasses.dataclass(frozen=True)
class LockstepOptions:
    """In which way two are compared.

    Attributes:
        double: Whether they train in float64.
        shared: Whether minibatches are drawn from a stream of transitions that both are given,
            each time other ones, and not always the same.
    """

    double: bool = False
    shared: bool = False


@dataclasses.dataclass(frozen=True)
class LockstepResult:
    """What became of two implementations.

    Attributes:
        first: One.
        second: The other.
        algorithm: What they trained.
        distances: After more and more updates; none behind the first that is more than rounding.
        place: Where they part first, looked for update by update; None where they do not, or
            where no single update shows it. Where weights stay equal it lies before all updates:
            what both do differs there, and in a dictated world nobody learns from that.
        probes: Those about updates that the two answer differently.
    """

    first: LockstepSide
    second: LockstepSide
    algorithm: str
    distances: tuple[WeightDistance, ...]
    place: DivergencePoint | None = None
    probes: tuple[str, ...] = ()

    @property
    def parted(self) -> WeightDistance | None:
        """The first distance that is more than rounding; None where all are rounding."""
        return next((item for item in self.distances if not item.is_rounding), None)

    @property
    def is_equal(self) -> bool:
        """Whether they learn the same and, before that, do the same."""
        return self.parted is None and self.place is None


def compare_implementations(
    first: LockstepSide,
    second: LockstepSide,
    algorithm: str,
    until: int,
    on_distance: Callable[[WeightDistance], object] = lambda distance: None,
    options: LockstepOptions | None = None,
) -> LockstepResult:
    """Lets two implementations learn until they part, or for so many updates.

    Args:
        first: One; also whose copy with another last bit shows how rounding grows.
        second: The other.
        algorithm: One of `EXPERIMENT_BUILDERS`.
        until: Most updates, at most `MOST`.
        on_distance: Is told of each distance.
        options: In which way; by default in float32, on one minibatch.

    Raises:
        SpecError: A framework refuses the common settings, or the algorithm has no twins.
    """
    options = options or LockstepOptions()
    check_comparison(algorithm, until, options)
    siblings = LockstepTrainings((first, second), algorithm, options)
    found: list[WeightDistance] = []
    for lengths in _split_into_stages(until, UPDATES_PER_CYCLE.get(algorithm, 1)):
        told, found = len(found), siblings.distances(0, 1, lengths)
        for number, item in enumerate(found, 1):
            if number > told:
                on_distance(item)
            if not item.is_rounding:
                why = siblings.explain_divergence(0, 1, item.updates)
                return LockstepResult(first, second, algorithm, tuple(found[:number]), *why)
    return LockstepResult(
        first, second, algorithm, tuple(found), siblings.find_divergence_before_updates(0, 1)
    )


def check_comparison(algorithm: str, until: int, how: LockstepOptions) -> None:
    """Makes sure that implementations can be compared so.

    Raises:
        SpecError: They cannot.
    """
    if algorithm not in EXPERIMENT_BUILDERS:
        raise SpecError(
            f"--algorithms {algorithm} has no lockstep experiment. "
            f"Known: {', '.join(EXPERIMENT_BUILDERS)}."
        )
    if not 1 <= until <= MAX_UPDATES:
        raise SpecError(f"--updates {until} must be from 1 to {MAX_UPDATES}.")
    if how.shared and algorithm == "ppo":
        raise SpecError("--shared: PPO learns from what its own policy did. Drop --shared.")


class LockstepTrainings:
    """Implementations that begin with the weights of the first, and what they have learned.

    A training is carried out once, whatever is asked about it.
    """

    def __init__(self, sides: Sequence[LockstepSide], algorithm: str, how: LockstepOptions) -> None:
        """Trains nothing yet."""
        self.sides = tuple(sides)
        self._labs = tuple(ExperimentCache(load_adapter(side.framework)) for side in self.sides)
        self._algorithm, self._how = algorithm, how
        self._start: dict[str, Any] = {}

    def distances(self, one: int, other: int, lengths: Sequence[int]) -> list[WeightDistance]:
        """How far two are apart behind each of some updates.

        Args:
            one: Number of a side; its copy with another last bit shows how rounding grows.
            other: Of another.
            lengths: Updates, rising, of whole rounds.

        Raises:
            SpecError: A framework refuses the settings, or makes fewer updates.
        """
        mine, theirs = (self.weights(number, lengths) for number in (one, other))
        copies = self.weights(one, lengths, last_bit=True)
        least, most, found = (
            MIN_DIFFERENCE_FLOAT64 if self._how.double else MIN_DIFFERENCE_FLOAT32,
            0.0,
            [],
        )
        for updates in lengths:
            apart, network = _compute_weight_distance(mine[updates], theirs[updates])
            most = max(most, _compute_weight_distance(mine[updates], copies[updates])[0])
            found.append(WeightDistance(updates, apart, network, most, least))
        return found

    def weights(
        self, number: int, lengths: Sequence[int], last_bit: bool = False
    ) -> dict[int, Parameters]:
        """All networks of a side behind each of some updates of one training."""
        unit = UPDATES_PER_CYCLE.get(self._algorithm, 1)
        rounds = frozenset(length // unit for length in lengths)
        kept = self._run_side(number, lengths[-1], last_bit, rounds=rounds).record.kept
        for length in lengths:
            if length // unit not in kept:
                raise SpecError(
                    f"framework={self.sides[number].framework} made fewer than {length} updates "
                    f"of {self._algorithm}."
                )
        return {length: kept[length // unit] for length in lengths}

    def explain_divergence(
        self, one: int, other: int, updates: int
    ) -> tuple[DivergencePoint | None, tuple[str, ...]]:
        """Where two part, and probes that they answer differently."""
        unit = UPDATES_PER_CYCLE.get(self._algorithm, 1)
        few = -(-min(updates + 1, MAX_DETAILED_UPDATES) // unit) * unit
        first, second = (self._run_side(number, few, snapshots=4 * few) for number in (one, other))
        asked = catalogue.list_differing_probes(
            self._make_answer_probe(one), self._make_answer_probe(other), self._algorithm
        )
        return first_divergence.find_first_divergence(first, second, self._rounding), asked

    def find_divergence_before_updates(self, one: int, other: int) -> DivergencePoint | None:
        """What both did differently before any update."""
        unit = UPDATES_PER_CYCLE.get(self._algorithm, 1)
        first, second = (self._run_side(number, unit) for number in (one, other))
        return first_divergence.find_divergence_before_updates(first, second, self._rounding)

    @property
    def _rounding(self) -> float:
        return (
            first_divergence.ROUNDING_FLOAT64
            if self._how.double
            else first_divergence.ROUNDING_FLOAT32
        )

    def _run_side(
        self,
        number: int,
        updates: int,
        last_bit: bool = False,
        snapshots: int = 0,
        rounds: frozenset[int] = frozenset(),
    ) -> ProbeRun:
        # All begin with the weights of the first one.
        lab = self._labs[number]
        with make_replacement(self.sides[number].interventions).apply_replacement():
            made = EXPERIMENT_BUILDERS[self._algorithm](lab, updates, self._how.shared)
            weights = self._align_std_bias(made.weights)
            if last_bit:
                weights = {
                    n: _perturb_last_bit(array, self._how.double) for n, array in weights.items()
                }
            return lab.run(
                dataclasses.replace(
                    made,
                    name=f"{made.name}, {last_bit}, {snapshots}, {sorted(rounds)}",
                    weights=weights,
                    snapshots=snapshots,
                    double=self._how.double,
                    kept=rounds,
                )
            )

    def _make_answer_probe(self, number: int) -> catalogue.AnswerProbe:
        def ask(probe: Probe) -> ProbeAnswer | None:
            with make_replacement(self.sides[number].interventions).apply_replacement():
                return catalogue.measure_answer(self._labs[number], probe)

        return ask

    def _align_std_bias(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        # What makes a standard deviation is found by trial, for each by itself.
        for name, array in weights.items():
            start = self._start.setdefault(name, array)
            if name == "policy.std.bias" and np.abs(start - array).max() < _STD_BIAS_TOLERANCE:
                weights = {**weights, name: start}
        return dict(weights)


def list_update_counts(until: int, unit: int = 1) -> list[int]:
    """Updates behind which weights are compared, of whole rounds of so many."""
    wanted = [*(length for length in CHECKED_UPDATES if length < until), until]
    return list(dict.fromkeys(-(-length // unit) * unit for length in wanted))


def _split_into_stages(until: int, unit: int) -> list[list[int]]:
    # A training is as long as the last: a short one says soon of most that they part.
    whole = list_update_counts(until, unit)
    soon = [length for length in whole if length <= FIRST_STAGE_UPDATES]
    return [soon, whole] if 0 < len(soon) < len(whole) else [whole]


def _perturb_last_bit(array: Any, double: bool) -> Any:
    kind = np.float64 if double else np.float32
    nearby = np.asarray(array, kind)
    return np.nextafter(nearby, kind(np.inf)).astype(np.asarray(array).dtype)


def _compute_weight_distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[float, str]:
    """Largest difference as a share of the network's largest weight, and in which network."""
    networks = sorted({name.split(".")[0] for name in one.keys() & other.keys()})
    if not networks:
        raise SpecError("the two implementations have no network of the same name.")
    found = []
    for network in networks:
        names = [name for name in one.keys() & other.keys() if name.split(".")[0] == network]
        largest = max(float(np.abs(one[name]).max()) for name in names)
        away = max(float(np.abs(one[name] - other[name]).max()) for name in names)
        found.append((away / max(largest, 1e-12), network))
    return max(found)
