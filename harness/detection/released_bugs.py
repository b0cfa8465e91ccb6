"""Probes on bugs that were released and repaired later, brought back into the installed version.

A bug's old expression is put into today's code as an intervention (`released_bugs.yaml` beside each
adapter). Probes are measured without and with it. A bug is *found* if any answer changes, and
*named* if the answer of a probe that should see it changes.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from parallax.harness.contract.adapter import Adapter, load_adapter
from parallax.harness.contract.fields import SpecError, format_unknown_name
from parallax.harness.interventions.catalogue import BugRelease, Intervention, list_released_bugs
from parallax.harness.probes.baseline import describe_change
from parallax.harness.probes.catalogue import PROBES
from parallax.harness.probes.intervention_check import format_intervention_label
from parallax.harness.probes.probe import Probe
from parallax.harness.probes.results import ProbeReport
from parallax.harness.probes.runner import ProbeTargets, ReportAnswer, make_probe_target, run_probes

NAMED, FOUND, MISSED = "named", "found", "missed"
SILENT, FALSE_ALARM = "silent", "false alarm"
FAILED, NOT_DRIVEN = "failed", "not driven"


@dataclasses.dataclass(frozen=True)
class BugCase:
    """One bug in one algorithm of one framework."""

    framework: str
    algorithm: str
    bug: Intervention

    @property
    def is_driven(self) -> bool:
        """Return whether the entry can bring the bug back."""
        return bool(self.bug.source or self.bug.set)

    @property
    def is_control(self) -> bool:
        """Return whether the change is one that no probe should see."""
        return self.release.control

    @property
    def release(self) -> BugRelease:
        """Return the facts about the release."""
        assert self.bug.released is not None
        return self.bug.released

    @property
    def expected_probes(self) -> tuple[str, ...]:
        """Return the probes of this algorithm that should see the bug."""
        start = f"{self.algorithm}."
        return tuple(name for name in self.release.seen_by if name.startswith(start))


@dataclasses.dataclass(frozen=True)
class BugOutcome:
    """Result of the probes on one bug.

    Attributes:
        outcome: `named`, `found`, `missed`, `silent` or `false alarm` (negative controls), `failed`
            or `not driven`.
        changed: Probes whose answer changed, those that should change first.
        reason: Why the bug is missed or not driven, if it is known.
        seconds: Share of the time of the measurement.
    """

    framework: str
    algorithm: str
    bug: str
    last_bad: str
    first_good: str
    reference: str
    outcome: str
    changed: tuple[str, ...] = ()
    reason: str = ""
    compared: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.outcome not in _ORDER:
            raise ValueError(f"outcome={self.outcome!r} must be one of {', '.join(_ORDER)}")


def list_bug_cases(frameworks: Sequence[str], names: Sequence[str] = ()) -> tuple[BugCase, ...]:
    """Return the bugs of frameworks, one case per algorithm; all if `names` is empty."""
    found = [case for name in frameworks for case in _list_cases(load_adapter(name))]
    known = sorted({case.bug.name for case in found})
    for name in names:
        if name not in known:
            raise SpecError(format_unknown_name(f"--bug {name}", name, known))
    return tuple(case for case in found if not names or case.bug.name in names)


def _list_cases(adapter: Adapter) -> Iterator[BugCase]:
    for bug in list_released_bugs(adapter):
        for algorithm in bug.algorithms:
            yield BugCase(adapter.name, algorithm, bug)


def measure_bugs(
    cases: Sequence[BugCase], expected_only: bool, on_answer: ReportAnswer
) -> Iterator[BugOutcome]:
    """Yield the outcome of each case; the unchanged code is measured once per algorithm."""
    groups: dict[tuple[str, str], list[BugCase]] = {}
    for case in cases:
        groups.setdefault((case.framework, case.algorithm), []).append(case)
    for (framework, algorithm), group in groups.items():
        driven = [case for case in group if case.is_driven]
        yield from (
            _make_outcome(case, NOT_DRIVEN, reason=case.release.blind)
            for case in group
            if not case.is_driven
        )
        probes = select_bug_probes(algorithm, driven, expected_only)
        if driven and probes:
            report = run_probes(probes, _make_targets(framework, driven), on_answer)
            share = report.seconds / len(driven)
            yield from (judge_bug(case, report, share) for case in driven)
        else:
            yield from (_make_outcome(case, MISSED, reason=case.release.blind) for case in driven)


def select_bug_probes(
    algorithm: str, cases: Sequence[BugCase], expected_only: bool
) -> tuple[Probe, ...]:
    """Return the probes to measure for bugs of one algorithm."""
    expected = {name for case in cases for name in case.expected_probes}
    return tuple(
        probe
        for probe in PROBES
        if probe.algorithm == algorithm and (not expected_only or probe.name in expected)
    )


def _make_targets(framework: str, cases: Sequence[BugCase]) -> ProbeTargets:
    labels = {case.bug.name: format_intervention_label(framework, case.bug.name) for case in cases}
    changed = (
        make_probe_target(framework, label=label, intervention=name)
        for name, label in labels.items()
    )
    return ProbeTargets((make_probe_target(framework), *changed))


def judge_bug(case: BugCase, report: ProbeReport, seconds: float = 0.0) -> BugOutcome:
    """Return the outcome of one case from the answers without and with the bug."""
    label = format_intervention_label(case.framework, case.bug.name)
    changed, failed, compared = list[str](), "", 0
    for result in report.results:
        before, after = result.answers.get(case.framework), result.answers.get(label)
        if before is None or after is None or before.failed:
            continue
        compared += 1
        if after.failed:
            failed = failed or f"{result.probe}: {after.unmeasured}"
        elif describe_change(result, before, after):
            changed.append(result.probe)
    expected = set(case.expected_probes)
    changed.sort(key=lambda name: name not in expected)
    outcome, reason = _judge_change(case, changed, failed)
    found = {"reason": reason, "compared": compared, "seconds": round(seconds, 1)}
    return _make_outcome(case, outcome, changed=tuple(changed), **found)


def _judge_change(case: BugCase, changed: Sequence[str], failed: str) -> tuple[str, str]:
    if case.is_control:
        return (FALSE_ALARM if changed else SILENT), case.release.blind
    if set(changed) & set(case.expected_probes):
        return NAMED, ""
    if changed:
        return FOUND, "the probes that ask about it do not change"
    if failed:
        return FAILED, failed
    return MISSED, case.release.blind or "no answer changes"


def _make_outcome(case: BugCase, outcome: str, **found: Any) -> BugOutcome:
    facts = case.release.last_bad, case.release.first_good, case.release.reference
    return BugOutcome(case.framework, case.algorithm, case.bug.name, *facts, outcome, **found)


_ORDER = (MISSED, FALSE_ALARM, FAILED, FOUND, NAMED, SILENT, NOT_DRIVEN)


def sort_outcomes(outcomes: Sequence[BugOutcome]) -> list[BugOutcome]:
    """Return outcomes with the misses first."""
    return sorted(
        outcomes,
        key=lambda item: (_ORDER.index(item.outcome), item.framework, item.bug, item.algorithm),
    )


def count_outcomes(outcomes: Sequence[BugOutcome]) -> Mapping[str, int]:
    """Return the number of cases by outcome, in the order of the page; absent ones are left out."""
    found = [item.outcome for item in outcomes]
    return {name: found.count(name) for name in _ORDER if name in found}
