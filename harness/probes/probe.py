"""What a probe is, and how one is put to several frameworks."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from harness.fields import SpecError
from harness.probes.compare import compare, group
from harness.probes.lab import Lab
from harness.probes.results import AGREES, Answer, Array, Axis, Comparison, Result


class Unmeasured(Exception):  # noqa: N818
    """A probe has no answer for a framework; the text says why."""


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What was measured and what the paper's formula gives on the same inputs.

    Attributes:
        value: Any shape.
        expected: Same shape.
        axis: What an array runs over, or None.
    """

    value: Array
    expected: Array
    axis: Axis | None = None


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
    """

    name: str
    question: str
    citation: str
    quantity: str
    measure: Callable[[Lab], Measurement]
    meaning: Callable[[Comparison, Measurement], str]
    tolerance: float = 2e-4
    counts: bool = False

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
            answers[name] = _answer(probe, measured[name])
    values = {name: measurement.value for name, measurement in measured.items()}
    axes = [measurement.axis for measurement in measured.values()]
    return Result(
        probe=probe.name,
        algorithm=probe.algorithm,
        question=probe.question,
        citation=probe.citation,
        quantity=probe.quantity,
        axis=axes[0] if axes else None,
        answers={name: answers[name] for name in labs if name in answers},
        groups=group(values, probe.tolerance, probe.counts),
    )


def _answer(probe: Probe, measurement: Measurement) -> Answer:
    value, expected = np.asarray(measurement.value, float), np.asarray(measurement.expected, float)
    comparison = compare(value, expected, probe.tolerance, probe.counts)
    text = "" if comparison.kind == AGREES else probe.meaning(comparison, measurement)
    return Answer(value, expected, comparison, text)
