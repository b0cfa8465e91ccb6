"""Check of interventions by probes: the answers that change, and the predictions that hold."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import INTERVENTION_SEPARATOR
from parallax.harness.interventions.catalogue import (
    Intervention,
    find_intervention,
    resolve_interventions,
)
from parallax.harness.probes.baseline import format_pair_changes, list_pair_changes
from parallax.harness.probes.catalogue import PROBES
from parallax.harness.probes.probe import Probe, is_same_answer
from parallax.harness.probes.results import AGREES, ProbeAnswer, ProbeReport

AS_IN_PAPER = "as in the paper"
_AS_IN_FRAMEWORK = re.compile(r"as in (\S+)")


def list_reference_frameworks(text: str, framework: str, algorithms: Sequence[str]) -> list[str]:
    """Return other frameworks that predictions of the interventions refer to.

    Args:
        text: Names with `+` between them.
        framework: Framework whose code is changed.
        algorithms: Algorithms of the probes; the interventions must be for one of them.

    Raises:
        SpecError: An intervention is unknown or not for this framework.
    """
    predictions = (
        value
        for item in find_interventions(text, framework, algorithms)
        for value in item.answers.values()
    )
    references = {_parse_framework_reference(value) for value in predictions}
    return sorted(name for name in references if name and name != framework)


def find_interventions(
    text: str, framework: str, algorithms: Sequence[str]
) -> tuple[Intervention, ...]:
    """Return interventions by their names, checked for one of the algorithms that they are for.

    Raises:
        SpecError: See `resolve_interventions`.
    """
    adapter = load_adapter(framework)
    first = find_intervention(text.split(INTERVENTION_SEPARATOR)[0], adapter, algorithms)
    fitting = [name for name in first.algorithms if name in algorithms] if first else algorithms
    return resolve_interventions(text, adapter, (fitting or list(algorithms))[0])


def format_intervention_label(framework: str, text: str) -> str:
    """Return the label of the changed framework in a report."""
    return f"{framework}+{text}"


def format_changes(report: ProbeReport, framework: str, text: str) -> list[str]:
    """Return the answers that interventions or an acceleration change, as lines.

    Args:
        report: Answers without and with the change.
        framework: Framework that is changed.
        text: Name of the change.
    """
    changes = list_pair_changes(report, framework, format_intervention_label(framework, text))
    head = f"{len(changes) or 'None'} of {len(report.results)} answers changed with {text}"
    return [head + (":" if changes else "."), *format_pair_changes(changes)]


def list_wrong_predictions(
    report: ProbeReport, framework: str, text: str, probes: Sequence[Probe]
) -> list[str]:
    """Return one line per wrong prediction; predictions of probes that were not run are omitted."""
    known = {probe.name: probe for probe in probes}
    results = {result.probe: result for result in report.results}
    algorithms = list(dict.fromkeys(probe.algorithm for probe in probes))
    complaints = []
    for item in find_interventions(text, framework, algorithms):
        for name, prediction in item.answers.items():
            if name not in _PROBE_NAMES:
                complaints.append(
                    f"{item.file}: {item.name} predicts an answer of {name}, which is not a probe: "
                    "parallax probe --list lists all."
                )
            elif name in known:
                answers = results[name].answers
                without, changed = (
                    is_as_predicted(known[name], answers.get(label), prediction, answers)
                    for label in (framework, format_intervention_label(framework, text))
                )
                if changed and not without:
                    continue
                fault = (
                    "it is so without the intervention too: predict a probe that changes"
                    if changed
                    else "it is not: correct the replacement or the prediction"
                )
                complaints.append(
                    f"{item.file}: {item.name} predicts {prediction!r} as the answer of {name}, "
                    f"and {fault}."
                )
    return complaints


_PROBE_NAMES = frozenset(probe.name for probe in PROBES)


def is_as_predicted(
    probe: Probe, answer: ProbeAnswer | None, prediction: Any, answers: Mapping[str, ProbeAnswer]
) -> bool:
    """Return whether an answer is as an intervention predicts.

    Args:
        probe: The question.
        answer: The answer with the intervention.
        prediction: `as in the paper`, `as in FRAMEWORK`, another description of the answer, or a
            number or list of numbers.
        answers: Answers of unchanged implementations, by framework.
    """
    if answer is None or answer.unmeasured:
        return False
    if prediction == AS_IN_PAPER:
        return answer.comparison.kind == AGREES
    like = _parse_framework_reference(prediction)
    if like is not None:
        other = answers.get(like)
        return other is not None and not other.unmeasured and is_same_answer(probe, answer, other)
    if isinstance(prediction, str):
        return prediction == answer.meaning
    value = np.ravel(np.asarray(prediction, float))
    return bool(np.allclose(np.ravel(answer.value), value, rtol=probe.tolerance))


def _parse_framework_reference(prediction: Any) -> str | None:
    if not isinstance(prediction, str) or prediction == AS_IN_PAPER:
        return None
    match = _AS_IN_FRAMEWORK.fullmatch(prediction)
    return match[1] if match else None


def get_single_framework(option: str, frameworks: Sequence[str] | None) -> str:
    """Return the one framework that an option is about.

    Raises:
        SpecError: None or several are named.
    """
    if frameworks is None or len(frameworks) != 1:
        raise SpecError(f"{option} is about one framework: name it with --frameworks.")
    return frameworks[0]
