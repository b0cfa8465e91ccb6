"""What an intervention changes of one update, and whether that is what it promises."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from parallax.harness.contract.adapter import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import INTERVENTION_SEPARATOR
from parallax.harness.interventions.catalogue import (
    Intervention,
    find_intervention,
    resolve_interventions,
)
from parallax.harness.probes.baseline import describe_change
from parallax.harness.probes.catalogue import PROBES
from parallax.harness.probes.probe import Probe, is_same_answer
from parallax.harness.probes.results import AGREES, ProbeAnswer, ProbeReport
from parallax.harness.probes.runner import ProbeTarget, find_probe_targets, make_probe_target

AS_IN_PAPER = "as in the paper"
_AS_IN_FRAMEWORK = re.compile(r"as in (\S+)")


def list_probe_targets(text: str, framework: str, algorithms: Sequence[str]) -> list[ProbeTarget]:
    """The framework as it is, with the interventions, and those whose answers they promise.

    Args:
        text: Names with `+` between them.
        framework: Whose code is changed.
        algorithms: That are asked about; the interventions must be for one of them.

    Raises:
        SpecError: An intervention is not known or not for this framework, or cannot be made.
    """
    made = find_interventions(text, framework, algorithms)
    promised = {
        like
        for item in made
        for value in item.answers.values()
        if (like := _parse_framework_reference(value))
    }
    others, _ = (
        find_probe_targets(sorted(promised - {framework})) if promised - {framework} else ([], {})
    )
    return [
        make_probe_target(framework),
        make_probe_target(
            framework, label=format_intervention_label(framework, text), intervention=text
        ),
        *others,
    ]


def find_interventions(
    text: str, framework: str, algorithms: Sequence[str]
) -> tuple[Intervention, ...]:
    """Interventions by their names, checked for one of the algorithms that they are for.

    Raises:
        SpecError: As for `chosen`.
    """
    adapter = load_adapter(framework)
    first = find_intervention(text.split(INTERVENTION_SEPARATOR)[0], adapter, algorithms)
    fitting = [name for name in first.algorithms if name in algorithms] if first else algorithms
    return resolve_interventions(text, adapter, (fitting or list(algorithms))[0])


def format_intervention_label(framework: str, text: str) -> str:
    """What the changed framework is called in a report."""
    return f"{framework}+{text}"


def format_intervention_report(
    report: ProbeReport, framework: str, text: str, probes: Sequence[Probe]
) -> list[str]:
    """What the interventions changed and which promises they keep, for a terminal.

    Args:
        report: Answers of all `parties`.
        framework: Whose code is changed.
        text: Names with `+` between them.
        probes: That were asked.
    """
    other = format_intervention_label(framework, text)
    found = [
        f"{result.probe}: {line}"
        for result in report.results
        if {framework, other} <= result.answers.keys()
        for line in describe_change(result, result.answers[framework], result.answers[other])
    ]
    head = f"{len(found) or 'None'} of {len(report.results)} answers changed with {text}"
    return [
        head + (":" if found else "."),
        *(f"  {line}" for line in found),
        *list_wrong_predictions(report, framework, text, probes),
    ]


def list_wrong_predictions(
    report: ProbeReport, framework: str, text: str, probes: Sequence[Probe]
) -> list[str]:
    """Promises that are not kept; those of probes that were not asked are left out."""
    asked = {probe.name: probe for probe in probes}
    results = {result.probe: result for result in report.results}
    algorithms = list(dict.fromkeys(probe.algorithm for probe in probes))
    complaints = []
    for item in find_interventions(text, framework, algorithms):
        for name, promised in item.answers.items():
            if name not in _PROBE_NAMES:
                complaints.append(
                    f"{item.file}: {item.name} promises an answer of {name}, and no probe is "
                    "called that: parallax probe --list names all."
                )
            elif name in asked:
                answers = results[name].answers
                found = [
                    answers.get(who)
                    for who in (framework, format_intervention_label(framework, text))
                ]
                kept = [is_as_predicted(asked[name], answer, promised, answers) for answer in found]
                if fault := _PREDICTION_ERRORS.get((kept[0], kept[1])):
                    complaints.append(
                        f"{item.file}: {item.name} promises that {name} answers {promised!r}, "
                        f"{fault}."
                    )
    return complaints


_PROBE_NAMES = frozenset(probe.name for probe in PROBES)
_NOT_AS_PREDICTED = "and it does not: mend the piece, or what it promises"
_PREDICTION_ERRORS = {
    (False, False): _NOT_AS_PREDICTED,
    (True, False): _NOT_AS_PREDICTED,
    (True, True): "and so it does without it: name a probe that the change moves",
}
"""What is wrong, by whether the framework answers as promised as it is, and with the change."""


def is_as_predicted(
    probe: Probe, answer: ProbeAnswer | None, promised: Any, answers: Mapping[str, ProbeAnswer]
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
    if promised == AS_IN_PAPER:
        return answer.comparison.kind == AGREES
    like = _parse_framework_reference(promised)
    if like is not None:
        other = answers.get(like)
        return other is not None and not other.unmeasured and is_same_answer(probe, answer, other)
    if isinstance(promised, str):
        return promised == answer.meaning
    value = np.asarray(promised, float)
    return bool(np.allclose(np.ravel(answer.value), np.ravel(value), rtol=probe.tolerance))


def _parse_framework_reference(promised: Any) -> str | None:
    match = (
        _AS_IN_FRAMEWORK.fullmatch(promised)
        if isinstance(promised, str) and promised != AS_IN_PAPER
        else None
    )
    return match[1] if match else None


def get_single_framework(text: str, frameworks: Sequence[str] | None) -> str:
    """The one framework that interventions are asked about.

    Raises:
        SpecError: It is not told.
    """
    if frameworks is None or len(frameworks) != 1:
        raise SpecError(f"--intervention {text} changes one framework: name it with --frameworks.")
    return frameworks[0]
