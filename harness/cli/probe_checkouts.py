"""`parallax probe --path CHECKOUT [--commits A..B]` and `--script FILE`: answers of other code."""

import dataclasses
import functools
import hashlib
import io
import itertools
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from parallax.harness.cli.arguments import find_script_side
from parallax.harness.cli.changed_code import (
    ChangeSet,
    CodeChange,
    find_causes,
    format_causes,
    format_code_changes,
    list_code_changes,
)
from parallax.harness.cli.progress import CommandProgress
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.interpreter import find_cache_folder, leave_out_folder
from parallax.harness.contract.own_script import read_own_script
from parallax.harness.probes.baseline import describe_change, merge_reports
from parallax.harness.probes.intervention_check import get_single_framework
from parallax.harness.probes.results import ProbeReport
from parallax.harness.probes.runner import (
    ProbeRequest,
    ProbeTargets,
    ReportAnswer,
    make_probe_target,
    run_probes,
)
from parallax.harness.probes.worker import ProbeTarget
from parallax.harness.record.files import print_lines

INSTALLED = "installed"
_MAX_COMMITS = 200
_FIND_MODULE_CODE = (
    "import importlib.util, sys; print(importlib.util.find_spec(sys.argv[1]).origin)"
)


@dataclasses.dataclass(frozen=True)
class SourceVersion:
    """One state of a framework's source.

    Attributes:
        label: Its name in the report: `installed`, `checkout`, or a commit.
        folder: Folder that its package is in; None for the installed version.
        description: Path, commit and state in words.
        package: The package's own folder.
    """

    label: str
    folder: Path | None
    description: str
    package: Path


def compare_checkout(
    request: ProbeRequest, checkout: Path, commits: str | None, finds_causes: bool = False
) -> ProbeReport:
    """Measure the states of a checkout and print which answers changed between them.

    Args:
        request: Probes and the one framework.
        checkout: A working copy of its repository.
        commits: `A..B`; None compares the files as they are with the installed version.
        finds_causes: Whether to find the changed lines behind each changed answer.

    Returns:
        The answers of all states, in order.
    """
    framework = get_single_framework("--path", request.frameworks)
    package = _get_package(framework)
    if commits is None:
        versions = [
            _describe_installed(framework, package, request.python),
            _describe_checkout(checkout, package),
        ]
    else:
        versions = list_commits(checkout, package, commits)
    found = measure_versions(versions, framework, request)

    def measure_folder(probes: Sequence[str], report: ReportAnswer, folder: Path) -> ProbeReport:
        target = make_version_target(framework, request, "without", folder)
        chosen = [probe for probe in request.probes if probe.name in probes]
        target = dataclasses.replace(target, explains=False)  # numbers show that an answer changed
        return run_probes(chosen, ProbeTargets((target,)), report)

    _print_changes(found, versions, measure_folder if finds_causes else None)
    return found


def compare_script(request: ProbeRequest, path: Path) -> ProbeReport:
    """Measure the user's own script and the framework's, and print which answers differ."""
    script, framework = read_own_script(path), get_single_framework("--script", request.frameworks)
    find_script_side(path, [framework], request.algorithms[0])
    shipped = make_probe_target(framework)
    shipped = dataclasses.replace(shipped, level=request.level, uses_store=request.uses_store)
    label = script.name_implementation(framework)
    own = dataclasses.replace(shipped, label=label, script=path.resolve())
    with CommandProgress(2 * len(request.probes)) as progress:
        found = run_probes(request.probes, ProbeTargets((shipped, own)), progress.advance)
    print(f"{label}: {path}")
    _print_changes(found, ())
    return found


MeasureProbes = Callable[[Sequence[str], ReportAnswer, Path], ProbeReport]
"""Returns the answers of named probes to the package in a folder."""


@dataclasses.dataclass(frozen=True)
class AnswerChange:
    """An answer that differs between two states of the code, in words."""

    before: str
    after: str
    probe: str
    text: str

    def __str__(self) -> str:
        """Return its line."""
        return f"{self.before} -> {self.after}  {self.probe}: {self.text}"


def _print_changes(
    found: ProbeReport, versions: Sequence[SourceVersion], measure: MeasureProbes | None = None
) -> None:
    # Answers are listed below the changed lines behind them where these are known: there is only
    # one change, or a function that measures the state without it.
    for version in versions:
        print(f"{version.label}: {version.description}")
    changes = list_changes_in_order(found)
    failed = [name for r in found.results for name, answer in r.answers.items() if answer.failed]
    text = f"{len(changes) or 'None'} of the answers changed"
    for name, count in Counter(failed).items():
        text += f"; {name} failed to run in {count} of {len(found.results)} probes"
    print(text + (":" if changes else "."))
    unexplained, lines = list(changes), []
    for before, after in itertools.pairwise(versions):
        moved = [c for c in changes if (c.before, c.after) == (before.label, after.label)]
        code = list_code_changes(before.package, after.package) if moved else []
        if len(code) == 1 or (code and measure):
            unexplained = [change for change in unexplained if change not in moved]
            causes = _find_causes(found, moved, after, code, measure)
            lines += [f"  {line}" for line in format_causes(causes, code)]
        elif moved:
            lines.append(f"Code that differs, {before.label} -> {after.label}:")
            by_file = format_code_changes(code, first=" ".join(change.text for change in moved))
            lines += [f"  {line}" for line in by_file]
    print_lines([*(f"  {change}" for change in unexplained), *lines])


def _find_causes(
    found: ProbeReport,
    moved: Sequence[AnswerChange],
    after: SourceVersion,
    code: Sequence[CodeChange],
    measure: MeasureProbes | None,
) -> dict[str, tuple[ChangeSet, ...]]:
    # The changes behind each changed answer, by its line.
    if measure is None:
        return {str(change): ((code[0],),) for change in moved}
    by_probe = {result.probe: result.answers for result in found.results}
    answers = {
        change.probe: (by_probe[change.probe][change.before], by_probe[change.probe][change.after])
        for change in moved
    }
    n_folders = len(code) + len({change.file for change in code})
    with CommandProgress(n_folders * len(answers)) as progress:
        measure_changed = functools.partial(measure, list(answers), progress.advance)
        causes = find_causes(answers, after.package, code, measure_changed)
    return {str(change): causes[change.probe] for change in moved}


def list_changes_in_order(found: ProbeReport) -> list[AnswerChange]:
    """Return each answer that differs from the previous state.

    States in which a probe failed to run are skipped: their neighbours are compared.
    """
    changes = []
    for before, after in itertools.combinations(found.versions, 2):
        for result in found.results:
            measured = [n for n in found.versions if n in result.answers]
            measured = [n for n in measured if not result.answers[n].failed]
            if (before, after) in itertools.pairwise(measured):
                old, new = result.answers[before], result.answers[after]
                changes += [
                    AnswerChange(before, after, result.probe, text)
                    for text in describe_change(result, old, new)
                ]
    return changes


def measure_versions(
    versions: Sequence[SourceVersion], framework: str, request: ProbeRequest
) -> ProbeReport:
    """Return the answers of several states of a framework's source."""
    found: ProbeReport | None = None
    with CommandProgress(len(versions) * len(request.probes)) as progress:
        for version in versions:  # one after the other: each uses all processes
            target = make_version_target(framework, request, version.label, version.folder)
            report = run_probes(request.probes, ProbeTargets((target,)), progress.advance)
            found = report if found is None else merge_reports(report, found)
    assert found is not None
    return found


def make_version_target(
    framework: str, request: ProbeRequest, label: str, folder: Path | None
) -> ProbeTarget:
    """Return the target of a framework whose package is in a folder; None for the installed one."""
    target = make_probe_target(framework, request.python, label)
    return dataclasses.replace(
        target, level=request.level, source=folder, uses_store=request.uses_store
    )


def _get_package(framework: str) -> str:
    names = load_adapter(framework).import_names
    if not names:
        raise SpecError(
            f"--path: framework={framework} is not imported as a package. For CleanRL, train your "
            "own copy of a script with script=PATH."
        )
    return names[0]


def _describe_installed(framework: str, package: str, python: str | None) -> SourceVersion:
    found = _find_module(package, python)
    return SourceVersion(INSTALLED, None, f"{framework} in {found}", Path(found).parent)


def _describe_checkout(checkout: Path, package: str) -> SourceVersion:
    folder = _find_package_folder(checkout, package)
    try:
        commit = _run_git(checkout, "rev-parse", "--short", "HEAD")
        changed = len(_run_git(checkout, "status", "--porcelain", "--", str(folder)).splitlines())
        state = f"commit {commit}" + (f", {changed} files changed since" if changed else "")
    except SpecError:
        state = "no commit"
    code = folder / package
    return SourceVersion("checkout", folder, f"{code} ({state})", code)


def _find_package_folder(checkout: Path, package: str) -> Path:
    for folder in (checkout, checkout / "src"):
        if (folder / package / "__init__.py").is_file():
            return folder.resolve()
    raise SpecError(
        f"--path {checkout}: neither the folder nor its subfolder src contains the package "
        f"{package}. Name the top folder of the repository."
    )


def _find_module(package: str, python: str | None) -> str:
    command = [python or sys.executable, "-c", _FIND_MODULE_CODE, package]
    # As in measurements, a checkout in the working folder is not the installed version.
    environment = leave_out_folder(dict(os.environ))
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return answer.stdout.strip() or f"no place that {command[0]} finds"


def list_commits(checkout: Path, package: str, commits: str) -> list[SourceVersion]:
    """Return the first commit of a range, and all later commits that change the package.

    Each commit is unpacked into the cache once; the repository itself is only read.
    """
    first, dots, last = commits.partition("..")
    if not (first and dots and last) or last.startswith("."):
        raise SpecError(f"--commits {commits}: write two commits, such as v2.4.0..HEAD.")
    start, end = (
        _run_git(checkout, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
        for name in (first, last)
    )
    try:
        _run_git(checkout, "merge-base", "--is-ancestor", start, end)
    except SpecError:
        raise SpecError(
            f"--commits {commits}: {last} does not come after {first}: swap them, or fetch the "
            "whole history."
        ) from None
    _find_package_folder(checkout, package)
    order = ("--reverse", "--topo-order", "--first-parent")  # each is compared with the one before
    places = (package, f"src/{package}")  # it may have moved in between
    later = _run_git(checkout, "rev-list", *order, f"{start}..{end}", "--", *places)
    hashes = [start, *later.split()]
    if len(hashes) > _MAX_COMMITS:
        raise SpecError(
            f"--commits {commits}: {len(hashes) - 1} commits change {package}, and at most "
            f"{_MAX_COMMITS - 1} are measured: name a shorter range."
        )
    return [_unpack_commit(checkout, package, commit) for commit in hashes]


def _unpack_commit(checkout: Path, package: str, commit: str) -> SourceVersion:
    top = Path(_run_git(checkout, "rev-parse", "--show-toplevel"))
    repository = hashlib.sha256(os.fsencode(top)).hexdigest()[:12]
    folder = find_cache_folder("commits") / repository / commit
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        packed = _run_git_bytes(top, "archive", "--format=tar", commit)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            unpacked = Path(temporary) / commit
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                try:
                    archive.extractall(unpacked, filter="data")
                except tarfile.TarError as error:
                    raise SpecError(
                        f"--path {checkout}: commit {commit} cannot be unpacked: {error}. Name "
                        "a range without it."
                    ) from error
            try:
                unpacked.rename(folder)
            except OSError:  # another process may have been first
                if not folder.is_dir():
                    raise
    title = _run_git(top, "log", "-1", "--format=%h %s", commit)
    inside = folder / _run_git(checkout, "rev-parse", "--show-prefix")
    place = _find_package_folder(inside, package)
    return SourceVersion(title.partition(" ")[0], place, title, place / package)


def _run_git(folder: Path, *words: str) -> str:
    return _run_git_bytes(folder, *words).decode("utf-8", "replace").strip()


def _run_git_bytes(folder: Path, *words: str) -> bytes:
    try:
        answer = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=True)
    except FileNotFoundError:
        raise SpecError("--path: git is not installed, and commits need it.") from None
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason"]
        raise SpecError(f"--path {folder}: git {words[0]} says: {lines[-1]}") from error
    return answer.stdout
