"""Probes: one question with the paper's answer, its measurement, and the comparison of answers.

Differences are located in upstream's source. Parts that an adapter names in `recipe_parts` are this
project's code (upstream leaves them to its users), so their answers say nothing about upstream.
"""

import contextlib
import dataclasses
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.fields import SpecError
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.relation import (
    OTHER_FUNCTION,
    describe_relation,
    describe_weighted_sum,
)
from parallax.harness.probes.results import (
    AGREES,
    COUNT,
    FACTOR,
    FUNCTION,
    NUMBER,
    OFFSET,
    RECIPE,
    AnswerAxis,
    AnswerComparison,
    ProbeAnswer,
    ProbeResult,
    make_missing_answer,
)

NETWORKS, SETTINGS, OPTIMIZERS = "networks", "settings", "optimizers"
LOOP, GREEDY, UPDATE, SEQUENCES = "loop", "greedy", "update", "sequences"
"""Parts of an implementation, as adapters name them in `recipe_parts`."""


def compare_arrays(
    value: Array, expected: Array, tolerance: float | Array, counts: bool = False
) -> AnswerComparison:
    """Return the simplest relation that explains `value`.

    A factor or an offset needs several numbers that share it, because any single number is a
    multiple of another.

    Args:
        value: The measured numbers.
        expected: The formula's numbers; same shape.
        tolerance: Largest difference that counts as rounding, as a share of the largest
            expected magnitude (at least 1e-6 of a unit); of each number, if an array.
        counts: Whether the numbers are integer counts.
    """
    if value.shape != expected.shape:
        return AnswerComparison(COUNT if counts else FUNCTION, float(value.size - expected.size))
    difference = value - expected
    largest = float(np.max(np.abs(difference), initial=0.0))
    if counts:
        worst = difference.flat[int(np.argmax(np.abs(difference)))] if difference.size else 0.0
        return AnswerComparison(AGREES) if largest == 0 else AnswerComparison(COUNT, float(worst))
    if not np.isfinite(largest):
        return AnswerComparison(FUNCTION, largest)
    margin = tolerance * max(float(np.max(np.abs(expected), initial=0.0)), 1e-6)
    if np.all(np.abs(difference) <= margin):
        return AnswerComparison(AGREES)
    if value.size == 1:
        return AnswerComparison(NUMBER, _compute_largest_share(value, expected))
    # Least squares of value = factor * expected, then of value = expected + offset.
    norm = float(np.sum(expected**2))
    factor = float(np.sum(value * expected)) / norm if norm > 0 else np.nan
    if np.all(np.abs(value - factor * expected) <= margin * max(1.0, abs(factor))):
        return AnswerComparison(FACTOR, factor)
    offset = float(np.mean(difference))
    if np.all(np.abs(difference - offset) <= margin):
        return AnswerComparison(OFFSET, offset)
    return AnswerComparison(FUNCTION, largest)


def _compute_largest_share(value: Array, expected: Array) -> float:
    unit = np.where(expected != 0, np.abs(expected), 1.0)
    return float(np.max(np.abs(value - expected) / unit, initial=0.0))


class UnmeasuredError(Exception):
    """A probe cannot be measured on a framework; the message says why."""


@dataclasses.dataclass(frozen=True)
class ProbeMeasurement:
    """Measured numbers, and those of the paper's formula on the same inputs.

    Attributes:
        value: Measured numbers; any shape.
        expected: The formula's numbers; same shape.
        axis: Quantity that an array runs over, or None.
        alternatives: Numbers of other known formulas on the same inputs, by their description;
            with another leading axis for variants of one description.
        terms: Quantities that the numbers may be a weighted sum of, by their description, the
            paper's first; each of the same shape.
        kinds: The kind of each number, such as `at a time limit`; empty if all are of one.
        meaning: Description of a difference that is known while measuring; if empty, the numbers
            are described.
        explain: Describes a difference that no alternative fits; returns an empty text if it
            cannot. It may take seconds.
    """

    value: Array
    expected: Array
    axis: AnswerAxis | None = None
    alternatives: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    terms: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    kinds: Sequence[str] = ()
    meaning: str = ""
    explain: Callable[[], str] = str


@dataclasses.dataclass(frozen=True)
class Probe:
    """One question about a single update or a short training.

    Attributes:
        name: `<algorithm>.<quantity>`.
        question: One sentence.
        citation: Paper, and the place of the formula in it.
        quantity: Description of the numbers, with the unit.
        measure: Measures one framework.
        describe: Describes a comparison that is not `agrees`.
        tolerance: Largest relative difference that counts as rounding: the probe's resolution.
        tolerances: That of each number, if some are known better than others.
        counts: Whether the numbers are integer counts.
        has_own_units: Whether each number has its own unit, so that differences are shares of it;
            NaN stands for numbers that were not measured.
        part: Part of the implementation that is measured; decides whether it is upstream's code.
        events: Events at which a difference arises (see `contract.probing.protocol`); the first
            with a known source line counts.
    """

    name: str
    question: str
    citation: str
    quantity: str
    measure: Callable[[ExperimentCache], ProbeMeasurement]
    describe: Callable[[AnswerComparison, ProbeMeasurement], str]
    tolerance: float = 2e-4
    tolerances: tuple[float, ...] = ()
    counts: bool = False
    has_own_units: bool = False
    part: str = UPDATE
    events: tuple[str, ...] = ()

    @property
    def algorithm(self) -> str:
        """First part of the name."""
        return self.name.split(".")[0]

    @property
    def short_name(self) -> str:
        """Name without the algorithm."""
        return self.name.split(".", 1)[1]

    def reads_recipe(self, recipe_parts: Sequence[str]) -> bool:
        """Return whether the adapter declares the measured code as its own, by part or by name."""
        return self.part in recipe_parts or self.short_name in recipe_parts


def run_probe(
    probe: Probe, caches: Mapping[str, ExperimentCache], explains: bool = True
) -> ProbeResult:
    """Measure a probe on every framework that has the algorithm.

    Without `explains`, answers do not say how they differ, which can take a minute to find out.
    """
    measured: dict[str, ProbeMeasurement] = {}
    answers: dict[str, ProbeAnswer] = {}
    for name, cache in caches.items():
        if not cache.adapter.supports(probe.algorithm):
            continue
        try:
            measured[name] = _measure_probe(probe, cache)
        except (UnmeasuredError, SpecError) as error:
            answers[name] = make_missing_answer(str(error))
        else:
            answer = _build_answer(probe, measured[name], explains)
            answers[name] = _attach_origin(probe, cache, answer)
    axes = [measurement.axis for measurement in measured.values()]
    return build_result(probe, answers, axes[0] if axes else None)


MAX_NUMBER = 1e9
"""Numbers of a probe are below this; larger ones come from a division by almost 0."""


def _measure_probe(probe: Probe, cache: ExperimentCache) -> ProbeMeasurement:
    """Return the measurement of a probe on a framework, with its numbers as float arrays."""
    try:
        measurement = probe.measure(cache)
    except (UnmeasuredError, SpecError):
        raise
    # NumPy refuses to fit a line to no points by a TypeError.
    except (ValueError, ArithmeticError, RuntimeError, TypeError) as error:
        words = cache.describe_infinite_actions(probe.algorithm) or _describe_nan_error(error)
        if not words:
            raise
        raise UnmeasuredError(words) from error
    if words := cache.describe_missing_reset(probe.algorithm):
        raise UnmeasuredError(words)
    value = np.asarray(measurement.value, float)
    expected = np.asarray(measurement.expected, float)
    words = cache.describe_infinite_actions(probe.algorithm)
    if words and np.isnan(value).any() and not np.isnan(expected).any():
        raise UnmeasuredError(words)
    largest = np.abs(value[np.isfinite(value)]).max(initial=0.0)
    if largest > MAX_NUMBER * max(1.0, float(np.abs(np.nan_to_num(expected)).max(initial=0.0))):
        raise UnmeasuredError(
            f"it is a ratio whose denominator is almost 0 here (the result is {largest:.1g})"
        )
    return dataclasses.replace(measurement, value=value, expected=expected)


def _describe_nan_error(error: Exception) -> str:
    # Libraries raise errors of their own for NaN. An error that is raised in this package is a
    # fault of the probe, and says nothing about the training.
    where = traceback.extract_tb(error.__traceback__)[-1]
    if Path(__file__).parent in Path(where.filename).parents:
        return ""
    is_nan = re.search(r"\bnan\b", str(error), re.IGNORECASE)
    return f"its training stops: numbers are NaN in {Path(where.filename).name}" if is_nan else ""


def build_result(
    probe: Probe, answers: Mapping[str, ProbeAnswer], axis: AnswerAxis | None
) -> ProbeResult:
    """Return the result of a probe from its answers by framework."""
    return ProbeResult(
        probe=probe.name,
        algorithm=probe.algorithm,
        question=probe.question,
        citation=probe.citation,
        quantity=probe.quantity,
        axis=axis,
        answers=answers,
        groups=group_answers(probe, answers),
    )


def group_answers(probe: Probe, answers: Mapping[str, ProbeAnswer]) -> tuple[tuple[str, ...], ...]:
    """Group frameworks whose answers are the same, largest group first.

    Answers are the same if both agree with the paper, or both differ from it in the same way.
    """
    groups: list[list[str]] = []
    for name, answer in answers.items():
        if answer.unmeasured:
            continue
        for members in groups:
            first = answers[members[0]]
            if is_same_answer(probe, answer, first) or _is_same_function(answer, first):
                members.append(name)
                break
        else:
            groups.append([name])
    return tuple(tuple(members) for members in sorted(groups, key=len, reverse=True))


def _is_same_function(one: ProbeAnswer, other: ProbeAnswer) -> bool:
    # Frameworks may have different inputs, so that numbers differ although the function is the
    # same. A description with digits in it describes the numbers of one framework only.
    is_function = one.comparison.kind == other.comparison.kind == FUNCTION
    return is_function and one.meaning == other.meaning and bool(re.fullmatch(r"\D+", one.meaning))


def is_same_answer(probe: Probe, one: ProbeAnswer, other: ProbeAnswer) -> bool:
    """Return whether two answers relate to the paper in the same way."""
    kinds = {one.comparison.kind, other.comparison.kind}
    if AGREES in kinds:
        return kinds == {AGREES}
    if kinds in ({FACTOR}, {OFFSET}):
        return bool(np.isclose(one.comparison.size, other.comparison.size, rtol=probe.tolerance))
    if one.value.shape != other.value.shape:
        return False
    if np.array_equal(one.value, other.value, equal_nan=True):
        return True
    if compare_in_probe_units(probe, one.value, other.value).kind == AGREES:
        return True
    # With different inputs, the differences from the paper may still be the same.
    shifted = one.expected + other.value - other.expected
    return compare_in_probe_units(probe, one.value, shifted).kind == AGREES


def compare_in_probe_units(probe: Probe, value: Array, expected: Array) -> AnswerComparison:
    """Compare two arrays with the tolerance and the units of a probe."""
    tolerance: float | Array = probe.tolerance
    if len(probe.tolerances) == np.size(value):
        tolerance = np.array(probe.tolerances)
    if value.shape != expected.shape:
        return compare_arrays(value, expected, tolerance, probe.counts)
    if not probe.has_own_units:
        missing = np.isnan(value) & np.isnan(expected)  # numbers that do not exist
        if missing.any():
            value, expected = value[~missing], expected[~missing]
            tolerance = tolerance if isinstance(tolerance, float) else tolerance[~missing]
        return compare_arrays(value, expected, tolerance, probe.counts)
    known = ~np.isnan(value) & ~np.isnan(expected)
    share = _compute_largest_share(value[known], expected[known])
    return AnswerComparison(AGREES) if share <= probe.tolerance else AnswerComparison(NUMBER, share)


def _attach_origin(probe: Probe, cache: ExperimentCache, answer: ProbeAnswer) -> ProbeAnswer:
    if probe.reads_recipe(cache.adapter.recipe_parts):
        return dataclasses.replace(answer, origin=RECIPE)
    if answer.comparison.kind == AGREES:
        return answer
    lines = (cache.get_source_line(probe.algorithm, event) for event in probe.events)
    return dataclasses.replace(answer, source_line=next(filter(None, lines), ""))


def _build_answer(probe: Probe, measurement: ProbeMeasurement, explains: bool) -> ProbeAnswer:
    comparison = compare_in_probe_units(probe, measurement.value, measurement.expected)
    differs = explains and comparison.kind != AGREES
    text = _describe_difference(probe, measurement, comparison) if differs else ""
    return ProbeAnswer(measurement.value, measurement.expected, comparison, text)


def _describe_difference(
    probe: Probe, measurement: ProbeMeasurement, comparison: AnswerComparison
) -> str:
    value = measurement.value
    for name, array in measurement.alternatives.items():
        variants = np.asarray(array, float)
        variants = variants if variants.ndim > value.ndim else variants[None]
        if any(compare_in_probe_units(probe, value, each).kind == AGREES for each in variants):
            return name
    words = measurement.meaning
    if not words and comparison.kind in (FUNCTION, FACTOR):
        with contextlib.suppress(UnmeasuredError):  # an explanation may need other numbers
            words = measurement.explain()
    return words or probe.describe(comparison, measurement)


DescribeDifference = Callable[[AnswerComparison, ProbeMeasurement], str]


def make_relation_description(subject: str) -> DescribeDifference:
    """Return a function that describes how `subject` relates to the paper's."""

    def describe(comparison: AnswerComparison, measurement: ProbeMeasurement) -> str:
        if comparison.kind == FACTOR:
            return f"{subject}: {comparison.size:.4g} times the paper's"
        if comparison.kind == NUMBER:
            # Adding 0 turns -0 into 0.
            (value,), (paper,) = np.ravel(measurement.value) + 0.0, np.ravel(measurement.expected)
            return f"{subject}: {value:.4g}, the paper's is {paper:.4g}"
        if comparison.kind == OFFSET:
            return f"{subject}: the paper's {comparison.size:+.4g}"
        found, due = np.asarray(measurement.value), np.asarray(measurement.expected)
        terms, kinds = measurement.terms, measurement.kinds
        form = describe_weighted_sum(found, terms) or describe_relation(found, due, terms, kinds)
        return f"{subject}: {form or OTHER_FUNCTION}, up to {comparison.size:.3g} away"

    return describe


def make_entry_description(names: Sequence[str]) -> DescribeDifference:
    """Return a function that lists each entry that differs: `name is 2, not 1`.

    The numbers may have the entries of several updates, one after another. If these differ, the
    text says in which updates an entry is wrong.
    """

    def describe(comparison: AnswerComparison, measurement: ProbeMeasurement) -> str:
        value, expected = np.ravel(measurement.value), np.ravel(measurement.expected)
        if len(value) == len(expected) > len(names) and len(value) % len(names) == 0:
            pairs = [array.reshape(-1, len(names)) for array in (value, expected)]
            if all(np.allclose(each, each[0], rtol=1e-3, atol=1e-4) for each in pairs):
                value, expected = (each[0] for each in pairs)
                # A least-squares fit finds weights of 1e-6 for terms that are absent.
                value = np.where(np.abs(value) < 1e-4 * np.abs(value).max(), 0.0, value)
            else:
                return _describe_entries_of_updates(names, *pairs)
        if len(value) != len(expected) or len(value) != len(names):
            return f"{_format_array(value)}, not {_format_array(expected)}"
        parts = [
            f"{name} is {v:.4g}, not {e:.4g}"
            for name, v, e in zip(names, value, expected, strict=True)
            if not (np.isclose(v, e, rtol=1e-4, atol=1e-12) or np.isnan(v))
        ]
        return "; ".join(parts)

    return describe


def describe_counts(names: Sequence[str], value: Array, expected: Array, *words: str) -> str:
    """Return the counts that differ, `name is 2, not 1`, followed by words about them."""
    counts = ProbeMeasurement(value, expected)
    return "; ".join(
        filter(None, (make_entry_description(names)(AnswerComparison(COUNT), counts), *words))
    )


def make_count_probe(
    name: str,
    question: str,
    citation: str,
    entries: Sequence[str],
    measure: Callable[[ExperimentCache], ProbeMeasurement],
    part: str = LOOP,
) -> Probe:
    """Return a probe of several counts, each with its name in `entries`."""
    describe = make_entry_description(entries)
    quantity = ", ".join(entries)
    return Probe(name, question, citation, quantity, measure, describe, counts=True, part=part)


def _describe_entries_of_updates(names: Sequence[str], values: Array, expected: Array) -> str:
    """Return each entry that differs in some updates, both float[updates, entries]."""
    parts, room = [], 1e-4 * float(np.abs(values).max())
    for name, found, due in zip(names, values.T, expected.T, strict=True):
        wrong = np.flatnonzero(~np.isclose(found, due, rtol=1e-3, atol=room))
        if len(wrong):
            shown, right = _format_range(found[wrong]), _format_range(due[wrong])
            parts.append(f"{name} is {shown}, not {right}{_name_updates(wrong, len(found))}")
    if not parts:
        return f"{_format_array(values.ravel())}, not {_format_array(expected.ravel())}"
    return "; ".join(parts)


def _name_updates(wrong: NDArray[np.intp], count: int) -> str:
    if len(wrong) == count:
        return ""
    if len(wrong) > 1 and wrong[0] == count - len(wrong):
        return f" from update {wrong[0] + 1} on"
    return f" in update{'s' if len(wrong) > 1 else ''} {', '.join(str(i + 1) for i in wrong)}"


def _format_range(numbers: Array) -> str:
    ends = (f"{number:.4g}" for number in (numbers.min(), numbers.max()))
    return " to ".join(dict.fromkeys(ends))  # a single number if both are the same


def _format_array(array: np.ndarray) -> str:
    return "[" + ", ".join(f"{x:.4g}" for x in array[:8]) + (", ...]" if len(array) > 8 else "]")
