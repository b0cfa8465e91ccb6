"""The preflight as a job of its own, which the arrays of a study wait for."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from harness.cli.errors import RunsFailed
from harness.contract.fields import SpecError
from harness.contract.run_spec import RunSpec, spec_from_dict, spec_to_dict
from harness.record.files import write_json
from slurm.arrays import Array, Resources, new_record
from slurm.preflight import Preflight, estimate, preflight
from slurm.settings import Settings
from slurm.states import FAILED, OUTCOME, PASSED
from slurm.submit import submit_job
from slurm.trials import make_trials

_SPECS = "preflight-specs.json"
_NAME = "preflight"
_SLACK = 4  # a node may be slower than what costs were measured on
_LEAST_MINUTES = 30


class PreflightFailed(Exception):  # noqa: N818
    """Some settings cannot take a step; lets Slurm drop the jobs that wait for this one."""


class PreflightJob:
    """Called by submitit on a node.

    It has no `checkpoint`: preempted it begins anew, and out of time it has failed.
    """

    def __init__(self, folder: Path, processes: int, seconds: float) -> None:
        self._folder, self._processes, self._seconds = folder, processes, seconds

    def __call__(self) -> None:
        """Tries all settings and writes the outcome.

        Raises:
            PreflightFailed: Some cannot take a step.
        """
        job = os.environ.get("SLURM_JOB_ID", "")
        self._write("under way", f"job {job}")
        content = json.loads((self._folder / _SPECS).read_text())
        try:
            count = preflight([spec_from_dict(s) for s in content], self._processes, self._seconds)
        except SpecError as error:
            self._write(FAILED, str(error))
            raise PreflightFailed(str(error)) from error
        except BaseException as error:
            self._write(FAILED, f"it was ended by {type(error).__name__} {error}".rstrip())
            raise
        self._write(PASSED, f"{count} settings took one step each without an error.")

    def _write(self, state: str, said: str) -> None:
        write_json(self._folder / OUTCOME, {"state": state, "said": said})


def submit_preflight(
    study_folder: Path, specs: Sequence[RunSpec], settings: Settings, options: Preflight
) -> dict[str, str]:
    """Queues the preflight of a study's runs.

    Args:
        study_folder: Folder of the study.
        specs: What is to be tried.
        settings: What is asked of the cluster; `time.preflight` limits the job.
        options: How many at a time, and how long each may take.

    Returns:
        Options of sbatch that let other jobs wait for it, and drop them should it fail.

    Raises:
        RunsFailed: Slurm refused it.
    """
    processes = settings.cpus if options.processes < 0 else options.processes
    resources = Resources(
        algorithm=_NAME,
        run_minutes=_minutes(specs, settings, processes),
        runs_per_job=1,
        cpus=processes,
        mem_gb=settings.mem_gb * processes,
    )
    array = Array(resources, (), 1)
    record = new_record(study_folder, array, settings)
    record.folder.mkdir(parents=True)
    write_json(record.folder / _SPECS, [spec_to_dict(spec) for spec in specs])
    job = PreflightJob(record.folder, processes, options.seconds)
    outcome = record.folder / OUTCOME
    write_json(outcome, {"state": "queued", "said": ""})
    try:
        job_id = submit_job(record, array, settings, job)
    except RunsFailed:
        outcome.unlink()
        raise
    print(f"Job {job_id}: preflight of {len(specs)} runs, which the others wait for.")
    print(f"    its outcome: {outcome}")
    wanted = [f"afterok:{job_id}", *filter(None, [settings.sbatch.get("dependency")])]
    return {"dependency": ",".join(wanted), "kill-on-invalid-dep": "yes"}


def _minutes(specs: Sequence[RunSpec], settings: Settings, processes: int) -> int:
    if _NAME in settings.time:
        return settings.minutes(_NAME)
    _, seconds = estimate(make_trials(specs), processes)
    return max(_LEAST_MINUTES, round(_SLACK * seconds / 60))
