"""The first place at which two trainings of one algorithm part, update by update."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from harness.probes.contract import Step
from harness.probes.lab import Run
from harness.probes.probe import Unmeasured
from harness.probes.readings import batch
from harness.probes.results import Array
from harness.probes.world import TERMINATED

ROUNDING = 1e-4
"""Differences, as a share of the largest number, that float32 makes in some updates."""
ROUNDING_DOUBLE = 1e-9
"""The same in float64."""
STORED = ("observations", "actions", "rewards", "terminated")


@dataclasses.dataclass(frozen=True)
class Place:
    """Where two trainings part.

    Attributes:
        update: Number of the update of its network, from 1; 0 before all.
        what: `actions`, `stored ...`, `minibatch`, `gradients` or `weights`.
        network: Which network's, where it is one.
        apart: Largest difference, as a share of the largest number.
    """

    update: int
    what: str
    network: str
    apart: float

    def __str__(self) -> str:
        whose = f" of the {self.network}" if self.network else ""
        when = f"update {self.update}" if self.update else "the steps before updates"
        return f"{when}, in {self.what}{whose}, by {self.apart:.2g} of the largest"


def first(one: Run, other: Run, rounding: float = ROUNDING) -> Place | None:
    """The earliest difference that is more than rounding; None where there is none.

    Before the first update actions and stored transitions are compared, as far as both took steps;
    then, for each update of each network, the minibatch, gradients, and weights behind the step.

    Args:
        one: A training of which all updates were kept.
        other: The same of another implementation.
        rounding: Share of the largest number that is no difference.
    """
    return _beyond(itertools.chain(_before(one, other), _behind(one, other)), rounding)


def before_updates(one: Run, other: Run, rounding: float = ROUNDING) -> Place | None:
    """The first difference of what both did before any update; None where there is none.

    Args:
        one: A training.
        other: The same of another implementation.
        rounding: Share of the largest number that is no difference.
    """
    return _beyond(_before(one, other), rounding)


def _beyond(places: Iterable[Place], rounding: float) -> Place | None:
    return next((place for place in places if place.apart > rounding), None)


def _before(one: Run, other: Run) -> Iterator[Place]:
    steps = min(_warm_up(one), _warm_up(other))
    yield Place(0, "actions", "", _apart(_acted(one)[:steps], _acted(other)[:steps]))
    if one.experiment.algorithm != "ppo":  # its rollouts hold what networks put out
        for name in STORED:
            a, b = one.record.stored.get(name), other.record.stored.get(name)
            if a is not None and b is not None and a[:steps].shape == b[:steps].shape:
                yield Place(0, f"stored {name}", "", _apart(a[:steps], b[:steps]))
        yield from _next(one, other, steps)


def _behind(one: Run, other: Run) -> Iterator[Place]:
    theirs: dict[str, list[Step]] = {}
    for step in other.record.steps:
        for network in step.networks:
            theirs.setdefault(network, []).append(step)
    taken: dict[str, int] = {}
    for step in one.record.steps:
        for network in step.networks:
            number = taken[network] = taken.get(network, 0) + 1
            if step.after and number <= len(theirs.get(network, ())):
                there = theirs[network][number - 1]
                if there.after:
                    yield from _targets(number, step, there)
                    yield from _update(number, network, (one, step), (other, there))


def _acted(run: Run) -> Array:
    # Upstream or a wrapper cuts actions at the bounds; no wrapper is around a dictated world.
    low, high = run.experiment.dictation.low, run.experiment.dictation.high
    return np.clip(run.actions(), low, high) if low else run.actions()


def _next(one: Run, other: Run, steps: int) -> Iterator[Place]:
    # What follows an end of the task is learned from by nobody.
    found = []
    for run in (one, other):
        rows = run.record.stored.get("next_observations")
        if rows is None or len(rows) < steps:
            return
        goes_on = run.experiment.dictation.ends[:steps] != TERMINATED
        found.append(rows[:steps][goes_on])
    yield Place(0, "stored next observations", "", _apart(*found))


def _warm_up(run: Run) -> int:
    # Off-policy algorithms learn from steps of the warm-up here, and from no later ones.
    steps = run.record.steps
    most = getattr(run.hyperparameters, "learning_starts", len(run.transitions))
    return min(most, steps[0].env_steps) if steps else most


def _update(
    number: int, network: str, one: tuple[Run, Step], other: tuple[Run, Step]
) -> Iterator[Place]:
    if network.startswith("critic"):
        seen = [_minibatch(run, step) for run, step in (one, other)]
        if seen[0] is not None and seen[1] is not None:
            yield Place(number, "minibatch", network, _apart(seen[0], seen[1]))
    (_, a), (_, b) = one, other
    yield Place(number, "gradients", network, _of(network, a.gradients, b.gradients))
    yield Place(number, "weights", network, _of(network, a.after, b.after))


def _targets(number: int, one: Step, other: Step) -> Iterator[Place]:
    # As they are before an update: what the one before left behind.
    if not any(network == "critic1" for network in one.networks):
        return
    for network in sorted({n.split(".")[0] for n in one.before if "_target." in n}):
        yield Place(number - 1, "weights", network, _of(network, one.before, other.before))


def _minibatch(run: Run, step: Step) -> Array | None:
    try:
        return np.sort(batch(run, step).observations, axis=0)
    except Unmeasured:
        return None


def _of(network: str, one: Mapping[str, Array], other: Mapping[str, Array]) -> float:
    names = [n for n in one.keys() & other.keys() if n.split(".")[0] == network]
    if not names:
        return 0.0
    return _apart(
        np.concatenate([one[name].ravel() for name in names]),
        np.concatenate([other[name].ravel() for name in names]),
    )


def _apart(one: Array, other: Array) -> float:
    if one.shape != other.shape:
        return float("inf")
    largest = float(np.abs(other).max(initial=1e-12))
    return float(np.abs(one - other).max(initial=0.0)) / largest
