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

from harness.contract.adapter import load_adapter
from harness.contract.fields import SpecError
from harness.interventions.catalogue import Intervention, replacement
from harness.probes import parting, telling
from harness.probes.contract import Parameters
from harness.probes.lab import Lab, Run
from harness.probes.parting import Place
from harness.probes.probe import Probe
from harness.probes.results import Answer
from harness.probes.twin_experiments import EXPERIMENTS, MOST, UNITS

LENGTHS = (
    *(1, 2, 3, 4, 6, 8, 10, 14, 20, 30, 50, 70, 100, 140, 200, 300, 500, 700, 1000, 1400, 2000),
)
"""Updates after which weights are compared."""
SOON = 20
"""Updates of a first, short training: most that part do so within."""
ROOM = 100.0
"""How many times further apart than rounding alone two may be."""
LEAST = 1e-6
"""Differences, as a share of the largest weight, that are rounding whatever the copy does."""
LEAST_DOUBLE = 1e-13
"""The same in float64."""
DETAILED = 24
"""Updates that are compared one by one where two part."""
SAYS_LITTLE = 1e-2
"""Where two may be that far apart, as a share of the largest weight, equality says little."""
_SAME_BIAS = 1e-2  # standard deviations that are one, found by trial


@dataclasses.dataclass(frozen=True)
class Side:
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
class Distance:
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
    least: float = LEAST

    @property
    def room(self) -> float:
        """How far apart the two may be."""
        return max(self.least, ROOM * self.rounding)

    @property
    def is_rounding(self) -> bool:
        """Whether the two are no further apart than rounding makes them."""
        return self.apart <= self.room

    @property
    def within_copies(self) -> bool:
        """Whether they are no further apart than two copies of one implementation."""
        return self.apart <= self.rounding


@dataclasses.dataclass(frozen=True)
class How:
    """In which way two are compared.

    Attributes:
        double: Whether they train in float64.
        shared: Whether minibatches are drawn from a stream of transitions that both are given,
            each time other ones, and not always the same.
    """

    double: bool = False
    shared: bool = False


@dataclasses.dataclass(frozen=True)
class Twins:
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

    first: Side
    second: Side
    algorithm: str
    distances: tuple[Distance, ...]
    place: Place | None = None
    probes: tuple[str, ...] = ()

    @property
    def parted(self) -> Distance | None:
        """The first distance that is more than rounding; None where all are rounding."""
        return next((item for item in self.distances if not item.is_rounding), None)

    @property
    def alike(self) -> bool:
        """Whether they learn the same and, before that, do the same."""
        return self.parted is None and self.place is None


def compare(
    first: Side,
    second: Side,
    algorithm: str,
    until: int,
    tell: Callable[[Distance], object] = lambda distance: None,
    how: How | None = None,
) -> Twins:
    """Lets two implementations learn until they part, or for so many updates.

    Args:
        first: One; also whose copy with another last bit shows how rounding grows.
        second: The other.
        algorithm: One of `EXPERIMENTS`.
        until: Most updates, at most `MOST`.
        tell: Is told of each distance.
        how: In which way; by default in float32, on one minibatch.

    Raises:
        SpecError: A framework refuses the common settings, or the algorithm has no twins.
    """
    how = how or How()
    check(algorithm, until, how)
    siblings = Siblings((first, second), algorithm, how)
    found: list[Distance] = []
    for lengths in _stages(until, UNITS.get(algorithm, 1)):
        told, found = len(found), siblings.distances(0, 1, lengths)
        for number, item in enumerate(found, 1):
            if number > told:
                tell(item)
            if not item.is_rounding:
                why = siblings.why(0, 1, item.updates)
                return Twins(first, second, algorithm, tuple(found[:number]), *why)
    return Twins(first, second, algorithm, tuple(found), siblings.before_updates(0, 1))


def check(algorithm: str, until: int, how: How) -> None:
    """Makes sure that implementations can be compared so.

    Raises:
        SpecError: They cannot.
    """
    if algorithm not in EXPERIMENTS:
        raise SpecError(f"--algorithm {algorithm}: twins are there for {', '.join(EXPERIMENTS)}.")
    if not 1 <= until <= MOST:
        raise SpecError(f"--until {until} must be from 1 to {MOST}.")
    if how.shared and algorithm == "ppo":
        raise SpecError("--shared: PPO learns from what its own policy did. Drop --shared.")


class Siblings:
    """Implementations that begin with the weights of the first, and what they have learned.

    A training is carried out once, whatever is asked about it.
    """

    def __init__(self, sides: Sequence[Side], algorithm: str, how: How) -> None:
        """Trains nothing yet."""
        self.sides = tuple(sides)
        self._labs = tuple(Lab(load_adapter(side.framework)) for side in self.sides)
        self._algorithm, self._how = algorithm, how
        self._start: dict[str, Any] = {}

    def distances(self, one: int, other: int, lengths: Sequence[int]) -> list[Distance]:
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
        least, most, found = LEAST_DOUBLE if self._how.double else LEAST, 0.0, []
        for updates in lengths:
            apart, network = _apart(mine[updates], theirs[updates])
            most = max(most, _apart(mine[updates], copies[updates])[0])
            found.append(Distance(updates, apart, network, most, least))
        return found

    def weights(
        self, number: int, lengths: Sequence[int], last_bit: bool = False
    ) -> dict[int, Parameters]:
        """All networks of a side behind each of some updates of one training."""
        unit = UNITS.get(self._algorithm, 1)
        rounds = frozenset(length // unit for length in lengths)
        kept = self._run(number, lengths[-1], last_bit, rounds=rounds).record.kept
        for length in lengths:
            if length // unit not in kept:
                raise SpecError(
                    f"framework={self.sides[number].framework} made fewer than {length} updates "
                    f"of {self._algorithm}."
                )
        return {length: kept[length // unit] for length in lengths}

    def why(self, one: int, other: int, updates: int) -> tuple[Place | None, tuple[str, ...]]:
        """Where two part, and probes that they answer differently."""
        unit = UNITS.get(self._algorithm, 1)
        few = -(-min(updates + 1, DETAILED) // unit) * unit
        first, second = (self._run(number, few, snapshots=4 * few) for number in (one, other))
        asked = telling.differing(self._asking(one), self._asking(other), self._algorithm)
        return parting.first(first, second, self._rounding), asked

    def before_updates(self, one: int, other: int) -> Place | None:
        """What both did differently before any update."""
        unit = UNITS.get(self._algorithm, 1)
        first, second = (self._run(number, unit) for number in (one, other))
        return parting.before_updates(first, second, self._rounding)

    @property
    def _rounding(self) -> float:
        return parting.ROUNDING_DOUBLE if self._how.double else parting.ROUNDING

    def _run(
        self,
        number: int,
        updates: int,
        last_bit: bool = False,
        snapshots: int = 0,
        rounds: frozenset[int] = frozenset(),
    ) -> Run:
        # All begin with the weights of the first one.
        lab = self._labs[number]
        with replacement(self.sides[number].interventions).made():
            made = EXPERIMENTS[self._algorithm](lab, updates, self._how.shared)
            weights = self._alike(made.weights)
            if last_bit:
                weights = {n: _next(array, self._how.double) for n, array in weights.items()}
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

    def _asking(self, number: int) -> telling.Asked:
        def ask(probe: Probe) -> Answer | None:
            with replacement(self.sides[number].interventions).made():
                return telling.answer_of(self._labs[number], probe)

        return ask

    def _alike(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        # What makes a standard deviation is found by trial, for each by itself.
        for name, array in weights.items():
            start = self._start.setdefault(name, array)
            if name == "policy.std.bias" and np.abs(start - array).max() < _SAME_BIAS:
                weights = {**weights, name: start}
        return dict(weights)


def lengths_until(until: int, unit: int = 1) -> list[int]:
    """Updates behind which weights are compared, of whole rounds of so many."""
    wanted = [*(length for length in LENGTHS if length < until), until]
    return list(dict.fromkeys(-(-length // unit) * unit for length in wanted))


def _stages(until: int, unit: int) -> list[list[int]]:
    # A training is as long as the last: a short one says soon of most that they part.
    whole = lengths_until(until, unit)
    soon = [length for length in whole if length <= SOON]
    return [soon, whole] if 0 < len(soon) < len(whole) else [whole]


def _next(array: Any, double: bool) -> Any:
    kind = np.float64 if double else np.float32
    nearby = np.asarray(array, kind)
    return np.nextafter(nearby, kind(np.inf)).astype(np.asarray(array).dtype)


def _apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[float, str]:
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
