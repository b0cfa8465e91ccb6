"""What a probe is, how one is put to several frameworks, and what its answer means."""

import dataclasses
import fnmatch
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.fields import SpecError
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.relation import describe_relation
from parallax.harness.probes.results import (
    AGREES,
    COUNT,
    FACTOR,
    FUNCTION,
    NUMBER,
    OFFSET,
    RECIPE,
    UPSTREAM,
    AnswerAxis,
    AnswerComparison,
    ProbeAnswer,
    ProbeResult,
)

NETWORKS, SETTINGS, OPTIMIZERS = "networks", "settings", "optimizers"
LOOP, GREEDY, UPDATE, SEQUENCES = "loop", "greedy", "update", "sequences"
PATTERNS_BY_PART = {
    NETWORKS: ("initial_*", "network_sizes", "activation", "hidden_sizes"),
    SETTINGS: (
        "learning_rates",
        "learning_rate_by_default",
        "clip_range_by_default",
        "exploration_scale",
        "target_noise_scale",
        "target_noise_clip",
        "gradient_clipping",
        "exploration_kind",
        "exploration_schedule",
        "exploration_shape",
        "target_by_default",
    ),
    OPTIMIZERS: ("adam_settings",),
    LOOP: (
        "counts*",
        "update_order",
        "minibatch_*",
        "advantages_recomputed",
        "*_annealing",
        "update_ratio",
        "delayed_updates",
        "policy_steps",
        "early_stopping",
        "divergence_limit",
    ),
    GREEDY: ("greedy_action",),
    SEQUENCES: (
        "sequence*",
        "n_step_target",
        "last_steps_target",
        "priorities",
        "importance_weights",
        "stored_state",
        "actor_refresh",
    ),
}
"""Parts of an implementation, and the probes that read them; all others read its updates."""

PATTERNS_BY_EVENT = {
    "loss of critic1": ("critic_*", "*_target", "target_weights", "target_with_copies"),
    "loss of temperature": ("temperature_gradient", "target_entropy"),
    "loss of policy": (
        "policy_*",
        "later_policy_loss",
        "std_gradient",
        "entropy_bonus",
        "total_loss",
        "value_loss_factor",
        "value_clipping",
        "later_value_loss",
        "advantage_normalisation",
        "clip_range",
    ),
    "action": ("action", "action_bounds", "policy_action", "exploration*", "warm_up_action"),
    "action drawn": ("log_prob", "squash_correction"),
    "minibatch drawn": ("replay_sampling",),
    "step of policy": ("optimizer_step", "gradient_clipping", "learning_rate_annealing"),
}
"""Events at which a difference arises, by the probes that find it; the last that fits counts."""


def get_probe_part(probe: str) -> str:
    """Which part of an implementation a probe reads."""
    return next(
        (part for part in PATTERNS_BY_PART if _is_pattern_match(probe, PATTERNS_BY_PART[part])),
        UPDATE,
    )


def is_recipe(probe: str, parts: tuple[str, ...]) -> bool:
    """Whether a probe reads what an adapter names as its own, by part or by the probe's name."""
    return get_probe_part(probe) in parts or probe.split(".", 1)[1] in parts


def list_source_events(probe: str) -> tuple[str, ...]:
    """At which event its differences arise, and at which else where that is not known of it."""
    fitting = [
        place for place, patterns in PATTERNS_BY_EVENT.items() if _is_pattern_match(probe, patterns)
    ]
    further = ["action drawn"] if _is_pattern_match(probe, ("action",)) else []
    return (*fitting[-1:], *further)


def _is_pattern_match(probe: str, patterns: tuple[str, ...]) -> bool:
    name = probe.split(".", 1)[1]
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def compare_arrays(
    value: Array, expected: Array, tolerance: float, counts: bool = False
) -> AnswerComparison:
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
        return AnswerComparison(COUNT if counts else FUNCTION, float(value.size - expected.size))
    difference = value - expected
    largest = float(np.max(np.abs(difference), initial=0.0))
    if counts:
        worst = difference.flat[int(np.argmax(np.abs(difference)))] if difference.size else 0.0
        return AnswerComparison(AGREES) if largest == 0 else AnswerComparison(COUNT, float(worst))
    if not np.isfinite(largest):
        return AnswerComparison(FUNCTION, largest)
    room = tolerance * max(float(np.max(np.abs(expected), initial=0.0)), 1e-6)
    if largest <= room:
        return AnswerComparison(AGREES)
    if value.size == 1:
        return AnswerComparison(NUMBER, _compute_largest_share(value, expected))
    norm = float(np.sum(expected**2))
    factor = float(np.sum(value * expected)) / norm if norm > 0 else np.nan
    if np.max(np.abs(value - factor * expected)) <= room * max(1.0, abs(factor)):
        return AnswerComparison(FACTOR, factor)
    offset = float(np.mean(difference))
    if np.max(np.abs(difference - offset)) <= room:
        return AnswerComparison(OFFSET, offset)
    return AnswerComparison(FUNCTION, largest)


def _compute_largest_share(value: Array, expected: Array) -> float:
    unit = np.where(expected != 0, np.abs(expected), 1.0)
    return float(np.max(np.abs(value - expected) / unit, initial=0.0))


class UnmeasuredError(Exception):
    """A probe has no answer for a framework; the text says why."""


@dataclasses.dataclass(frozen=True)
class ProbeMeasurement:
    """What was measured and what the paper's formula gives on the same inputs.

    Attributes:
        value: Any shape.
        expected: Same shape.
        axis: What an array runs over, or None.
        alternatives: Other formulas one meets, on the same inputs, by what they are.
    """

    value: Array
    expected: Array
    axis: AnswerAxis | None = None
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
    measure: Callable[[ExperimentCache], ProbeMeasurement]
    meaning: Callable[[AnswerComparison, ProbeMeasurement], str]
    tolerance: float = 2e-4
    counts: bool = False
    has_own_units: bool = False

    @property
    def algorithm(self) -> str:
        """The first part of the name."""
        return self.name.split(".")[0]


def run_probe(probe: Probe, labs: Mapping[str, ExperimentCache]) -> ProbeResult:
    """Asks every framework that has the algorithm."""
    measured: dict[str, ProbeMeasurement] = {}
    answers: dict[str, ProbeAnswer] = {}
    for name, lab in labs.items():
        if not lab.adapter.supports(probe.algorithm):
            continue
        try:
            measured[name] = probe.measure(lab)
        except (UnmeasuredError, SpecError) as error:
            nothing = np.empty(0)
            answers[name] = ProbeAnswer(
                nothing, nothing, AnswerComparison(AGREES), unmeasured=str(error)
            )
        else:
            answers[name] = _attach_origin(probe, lab, _build_answer(probe, measured[name]))
    axes = [measurement.axis for measurement in measured.values()]
    in_order = {name: answers[name] for name in labs if name in answers}
    return build_result(probe, in_order, axes[0] if axes else None)


def build_result(
    probe: Probe, answers: Mapping[str, ProbeAnswer], axis: AnswerAxis | None
) -> ProbeResult:
    """A result with what the probe says of itself."""
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
    """Frameworks whose answers are the same, largest group first.

    All that agree with the paper are; others are where they differ from it by the same.
    """
    groups: list[list[str]] = []
    for name, answer in answers.items():
        if answer.unmeasured:
            continue
        for members in groups:
            if is_same_answer(probe, answer, answers[members[0]]):
                members.append(name)
                break
        else:
            groups.append([name])
    return tuple(tuple(members) for members in sorted(groups, key=len, reverse=True))


def is_same_answer(probe: Probe, one: ProbeAnswer, other: ProbeAnswer) -> bool:
    """Whether two answers relate to the paper in the same way."""
    agreeing = {answer.comparison.kind == AGREES for answer in (one, other)}
    if agreeing != {False}:
        return agreeing == {True}
    kinds = {answer.comparison.kind for answer in (one, other)}
    if kinds in ({FACTOR}, {OFFSET}):
        return bool(np.isclose(one.comparison.size, other.comparison.size, rtol=probe.tolerance))
    if one.value.shape != other.value.shape:
        return False
    if compare_in_probe_units(probe, one.value, other.value).kind == AGREES:
        return True
    shifted = one.expected + other.value - other.expected
    return compare_in_probe_units(probe, one.value, shifted).kind == AGREES


def compare_in_probe_units(probe: Probe, value: Array, expected: Array) -> AnswerComparison:
    """Compares in the probe's units."""
    if value.shape == expected.shape:  # what is on neither side is not there
        there = ~(np.isnan(value) & np.isnan(expected))
        value, expected = (a if there.all() else a[there] for a in (value, expected))
    if not probe.has_own_units or value.shape != expected.shape:
        return compare_arrays(value, expected, probe.tolerance, probe.counts)
    known = ~np.isnan(value) & ~np.isnan(expected)
    share = _compute_largest_share(value[known], expected[known])
    return AnswerComparison(AGREES) if share <= probe.tolerance else AnswerComparison(NUMBER, share)


def _attach_origin(probe: Probe, lab: ExperimentCache, answer: ProbeAnswer) -> ProbeAnswer:
    # Whose code was read, and, where it differs, upstream's line.
    own = is_recipe(probe.name, lab.adapter.recipe_parts)
    differs = answer.comparison.kind != AGREES and not own
    lines = (lab.place(probe.algorithm, place) for place in list_source_events(probe.name))
    line = next(filter(None, lines), "") if differs else ""
    return dataclasses.replace(answer, origin=RECIPE if own else UPSTREAM, arises=line)


def _build_answer(probe: Probe, measurement: ProbeMeasurement) -> ProbeAnswer:
    value, expected = np.asarray(measurement.value, float), np.asarray(measurement.expected, float)
    comparison = compare_in_probe_units(probe, value, expected)
    text = "" if comparison.kind == AGREES else _describe_difference(probe, measurement, comparison)
    return ProbeAnswer(value, expected, comparison, text)


def _describe_difference(
    probe: Probe, measurement: ProbeMeasurement, comparison: AnswerComparison
) -> str:
    value = np.asarray(measurement.value, float)
    for name, array in measurement.alternatives.items():
        if compare_in_probe_units(probe, value, np.asarray(array, float)).kind == AGREES:
            return name
    return probe.meaning(comparison, measurement)


DescribeDifference = Callable[[AnswerComparison, ProbeMeasurement], str]


def make_relation_description(subject: str) -> DescribeDifference:
    """`<subject>` with how it relates to the paper's."""

    def words(comparison: AnswerComparison, measurement: ProbeMeasurement) -> str:
        if comparison.kind == FACTOR:
            return f"{subject}: {comparison.size:.4g} times the paper's"
        if comparison.kind == NUMBER:
            (value,), (paper,) = np.ravel(measurement.value), np.ravel(measurement.expected)
            return f"{subject}: {value:.4g}, the paper's is {paper:.4g}"
        if comparison.kind == OFFSET:
            return f"{subject}: the paper's {comparison.size:+.4g}"
        found, due = np.asarray(measurement.value), np.asarray(measurement.expected)
        form = describe_relation(found, due) or "another function of its inputs"
        return f"{subject}: {form}, up to {comparison.size:.3g} away"

    return words


def make_entry_description(names: Sequence[str]) -> DescribeDifference:
    """Every entry that differs, with its name: `name is 2, not 1`."""

    def words(comparison: AnswerComparison, measurement: ProbeMeasurement) -> str:
        value, expected = np.ravel(measurement.value), np.ravel(measurement.expected)
        if len(value) != len(expected) or len(value) != len(names):
            return f"{_format_array(value)}, not {_format_array(expected)}"
        parts = [
            f"{name} is {v:.4g}, not {e:.4g}"
            for name, v, e in zip(names, value, expected, strict=True)
            if not (np.isclose(v, e, rtol=1e-4, atol=1e-12) or np.isnan(v))
        ]
        return "; ".join(parts)

    return words


def _format_array(array: np.ndarray) -> str:
    return "[" + ", ".join(f"{x:.4g}" for x in array[:8]) + (", ...]" if len(array) > 8 else "]")
