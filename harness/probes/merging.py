"""Answers of several implementations, put together."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from harness.probes.probe import Probe, alike
from harness.probes.results import Answer, Axis, Result, no_answer


def died(probe: Probe, why: str) -> Result:
    """The result of a process that ended before it answered."""
    return bare(probe, {"": no_answer(why, failed=True)}, None)


def merge(probe: Probe, results: Mapping[str, Result]) -> Result:
    """One result of several, by implementation, each with one answer at most."""
    answers: dict[str, Answer] = {}
    axis: Axis | None = None
    for label, result in results.items():
        axis = result.axis if axis is None else axis
        for answer in result.answers.values():  # one at most
            answers[label] = answer if axis is result.axis else _own_axis(answer, result, axis)
    return bare(probe, answers, axis)


def _own_axis(answer: Answer, result: Result, common: Axis | None) -> Answer:
    if result.axis is None or common is None:
        return answer
    same = np.allclose(result.axis.values, common.values, rtol=1e-4, atol=1e-6)
    return answer if same else dataclasses.replace(answer, along=result.axis.values)


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
