"""Lockstep training: two implementations on identical weights and data, update by update.

Both start from the same weights and learn from the same minibatches with the same random numbers,
each in its own code. If every known difference is removed by interventions, only rounding remains
between their weights. The growth of rounding alone is measured with a copy of the first
implementation whose initial weights differ in the last bit.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from parallax.harness.contract.acceleration import NO_ACCELERATION
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.own_script import OwnScript
from parallax.harness.contract.probing.protocol import Parameters
from parallax.harness.interventions.catalogue import Intervention
from parallax.harness.lockstep import first_divergence
from parallax.harness.lockstep.experiments import (
    EXPERIMENT_BUILDERS,
    MAX_UPDATES,
    UPDATES_PER_CYCLE,
    LockstepVariant,
    align_networks,
    load_variants,
    round_up_updates,
)
from parallax.harness.lockstep.first_divergence import DivergencePoint
from parallax.harness.probes import catalogue
from parallax.harness.probes.experiments import (
    OWN_DEFAULTS,
    AlignmentLevel,
    ExperimentCache,
    ProbeRun,
)
from parallax.harness.probes.probe import Probe
from parallax.harness.probes.results import ProbeAnswer

CHECKED_UPDATES = (
    *(1, 2, 3, 4, 6, 8, 10, 14, 20, 30, 50, 70, 100, 140, 200, 300, 500, 700, 1000, 1400, 2000),
)
"""Numbers of updates after which weights are compared."""
FIRST_STAGE_UPDATES = 20
"""Updates of a first, short training: most pairs that diverge do so within it."""
ROUNDING_FACTOR = 100.0
"""Factor by which a difference may exceed that of rounding alone."""
MIN_DIFFERENCE_FLOAT32 = 1e-6
"""Differences, as a share of the largest weight, that always count as rounding."""
MIN_DIFFERENCE_FLOAT64 = 1e-13
"""The same in float64."""
MAX_DETAILED_UPDATES = 24
"""Number of updates that are compared individually after a divergence."""
UNINFORMATIVE_DIFFERENCE = 1e-2
"""Allowed difference, as a share of the largest weight, above which equality says little."""
# SAC: the bias that gives one standard deviation is searched for in each implementation.
_STD_BIAS_TOLERANCE = 1e-2


@dataclasses.dataclass(frozen=True)
class LockstepSide:
    """One implementation.

    Attributes:
        framework: Name of the framework.
        interventions: Changes of its code or settings.
        script: The user's own copy of its script, which is run instead of it.
        acceleration: How its updates are accelerated, or `none`.
    """

    framework: str
    interventions: tuple[Intervention, ...] = ()
    script: OwnScript | None = None
    acceleration: str = NO_ACCELERATION

    @property
    def label(self) -> str:
        """Implementation and names of the interventions and of the acceleration."""
        script, name = self.script, self.framework
        name = script.name_implementation(name) if script else name
        names = [name, *(item.name for item in self.interventions)]
        if self.acceleration != NO_ACCELERATION:
            names.append(self.acceleration)
        return "+".join(names)


@dataclasses.dataclass(frozen=True)
class WeightDistance:
    """Difference of the weights after some updates.

    Attributes:
        updates: Updates of the critics, or of PPO's networks.
        difference: Largest difference of the two implementations, as a share of the largest weight
            of its network.
        network: Network with that difference.
        rounding: The same for two copies of the first one that start one bit apart: the maximum so
            far, because the difference grows, but unevenly.
        min_difference: Difference that always counts as rounding.
    """

    updates: int
    difference: float
    network: str
    rounding: float
    min_difference: float = MIN_DIFFERENCE_FLOAT32

    @property
    def allowed_difference(self) -> float:
        """Largest difference that counts as rounding."""
        return max(self.min_difference, ROUNDING_FACTOR * self.rounding)

    @property
    def is_rounding(self) -> bool:
        """Return whether the difference is explained by rounding."""
        return self.difference <= self.allowed_difference

    @property
    def is_within_perturbation(self) -> bool:
        """Return whether the difference is at most that of two copies of one implementation."""
        return self.difference <= self.rounding

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, with the keys of stored files."""
        return {
            "updates": self.updates,
            "apart": self.difference,
            "network": self.network,
            "rounding": self.rounding,
            "least": self.min_difference,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        return cls(
            content["updates"],
            content["apart"],
            content["network"],
            content["rounding"],
            content["least"],
        )


@dataclasses.dataclass(frozen=True)
class LockstepOptions:
    """Options of a lockstep comparison.

    Attributes:
        float64: Whether both train in float64.
        shared_stream: Whether a new minibatch is drawn for each update from one stream of
            transitions that both receive; otherwise all updates use the same minibatch.
        level: Alignment of the hyperparameters.
    """

    float64: bool = False
    shared_stream: bool = False
    level: AlignmentLevel = OWN_DEFAULTS


@dataclasses.dataclass(frozen=True)
class LockstepResult:
    """Result of a lockstep comparison.

    Attributes:
        first: First implementation.
        second: Second implementation.
        algorithm: Name of the algorithm.
        distances: Distances after increasing numbers of updates, up to the first above rounding.
        divergence_point: First difference, searched update by update; None if there is none or no
            single update shows it. If weights stay equal, it is before all updates: the two act
            differently, which does not change the scripted data that they learn from.
        probes: Names of probes of updates that the two answer differently.
        variant: Settings with which the two differ although they are equal without them.
    """

    first: LockstepSide
    second: LockstepSide
    algorithm: str
    distances: tuple[WeightDistance, ...]
    divergence_point: DivergencePoint | None = None
    probes: tuple[str, ...] = ()
    variant: str = ""

    @property
    def divergence(self) -> WeightDistance | None:
        """First distance that exceeds rounding, or None."""
        return next((item for item in self.distances if not item.is_rounding), None)

    @property
    def bit_equal_updates(self) -> int:
        """Number of updates up to which all compared weights are equal to the last bit."""
        equal = itertools.takewhile(lambda item: item.difference == 0, self.distances)
        return max((item.updates for item in equal), default=0)

    @property
    def is_equal(self) -> bool:
        """Return whether both learn the same and act the same before they learn."""
        return self.divergence is None and self.divergence_point is None


def compare_implementations(
    first: LockstepSide,
    second: LockstepSide,
    algorithm: str,
    updates: int,
    on_distance: Callable[[WeightDistance], object] = lambda distance: None,
    options: LockstepOptions | None = None,
    on_training: Callable[[int], object] = lambda updates: None,
) -> LockstepResult:
    """Train two implementations side by side until they diverge, or for `updates` updates.

    Args:
        first: First implementation; its copy that starts one bit apart shows how rounding grows.
        second: Second implementation.
        algorithm: One of `EXPERIMENT_BUILDERS`.
        updates: Number of updates, at most `MAX_UPDATES`.
        on_distance: Called with each distance.
        options: By default float32 and one minibatch.
        on_training: Called after each training with the number of its updates;
            `count_training_updates` is their sum.

    Raises:
        SpecError: A framework refuses the common settings, or the algorithm is not supported.
    """
    options = options or LockstepOptions()
    check_comparison(algorithm, updates, options)
    trainings = LockstepTrainings((first, second), algorithm, options, on_training)
    distances: list[WeightDistance] = []
    for lengths in _split_into_stages(algorithm, updates):
        reported, distances = len(distances), trainings.measure_distances(0, 1, lengths)
        for number, item in enumerate(distances, 1):
            if number > reported:
                on_distance(item)
            if not item.is_rounding:
                why = trainings.explain_divergence(0, 1, item.updates)
                return LockstepResult(first, second, algorithm, tuple(distances[:number]), *why)
    before = trainings.find_divergence_before_updates(0, 1)
    variant, point = ("", before) if before else trainings.find_difference_in_variants(0, 1)
    probes = () if point is None else trainings.list_differing_probes(0, 1)
    return LockstepResult(first, second, algorithm, tuple(distances), point, probes, variant)


def check_comparison(algorithm: str, updates: int, options: LockstepOptions) -> None:
    """Check that a comparison is possible.

    Raises:
        SpecError: It is not possible; the message says why.
    """
    if algorithm not in EXPERIMENT_BUILDERS:
        raise SpecError(
            f"--algorithms {algorithm} has no lockstep experiment: use one of "
            f"{', '.join(EXPERIMENT_BUILDERS)}."
        )
    if not 1 <= updates <= MAX_UPDATES:
        raise SpecError(f"--updates {updates} must be from 1 to {MAX_UPDATES}.")
    if options.shared_stream and algorithm == "ppo":
        raise SpecError(
            "--shared is for off-policy algorithms: PPO learns from its own rollouts. "
            "Drop --shared."
        )


class LockstepTrainings:
    """Trainings of several implementations that all start from the weights of the first.

    Each training is carried out once and cached.
    """

    def __init__(
        self,
        sides: Sequence[LockstepSide],
        algorithm: str,
        options: LockstepOptions,
        on_training: Callable[[int], object] = lambda updates: None,
    ) -> None:
        """Prepare the caches; nothing is trained yet."""
        self._on_training = on_training
        self.sides = tuple(sides)
        self._caches = tuple(
            ExperimentCache(
                load_adapter(side.framework),
                interventions=side.interventions,
                level=options.level,
                script=side.script,
                acceleration=side.acceleration,
            )
            for side in self.sides
        )
        self._algorithm, self._options = algorithm, options
        align_networks(self._caches, algorithm)
        self._initial_weights: dict[str, Any] = {}

    def measure_distances(
        self, one: int, other: int, lengths: Sequence[int], copied: int | None = None
    ) -> list[WeightDistance]:
        """Compare the weights of two implementations after each of some updates.

        Args:
            one: Number of a side.
            other: Number of another side.
            lengths: Numbers of updates, increasing, of whole update cycles.
            copied: Number of the side whose copies show how rounding grows; None for `one`.

        Raises:
            SpecError: A framework refuses the settings, or makes fewer updates.
        """
        copied = one if copied is None else copied
        mine, theirs = (self.train_weights(number, lengths) for number in (one, other))
        original = mine if copied == one else self.train_weights(copied, lengths)
        copies = self.train_weights(copied, lengths, last_bit=True)
        minimum = MIN_DIFFERENCE_FLOAT64 if self._options.float64 else MIN_DIFFERENCE_FLOAT32
        max_rounding, distances = 0.0, []
        for updates in lengths:
            difference, network = _compute_weight_distance(mine[updates], theirs[updates])
            rounding, _ = _compute_weight_distance(original[updates], copies[updates])
            max_rounding = max(max_rounding, rounding)
            distances.append(WeightDistance(updates, difference, network, max_rounding, minimum))
        return distances

    def train_weights(
        self, number: int, lengths: Sequence[int], last_bit: bool = False
    ) -> dict[int, Parameters]:
        """Return all networks of a side after each of some updates of one training."""
        unit = UPDATES_PER_CYCLE.get(self._algorithm, 1)
        cycles = frozenset(length // unit for length in lengths)
        saved = self._run_side(number, lengths[-1], last_bit, cycles=cycles).record.saved_weights
        self._on_training(lengths[-1])
        for length in lengths:
            if length // unit not in saved:
                raise SpecError(
                    f"framework={self.sides[number].framework} made fewer than {length} updates "
                    f"of {self._algorithm}."
                )
        return {length: saved[length // unit] for length in lengths}

    def explain_divergence(
        self, one: int, other: int, updates: int
    ) -> tuple[DivergencePoint | None, tuple[str, ...]]:
        """Return the first difference, and the probes that are answered differently."""
        few = round_up_updates(self._algorithm, min(updates + 1, MAX_DETAILED_UPDATES))
        return self._find_first(one, other, few), self.list_differing_probes(one, other)

    def record_updates(
        self, number: int, updates: int, variant: LockstepVariant | None = None
    ) -> ProbeRun:
        """Return a training of a side with gradients and weights of each update."""
        return self._run_side(number, updates, snapshots=4 * updates, variant=variant)

    def find_difference_in_variants(
        self, one: int, other: int
    ) -> tuple[str, DivergencePoint | None]:
        """Return the name of the first further training that differs, and its first difference.

        The name is empty and the point is None if there is none.
        """
        for variant in load_variants(self._algorithm, self._has_same_code(one, other)):
            try:
                point = self._find_first(one, other, variant.updates, variant)
            except SpecError:  # a framework does not take these settings
                continue
            if point is not None:
                return variant.name, point
        return "", None

    def _find_first(
        self, one: int, other: int, updates: int, variant: LockstepVariant | None = None
    ) -> DivergencePoint | None:
        first, second = (self.record_updates(number, updates, variant) for number in (one, other))
        if self._has_same_code(one, other):
            return first_divergence.find_first_change(first, second)
        if variant is None:
            return first_divergence.find_first_divergence(first, second, self._rounding)
        # Use float32's tolerance: small constants in denominators must not count as a difference.
        point = first_divergence.find_first_divergence(first, second)
        return point or first_divergence.find_missing_update(first, second)

    def _has_same_code(self, one: int, other: int) -> bool:
        # Interventions are small changes: without them, every bit is the same.
        sides = [dataclasses.replace(self.sides[n], interventions=()) for n in (one, other)]
        return sides[0] == sides[1]

    def list_differing_probes(self, one: int, other: int) -> tuple[str, ...]:
        """Return the names of the probes that the two answer differently."""
        return catalogue.list_differing_probes(
            self._make_answer_probe(one), self._make_answer_probe(other), self._algorithm
        )

    def find_divergence_before_updates(self, one: int, other: int) -> DivergencePoint | None:
        """Return the first difference before any update."""
        unit = UPDATES_PER_CYCLE.get(self._algorithm, 1)
        first, second = (self._run_side(number, unit) for number in (one, other))
        return first_divergence.find_divergence_before_updates(first, second, self._rounding)

    @property
    def _rounding(self) -> float:
        if self._options.float64:
            return first_divergence.ROUNDING_FLOAT64
        return first_divergence.ROUNDING_FLOAT32

    def _run_side(
        self,
        number: int,
        updates: int,
        last_bit: bool = False,
        snapshots: int = 0,
        cycles: frozenset[int] = frozenset(),
        variant: LockstepVariant | None = None,
    ) -> ProbeRun:
        cache = self._caches[number]
        # With the first side's weights, also where a change moves what the search for them finds.
        source = next(n for n in range(number + 1) if self._has_same_code(n, number))
        experiment = EXPERIMENT_BUILDERS[self._algorithm](
            self._caches[source], updates, self._options.shared_stream
        )
        experiment = variant.apply(experiment, self._caches) if variant else experiment
        weights = self._align_std_bias(experiment.weights)
        if last_bit:
            weights = {
                n: _perturb_last_bit(array, self._options.float64) for n, array in weights.items()
            }
        return cache.run(
            dataclasses.replace(
                experiment,
                name=f"{experiment.name}, {last_bit}, {snapshots}, {sorted(cycles)}, {variant}",
                weights=weights,
                snapshots=snapshots,
                float64=self._options.float64,
                saved_cycles=cycles,
            )
        )

    def _make_answer_probe(self, number: int) -> catalogue.AnswerProbe:
        def answer(probe: Probe) -> ProbeAnswer | None:
            return catalogue.measure_answer(self._caches[number], probe)

        return answer

    def _align_std_bias(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        # All start from the weights of the first side. The bias that gives SAC's policy one
        # standard deviation is searched for in each implementation and may differ by the search's
        # error: then the first side's is used. A larger difference is real and stays.
        for name, array in weights.items():
            start = self._initial_weights.setdefault(name, array)
            if name == "policy.std.bias" and np.abs(start - array).max() < _STD_BIAS_TOLERANCE:
                weights = {**weights, name: start}
        return dict(weights)


def list_update_counts(algorithm: str, updates: int) -> list[int]:
    """Return the numbers of updates after which weights are compared, of whole update cycles."""
    counts = [*(count for count in CHECKED_UPDATES if count < updates), updates]
    return list(dict.fromkeys(round_up_updates(algorithm, count) for count in counts))


def count_training_updates(algorithm: str, updates: int) -> int:
    """Return the updates of all trainings of a comparison: three trainings per stage."""
    return 3 * sum(lengths[-1] for lengths in _split_into_stages(algorithm, updates))


def _split_into_stages(algorithm: str, updates: int) -> list[list[int]]:
    # A training runs to the last count; most divergences already show in a short one.
    counts = list_update_counts(algorithm, updates)
    first = [count for count in counts if count <= FIRST_STAGE_UPDATES]
    return [first, counts] if 0 < len(first) < len(counts) else [counts]


def _perturb_last_bit(array: Any, float64: bool) -> Any:
    kind = np.float64 if float64 else np.float32
    return np.nextafter(np.asarray(array, kind), kind(np.inf)).astype(np.asarray(array).dtype)


def _compute_weight_distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[float, str]:
    """Return the largest difference as a share of its network's largest weight, and the network."""
    networks = sorted({name.split(".")[0] for name in one.keys() & other.keys()})
    if not networks:
        raise SpecError("the two implementations have no network of the same name.")
    found = []
    for network in networks:
        names = [name for name in one.keys() & other.keys() if name.split(".")[0] == network]
        largest = max(float(np.abs(one[name]).max()) for name in names)
        difference = max(float(np.abs(one[name] - other[name]).max()) for name in names)
        found.append((difference / max(largest, 1e-12), network))
    return max(found)
