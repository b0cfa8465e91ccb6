"""Submits incomplete runs in new jobs, and cancels jobs; `requeueable_job` requeues its own job."""

import collections
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from parallax.harness.contract.fields import RunsFailedError, SpecError
from parallax.harness.contract.interpreter import forbid_imports_from
from parallax.harness.contract.run_spec import RunSpec, rename_study, spec_from_dict
from parallax.harness.record.files import escape_unprintable
from parallax.harness.record.reading import read_run
from parallax.harness.train.trust import list_named_code, require_trust
from parallax.slurm.arrays import SubmissionRecord, read_records
from parallax.slurm.launch import launch_sweep
from parallax.slurm.queue import call_slurm
from parallax.slurm.settings import SlurmSettings, load_settings, settings_from_record
from parallax.slurm.states import RunState, check_slurm_answered, find_study_folders, survey_runs

_JOBS_PER_COMMAND = 200  # job ids on a command line
_TIMEOUT = 60  # seconds for scancel to answer


def resubmit_runs(
    root: Path,
    states: Collection[str],
    overrides: Mapping[str, Any],
    *,
    profile: str | None,
    confirm: Callable[[str], bool],
    dry_run: bool,
    trust: bool = False,
) -> int:
    """Submit the runs in some states again, with the settings they were submitted with.

    Args:
        root: Folder to search.
        states: States to submit.
        overrides: Settings to change; None leaves one as it was.
        profile: Profile to use instead of the earlier settings.
        confirm: Function that prompts the user for confirmation.
        dry_run: Whether to only show the runs.
        trust: Whether code that the folder names may run without confirmation.

    Returns:
        0, or 1 where a run cannot be submitted because its specification is not known.

    Raises:
        SpecError: A setting cannot be used, the study was never submitted, or the folder names
            code that the user has not trusted.
        RunsFailedError: Slurm refused some.
    """
    load_settings(profile or "default", overrides)  # checks them, even if no run is to submit
    everything, queue = survey_runs(root, print)
    runs = [run for run in everything if run.state in states]
    if runs and not dry_run:
        check_slurm_answered((run.folder for run in runs), queue)
    studies = find_study_folders(run.folder for run in runs)
    records = {study: read_records(study) for study in studies}
    readable, unreadable = _read_specs(runs, records)
    for run, why in unreadable.items():
        print(f"Not submitted: {escape_unprintable(str(run.folder))}: {escape_unprintable(why)}")
    if not readable:
        print("Nothing to submit.")
        return 1 if unreadable else 0
    _print_runs(list(readable))
    settings = {
        study: _load_study_settings(study, records[study], profile, overrides)
        for study in studies
        if any(study in run.folder.parents for run in readable)
    }
    _print_limits(readable, records, settings)
    records_of = [read_run(run.folder).record for run in readable]
    adapters = [record.adapter for record in records_of if record]
    code = list_named_code(readable.values(), adapters)
    if profile is None and not dry_run:
        code += [line for one in settings.values() for line in list_code_of_settings(one)]
    require_trust(root, list(dict.fromkeys(code)), trust=trust)
    forbid_imports_from(run.folder for run in readable)
    if not dry_run and not confirm(f"Submit {len(readable)} runs?"):
        return 0
    for study, one in settings.items():
        specs = [spec for run, spec in readable.items() if study in run.folder.parents]
        launch_sweep(specs, study.parent, one, dry_run=dry_run)
    return 1 if unreadable else 0


def cancel_jobs(root: Path, *, confirm: Callable[[str], bool]) -> int:
    """Cancel every queued or running job of the runs at or below a folder.

    Raises:
        RunsFailedError: Slurm does not answer, or did not cancel some; the others are cancelled.
    """
    runs, queue = survey_runs(root)
    check_slurm_answered((run.folder for run in runs), queue)
    root = root.absolute()
    # Also those of runs whose folder is gone.
    below = [several for run, several in queue.alive.items() if root in (run, *run.parents)]
    jobs = sorted({job.job_id for several in below for job in several})
    if not jobs:
        print("No job is queued or running.")
        return 0
    print(f"{len(jobs)} jobs are queued or running.")
    if not confirm(f"Cancel {len(jobs)} jobs?"):
        return 0
    parts = [
        jobs[start : start + _JOBS_PER_COMMAND] for start in range(0, len(jobs), _JOBS_PER_COMMAND)
    ]
    # A command may fail, for example for a colleague's job; the others still have to be run.
    errors = dict.fromkeys(error for part in parts if (error := _run_scancel(part)))
    if errors:
        raise RunsFailedError("; ".join(errors))
    print(f"{len(jobs)} jobs were cancelled. Complete runs stay as they are.")
    return 0


def list_code_of_settings(settings: SlurmSettings) -> list[str]:
    """Return the code that a submission's settings run on the nodes, a line each."""
    lines = [f"set-up line on the nodes: {line}" for line in settings.setup]
    lines += [f"interpreter on the nodes: {settings.python}"] if settings.python else []
    lines += [f"library that runs load: malloc={settings.malloc}"] * ("/" in settings.malloc)
    return lines + [f"option of sbatch: --{k}={value}" for k, value in settings.sbatch.items()]


def _run_scancel(jobs: Sequence[str]) -> str:
    """Cancel jobs; return the error message, or an empty string."""
    try:
        result = call_slurm("scancel", *jobs, seconds=_TIMEOUT)
    except OSError as error:
        return f"scancel cannot be started ({error.strerror})."
    except subprocess.TimeoutExpired:
        return f"scancel did not answer within {_TIMEOUT} s"
    words = "; ".join(map(escape_unprintable, result.stderr.strip().splitlines()))
    return f"scancel: {words}" if result.returncode else ""


def _print_runs(runs: Sequence[RunState]) -> None:
    counts = collections.Counter(run.state for run in runs)
    print(f"To submit: {', '.join(f'{number} {state}' for state, number in counts.items())}")
    for run in runs:
        print(escape_unprintable(f"    {run.state:<12}{run.title}  {run.reason}"))


def _print_limits(
    runs: Mapping[RunState, RunSpec],
    records: Mapping[Path, Sequence[SubmissionRecord]],
    settings: Mapping[Path, SlurmSettings],
) -> None:
    """Print the runs that used their whole time and get no more time than before.

    A run with a checkpoint resumes from there and is not among them.
    """
    again: collections.Counter[str] = collections.Counter()
    for study, new in settings.items():
        for run, spec in runs.items():
            goes_on = run.resume_step is not None
            if run.state != "timeout" or goes_on or study not in run.folder.parents:
                continue
            before = _find_time_limit(run.folder, spec.algorithm, records[study])
            if before is not None and new.get_minutes(spec.algorithm) <= before:
                again[f"{new.get_time_limit(spec.algorithm)} ({spec.algorithm})"] += 1
    if again:
        limits = ", ".join(f"{count} with {limit}" for limit, count in again.items())
        print(
            f"{again.total()} runs were stopped at their time limit and get no more time than "
            f"before: {limits}. They would end the same way: add --time HH:MM:SS."
        )


def _find_time_limit(
    folder: Path, algorithm: str, records: Sequence[SubmissionRecord]
) -> int | None:
    """Return the last time limit of a run; None if it is not known."""
    having = [r for r in records if any(folder in element for element in r.elements)]
    try:
        return settings_from_record(having[-1].settings, {}, having[-1].name).get_minutes(algorithm)
    except (IndexError, SpecError):
        return None


def _read_specs(
    runs: Sequence[RunState], records: Mapping[Path, Sequence[SubmissionRecord]]
) -> tuple[dict[RunState, RunSpec], dict[RunState, str]]:
    """Return the specification of each run, from its own folder or else from the submission.

    Returns:
        The runs that can be submitted in their folders, and why the others cannot.
    """
    submitted = {
        folder: spec
        for several in records.values()
        for record in several
        for folder, spec in record.read_specs().items()
    }
    readable: dict[RunState, RunSpec] = {}
    unreadable: dict[RunState, str] = {}
    for run in runs:
        spec = _read_recorded_spec(run.folder) or submitted.get(run.folder)
        if spec is None:
            unreadable[run] = f"{run.reason}; start the sweep again for it"
            continue
        spec, why = _match_spec_to_folder(spec, run.folder)
        if why:
            unreadable[run] = why
        else:
            readable[run] = spec
    return readable, unreadable


def _read_recorded_spec(folder: Path) -> RunSpec | None:
    try:
        return spec_from_dict(read_run(folder).spec)
    except SpecError:
        return None


def _match_spec_to_folder(spec: RunSpec, folder: Path) -> tuple[RunSpec, str]:
    """Return the run as part of its folder's present study, and why it cannot be that, or ""."""
    for study in folder.parents[5:6]:
        try:
            spec = rename_study(spec, study.name)
        except SpecError as error:
            return spec, str(error)
        if spec.folder(study.parent) == folder:
            return spec, ""
    place = spec.folder(Path("<results>"))
    return spec, f"it holds the run of another folder, {place}: put it there"


def _load_study_settings(
    study: Path,
    records: Sequence[SubmissionRecord],
    profile: str | None,
    overrides: Mapping[str, Any],
) -> SlurmSettings:
    if profile is not None:
        return load_settings(profile, overrides)
    if not records:
        raise SpecError(f"{study} was never submitted: name a profile with --profile.")
    return settings_from_record(records[-1].settings, overrides, records[-1].name)
