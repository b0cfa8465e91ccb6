"""What a probe is, how one is put to several frameworks, and what its answer means."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.contract.fields import SpecError
from harness.probes import origins
from harness.probes.lab import Lab
from harness.probes.likeness import likeness
from harness.probes.results import (
    AGREES,
    COUNT,
    FACTOR,
    FUNCTION,
    NUMBER,
    OFFSET,
    RECIPE,
    UPSTREAM,
    Answer,
    Array,
    Axis,
    Comparison,
    Result,
)


def compare(value: Array, expected: Array, tolerance: float, counts: bool = False) -> Comparison:
    """Names the simplest relation that explains `value`.

    A factor or an offset is only named where it is one over several numbers: any single number
    is a multiple of another.

    Args:
        value: What was measured.
        expected: What the formula gives; same shape.
        tolerance: Largest difference that counts as rounding, as a share of the largest
            expected magnitude (at least 1e-6 of a unit).
        counts: Whether the numbers are whole counts.
    """
    if value.shape != expected.shape:
        return Comparison(COUNT if counts else FUNCTION, float(value.size - expected.size))
    difference = value - expected
    largest = float(np.max(np.abs(difference), initial=0.0))
    if counts:
        worst = difference.flat[int(np.argmax(np.abs(difference)))] if difference.size else 0.0
        return Comparison(AGREES) if largest == 0 else Comparison(COUNT, float(worst))
    if not np.isfinite(largest):
        return Comparison(FUNCTION, largest)
    room = tolerance * max(float(np.max(np.abs(expected), initial=0.0)), 1e-6)
    if largest <= room:
        return Comparison(AGREES)
    if value.size == 1:
        return Comparison(NUMBER, _largest_share(value, expected))
    norm = float(np.sum(expected**2))
    factor = float(np.sum(value * expected)) / norm if norm > 0 else np.nan
    if np.max(np.abs(value - factor * expected)) <= room * max(1.0, abs(factor)):
        return Comparison(FACTOR, factor)
    offset = float(np.mean(difference))
    if np.max(np.abs(difference - offset)) <= room:
        return Comparison(OFFSET, offset)
    return Comparison(FUNCTION, largest)


def _largest_share(value: Array, expected: Array) -> float:
    unit = np.where(expected != 0, np.abs(expected), 1.0)
    return float(np.max(np.abs(value - expected) / unit, initial=0.0))


class Unmeasured(Exception):  # noqa: N818
    """A probe has no answer for a framework; the text says why."""


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What was measured and what the paper's formula gives on the same inputs.

    Attributes:
        value: Any shape.
        expected: Same shape.
        axis: What an array runs over, or None.
        alternatives: Other formulas one meets, on the same inputs, by what they are.
    """

    value: Array
    expected: Array
    axis: Axis | None = None
    alternatives: Mapping[str, Array] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Probe:
    """One question.

    Attributes:
        name: `<algorithm>.<what>`.
        question: One sentence.
        citation: Paper and place of the formula.
        quantity: What the numbers are, with the unit.
        measure: Gets the answer of one framework.
        meaning: Words a comparison that is not `agrees`.
        tolerance: Largest relative difference that is rounding.
        counts: Whether the numbers are whole counts.
        each: Whether each number has its own unit, so that differences are shares of it; what is
            not a number was not measured.

    `tolerance` is the resolution: a smaller difference is not told from rounding.
    """

    name: str
    question: str
    citation: str
    quantity: str
    measure: Callable[[Lab], Measurement]
    meaning: Callable[[Comparison, Measurement], str]
    tolerance: float = 2e-4
    counts: bool = False
    each: bool = False

    @property
    def algorithm(self) -> str:
        """The first part of the name."""
        return self.name.split(".")[0]


def put(probe: Probe, labs: Mapping[str, Lab]) -> Result:
    """Asks every framework that has the algorithm."""
    measured: dict[str, Measurement] = {}
    answers: dict[str, Answer] = {}
    for name, lab in labs.items():
        if not lab.adapter.supports(probe.algorithm):
            continue
        try:
            measured[name] = probe.measure(lab)
        except (Unmeasured, SpecError) as error:
            nothing = np.empty(0)
            answers[name] = Answer(nothing, nothing, Comparison(AGREES), unmeasured=str(error))
        else:
            answers[name] = _located(probe, lab, _answer(probe, measured[name]))
    axes = [measurement.axis for measurement in measured.values()]
    in_order = {name: answers[name] for name in labs if name in answers}
    return bare(probe, in_order, axes[0] if axes else None)


def bare(probe: Probe, answers: Mapping[str, Answer], axis: Axis | None) -> Result:
    """A result with what the probe says of itself."""
    return Result(
        probe=probe.name,
        algorithm=probe.algorithm,
        question=probe.question,
        citation=probe.citation,
        quantity=probe.quantity,
        axis=axis,
        answers=answers,
        groups=alike(probe, answers),
    )


def alike(probe: Probe, answers: Mapping[str, Answer]) -> tuple[tuple[str, ...], ...]:
    """Frameworks whose answers are the same, largest group first.

    All that agree with the paper are; others are where they differ from it by the same.
    """
    groups: list[list[str]] = []
    for name, answer in answers.items():
        if answer.unmeasured:
            continue
        for members in groups:
            if same(probe, answer, answers[members[0]]):
                members.append(name)
                break
        else:
            groups.append([name])
    return tuple(tuple(members) for members in sorted(groups, key=len, reverse=True))


def same(probe: Probe, one: Answer, other: Answer) -> bool:
    """Whether two answers relate to the paper in the same way."""
    agreeing = {answer.comparison.kind == AGREES for answer in (one, other)}
    if agreeing != {False}:
        return agreeing == {True}
    kinds = {answer.comparison.kind for answer in (one, other)}
    if kinds in ({FACTOR}, {OFFSET}):
        return bool(np.isclose(one.comparison.size, other.comparison.size, rtol=probe.tolerance))
    if one.value.shape != other.value.shape:
        return False
    if relate(probe, one.value, other.value).kind == AGREES:
        return True
    shifted = one.expected + other.value - other.expected
    return relate(probe, one.value, shifted).kind == AGREES


def relate(probe: Probe, value: Array, expected: Array) -> Comparison:
    """Compares in the probe's units."""
    if value.shape == expected.shape:  # what is on neither side is not there
        there = ~(np.isnan(value) & np.isnan(expected))
        value, expected = (a if there.all() else a[there] for a in (value, expected))
    if not probe.each or value.shape != expected.shape:
        return compare(value, expected, probe.tolerance, probe.counts)
    known = ~np.isnan(value) & ~np.isnan(expected)
    share = _largest_share(value[known], expected[known])
    return Comparison(AGREES) if share <= probe.tolerance else Comparison(NUMBER, share)


def _located(probe: Probe, lab: Lab, answer: Answer) -> Answer:
    # Whose code was read, and, where it differs, upstream's line.
    own = origins.is_recipe(probe.name, getattr(lab.adapter, "recipe_parts", ()))
    differs = answer.comparison.kind != AGREES and not own
    lines = (lab.place(probe.algorithm, place) for place in origins.places_of(probe.name))
    line = next(filter(None, lines), "") if differs else ""
    return dataclasses.replace(answer, origin=RECIPE if own else UPSTREAM, arises=line)


def _answer(probe: Probe, measurement: Measurement) -> Answer:
    value, expected = np.asarray(measurement.value, float), np.asarray(measurement.expected, float)
    comparison = relate(probe, value, expected)
    text = "" if comparison.kind == AGREES else _meaning(probe, measurement, comparison)
    return Answer(value, expected, comparison, text)


def _meaning(probe: Probe, measurement: Measurement, comparison: Comparison) -> str:
    value = np.asarray(measurement.value, float)
    for name, array in measurement.alternatives.items():
        if relate(probe, value, np.asarray(array, float)).kind == AGREES:
            return name
    return probe.meaning(comparison, measurement)


Words = Callable[[Comparison, Measurement], str]


def relation(subject: str) -> Words:
    """`<subject>` with how it relates to the paper's."""

    def words(comparison: Comparison, measurement: Measurement) -> str:
        if comparison.kind == FACTOR:
            return f"{subject}: {comparison.size:.4g} times the paper's"
        if comparison.kind == NUMBER:
            (value,), (paper,) = np.ravel(measurement.value), np.ravel(measurement.expected)
            return f"{subject}: {value:.4g}, the paper's is {paper:.4g}"
        if comparison.kind == OFFSET:
            return f"{subject}: the paper's {comparison.size:+.4g}"
        found, due = np.asarray(measurement.value), np.asarray(measurement.expected)
        form = likeness(found, due) or "another function of its inputs"
        return f"{subject}: {form}, up to {comparison.size:.3g} away"

    return words


def listed(names: Sequence[str]) -> Words:
    """Every entry that differs, with its name: `name is 2, not 1`."""

    def words(comparison: Comparison, measurement: Measurement) -> str:
        value, expected = np.ravel(measurement.value), np.ravel(measurement.expected)
        if len(value) != len(expected) or len(value) != len(names):
            return f"{_short(value)}, not {_short(expected)}"
        parts = [
            f"{name} is {v:.4g}, not {e:.4g}"
            for name, v, e in zip(names, value, expected, strict=True)
            if not (np.isclose(v, e, rtol=1e-4, atol=1e-12) or np.isnan(v))
        ]
        return "; ".join(parts)

    return words


def _short(array: np.ndarray) -> str:
    return "[" + ", ".join(f"{x:.4g}" for x in array[:8]) + (", ...]" if len(array) > 8 else "]")
