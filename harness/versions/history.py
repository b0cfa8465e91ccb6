"""Answers of the probes for several releases of one framework, and where they change.

The file of a history is a stored `ProbeReport` whose implementations are releases, so that the
commands for stored answers read it too. It is extended release by release. Digests of the update
code find releases between which it did not change.
"""

import ast
import dataclasses
import fnmatch
import hashlib
import itertools
import resource
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.data_files import load_json, load_yaml
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.packages import VersionRange, parse_version
from parallax.harness.probes.baseline import describe_change, merge_reports, parse_report
from parallax.harness.probes.probe import Probe
from parallax.harness.probes.results import (
    AGREES,
    ProbeAnswer,
    ProbeReport,
    plain_report_to_text,
    report_to_dict,
    share_answers,
)
from parallax.harness.probes.runner import ProbeTargets, ReportAnswer, make_probe_target, run_probes
from parallax.harness.versions.environments import build_environment, find_packages_folder

RELEASE_DATES_FILE = "release_dates.yaml"
CHANGE_CAUSES_FILE = "change_causes.yaml"
IsChanged = Callable[[str], Sequence[str] | bool | None]
"""Whether a release's answer differs from the first one's; None if it cannot be measured."""


@dataclasses.dataclass(frozen=True)
class ReleaseRecord:
    """Facts about the measurement of one release.

    Attributes:
        requirements: Packages that were installed for it, `name==version`.
        cpu_seconds: CPU time of its probes.
        update_code: Digest of each algorithm's update code; equal code has equal digests.
        failure: Why it could not be measured; empty if it was.
    """

    requirements: tuple[str, ...] = ()
    cpu_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e10)] = 0.0
    update_code: Mapping[str, str] = dataclasses.field(default_factory=dict)
    failure: str = ""


@dataclasses.dataclass(frozen=True)
class ReleaseHistory:
    """Answers of a framework's releases."""

    framework: str
    report: ProbeReport
    releases: Mapping[str, ReleaseRecord]


@dataclasses.dataclass(frozen=True)
class AnswerChange:
    """An answer that changed from one release to the next.

    Attributes:
        before: The last release with the old answer.
        after: The first release with the new one.
        text: The old and the new answer, with upstream's file and line where known.
        follows_paper: Whether both follow the paper's formula with other numbers: then another
            change is the cause.
    """

    probe: str
    before: str
    after: str
    text: str
    follows_paper: bool = False


@dataclasses.dataclass(frozen=True)
class ControlPair:
    """Two consecutive releases with the same update code of an algorithm."""

    algorithm: str
    before: str
    after: str
    compared: int
    changed: tuple[str, ...]


def find_supported_versions(framework: str) -> VersionRange:
    """Return the releases that the adapter of a framework supports.

    Raises:
        SpecError: The adapter states none.
    """
    found = load_adapter(framework).supported_versions
    if found is None:
        raise SpecError(
            f"framework={framework}: its adapter states no releases: add `supported_versions`."
        )
    return found


def load_release_dates(adapter: Adapter) -> Mapping[str, date]:
    """Load the dates of a framework's releases from `release_dates.yaml` beside its adapter."""
    file = adapter.folder / RELEASE_DATES_FILE
    content = load_yaml(file, "list of release dates") if file.is_file() else {}
    return {str(version): day for version, day in content.items()}


def make_empty_history(framework: str) -> ReleaseHistory:
    """Return a history of no releases."""
    return ReleaseHistory(framework, ProbeReport((), {}, {}, 0.0), {})


def load_history(framework: str, path: Path) -> ReleaseHistory:
    """Load a stored history; a stored report of a framework's releases is one, too.

    Raises:
        SpecError: The file holds none.
    """
    content = load_json(path, dict[str, Any], "history. Write it with --json")
    try:
        report = parse_report(content)
        records = msgspec.convert(content.get("releases", {}), dict[str, ReleaseRecord])
    except (ValueError, msgspec.ValidationError) as error:
        raise SpecError(f"{path} holds no history ({error}). Write it with --json.") from error
    known = {version: ReleaseRecord() for version in report.versions}
    return ReleaseHistory(framework, report, known | records)


def history_to_text(history: ReleaseHistory) -> str:
    """Return a history as JSON, one line per probe; a repeated answer is the other's name."""
    records = {
        version: dataclasses.asdict(history.releases[version])
        for version in sort_versions(list(history.releases))
    }
    content = share_answers(report_to_dict(history.report))
    return plain_report_to_text(content | {"releases": records})


def measure_release(
    framework: str, version: str, probes: Sequence[Probe], cache: Path, on_answer: ReportAnswer
) -> ReleaseHistory:
    """Return the history of one release, which is installed if it is not cached.

    A release that cannot be installed or imported is recorded with its failure.

    Raises:
        SpecError: The release is not supported.
    """
    supported = find_supported_versions(framework)
    requirements = supported.list_requirements(version)
    python: Path | None = None
    try:
        python = build_environment(requirements, cache)
        packages = find_packages_folder(python)
        digests = {
            algorithm: _digest_modules(modules, packages)
            for algorithm, modules in supported.update_modules.items()
        }
        target = make_probe_target(framework, str(python), version)
    except SpecError as error:
        words = str(error).removeprefix(f"framework.python={python} ")  # the same on all machines
        record = ReleaseRecord(requirements, failure=words)
        return dataclasses.replace(make_empty_history(framework), releases={version: record})
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = run_probes(probes, ProbeTargets((target,)), on_answer)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
    record = ReleaseRecord(requirements, round(seconds, 1), digests)
    return ReleaseHistory(framework, remove_folder(report, packages), {version: record})


def remove_folder(report: ProbeReport, folder: Path) -> ProbeReport:
    """Return a report whose reasons of failures do not name a folder of this machine."""

    def shorten(answer: ProbeAnswer) -> ProbeAnswer:
        return dataclasses.replace(answer, unmeasured=answer.unmeasured.replace(f"{folder}/", ""))

    results = (
        dataclasses.replace(
            result, answers={name: shorten(answer) for name, answer in result.answers.items()}
        )
        for result in report.results
    )
    return dataclasses.replace(report, results=tuple(results))


def extend_history(history: ReleaseHistory, new: ReleaseHistory) -> ReleaseHistory:
    """Return a history with further answers; new ones replace old ones."""
    records = dict(history.releases)
    for version, record in new.releases.items():
        seconds = records.get(version, ReleaseRecord()).cpu_seconds + record.cpu_seconds
        records[version] = dataclasses.replace(record, cpu_seconds=round(seconds, 1))
    return ReleaseHistory(
        history.framework, merge_reports(new.report, history.report), dict(records)
    )


def find_missing_probes(
    history: ReleaseHistory, version: str, probes: Sequence[Probe]
) -> list[Probe]:
    """Return the probes that have no answer, or failed, for a release of a history."""
    answered = {
        result.probe
        for result in history.report.results
        if version in result.answers and not result.answers[version].failed
    }
    return [probe for probe in probes if probe.name not in answered]


def sort_versions(versions: Sequence[str]) -> list[str]:
    """Return releases, oldest first."""
    return sorted(versions, key=parse_version)


def list_answer_changes(history: ReleaseHistory, versions: Sequence[str]) -> list[AnswerChange]:
    """Return the changes from each release to the next, oldest first.

    A release without an answer, since it could not be measured or has no such part, is skipped:
    its neighbours are compared.
    """
    found = []
    for result in history.report.results:
        measured = [
            version
            for version in sort_versions(versions)
            if version in result.answers and not result.answers[version].unmeasured
        ]
        for before, after in itertools.pairwise(measured):
            old, new = result.answers[before], result.answers[after]
            found += [
                AnswerChange(
                    *(result.probe, before, after, text),
                    old.comparison.kind == new.comparison.kind == AGREES,
                )
                for text in describe_change(result, old, new)
            ]
    return sorted(found, key=lambda change: (parse_version(change.after), change.probe))


def list_change_causes(adapter: Adapter, changes: Sequence[AnswerChange]) -> list[str]:
    """Return the known causes of changes, from `change_causes.yaml` beside the adapter."""
    file = adapter.folder / CHANGE_CAUSES_FILE
    content = load_yaml(file, "list of causes") if file.is_file() else {}
    found = []
    for release, causes in content.items():
        crossing = [
            change.probe
            for change in changes
            if parse_version(change.before) < parse_version(release) <= parse_version(change.after)
        ]
        for cause in causes:
            probes = [
                p for p in crossing if any(fnmatch.fnmatch(p, one) for one in cause["probes"])
            ]
            if probes:
                names = ", ".join(f"`{probe}`" for probe in probes)
                found.append(f"{release}: {cause['cause'].strip()} Changed: {names}.")
    return found


def list_control_pairs(history: ReleaseHistory, versions: Sequence[str]) -> list[ControlPair]:
    """Return the pairs of consecutive releases with the same update code, by algorithm."""
    measured = [v for v in sort_versions(versions) if v in history.report.versions]
    found = []
    for before, after in itertools.pairwise(measured):
        old, new = history.releases[before].update_code, history.releases[after].update_code
        for algorithm in old:
            if old[algorithm] == new.get(algorithm):
                compared, changed = _compare_releases(history.report, algorithm, before, after)
                if compared:
                    found.append(ControlPair(algorithm, before, after, compared, changed))
    return found


def _compare_releases(
    report: ProbeReport, algorithm: str, before: str, after: str
) -> tuple[int, tuple[str, ...]]:
    """Return how many answers of an algorithm both releases have, and the probes that differ."""
    compared, changed = 0, list[str]()
    for result in report.results:
        old, new = result.answers.get(before), result.answers.get(after)
        if result.algorithm == algorithm and old and new and not (old.unmeasured or new.unmeasured):
            compared += 1
            changed += [result.probe] * bool(describe_change(result, old, new))
    return compared, tuple(changed)


def list_failures(history: ReleaseHistory, version: str, probes: Collection[str] = ()) -> list[str]:
    """Return why a release or probes of it could not be measured, one line each.

    Args:
        history: The history.
        version: The release.
        probes: Names of probes; all if empty.
    """
    record = history.releases.get(version)
    if record is not None and record.failure:
        return [record.failure]
    return [
        f"{result.probe}: {result.answers[version].unmeasured}"
        for result in history.report.results
        if version in result.answers and result.answers[version].failed
        if not probes or result.probe in probes
    ]


def bisect_releases(versions: Sequence[str], is_changed: IsChanged) -> tuple[str, str] | None:
    """Return the last release with the first one's answer, and the one after it.

    Args:
        versions: Releases, oldest first. The answer is assumed to change once.
        is_changed: Called for as few releases as possible, the last one first. Releases that
            cannot be measured are left out.

    Returns:
        None if the last release that can be measured has the first one's answer.
    """
    left, changed = list(versions), None
    while len(left) > 1 and (changed := is_changed(left[-1])) is None:
        left.pop()
    if len(left) < 2 or not changed:
        return None
    low, high = 0, len(left) - 1
    while high - low > 1:
        middle = (low + high) // 2
        changed = is_changed(left[middle])
        if changed is None:
            del left[middle]
            high -= 1
        else:
            low, high = (low, middle) if changed else (middle, high)
    return left[low], left[high]


_Body = TypeVar("_Body", ast.Module, ast.ClassDef, ast.FunctionDef)


def _digest_modules(modules: tuple[str, ...], packages: Path) -> str:
    digest = hashlib.sha256()
    for module in modules:
        path = packages / Path(*module.split(".")).with_suffix(".py")
        digest.update(module.encode())
        if path.is_file():  # the release may not have this module yet
            digest.update(normalize_source(path.read_text()).encode())
    return digest.hexdigest()[:12]


def normalize_source(text: str) -> str:
    """Return source without the parts that no update depends on.

    These are docstrings, comments, types, imports, and CleanRL's command line functions.
    """
    return ast.unparse(ast.fix_missing_locations(_MeaninglessPartRemover().visit(ast.parse(text))))


class _MeaninglessPartRemover(ast.NodeTransformer):
    def _remove_docstring(self, node: _Body) -> _Body:
        self.generic_visit(node)
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            node.body = node.body[1:]
        node.body = node.body or [ast.Pass()]
        return node

    def visit_Module(self, node: ast.Module) -> ast.Module:
        return self._remove_docstring(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return self._remove_docstring(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef | None:
        if node.name == "parse_args":
            return None
        node.returns = None
        return self._remove_docstring(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign | None:
        return ast.Assign([node.target], node.value) if node.value else None

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None
