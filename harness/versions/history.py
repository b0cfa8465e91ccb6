"""Answers of the probes for several releases of one framework, and where they change.

A history is a `ProbeReport` whose implementations are releases, so that the commands for stored
answers read it too. It is extended release by release.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from parallax.harness.contract.adapter import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.versions import VersionRange, parse_version
from parallax.harness.probes.baseline import describe_change, merge_reports
from parallax.harness.probes.probe import Probe
from parallax.harness.probes.results import ProbeReport
from parallax.harness.probes.runner import (
    ProbeTargets,
    ReportAnswer,
    make_probe_target,
    run_probes,
)
from parallax.harness.versions.environments import build_environment

IsChanged = Callable[[str], bool]
"""Whether the answer of a release is not that of the first."""


@dataclasses.dataclass(frozen=True)
class AnswerChange:
    """An answer that is another one in a release than in the release before.

    Attributes:
        probe: Name of the question.
        before: The last release with the old answer.
        after: The first release with the new one.
        text: The old and the new answer, with upstream's file and line where known.
    """

    probe: str
    before: str
    after: str
    text: str


def find_supported_versions(framework: str) -> VersionRange:
    """Return the releases that the adapter of a framework drives.

    Raises:
        SpecError: The adapter states none.
    """
    found = load_adapter(framework).supported_versions
    if found is None:
        raise SpecError(
            f"framework={framework}: its adapter states no releases. Add a module `versions` to it."
        )
    return found


def measure_release(
    framework: str, version: str, probes: Sequence[Probe], cache: Path, on_answer: ReportAnswer
) -> ProbeReport:
    """Return the answers of one release, which is installed if it is not cached.

    Raises:
        SpecError: The release is not supported, cannot be installed or cannot train.
    """
    requirements = find_supported_versions(framework).list_requirements(version)
    python = build_environment(requirements, cache)
    target = make_probe_target(framework, str(python), version)
    return run_probes(probes, ProbeTargets((target,)), on_answer)


def extend_history(history: ProbeReport | None, report: ProbeReport) -> ProbeReport:
    """Return a history with the answers of further releases."""
    return merge_reports(report, history) if history else report


def find_missing_probes(
    history: ProbeReport | None, version: str, probes: Sequence[Probe]
) -> list[Probe]:
    """Return the probes that a history has no answer to for a release."""
    if history is None or version not in history.versions:
        return list(probes)
    answered = {result.probe for result in history.results if version in result.answers}
    return [probe for probe in probes if probe.name not in answered]


def sort_versions(versions: Sequence[str]) -> list[str]:
    """Return releases, oldest first."""
    return sorted(versions, key=parse_version)


def list_answer_changes(history: ProbeReport, versions: Sequence[str]) -> list[AnswerChange]:
    """Return the changes from each release to the next, oldest first.

    A release that could not be measured is skipped: its neighbours are compared.
    """
    found = []
    for result in history.results:
        measured = [
            version
            for version in sort_versions(versions)
            if version in result.answers and not result.answers[version].failed
        ]
        for before, after in itertools.pairwise(measured):
            old, new = result.answers[before], result.answers[after]
            found += [
                AnswerChange(result.probe, before, after, text)
                for text in describe_change(result, old, new)
            ]
    return sorted(found, key=lambda change: (parse_version(change.after), change.probe))


def count_failures(history: ProbeReport, versions: Sequence[str]) -> dict[str, int]:
    """Return the number of questions that failed to run, by release that has any."""
    counts = {
        version: sum(
            version in result.answers and result.answers[version].failed
            for result in history.results
        )
        for version in versions
    }
    return {version: number for version, number in counts.items() if number}


def bisect_releases(versions: Sequence[str], is_changed: IsChanged) -> tuple[str, str] | None:
    """Return the last release with the first one's answer, and the one after it.

    Args:
        versions: Releases, oldest first. The answer is taken to change once.
        is_changed: Asked about as few releases as possible, the last one first.

    Returns:
        None if the last release has the first one's answer.
    """
    if len(versions) < 2 or not is_changed(versions[-1]):
        return None
    low, high = 0, len(versions) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_changed(versions[middle]) else (middle, high)
    return versions[low], versions[high]
