"""Sends again what is missing, and calls back what is under way."""

import collections
import dataclasses
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import RunsFailed
from harness.fields import SpecError
from harness.recording import read_run
from harness.run_spec import RunSpec, spec_from_dict
from slurm.launch import launch
from slurm.profile_files import load_settings, override
from slurm.records import read_records
from slurm.states import RunState
from slurm.survey import check_answered, study_folders, survey

_AT_A_TIME = 200  # job ids on a command line


def resubmit(
    root: Path,
    states: Collection[str],
    overrides: Mapping[str, Any],
    *,
    profile: str | None,
    confirm: Callable[[str], bool],
    dry_run: bool,
) -> int:
    """Submits the runs in some states again, with the settings they were submitted with.

    Args:
        root: Folder to look through.
        states: States to submit.
        overrides: Settings to change; None leaves one as it was.
        profile: Profile to use instead of the earlier settings.
        confirm: Asks the user.
        dry_run: Whether to show only.

    Returns:
        0, or 1 where a run cannot be submitted because its run.json is gone.

    Raises:
        SpecError: A setting cannot be used, or the study was never submitted.
        RunsFailed: Slurm refused some.
    """
    everything, queue = survey(root)
    runs = [run for run in everything if run.state in states]
    if runs and not dry_run:
        check_answered((run.folder for run in runs), queue)
    readable, unreadable = _read(runs)
    for run in unreadable:
        print(f"Not submitted, start the sweep again for it: {run.folder}: {run.reason}")
    if not readable:
        print("Nothing to submit.")
        return 1 if unreadable else 0
    counts = collections.Counter(run.state for run in readable)
    print(f"To submit: {', '.join(f'{number} {state}' for state, number in counts.items())}")
    for run in readable:
        print(f"    {run.state:<12}{run.title}  {run.reason}")
    if not dry_run and not confirm(f"Submit {len(readable)} runs?"):
        return 0
    for study_folder in study_folders(list(readable)):
        specs = [spec for run, spec in readable.items() if study_folder in run.folder.parents]
        settings = override(_last_settings(study_folder, profile), overrides)
        launch(specs, study_folder.parent, settings, dry_run=dry_run)
    return 1 if unreadable else 0


def cancel(root: Path, *, confirm: Callable[[str], bool]) -> int:
    """Cancels the queued and running jobs of the runs at or below a folder.

    Raises:
        RunsFailed: Slurm does not answer.
    """
    runs, queue = survey(root)
    check_answered((run.folder for run in runs), queue)
    found = {queue.jobs[run.folder] for run in runs if run.folder in queue.jobs}
    jobs = sorted(job.job_id for job in found if job.is_alive)
    if not jobs:
        print("No job is queued or running.")
        return 0
    print(f"{len(jobs)} jobs are queued or running.")
    if not confirm(f"Cancel {len(jobs)} jobs?"):
        return 0
    for start in range(0, len(jobs), _AT_A_TIME):
        command = ["scancel", *jobs[start : start + _AT_A_TIME]]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise RunsFailed(f"scancel: {result.stderr.strip()}")
    print(f"{len(jobs)} jobs were cancelled. Complete runs stay as they are.")
    return 0


def _read(runs: Sequence[RunState]) -> tuple[dict[RunState, RunSpec], list[RunState]]:
    """What each run was asked for, from its own folder or else from what was submitted."""
    submitted = {
        folder: spec
        for study in study_folders(runs)
        for record in read_records(study)
        for folder, spec in record.read_specs().items()
    }
    readable, unreadable = {}, []
    for run in runs:
        try:
            readable[run] = spec_from_dict(read_run(run.folder)["spec"])
        except (OSError, ValueError, KeyError, TypeError):
            if run.folder in submitted:
                readable[run] = submitted[run.folder]
            else:
                unreadable.append(run)
    return readable, unreadable


def _last_settings(study_folder: Path, profile: str | None) -> dict[str, Any]:
    if profile is not None:
        return dataclasses.asdict(load_settings(profile, {}))
    records = read_records(study_folder)
    if not records:
        raise SpecError(f"{study_folder} was never submitted: name a profile with --profile.")
    return dict(records[-1].settings)
