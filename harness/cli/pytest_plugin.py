"""Pytest plugin: `pytest --parallax-baseline FILE` compares one update with stored answers.

Each stored answer of an implementation to a probe is a test. `--junitxml` writes them as JUnit XML;
`--parallax-summary` writes a Markdown summary; on GitHub it is also the job's summary, without
the option. `parallax probe --baseline FILE --update-baseline` makes the file.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from parallax.harness.probes.results import ProbeReport

_GITHUB_SUMMARY = "GITHUB_STEP_SUMMARY"
_MAX_LISTED = 50
_REPORT_KEY = pytest.StashKey["_BaselineComparison"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("parallax", "probes of reinforcement-learning implementations")
    group.addoption(
        "--parallax-baseline",
        type=Path,
        metavar="FILE",
        help="test that the answers in this file of `parallax probe --json` are the same",
    )
    group.addoption(
        "--parallax-summary",
        type=Path,
        metavar="FILE",
        help=f"append a Markdown summary (default: where {_GITHUB_SUMMARY} says)",
    )


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add a test for each stored answer."""
    path = config.getoption("--parallax-baseline")
    if path is None:
        return
    from parallax.harness.contract.fields import SpecError
    from parallax.harness.probes.baseline import load_report

    try:
        stored = load_report(path)
    except SpecError as error:
        raise pytest.UsageError(f"--parallax-baseline: {error}") from error
    comparison = config.stash[_REPORT_KEY] = _BaselineComparison(stored)
    for result in stored.results:
        for name in result.answers:
            title = f"{result.probe}[{name}]"
            # The part before the colons becomes the class in JUnit XML; viewers group by class.
            item: _AnswerItem = _AnswerItem.from_parent(
                session, name=title, nodeid=f"parallax/{result.algorithm}::{title}"
            )
            item.probe, item.implementation, item.comparison = result.probe, name, comparison
            items.append(item)


class _BaselineComparison:
    """Stored answers, and current answers, which are measured once, before the first test."""

    def __init__(self, stored: "ProbeReport") -> None:
        self.stored = stored
        self._found: ProbeReport | None = None

    def measure(self) -> "ProbeReport":
        """Return the current answers to the stored probes."""
        if self._found is None:
            from parallax.harness.probes import catalogue, runner
            from parallax.harness.probes.experiments import AlignmentLevel
            from parallax.harness.probes.runner import ProbeRequest

            names = {result.probe for result in self.stored.results}
            probes = tuple(
                probe for probe in catalogue.select_probes([], []) if probe.name in names
            )
            level = AlignmentLevel(self.stored.alignment, self.stored.hps)
            request = ProbeRequest(probes, tuple(self.stored.versions), level=level)
            targets = runner.find_targets(request)
            self._found = runner.run_probes(probes, targets, lambda *answer: None)
        return self._found

    def describe_change(self, probe: str, implementation: str) -> str:
        """Return how an answer differs from the stored one; empty if it does not."""
        from parallax.harness.probes.baseline import list_changes, select_answers

        found = self.measure()
        if probe not in {result.probe for result in found.results}:
            return "this probe no longer exists: store the baseline again"
        one = select_answers(found, [probe], [implementation])
        for result in one.results:
            failed = [answer for answer in result.answers.values() if answer.failed]
            if failed:
                return f"the probe failed to run: {failed[0].unmeasured}"
        changes = list_changes(one, select_answers(self.stored, [probe], [implementation]))
        return "; ".join(line.removeprefix(f"{probe}, {implementation}: ") for line in changes)


class ChangedAnswerError(Exception):
    """An answer differs from the stored one."""


class _AnswerItem(pytest.Item):
    probe: str
    implementation: str
    comparison: _BaselineComparison

    def runtest(self) -> None:
        from parallax.harness.contract.fields import SpecError

        try:
            change = self.comparison.describe_change(self.probe, self.implementation)
        except SpecError as error:  # such as a framework that is not installed
            raise ChangedAnswerError(str(error)) from error
        if change:
            raise ChangedAnswerError(change)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, ChangedAnswerError):
            return f"{self.implementation}, {self.probe}: {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"parallax: {self.name}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Write the Markdown summary."""
    comparison = config.stash.get(_REPORT_KEY, None)
    given = config.getoption("--parallax-summary") or os.environ.get(_GITHUB_SUMMARY)
    if comparison is None or not given:
        return
    reports = [
        report
        for kind in ("failed", "passed")
        for report in terminalreporter.stats.get(kind, [])
        if getattr(report, "when", "") == "call" and (report.location[2].startswith("parallax: "))
    ]
    try:
        with Path(given).open("a") as file:
            file.write("\n".join(format_summary(comparison, reports)) + "\n")
    except OSError as error:
        terminalreporter.write_line(f"--parallax-summary {given}: {error.strerror}.")


def format_summary(comparison: _BaselineComparison, reports: list[Any]) -> Iterator[str]:
    """Yield the lines of the summary: changed answers, then the versions."""
    failed = [report for report in reports if report.failed]
    yield f"## Parallax: {len(failed)} of {len(reports)} answers changed"
    yield ""
    if failed:
        yield from ("| implementation, probe | change |", "|---|---|")
        for report in failed[:_MAX_LISTED]:
            name, _, change = str(report.longrepr).replace("|", "\\|").partition(": ")
            yield f"| {name} | {' '.join(change.split())} |"
        if len(failed) > _MAX_LISTED:
            yield f"| {len(failed) - _MAX_LISTED} more | |"
        yield ""
    found = comparison.measure()
    yield from ("| implementation | stored with | now |", "|---|---|---|")
    for name, packages in found.versions.items():
        then = ", ".join(comparison.stored.versions.get(name, ()))
        yield f"| {name} | {then} | {', '.join(packages)} |"
