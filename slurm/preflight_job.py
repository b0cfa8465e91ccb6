"""The preflight as a job of its own, which the arrays of a study wait for."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from parallax.harness.contract.fields import RunsFailedError, SpecError
from parallax.harness.contract.run_spec import RunSpec, spec_from_dict, spec_to_dict
from parallax.harness.record.files import write_json
from parallax.slurm.arrays import JobArray, JobResources, create_record
from parallax.slurm.preflight import PreflightOptions, estimate_cost, run_preflight
from parallax.slurm.preflight_trials import make_trials
from parallax.slurm.settings import SlurmSettings
from parallax.slurm.states import PREFLIGHT_FAILED, PREFLIGHT_FILE, PREFLIGHT_PASSED
from parallax.slurm.submit import submit_job

_SPECS_FILE = "preflight-specs.json"
_JOB_NAME = "preflight"
_SLACK = 4  # a node may be slower than what costs were measured on
_MIN_MINUTES = 30


class PreflightFailedError(Exception):
    """Some settings cannot take a step; lets Slurm drop the jobs that wait for this one."""


class PreflightJob:
    """Called by submitit on a node.

    It has no `checkpoint`: preempted it begins anew, and out of time it has failed.
    """

    def __init__(self, folder: Path, processes: int, seconds: float) -> None:
        self._folder, self._processes, self._seconds = folder, processes, seconds

    def __call__(self) -> None:
        """Try all settings and write the outcome.

        Raises:
            PreflightFailedError: Some cannot take a step.
        """
        job = os.environ.get("SLURM_JOB_ID", "")
        self._write_outcome("under way", f"job {job}")
        content = json.loads((self._folder / _SPECS_FILE).read_text())
        try:
            count = run_preflight(
                [spec_from_dict(s) for s in content], self._processes, self._seconds
            )
        except SpecError as error:
            self._write_outcome(PREFLIGHT_FAILED, str(error))
            raise PreflightFailedError(str(error)) from error
        except BaseException as error:
            self._write_outcome(
                PREFLIGHT_FAILED, f"it was ended by {type(error).__name__} {error}".rstrip()
            )
            raise
        self._write_outcome(
            PREFLIGHT_PASSED, f"{count} settings took one step each without an error."
        )

    def _write_outcome(self, state: str, said: str) -> None:
        write_json(self._folder / PREFLIGHT_FILE, {"state": state, "said": said})


def submit_preflight(
    study_folder: Path, specs: Sequence[RunSpec], settings: SlurmSettings, options: PreflightOptions
) -> dict[str, str]:
    """Submit the preflight of a study's runs as a job.

    Args:
        study_folder: Folder of the study.
        specs: Runs to try.
        settings: Slurm settings; `time.preflight` limits the job.
        options: Number of trials at a time, and time limit of each.

    Returns:
        Options of sbatch that let other jobs wait for it, and drop them should it fail.

    Raises:
        RunsFailedError: Slurm refused it.
    """
    processes = settings.cpus if options.processes < 0 else options.processes
    resources = JobResources(
        algorithm=_JOB_NAME,
        run_minutes=_estimate_minutes(specs, settings, processes),
        runs_per_job=1,
        cpus=processes,
        mem_gb=settings.mem_gb * processes,
    )
    array = JobArray(resources, (), 1)
    record = create_record(study_folder, array, settings)
    record.folder.mkdir(parents=True)
    write_json(record.folder / _SPECS_FILE, [spec_to_dict(spec) for spec in specs])
    job = PreflightJob(record.folder, processes, options.seconds)
    outcome = record.folder / PREFLIGHT_FILE
    write_json(outcome, {"state": "queued", "said": ""})
    try:
        job_id = submit_job(record, array, settings, job)
    except RunsFailedError:
        outcome.unlink()
        raise
    print(f"Job {job_id}: preflight of {len(specs)} runs, which the others wait for.")
    print(f"    its outcome: {outcome}")
    wanted = [f"afterok:{job_id}", *filter(None, [settings.sbatch.get("dependency")])]
    return {"dependency": ",".join(wanted), "kill-on-invalid-dep": "yes"}


def _estimate_minutes(specs: Sequence[RunSpec], settings: SlurmSettings, processes: int) -> int:
    if _JOB_NAME in settings.time:
        return settings.minutes(_JOB_NAME)
    _, seconds = estimate_cost(make_trials(specs), processes)
    return max(_MIN_MINUTES, round(_SLACK * seconds / 60))
