"""First difference between two trainings: actions, minibatch, gradients or weights."""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import OptimizerStepRecord
from parallax.harness.contract.probing.scripted_env import TERMINATED, IntegerDraw
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
MAX_REASONS = 2
"""Reasons of a difference that are named."""
STORED_ARRAYS = ("observations", "actions", "rewards", "terminated")
ACTING = ("actions", "stored")
"""First words of the quantities of environment steps."""
ROLLOUT_OUTPUTS = ("values", "log probs", "returns", "advantages")
"""Arrays of a rollout that networks or formulas compute."""


@dataclasses.dataclass(frozen=True)
class DivergencePoint:
    """Point at which two trainings differ.

    Attributes:
        update: Number of the update of its network, from 1; 0 before all updates.
        quantity: `actions`, `stored ...`, `minibatch`, `gradients`, `learning rate`, `weights`, or
            `number` where only one of both makes the update.
        network: Network of the quantity, or an empty string.
        difference: Largest difference, as a share of the largest number.
        reason: What else differs and may be the cause, such as an option of the optimizer.
    """

    update: int
    quantity: str
    network: str
    difference: float
    reason: str = ""

    def __str__(self) -> str:
        whose = f" of the {self.network}" if self.network else ""
        when = f"update {self.update}" if self.update else "the steps before updates"
        if self.quantity == "number":
            return f"{when}, in weights{whose}, which only one of both updates"
        if self.update and self.quantity.startswith(ACTING):
            when = f"the steps after update {self.update}"
        is_measured = np.isfinite(self.difference)
        size = f", by {self.difference:.2g} of the largest number" if is_measured else ""
        reason = f" ({self.reason})" if self.reason else ""
        return f"{when}, in {self.quantity}{whose}{size}{reason}"

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form, with the keys of stored files."""
        return {
            "update": self.update,
            "what": self.quantity,
            "network": self.network,
            "apart": self.difference,
        }


class _Place(NamedTuple):
    update: int
    quantity: str
    network: str
    step: str = ""
    """Network whose optimizer step follows or is taken; empty for steps of the environment."""


class _Values(NamedTuple):
    arrays: Mapping[str, Array]
    notes: Mapping[Any, object] = MappingProxyType({})
    """Values that may be why arrays differ, by name."""


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


def find_first_change(one: ProbeRun, other: ProbeRun) -> DivergencePoint | None:
    """Return the first difference in any bit of two trainings of one framework, or None.

    Frameworks differ in when they update, draw and store. Trainings of one framework do not, so
    that these are compared as well, over the whole training, and so are initial weights.
    """
    return _find_first_beyond(_iterate_training(one, other), 0.0)


def find_missing_update(one: ProbeRun, other: ProbeRun) -> DivergencePoint | None:
    """Return the first update of a network that only one of two trainings made, or None."""
    made = [_count_updates(run) for run in (one, other)]
    both = {network: sorted(each[network] for each in made) for network in made[0]}
    missing = ((few, name) for name, (few, more) in both.items() if 0 < few < more)
    number, network = min(missing, default=(0, ""))
    return DivergencePoint(number + 1, "number", network, 1.0) if network else None


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
    ours, theirs = (_collect_steps(run, 0, steps, 0, in_one_unit=True) for run in (one, other))
    for place in ours:
        if place not in theirs:
            continue
        if ours[place].arrays[""].shape == theirs[place].arrays[""].shape:
            yield _compare_values(place, ours[place], theirs[place])


def _unscale_stored_actions(run: ProbeRun, stored: Array) -> Array:
    # Some buffers store scaled actions, which is not a difference unless critics see them so.
    found = []
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
    ours, theirs = _flatten_cycles(_collect_values(one)), _flatten_cycles(_collect_values(other))
    for place in ours:
        if place.step and place in theirs:
            point = _compare_values(place, ours[place], theirs[place])
            # Some frameworks store the rate in float32.
            if place.quantity != "learning rate" or point.difference > ROUNDING_FLOAT32:
                yield point


def _flatten_cycles(cycles: Mapping[float, dict[_Place, _Values]]) -> dict[_Place, _Values]:
    return {place: values for cycle in cycles.values() for place, values in cycle.items()}


def _iterate_training(one: ProbeRun, other: ProbeRun) -> Iterator[DivergencePoint]:
    ours, theirs = _collect_values(one), _collect_values(other)
    for cycle in sorted(ours.keys() | theirs.keys()):
        mine, others, reason = ours.get(cycle, {}), theirs.get(cycle, {}), ""
        for place in mine | others:
            if place in mine and place in others:
                point = _compare_values(place, mine[place], others[place])
                if mine[place].arrays.keys() != others[place].arrays.keys():
                    point = dataclasses.replace(point, difference=np.inf)
                if place.quantity not in ROLLOUT_OUTPUTS:
                    yield dataclasses.replace(point, reason=point.reason or reason)
                elif point.difference and not reason:
                    reason = f"from other {place.quantity} of the rollout"
            elif place.quantity == "gradients":
                yield DivergencePoint(place.update, "number", place.network, 1.0)


def _compare_values(place: _Place, one: _Values, other: _Values) -> DivergencePoint:
    common = sorted(one.arrays.keys() & other.arrays.keys())
    flat = (
        np.concatenate([np.empty(0), *(values.arrays[name].ravel() for name in common)])
        for values in (one, other)
    )
    difference = _compute_relative_difference(*flat)
    notes = [n for n in one.notes if n in other.notes and one.notes[n] != other.notes[n]]
    reason = ", ".join(f"{n}: {one.notes[n]} and {other.notes[n]}" for n in notes[:MAX_REASONS])
    return DivergencePoint(place.update, place.quantity, place.network, difference, reason)


def _collect_values(run: ProbeRun) -> dict[float, dict[_Place, _Values]]:
    """Return all that a training computes in order of time, by environment steps before updates."""
    record, begin, made = run.record, 0, collections.Counter[str]()
    found = {0.0: _select_networks(record.created, 0, "initial weights")}
    counted = "critic1" if "critic1.0.weight" in record.created else "policy"
    groups = itertools.groupby(record.steps, key=lambda step: step.env_steps)
    for cycle, (end, steps) in enumerate(groups):
        done, (first, *others) = made[counted], steps
        values = found[end] = _select_networks(first.before, done, "weights")
        values |= _collect_steps(run, begin, end, done)
        for rollout in record.rollouts[cycle : cycle + 1]:
            for name in (*STORED_ARRAYS, *ROLLOUT_OUTPUTS):
                quantity = f"stored {name}" if name in STORED_ARRAYS else name
                array = rollout.get(name.replace(" ", "_"), np.empty(0))
                values[_Place(done, quantity, "")] = _Values({"": array})
        draws = [draw for draw in run.draws if begin < draw.steps <= end]
        numbers = np.array([dataclasses.astuple(draw) for draw in draws], float)
        notes = {f"draw {i}": _describe_draw(draw) for i, draw in enumerate(draws, 1)}
        values[_Place(done + 1, "minibatch", "")] = _Values({"": numbers}, notes)
        for step in (first, *others):
            if "critic1" in step.networks:
                targets = {name: array for name, array in step.before.items() if "_target." in name}
                values |= _select_networks(targets, made["critic1"], "weights", "critic1")
            made.update(step.networks)
            for network in step.networks if step.after else ():
                values |= _collect_update_values(run, step, network, made[network])
        begin = end
    last = _collect_steps(run, begin, None, made[counted])
    last |= _select_networks(record.final, made[counted], "weights")
    events = ", ".join(e.description for e in record.generator_events) or "none"
    # The text's bytes are its array, so that it is compared like all other values.
    text = np.array(list(events.encode()), float)
    place = _Place(made[counted], "random generators", "")
    last[place] = _Values({"": text}, {"events": events})
    found[np.inf] = last
    return found


def _collect_steps(
    run: ProbeRun, begin: int, end: int | None, update: int, in_one_unit: bool = False
) -> dict[_Place, _Values]:
    """Return what the environment steps from `begin` to `end` took and stored.

    If `end` is None, they go on to the last step and include all that is stored. In one unit,
    actions are clipped, as by a wrapper that only some frameworks need.
    """
    data, rows, actions = run.experiment.scripted_data, slice(begin, end), run.get_actions()
    continuous = in_one_unit and len(data.low) > 0
    actions = np.clip(actions, data.low, data.high) if continuous else actions
    epsilons = [e for at, e in run.thresholds if begin <= at < (end or np.inf) and not in_one_unit]
    found = {_Place(update, "actions (epsilon)", ""): _Values({"": np.array(epsilons)})}
    found[_Place(update, "actions", "")] = _Values({"": actions[rows]})
    # PPO's rollouts store outputs of networks.
    for name in () if run.record.rollouts else (*STORED_ARRAYS, "next_observations"):
        stored = run.record.stored.get(name)
        by_step = in_one_unit or (stored is not None and len(stored) == len(data.ends))
        if stored is None or not (by_step or end is None):
            continue
        if by_step:
            stored = stored[rows]
            if name == "next_observations":  # no target uses those after a termination
                stored = stored[data.ends[rows][: len(stored)] != TERMINATED]
        if name == "actions" and continuous:
            stored = _unscale_stored_actions(run, stored)
        found[_Place(update, f"stored {name.replace('_', ' ')}", "")] = _Values({"": stored})
    return found


def _collect_update_values(
    run: ProbeRun, step: OptimizerStepRecord, network: str, number: int
) -> dict[_Place, _Values]:
    found, settings = {}, dict(step.settings.get(network, {}))
    # A step is a small share of the largest weight, so that weights hide a small difference of it.
    rate = settings.pop("lr", None)
    notes = {f"optimizer's {name}": f"{settings[name]:.4g}" for name in sorted(settings)}
    seen = _sort_minibatch(run, step) if network.startswith("critic") else None
    seen = np.sort(step.observations, axis=0) if run.record.rollouts else seen
    if seen is not None:
        found[_Place(number, "minibatch", network, network)] = _Values({"": seen})
    place = _Place(number, "gradients", network, network)
    found[place] = _Values(_select_arrays(step.gradients, network))
    if rate is not None:
        found[place._replace(quantity="learning rate")] = _Values({"": np.array([rate])})
    after = _Values(_select_arrays(step.after, network), {"optimizer": step.optimizer, **notes})
    return found | {place._replace(quantity="weights"): after}


def _select_networks(
    weights: Mapping[str, Array], update: int, quantity: str, step: str = ""
) -> dict[_Place, _Values]:
    return {
        _Place(update, quantity, network, step): _Values(_select_arrays(weights, network))
        for network in sorted({name.split(".")[0] for name in weights})
    }


def _select_arrays(weights: Mapping[str, Array], network: str) -> dict[str, Array]:
    return {name: array for name, array in weights.items() if name.split(".")[0] == network}


def _describe_draw(draw: IntegerDraw) -> str:
    how = "with" if draw.with_replacement else "without"
    return f"{draw.count} of {draw.low} to {draw.high - 1} {how} replacement"


def _count_updates(run: ProbeRun) -> collections.Counter[str]:
    return collections.Counter(network for step in run.record.steps for network in step.networks)


def _count_warm_up_steps(run: ProbeRun) -> int:
    # Off-policy updates here use transitions of the warm-up only.
    steps = run.record.steps
    warm_up = getattr(run.hyperparameters, "learning_starts", len(run.transitions))
    return min(warm_up, steps[0].env_steps) if steps else warm_up


def _sort_minibatch(run: ProbeRun, step: OptimizerStepRecord) -> Array | None:
    try:
        return np.sort(find_minibatch(run, step).observations, axis=0)
    except UnmeasuredError:
        return None


def _compute_relative_difference(one: Array, other: Array) -> float:
    if one.shape != other.shape:
        return float("inf")
    one, other = np.asarray(one, float), np.asarray(other, float)
    unequal = (one != other) & ~(np.isnan(one) & np.isnan(other))
    sizes = (float(np.abs(each[np.isfinite(each)]).max(initial=0.0)) for each in (other, one))
    largest = next(filter(None, sizes), 1.0)
    difference = float(np.abs(one - other)[unequal].max(initial=0.0)) / largest
    return float("inf") if np.isnan(difference) else difference
