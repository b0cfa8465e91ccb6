"""What an intervention changes of one update, and whether that is what it promises."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.contract.fields import SpecError
from harness.contract.run_spec import JOINT
from harness.interventions.catalogue import Intervention, by_name, chosen
from harness.probes.baseline import changed
from harness.probes.fleet import find, party
from harness.probes.hearing import Party
from harness.probes.probe import Probe, same
from harness.probes.registry import PROBES
from harness.probes.results import AGREES, Answer, Report

PAPER = "as in the paper"
_LIKE = re.compile(r"as in (\S+)")


def parties(text: str, framework: str, algorithms: Sequence[str]) -> list[Party]:
    """The framework as it is, with the interventions, and those whose answers they promise.

    Args:
        text: Names with `+` between them.
        framework: Whose code is changed.
        algorithms: That are asked about; the interventions must be for one of them.

    Raises:
        SpecError: An intervention is not known or not for this framework, or cannot be made.
    """
    made = named(text, framework, algorithms)
    promised = {like for item in made for value in item.answers.values() if (like := _like(value))}
    others, _ = find(sorted(promised - {framework})) if promised - {framework} else ([], {})
    return [
        party(framework),
        party(framework, label=label(framework, text), intervention=text),
        *others,
    ]


def named(text: str, framework: str, algorithms: Sequence[str]) -> tuple[Intervention, ...]:
    """Interventions by their names, checked for one of the algorithms that they are for.

    Raises:
        SpecError: As for `chosen`.
    """
    first = by_name(text.split(JOINT)[0], framework, algorithms)
    fitting = [name for name in first.algorithms if name in algorithms] if first else algorithms
    return chosen(text, framework, (fitting or list(algorithms))[0])


def label(framework: str, text: str) -> str:
    """What the changed framework is called in a report."""
    return f"{framework}+{text}"


def lines(report: Report, framework: str, text: str, probes: Sequence[Probe]) -> list[str]:
    """What the interventions changed and which promises they keep, for a terminal.

    Args:
        report: Answers of all `parties`.
        framework: Whose code is changed.
        text: Names with `+` between them.
        probes: That were asked.
    """
    other = label(framework, text)
    found = [
        f"{result.probe}: {line}"
        for result in report.results
        if {framework, other} <= result.answers.keys()
        for line in changed(result, result.answers[framework], result.answers[other])
    ]
    head = f"{len(found) or 'None'} of {len(report.results)} answers changed with {text}"
    return [
        head + (":" if found else "."),
        *(f"  {line}" for line in found),
        *broken(report, framework, text, probes),
    ]


def broken(report: Report, framework: str, text: str, probes: Sequence[Probe]) -> list[str]:
    """Promises that are not kept; those of probes that were not asked are left out."""
    asked = {probe.name: probe for probe in probes}
    results = {result.probe: result for result in report.results}
    algorithms = list(dict.fromkeys(probe.algorithm for probe in probes))
    complaints = []
    for item in named(text, framework, algorithms):
        for name, promised in item.answers.items():
            if name not in _NAMES:
                complaints.append(
                    f"{item.file}: {item.name} promises an answer of {name}, and no probe is "
                    "called that: parallax probe --list names all."
                )
            elif name in asked:
                answers = results[name].answers
                found = [answers.get(who) for who in (framework, label(framework, text))]
                kept = [keeps(asked[name], answer, promised, answers) for answer in found]
                if fault := _FAULTS.get((kept[0], kept[1])):
                    complaints.append(
                        f"{item.file}: {item.name} promises that {name} answers {promised!r}, "
                        f"{fault}."
                    )
    return complaints


_NAMES = frozenset(probe.name for probe in PROBES)
_UNKEPT = "and it does not: mend the piece, or what it promises"
_FAULTS = {
    (False, False): _UNKEPT,
    (True, False): _UNKEPT,
    (True, True): "and so it does without it: name a probe that the change moves",
}
"""What is wrong, by whether the framework answers as promised as it is, and with the change."""


def keeps(
    probe: Probe, answer: Answer | None, promised: Any, answers: Mapping[str, Answer]
) -> bool:
    """Whether an answer is what an intervention promises.

    Args:
        probe: The question.
        answer: With the intervention.
        promised: `as in the paper`, `as in FRAMEWORK`, other words that the answer is told in, or
            a number or list of numbers.
        answers: Of implementations as they are, by framework.
    """
    if answer is None or answer.unmeasured:
        return False
    if promised == PAPER:
        return answer.comparison.kind == AGREES
    like = _like(promised)
    if like is not None:
        other = answers.get(like)
        return other is not None and not other.unmeasured and same(probe, answer, other)
    if isinstance(promised, str):
        return promised == answer.meaning
    value = np.asarray(promised, float)
    return bool(np.allclose(np.ravel(answer.value), np.ravel(value), rtol=probe.tolerance))


def _like(promised: Any) -> str | None:
    match = _LIKE.fullmatch(promised) if isinstance(promised, str) and promised != PAPER else None
    return match[1] if match else None


def framework_of(text: str, frameworks: Sequence[str] | None) -> str:
    """The one framework that interventions are asked about.

    Raises:
        SpecError: It is not told.
    """
    if frameworks is None or len(frameworks) != 1:
        raise SpecError(f"--intervention {text} changes one framework: name it with --frameworks.")
    return frameworks[0]
