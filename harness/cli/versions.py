"""`parallax versions`: the history of a framework's answers over its releases."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parallax.harness.cli.arguments import (
    add_algorithms_argument,
    add_cache_argument,
    add_file_argument,
    add_names_argument,
    add_probe_argument,
    check_output_folders,
    check_used_options,
)
from parallax.harness.cli.progress import CommandProgress
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.packages import parse_version
from parallax.harness.probes import catalogue
from parallax.harness.probes.baseline import describe_change
from parallax.harness.probes.probe import Probe
from parallax.harness.record.files import (
    UnusableError,
    escape_unprintable,
    print_lines,
    read_bounded,
    write_files_atomically,
)
from parallax.harness.versions.environments import list_released_versions
from parallax.harness.versions.history import (
    ReleaseHistory,
    bisect_releases,
    extend_history,
    find_missing_probes,
    find_supported_versions,
    history_to_text,
    list_answer_changes,
    list_change_causes,
    list_control_pairs,
    list_failures,
    load_history,
    load_release_dates,
    make_empty_history,
    measure_release,
    sort_versions,
)

if TYPE_CHECKING:
    from parallax.harness.versions.page import BugEffect

_EPILOG = """\
exit codes:
  0  the history is complete
  2  bad input
  3  a release or a probe could not be measured

examples:
  parallax versions sb3 --releases 2.0.0,2.2.1,2.4.1 --algorithms td3 --json sb3.json
  parallax versions skrl --bisect ppo.entropy_bonus 2.0.0..2.1.1
  parallax versions --page docs/history"""
FAILED_EXIT = 3
_MAX_COMMANDS_BYTES = 2**20
MAX_LISTED_FAILURES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("framework", nargs="?", help="the framework, such as sb3")
    text = "releases to measure (default: all releases in the index that the adapter supports)"
    add_names_argument(parser, "--releases", text)
    add_algorithms_argument(parser)
    add_probe_argument(parser)
    add_file_argument(
        parser,
        "--json",
        "file of the history: its answers are not measured again, and new answers are added "
        "after each release",
    )
    add(
        "--bisect",
        nargs=2,
        metavar=("PROBE", "A..B"),
        help="find the release between A and B that changed the answer to one probe",
    )
    add(
        "--page",
        type=Path,
        metavar="FOLDER",
        help="measure nothing; write a page with figures of the histories in this folder "
        "(FRAMEWORK.json)",
    )
    add_cache_argument(parser)


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
        self.history = (
            load_history(framework, file)
            if file is not None and file.exists()
            else make_empty_history(framework)
        )

    def count_missing(self, version: str) -> int:
        """Return the number of answers that a release lacks."""
        return len(find_missing_probes(self.history, version, self._probes))

    def measure(self, version: str, progress: CommandProgress) -> ReleaseHistory:
        """Return the history with the answers of a release."""
        missing = find_missing_probes(self.history, version, self._probes)
        if missing:
            new = measure_release(self._framework, version, missing, self._cache, progress.advance)
            self.history = extend_history(self.history, new)
            if self._file:
                write_files_atomically({self._file: history_to_text(self.history)})
            if new.releases[version].failure:
                progress.advance(f"{version} cannot be measured", len(missing))
        return self.history


def run(options: argparse.Namespace) -> int:
    """Measure releases and print which answers changed from one to the next.

    Returns:
        0; 3 where a release or a probe could not be measured.
    """
    if options.page:
        if options.framework:
            raise SpecError(f"--page shows all frameworks of its folder: drop {options.framework}.")
        check_used_options(options, ("page",), "--page measures nothing")
        return run_page(options)
    if not options.framework:
        raise SpecError("Name a framework, such as: parallax versions sb3")
    supported = find_supported_versions(options.framework)
    for version in options.releases or ():
        supported.list_requirements(version)
    check_output_folders([options.json])
    if options.bisect:
        used = ("framework", "bisect", "releases", "json", "cache")
        check_used_options(options, used, "--bisect measures one probe")
        return run_bisection(options)
    probes = catalogue.select_probes(options.algorithms or [], options.probe)
    versions = sort_versions(options.releases or list_released_versions(supported))
    measurement = ReleaseMeasurement(options.framework, probes, options.cache, options.json)
    with CommandProgress(sum(map(measurement.count_missing, versions))) as progress:
        for version in versions:
            measurement.measure(version, progress)
    print(f"{options.framework}, {len(probes)} probes:")
    print_lines(map(escape_unprintable, format_history(measurement.history, versions)))
    failed = any(list_failures(measurement.history, version) for version in versions)
    return FAILED_EXIT if failed else 0


def format_history(history: ReleaseHistory, versions: Sequence[str]) -> list[str]:
    """Return releases, changed answers and pairs with the same update code, as lines."""
    adapter = load_adapter(history.framework)
    dates, text = load_release_dates(adapter), []
    for version in versions:
        failures, record = list_failures(history, version), history.releases[version]
        count = sum(version in result.answers for result in history.report.results)
        if record.failure:
            text.append(f"  {version:9}{dates.get(version, '')!s:12}not measured: {record.failure}")
            continue
        failed = f", {len(failures)} failed" if failures else ""
        text.append(
            f"  {version:9}{dates.get(version, '')!s:12}{count} answers{failed}, "
            f"{record.cpu_seconds:.0f} s of CPU time"
        )
        text += [f"    {failure}" for failure in failures[:MAX_LISTED_FAILURES]]
    changes = list_answer_changes(history, versions)
    text.append(f"{len(changes) or 'None'} of the answers changed" + (":" if changes else "."))
    text += [f"  {c.before} -> {c.after}  {c.probe}: {c.text}" for c in changes]
    text += [f"  Cause in {cause}" for cause in list_change_causes(adapter, changes)]
    pairs = list_control_pairs(history, versions)
    if pairs:
        text.append(
            f"Of {sum(pair.compared for pair in pairs)} answers in {len(pairs)} pairs of releases "
            f"with the same update code, {sum(len(pair.changed) for pair in pairs)} changed."
        )
    return text


def run_bisection(options: argparse.Namespace) -> int:
    """Find the release that changed one answer, and print it."""
    name, text = options.bisect
    probes = [probe for probe in catalogue.PROBES if probe.name == name]
    first, dots, last = text.partition("..")
    if not probes:
        raise SpecError(f"--bisect {name} is not a probe: parallax probe --list lists all.")
    if not dots:
        raise SpecError(f"--bisect {name} {text}: write two releases, such as 2.0.0..2.4.1.")
    supported = find_supported_versions(options.framework)
    for version in (first, last):
        supported.list_requirements(version)
    known = sort_versions(options.releases or list_released_versions(supported))
    low, high = parse_version(first), parse_version(last)
    versions = [item for item in known if low <= parse_version(item) <= high]
    if len(versions) < 2:
        raise SpecError(f"--bisect {name} {text}: the range has {len(versions)} known releases.")
    measurement = ReleaseMeasurement(options.framework, probes, options.cache, options.json)
    measured = set[str]()

    def describe(version: str) -> list[str] | None:
        measured.add(version)
        history = measurement.measure(version, progress)
        failures = list_failures(history, version, [name])
        if failures:
            print_lines([f"{version} is omitted: {failures[0]}"])
            return None
        result = next(r for r in history.report.results if r.probe == name)
        return describe_change(result, result.answers[versions[0]], result.answers[version])

    # At most the first and the last release, and one for each halving of the rest.
    with CommandProgress(2 + (len(versions) - 2).bit_length()) as progress:
        if describe(versions[0]) is None:
            raise SpecError(f"--bisect: {versions[0]} cannot be measured. Name a later release.")
        found = bisect_releases(versions, describe)
    if found is None:
        print(f"{name}: {versions[-1]} answers as {versions[0]}.")
    else:
        words = describe(found[1]) or [""]
        print_lines([f"{name} changed from {found[0]} to {found[1]}: {words[0]}"])
    print(f"{len(measured)} of {len(versions)} releases were measured.")
    return 0


def run_page(options: argparse.Namespace) -> int:
    """Write the page of stored histories and its figures."""
    from parallax.harness.versions.page import (  # loads Matplotlib
        COMMANDS_FILE,
        TRAININGS_FILE,
        render_files,
    )

    trainings = options.page / TRAININGS_FILE
    effects = load_bug_effects(trainings) if trainings.is_file() else []
    commands = _read_commands(options.page / COMMANDS_FILE) if effects else ""
    texts = render_files(options.page, effects, commands)
    write_files_atomically(texts)
    print(*texts, sep="\n")
    return 0


def _read_commands(path: Path) -> str:
    try:
        return read_bounded(path, _MAX_COMMANDS_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError, UnusableError) as error:
        raise SpecError(f"{path} cannot be shown ({error}): write the file again.") from error


def load_bug_effects(trainings: Path) -> list["BugEffect"]:
    """Return the effects of released bugs on packed trainings, largest effects first."""
    from parallax.analysis.commands.common import load_results
    from parallax.analysis.verdicts.ablation import judge_ablations
    from parallax.analysis.verdicts.options import VerdictOptions
    from parallax.harness.versions.page import BugEffect

    found = judge_ablations(load_results(trainings, prints_conflicts=True), VerdictOptions())
    return [
        BugEffect(
            item.framework,
            item.cell.algorithm,
            bug=effect.name.removeprefix("bug."),
            setting=f"{item.cell.env}, {max(effect.changed.steps):,} steps",
            pairs=effect.result.n,
            without=float(effect.baseline.moments.mean),
            difference=effect.result.difference,
            low=effect.result.low,
            high=effect.result.high,
            p=effect.p_holm,
            verdict=effect.verdict,
        )
        for item in found
        for effect in item.single_effects
    ]
