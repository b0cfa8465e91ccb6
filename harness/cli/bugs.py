"""`parallax bugs`: reintroduces bugs of released versions and tests whether probes detect them.

An intervention puts a bug's old expression into the current code (`released_bugs.yaml` beside each
adapter). Probes are measured without and with it. A bug is *found* if any answer changes, and
*named* if the answer of a probe that should see it changes.
"""

import argparse
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from parallax.harness.cli.arguments import (
    add_file_argument,
    add_frameworks_argument,
    add_names_argument,
    check_output_folders,
    check_used_options,
    select_names,
    write_output_files,
)
from parallax.harness.cli.progress import CommandProgress
from parallax.harness.contract.adapter_discovery import list_usable_frameworks, load_adapter
from parallax.harness.contract.data_files import check_unique, load_json
from parallax.harness.contract.fields import SpecError, format_value
from parallax.harness.interventions.catalogue import BugRelease, Intervention, list_released_bugs
from parallax.harness.probes.baseline import describe_change
from parallax.harness.probes.catalogue import PROBES
from parallax.harness.probes.intervention_check import format_intervention_label
from parallax.harness.probes.probe import Probe
from parallax.harness.probes.results import ProbeReport
from parallax.harness.probes.runner import ProbeTargets, make_probe_target, run_probes
from parallax.harness.record.files import print_lines, write_files_atomically

NAMED, FOUND, MISSED = "named", "found", "missed"
SILENT, FALSE_ALARM = "silent", "false alarm"
FAILED, NOT_DRIVEN = "failed", "not driven"
_EPILOG = """\
exit codes:
  0  every bug that can be reintroduced is found, and every negative control is silent
  1  a bug is missed or has no outcome, a control is not silent, or a measurement failed
  2  bad input

examples:
  parallax bugs --list
  parallax bugs --frameworks sb3 --expected-only --json bugs.json
  parallax bugs --answers bugs.json --markdown bugs.md"""


@dataclasses.dataclass(frozen=True)
class BugCase:
    """One bug in one algorithm of one framework."""

    framework: str
    algorithm: str
    bug: Intervention

    @property
    def is_driven(self) -> bool:
        """Return whether the entry can reintroduce the bug."""
        return bool(self.bug.source or self.bug.set)

    @property
    def is_control(self) -> bool:
        """Return whether no probe should detect the change."""
        return self.release.control

    @property
    def release(self) -> BugRelease:
        """Return the facts about the release."""
        assert self.bug.released is not None
        return self.bug.released

    @property
    def expected_probes(self) -> tuple[str, ...]:
        """Return the probes of this algorithm that should detect the bug."""
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
        is_seen = self.outcome in (NAMED, FOUND, FALSE_ALARM)
        if is_seen != bool(self.changed):
            need = "needs" if is_seen else "cannot have"
            raise ValueError(f"outcome={self.outcome!r} {need} `changed`, the probes that saw it")


def list_bug_cases(frameworks: Sequence[str], names: Sequence[str] = ()) -> tuple[BugCase, ...]:
    """Return the bugs of frameworks, one case per algorithm.

    Args:
        frameworks: Names of frameworks.
        names: Names of bugs; all if empty.

    Raises:
        SpecError: A framework has no bug of a name.
    """
    found = [
        BugCase(adapter.name, algorithm, bug)
        for adapter in map(load_adapter, frameworks)
        for bug in list_released_bugs(adapter)
        for algorithm in bug.algorithms
    ]
    known = sorted({case.bug.name for case in found})
    chosen = select_names("--bug", names or None, known)
    return tuple(case for case in found if case.bug.name in chosen)


def measure_bugs(cases: Sequence[BugCase], expected_only: bool) -> Iterator[BugOutcome]:
    """Yield the outcome of each case; the unchanged code is measured once per algorithm."""
    groups: dict[tuple[str, str], list[BugCase]] = {}
    for case in cases:
        groups.setdefault((case.framework, case.algorithm), []).append(case)
    for (framework, algorithm), group in groups.items():
        driven = [case for case in group if case.is_driven]
        for case in group:
            if not case.is_driven:
                yield _make_outcome(case, NOT_DRIVEN, reason=case.release.blind)
        probes = select_bug_probes(algorithm, driven, expected_only)
        if driven and probes:
            report = run_probes(probes, _make_targets(framework, driven), lambda _: None)
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
        return FOUND, "the probes that should detect it do not change"
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add_frameworks_argument(parser)
    add_names_argument(parser, "--bug", "only these bugs, such as bug.signed-kl (default: all)", [])
    add("--list", action="store_true", help="list the bugs, do not run them")
    add(
        "--expected-only",
        action="store_true",
        help="measure only the probes that should detect a bug: faster, but reports only whether "
        "a bug is named",
    )
    add_file_argument(
        parser,
        "--json",
        "write the outcomes to this JSON file, after each algorithm; the file's outcomes of "
        "other bugs stay",
    )
    add_file_argument(parser, "--markdown", "write the outcomes to this Markdown page")
    add_file_argument(parser, "--answers", "read outcomes from a file of --json; run nothing")


def run(options: argparse.Namespace) -> int:
    """Measure the bugs, print their outcomes and write the files that the options name.

    Returns:
        0; 1 where a bug is missed or has no outcome, or a control is not silent.
    """
    cases = list_bug_cases(options.frameworks or list_usable_frameworks(), options.bug)
    if options.list:
        check_used_options(options, ("list", "frameworks", "bug"), "--list runs no probe")
        print(*map(format_case, cases), sep="\n")
        return 0
    if options.answers:
        used = ("answers", "frameworks", "bug", "markdown")
        check_used_options(options, used, "--answers FILE runs no probe")
    check_output_folders([options.json, options.markdown])
    found = load_outcomes(options.answers) if options.answers else collect_outcomes(cases, options)
    chosen = {(case.framework, case.algorithm, case.bug.name): case for case in cases}
    outcomes = [item for item in found if get_key(item) in chosen]
    for item in outcomes if options.answers else ():
        _check_outcome(options.answers, item, chosen[get_key(item)])
    table = render_table(outcomes)
    if absent := len(chosen) - len(outcomes):
        table += f"\n\n{absent} of {len(chosen)} cases have no outcome."
    print_lines([table])
    if others := len(found) - len(outcomes):
        print(f"\nOutcomes of other bugs or frameworks, not shown: {others}.")
    if options.markdown:
        text = f"# Outcomes of released bugs\n\n{table}\n"
        write_output_files({options.markdown: text}, [options.markdown])
    good = {NAMED, FOUND, SILENT, NOT_DRIVEN}
    return 0 if not absent and all(item.outcome in good for item in outcomes) else 1


def format_case(case: BugCase) -> str:
    """Return one line about a bug."""
    state = "" if case.is_driven else f" (not driven: {case.release.blind})"
    until = f"{case.release.last_bad} -> {case.release.first_good or 'open'}"
    return f"{case.framework:9}{case.algorithm:5} {case.bug.name:38} {until:18}{state}".rstrip()


def collect_outcomes(cases: Sequence[BugCase], options: argparse.Namespace) -> list[BugOutcome]:
    """Measure the bugs; the outcomes so far are written after each one."""
    outcomes: list[BugOutcome] = []
    stored = load_outcomes(options.json) if options.json and options.json.exists() else []
    with CommandProgress(len(cases)) as progress:
        for outcome in measure_bugs(cases, options.expected_only):
            outcomes.append(outcome)
            progress.advance(f"{outcome.framework} {outcome.bug}")
            if options.json:
                new = {get_key(item) for item in outcomes}
                others = [item for item in stored if get_key(item) not in new]
                write_files_atomically({options.json: outcomes_to_text([*others, *outcomes])})
    return outcomes


def get_key(item: BugOutcome) -> tuple[str, str, str]:
    """Return the key that identifies an outcome."""
    return item.framework, item.algorithm, item.bug


def outcomes_to_text(outcomes: Sequence[BugOutcome]) -> str:
    """Return outcomes as JSON, one line each."""
    lines = (json.dumps(dataclasses.asdict(item)) for item in sort_outcomes(outcomes))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def load_outcomes(path: Path) -> list[BugOutcome]:
    """Load stored outcomes, one of each bug and algorithm."""
    found = load_json(path, list[BugOutcome], "outcomes. Write them with --json")
    check_unique(f"{path}: the outcome of", (" ".join(get_key(item)) for item in found))
    return found


def _check_outcome(file: Path, item: BugOutcome, case: BugCase) -> None:
    """Check that a stored outcome is possible for the bug of its name.

    Raises:
        SpecError: It is not: the file is of another version, or was changed.
    """
    facts = ("last_bad", "first_good", "reference")
    different = [name for name in facts if getattr(item, name) != getattr(case.release, name)]
    possible = {MISSED, *((SILENT, FALSE_ALARM) if case.is_control else (NAMED, FOUND, FAILED))}
    if item.outcome not in (possible if case.is_driven else {NOT_DRIVEN}):
        different.append("outcome")
    is_named = bool(set(item.changed) & set(case.expected_probes))
    own = [probe.name for probe in PROBES if probe.algorithm == case.algorithm]
    is_possible = set(item.changed) <= set(own) and len(set(item.changed)) == len(item.changed)
    if not is_possible or (item.outcome in (NAMED, FOUND) and is_named != (item.outcome == NAMED)):
        different.append("changed")
    if different:
        name = different[0]
        raise SpecError(
            f"{file}: {' '.join(get_key(item))}: {name}={format_value(getattr(item, name))} does "
            "not fit the bug of this version. Measure it again with --json."
        )


def render_table(outcomes: Sequence[BugOutcome]) -> str:
    """Return outcomes as a Markdown table, misses first, with their counts above it."""
    from parallax.analysis.escaping import escape_cell  # it needs tabulate

    lines = [
        format_counts(outcomes),
        "",
        "| framework | algorithm | bug | last bad -> first good | outcome | changed, or why |",
        "|---|---|---|---|---|---|",
    ]
    for item in sort_outcomes(outcomes):
        listed = ", ".join(item.changed[:3])
        more = f" and {len(item.changed) - 3} more" if len(item.changed) > 3 else ""
        detail = "; ".join(filter(None, (listed + more, item.reason)))
        until = f"{item.last_bad} -> {item.first_good or 'open'}"
        bug = item.bug.removeprefix("bug.")
        cells = (item.framework, item.algorithm, bug, until, item.outcome, detail)
        lines.append(f"| {' | '.join(map(escape_cell, cells))} |")
    return "\n".join(lines)


def format_counts(outcomes: Sequence[BugOutcome]) -> str:
    """Return how many bugs are found and named, in a sentence."""
    counts = count_outcomes(outcomes)
    found = counts.get(NAMED, 0) + counts.get(FOUND, 0)
    driven = found + counts.get(MISSED, 0) + counts.get(FAILED, 0)
    text = ", ".join(f"{number} {name}" for name, number in counts.items())
    return f"{found} of {driven} driven bugs are found, {counts.get(NAMED, 0)} named ({text})."
