"""`parallax probe --environments`: compares environments and wrappers instead of updates."""

import argparse
import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from parallax.harness.cli.arguments import (
    check_output_folders,
    check_used_options,
    select_names,
    write_output_files,
)
from parallax.harness.cli.progress import CommandProgress
from parallax.harness.contract.adapter_discovery import list_usable_frameworks, load_adapter
from parallax.harness.contract.data_files import read_user_file
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.interpreter import add_project_to_path, find_cache_folder
from parallax.harness.environment_probes import page
from parallax.harness.environment_probes.answers import (
    FAILED,
    EnvironmentReport,
    describe_answer,
    list_answer_changes,
    load_environment_report,
    merge_environment_reports,
)
from parallax.harness.environment_probes.catalogue import MARK, OWN
from parallax.harness.environment_probes.own_environment import load_own_target
from parallax.harness.record.files import escape_unprintable, print_lines, write_files_atomically
from parallax.harness.versions.environments import build_environment
from parallax.harness.versions.history import sort_versions

NO_CHANGE_EXIT, CHANGED_EXIT, FAILED_EXIT = 0, 1, 3
_PACKAGE = "parallax.harness.environment_probes"
_MAX_LIBRARY_SECONDS = 600
_MAX_ANSWER_BYTES = 2**27
# Packages that releases before 0.29 need besides numpy.
_OLD_REQUIREMENTS = ("jax-jumpy==1.0.0", "gymnasium-notices==0.0.1")


@dataclasses.dataclass(frozen=True)
class EnvironmentLibrary:
    """A module with implementations.

    Attributes:
        name: Name of the library.
        module: Module with `IMPLEMENTATIONS`, or `own:module:Class` of a user.
        packages: Distributions whose versions the report names.
    """

    name: str
    module: str
    packages: tuple[str, ...]


def run_environments(options: argparse.Namespace) -> int:
    """Ask about environments, print the answers and write files.

    Returns:
        0; 1 if --python or --releases shows a changed answer; 3 if a question failed.
    """
    mode, used = _describe_mode(options)
    check_used_options(options, ("environments", *used), mode)
    check_output_folders([options.json, options.markdown])
    if options.list:
        print(*page.list_question_lines(), sep="\n")
        return NO_CHANGE_EXIT
    if options.releases:
        return run_releases(options)
    libraries = find_requested_libraries(options)
    names = [question.name for question in page.ALL_QUESTIONS]
    if options.probe and not any(part in name for part in options.probe for name in names):
        raise SpecError(
            f"--probe {','.join(options.probe)} is not a question about environments: "
            "`parallax probe --environments --list` lists all."
        )
    if options.answers:
        report = load_stored_report(options.answers)
    else:
        with CommandProgress(len(libraries)) as progress:
            report = run_environment_probes(libraries, progress=progress.advance)
    report = select_questions(report, options.probe)
    if options.probe and not any(report.answers.values()):
        raise SpecError(f"Nothing answers --probe {','.join(options.probe)}: name another library.")
    print_lines(map(escape_unprintable, format_environment_report(report, options.all)))
    changed = False
    if options.python:
        other = run_environment_probes(libraries, options.python)
        changed = print_changes(select_questions(other, options.probe), report, options.python)
    files = {}
    if options.json:
        files[options.json] = json.dumps(report.to_dict(), indent=1) + "\n"
    if options.markdown:
        files[options.markdown] = page.render_environments_page(report, options.markdown)
    write_output_files(files, [options.markdown])
    failed = [a for found in report.answers.values() for a in found.values() if a.outcome == FAILED]
    if failed or (options.environments and report.missing and not report.answers):
        return FAILED_EXIT
    return CHANGED_EXIT if changed else NO_CHANGE_EXIT


def _describe_mode(options: argparse.Namespace) -> tuple[str, tuple[str, ...]]:
    """Return what the options ask for, and the names of the options that it uses."""
    if options.list:
        return "--list measures nothing", ("list",)
    if options.releases:
        return "--releases compares releases of gymnasium", ("releases", "json")
    shown = ("probe", "all", "json", "markdown")
    if options.answers:
        return "--answers FILE runs no probe", ("answers", *shown)
    source = () if options.environments else ("frameworks",)
    return "--environments asks about no update", ("python", *source, *shown)


def find_requested_libraries(options: argparse.Namespace) -> tuple[EnvironmentLibrary, ...]:
    """Return the libraries that the options name, or the user's own class."""
    if not options.environments:
        return select_libraries(options.frameworks)
    sys.path.append(str(Path.cwd()))
    try:
        load_own_target(options.environments)
    except ValueError as error:
        raise SpecError(str(error)) from error
    return (EnvironmentLibrary(options.environments, OWN + options.environments, ("gymnasium",)),)


def load_stored_report(path: Path) -> EnvironmentReport:
    """Load the answers of a file of --json."""
    try:
        report = load_environment_report(read_user_file(path, _MAX_ANSWER_BYTES).decode())
    except (OSError, ValueError, ArithmeticError, RecursionError) as error:
        raise SpecError(f"--answers {path} cannot be read as answers: {error}") from error
    known = {question.name for question in page.ALL_QUESTIONS}
    for name, found in report.answers.items():
        if unknown := found.keys() - known:
            raise SpecError(
                f"--answers {path}: {name}: question={min(unknown)} is not known. Measure the "
                "answers again with --json."
            )
    return report


def select_questions(report: EnvironmentReport, parts: Sequence[str]) -> EnvironmentReport:
    """Return the answers to questions whose names contain one of the texts; all if none."""
    answers = {
        name: {q: a for q, a in found.items() if not parts or any(p in q for p in parts)}
        for name, found in report.answers.items()
    }
    answered = {name: found for name, found in answers.items() if found}
    return EnvironmentReport(report.versions, answered, report.missing, report.seconds)


def format_environment_report(report: EnvironmentReport, shows_all: bool) -> list[str]:
    """Return the lines that are printed: differences first, then what is missing."""
    lines = ["Versions: " + ", ".join(f"{k} {v}" for k, v in report.versions.items())]
    differences = report.list_differences()
    count = sum(map(len, report.answers.values()))
    lines.append(f"{count} answers, {len(differences)} differ from a definition.")
    for name, question, answer in differences:
        place = f" ({answer.location})" if answer.location else ""
        lines += ["", f"{name}: {question}{place}", *(f"  - {x}" for x in answer.differences)]
    failed = [
        (name, question, answer.words)
        for name, found in report.answers.items()
        for question, answer in found.items()
        if answer.outcome == FAILED
    ]
    for name, question, words in failed:
        lines += ["", f"failed: {name}, {question}: {words}"]
    if shows_all:
        for name, found in report.answers.items():
            lines += ["", name, *(f"  {q}: {describe_answer(a)}" for q, a in found.items())]
    for name, why in report.missing.items():
        lines += ["", f"not measured: {name}: {why}"]
    return lines


def print_changes(before: EnvironmentReport, after: EnvironmentReport, python: str) -> bool:
    """Print the answers that differ in another interpreter; return whether there are any."""
    changes = list_answer_changes(before, after)
    versions = [
        f"{name} {before.versions[name]} -> {after.versions.get(name, 'none')}"
        for name in before.versions
        if before.versions[name] != after.versions.get(name)
    ]
    head = (
        f"\nFrom {python} to this Python ({', '.join(versions) or 'the same versions'}): "
        f"{len(changes)} answers change."
    )
    print_lines([head, *(f"  {change}" for change in changes)])
    return bool(changes)


def run_releases(options: argparse.Namespace) -> int:
    """Measure releases of gymnasium, print what changed between them and store the answers."""
    libraries = select_libraries(["gymnasium"])
    history: dict[str, EnvironmentReport] = {}
    for release in sort_versions(options.releases):
        requirements = [f"gymnasium=={release}"]
        if release.startswith(("0.27", "0.28")):
            requirements += _OLD_REQUIREMENTS
        python = build_environment(requirements, find_cache_folder("releases"))
        history[release] = run_environment_probes(libraries, str(python))
        print(f"{release}: {sum(map(len, history[release].answers.values()))} answers", flush=True)
    changes = page.list_history_changes(history)
    print(*(f"{release}: {text}" for release, text in changes), sep="\n")
    if options.json:
        data = {release: report.to_dict() for release, report in history.items()}
        write_files_atomically({options.json: json.dumps(data, indent=1) + "\n"})
    return CHANGED_EXIT if changes else NO_CHANGE_EXIT


def list_libraries() -> tuple[EnvironmentLibrary, ...]:
    """Return gymnasium, the MuJoCo tasks and every adapter that has a module `environments`."""
    found = [
        EnvironmentLibrary(
            "gymnasium", f"{_PACKAGE}.gymnasium_implementations", ("gymnasium", "numpy")
        ),
        EnvironmentLibrary("mujoco", f"{_PACKAGE}.mujoco_tasks", ("gymnasium", "mujoco")),
    ]
    for name in list_usable_frameworks():
        adapter = load_adapter(name)
        module = f"{adapter.package}.environments"
        if importlib.util.find_spec(module) is not None:
            found.append(EnvironmentLibrary(name, module, (*adapter.packages, "gymnasium")))
    return tuple(found)


def select_libraries(names: Sequence[str] | None) -> tuple[EnvironmentLibrary, ...]:
    """Return the libraries with some names, or all if `names` is None."""
    libraries = {library.name: library for library in list_libraries()}
    return tuple(libraries[name] for name in select_names("--frameworks", names, list(libraries)))


def run_environment_probes(
    libraries: Sequence[EnvironmentLibrary],
    python: str = sys.executable,
    progress: Callable[[str], None] = lambda name: None,
) -> EnvironmentReport:
    """Measure libraries in worker processes of an interpreter, one after another.

    Args:
        libraries: Libraries to measure.
        python: The interpreter; it needs gymnasium, numpy and what the module imports.
        progress: Called with the name of each library that is done.
    """
    reports = []
    for library in libraries:
        reports.append(run_library(library, python))
        progress(library.name)
    return merge_environment_reports(reports)


def run_library(library: EnvironmentLibrary, python: str) -> EnvironmentReport:
    """Measure one library; report it as missing if it cannot be measured."""
    command = [python, "-m", f"{_PACKAGE}.catalogue", library.module, ",".join(library.packages)]
    environment = add_project_to_path(dict(os.environ)) | {"OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_MAX_LIBRARY_SECONDS,
        )
    except OSError as error:
        raise SpecError(f"--python {python} cannot be started ({error.strerror}).") from error
    except subprocess.TimeoutExpired:
        return EnvironmentReport(
            {}, {}, {library.name: f"no answer within {_MAX_LIBRARY_SECONDS} s"}
        )
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return load_environment_report(line.removeprefix(MARK))
    words = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return EnvironmentReport({}, {}, {library.name: words[:300]})
