"""First difference between two trainings: actions, minibatch, gradients or weights."""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import OptimizerStepRecord
from parallax.harness.contract.probing.scripted_env import TERMINATED
from parallax.harness.probes.experiments import ProbeRun
from parallax.harness.probes.measurements import find_minibatch
from parallax.harness.probes.probe import UnmeasuredError

ROUNDING_FLOAT32 = 1e-4
"""Difference, as a share of the largest number, that float32 rounding makes in a few updates."""
ROUNDING_FLOAT64 = 1e-9
"""The same in float64."""
FEWEST_UPDATES = 3
"""Updates of a network by one training that the other must have begun, too."""
SMALLEST_SCALE = 1e-6
"""Scale from the actions taken to those stored, below which they are unrelated."""
STORED_ARRAYS = ("observations", "actions", "rewards", "terminated")


@dataclasses.dataclass(frozen=True)
class DivergencePoint:
    """Point at which two trainings differ.

    Attributes:
        update: Number of the update of its network, from 1; 0 before all updates.
        quantity: `actions`, `stored ...`, `minibatch`, `gradients`, `learning rate`, `weights`, or
            `number` where only one of both makes the update.
        network: Network of the quantity, or an empty string.
        difference: Largest difference, as a share of the largest number.
    """

    update: int
    quantity: str
    network: str
    difference: float

    def __str__(self) -> str:
        whose = f" of the {self.network}" if self.network else ""
        when = f"update {self.update}" if self.update else "the steps before updates"
        if self.quantity == "number":
            return f"{when}{whose}, which only one of both makes"
        return f"{when}, in {self.quantity}{whose}, by {self.difference:.2g} of the largest number"

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form, with the keys of stored files."""
        return {
            "update": self.update,
            "what": self.quantity,
            "network": self.network,
            "apart": self.difference,
        }


def find_first_divergence(
    one: ProbeRun, other: ProbeRun, rounding: float = ROUNDING_FLOAT32
) -> DivergencePoint | None:
    """Return the first difference that exceeds rounding, or None.

    Before the first update, actions and stored transitions are compared for the steps that both
    took; then, for each update of each network, minibatch, gradients, learning rate and weights
    after the step.

    Args:
        one: A training whose updates were all saved.
        other: The same training of another implementation.
        rounding: Share of the largest number that counts as rounding.
    """
    return _find_first_beyond(
        itertools.chain(_iterate_before_updates(one, other), _iterate_updates(one, other)), rounding
    )


def find_missing_update(one: ProbeRun, other: ProbeRun) -> DivergencePoint | None:
    """Return the first update of a network that only one of two trainings made, or None."""
    made = [_count_updates(run) for run in (one, other)]
    numbers = {network: sorted((made[0][network], made[1][network])) for network in made[0]}
    points = [
        DivergencePoint(fewer + 1, "number", network, 1 - fewer / more)
        for network, (fewer, more) in numbers.items()
        if 0 < fewer < more
    ]
    return min(points, key=lambda point: point.update, default=None)


def find_divergence_before_updates(
    one: ProbeRun, other: ProbeRun, rounding: float = ROUNDING_FLOAT32
) -> DivergencePoint | None:
    """Return the first difference of actions or stored transitions before any update, or None.

    Args:
        one: A training.
        other: The same training of another implementation.
        rounding: Share of the largest number that counts as rounding.
    """
    return _find_first_beyond(_iterate_before_updates(one, other), rounding)


def _find_first_beyond(
    points: Iterable[DivergencePoint], rounding: float
) -> DivergencePoint | None:
    return next((point for point in points if point.difference > rounding), None)


def _iterate_before_updates(one: ProbeRun, other: ProbeRun) -> Iterator[DivergencePoint]:
    steps = min(_count_warm_up_steps(one), _count_warm_up_steps(other))
    yield DivergencePoint(
        0,
        "actions",
        "",
        _compute_relative_difference(
            _collect_clipped_actions(one)[:steps], _collect_clipped_actions(other)[:steps]
        ),
    )
    if one.experiment.algorithm != "ppo":  # PPO's rollouts store outputs of networks
        for name in STORED_ARRAYS:
            a, b = (_list_stored_rows(run, name, steps) for run in (one, other))
            if a is not None and b is not None and a.shape == b.shape:
                yield DivergencePoint(0, f"stored {name}", "", _compute_relative_difference(a, b))
        yield from _compare_next_observations(one, other, steps)


def _list_stored_rows(run: ProbeRun, name: str, steps: int) -> Array | None:
    rows = run.record.stored.get(name)
    if rows is None or name != "actions" or not run.experiment.scripted_data.low:
        return rows if rows is None else rows[:steps]
    # Some buffers store scaled actions, which is no difference unless critics see them so.
    stored, found = rows[:steps], []
    for taken, column in zip(run.get_actions()[: len(stored)].T, stored.T, strict=True):
        basis = np.stack([taken, np.ones_like(taken)], axis=1)
        scale, shift = np.linalg.lstsq(basis, column, rcond=None)[0]
        found.append((column - shift) / scale if abs(scale) > SMALLEST_SCALE else column)
    return np.stack(found, axis=1)


def _iterate_updates(one: ProbeRun, other: ProbeRun) -> Iterator[DivergencePoint]:
    for run, idle in ((one, other), (other, one)):
        made = _count_updates(run)
        for network in made.keys() - _count_updates(idle).keys():
            # A delayed network may be updated soon after the steps that were recorded.
            if made[network] >= FEWEST_UPDATES and f"{network}.0.weight" in idle.record.created:
                yield DivergencePoint(1, "number", network, 1.0)
    theirs: dict[str, list[OptimizerStepRecord]] = {}
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
                    yield from _compare_targets(number, step, there)
                    yield from _compare_update(number, network, (one, step), (other, there))


def _count_updates(run: ProbeRun) -> collections.Counter[str]:
    return collections.Counter(network for step in run.record.steps for network in step.networks)


def _collect_clipped_actions(run: ProbeRun) -> Array:
    # Some frameworks clip actions themselves, others leave it to a wrapper; the scripted
    # environment has none.
    low, high = run.experiment.scripted_data.low, run.experiment.scripted_data.high
    return np.clip(run.get_actions(), low, high) if low else run.get_actions()


def _compare_next_observations(
    one: ProbeRun, other: ProbeRun, steps: int
) -> Iterator[DivergencePoint]:
    # No target uses the observation after a termination.
    found = []
    for run in (one, other):
        rows = run.record.stored.get("next_observations")
        if rows is None or len(rows) < steps:
            return
        continues = run.experiment.scripted_data.ends[:steps] != TERMINATED
        found.append(rows[:steps][continues])
    yield DivergencePoint(0, "stored next observations", "", _compute_relative_difference(*found))


def _count_warm_up_steps(run: ProbeRun) -> int:
    # Off-policy updates here use transitions of the warm-up only.
    steps = run.record.steps
    warm_up = getattr(run.hyperparameters, "learning_starts", len(run.transitions))
    return min(warm_up, steps[0].env_steps) if steps else warm_up


def _compare_update(
    number: int,
    network: str,
    one: tuple[ProbeRun, OptimizerStepRecord],
    other: tuple[ProbeRun, OptimizerStepRecord],
) -> Iterator[DivergencePoint]:
    if network.startswith("critic"):
        seen = [_sort_minibatch(run, step) for run, step in (one, other)]
        if seen[0] is not None and seen[1] is not None:
            yield DivergencePoint(
                number, "minibatch", network, _compute_relative_difference(seen[0], seen[1])
            )
    (_, a), (_, b) = one, other
    yield DivergencePoint(
        number, "gradients", network, _compare_network(network, a.gradients, b.gradients)
    )
    # A step is a small share of the largest weight, so that weights hide a small difference of it.
    # Some frameworks store the rate in float32.
    rates = [np.array(step.settings.get(network, {}).get("lr", np.nan)) for step in (a, b)]
    rate_difference = _compute_relative_difference(*rates)
    if rate_difference > ROUNDING_FLOAT32:
        yield DivergencePoint(number, "learning rate", network, rate_difference)
    yield DivergencePoint(number, "weights", network, _compare_network(network, a.after, b.after))


def _compare_targets(
    number: int, one: OptimizerStepRecord, other: OptimizerStepRecord
) -> Iterator[DivergencePoint]:
    # Compare target networks before an update, that is, after the previous update.
    if not any(network == "critic1" for network in one.networks):
        return
    for network in sorted({n.split(".")[0] for n in one.before if "_target." in n}):
        yield DivergencePoint(
            number - 1, "weights", network, _compare_network(network, one.before, other.before)
        )


def _sort_minibatch(run: ProbeRun, step: OptimizerStepRecord) -> Array | None:
    try:
        return np.sort(find_minibatch(run, step).observations, axis=0)
    except UnmeasuredError:
        return None


def _compare_network(network: str, one: Mapping[str, Array], other: Mapping[str, Array]) -> float:
    names = [n for n in one.keys() & other.keys() if n.split(".")[0] == network]
    if not names:
        return 0.0
    return _compute_relative_difference(
        np.concatenate([one[name].ravel() for name in names]),
        np.concatenate([other[name].ravel() for name in names]),
    )


def _compute_relative_difference(one: Array, other: Array) -> float:
    if one.shape != other.shape:
        return float("inf")
    largest = float(np.abs(other).max(initial=1e-12))
    return float(np.abs(one - other).max(initial=0.0)) / largest
