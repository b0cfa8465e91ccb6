"""`parallax versions`: the history of a framework's answers over its releases."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from parallax.harness.cli.arguments import (
    add_algorithms_argument,
    add_probe_argument,
    check_output_folders,
    split_names,
)
from parallax.harness.cli.progress import CommandProgress
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.interpreter import find_cache_folder
from parallax.harness.contract.versions import parse_version
from parallax.harness.probes import catalogue
from parallax.harness.probes.baseline import describe_change, load_report
from parallax.harness.probes.probe import Probe
from parallax.harness.probes.results import ProbeReport, report_to_text
from parallax.harness.record.files import write_texts_atomically
from parallax.harness.versions.environments import list_released_versions
from parallax.harness.versions.history import (
    bisect_releases,
    count_failures,
    extend_history,
    find_missing_probes,
    find_supported_versions,
    list_answer_changes,
    measure_release,
    sort_versions,
)

_EPILOG = """\
exit codes:
  0  the history is complete
  2  bad input
  3  a probe failed to run

examples:
  parallax versions sb3 --releases 2.0.0,2.2.1,2.4.1 --algorithms td3 --json sb3.json
  parallax versions skrl --bisect ppo.entropy_bonus 2.0.0..2.1.1"""
FAILED_EXIT = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("framework", help="the framework, such as sb3")
    add(
        "--releases",
        type=split_names,
        metavar="A,B",
        help="releases to measure (default: all that the index lists and the adapter drives)",
    )
    add_algorithms_argument(parser)
    add_probe_argument(parser)
    add(
        "--json",
        type=Path,
        metavar="FILE",
        help="file of the history: answers that it holds are not measured again, new ones are "
        "added after each release",
    )
    add(
        "--bisect",
        nargs=2,
        metavar=("PROBE", "A..B"),
        help="find the release between A and B that changed the answer to one probe",
    )
    add(
        "--cache",
        type=Path,
        default=find_cache_folder("releases"),
        metavar="FOLDER",
        help="folder of the environments, one per release (default: %(default)s)",
    )


class ReleaseMeasurement:
    """Answers of one framework's releases, measured when they are first needed.

    Args of the constructor:
        framework: Name of the framework.
        probes: The questions.
        cache: Folder of the environments.
        file: File of the history, or None.
    """

    def __init__(
        self, framework: str, probes: Sequence[Probe], cache: Path, file: Path | None
    ) -> None:
        self._framework, self._probes, self._cache = framework, probes, cache
        self._file = file
        self.history = load_report(file) if file and file.exists() else None

    def measure(self, version: str) -> ProbeReport:
        """Return the history with the answers of a release.

        Raises:
            SpecError: The release cannot be measured.
        """
        missing = find_missing_probes(self.history, version, self._probes)
        if missing:
            with CommandProgress(len(missing)) as progress:
                report = measure_release(
                    self._framework, version, missing, self._cache, progress.advance
                )
            self.history = extend_history(self.history, report)
            if self._file:
                write_texts_atomically({self._file: report_to_text(self.history)})
        assert self.history is not None
        return self.history


def run(options: argparse.Namespace) -> int:
    """Measure releases and print which answer changed between which of them.

    Returns:
        0; 3 where a probe failed to run.

    Raises:
        SpecError: Bad input.
    """
    supported = find_supported_versions(options.framework)
    for version in options.releases or ():
        supported.list_requirements(version)
    check_output_folders([options.json])
    if options.bisect:
        return run_bisection(options)
    probes = catalogue.select_probes(options.algorithms or [], options.probe)
    versions = sort_versions(options.releases or list_released_versions(supported))
    measurement = ReleaseMeasurement(options.framework, probes, options.cache, options.json)
    for version in versions:
        history = measurement.measure(version)
    changes = list_answer_changes(history, versions)
    print(f"{options.framework}, {len(probes)} probes, releases {', '.join(versions)}:")
    print(f"{len(changes) or 'None'} of the answers changed" + (":" if changes else "."))
    for change in changes:
        print(f"  {change.before} -> {change.after}  {change.probe}: {change.text}")
    failures = count_failures(history, versions)
    for version, number in failures.items():
        print(f"  {version}: {number} probes failed to run")
    return FAILED_EXIT if failures else 0


def run_bisection(options: argparse.Namespace) -> int:
    """Find the release that changed one answer, and print it."""
    name, text = options.bisect
    probes = [probe for probe in catalogue.PROBES if probe.name == name]
    first, dots, last = text.partition("..")
    if not probes:
        raise SpecError(f"--bisect {name} is no probe: parallax probe --list lists all.")
    if not dots:
        raise SpecError(f"--bisect {name} {text}: write two releases, such as 2.0.0..2.4.1.")
    supported = find_supported_versions(options.framework)
    known = sort_versions(options.releases or list_released_versions(supported))
    low, high = parse_version(first), parse_version(last)
    versions = [item for item in known if low <= parse_version(item) <= high]
    if len(versions) < 2:
        raise SpecError(f"--bisect {name} {text}: {len(versions)} known releases are in it.")
    measurement = ReleaseMeasurement(options.framework, probes, options.cache, options.json)

    def describe(version: str) -> list[str]:
        measurement.measure(versions[0])
        result = next(r for r in measurement.measure(version).results if r.probe == name)
        old, new = result.answers[versions[0]], result.answers[version]
        if old.failed or new.failed:
            failed = versions[0] if old.failed else version
            raise SpecError(f"--bisect: {name} failed to run with {failed}.")
        return describe_change(result, old, new)

    found = bisect_releases(versions, lambda version: bool(describe(version)))
    if found is None:
        print(f"{name}: {versions[-1]} answers as {versions[0]}.")
    else:
        print(f"{name} changed from {found[0]} to {found[1]}: {describe(found[1])[0]}")
    return 0
