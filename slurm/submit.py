"""Submission of runs to the queue as job arrays."""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from submitit import SlurmExecutor
from submitit.core.utils import FailedJobError, FailedSubmissionError

from parallax.harness.contract.fields import RunsFailedError
from parallax.harness.contract.run_spec import RunSpec
from parallax.slurm.arrays import JobArray, SubmissionRecord, create_record
from parallax.slurm.queue import run_slurm
from parallax.slurm.requeueable_job import JobLimits, RunJob
from parallax.slurm.settings import SlurmSettings

_DEFAULT_ARRAY_SIZE = 1001


class _ArrayExecutor(SlurmExecutor):
    """Submitit's executor, which can also write a script where there is no Slurm."""

    @classmethod
    def affinity(cls) -> int:
        return 2

    def render_script(self, jobs: int) -> str:
        """Return the script for sbatch."""
        if jobs > 1:
            self.parameters["map_count"] = jobs
        return str(self._make_submission_file_text(self._submitit_command_str, ""))


def get_max_array_size() -> int:
    """Return the largest number of jobs in an array here, or Slurm's default if that is unknown."""
    match = re.search(r"MaxArraySize\s*=\s*(\d+)", run_slurm("scontrol", "show", "config") or "")
    return max(1, int(match[1])) if match else _DEFAULT_ARRAY_SIZE  # 0 where arrays are disabled


def submit_arrays(
    study_folder: Path,
    arrays: Sequence[JobArray],
    settings: SlurmSettings,
    specs: Mapping[Path, RunSpec],
    options: Mapping[str, Any] | None = None,
) -> list[SubmissionRecord]:
    """Submit arrays; each is recorded before it is queued.

    Args:
        study_folder: Folder of the study.
        arrays: Arrays to submit.
        settings: Slurm settings.
        specs: Specification of each run, by its folder.
        options: Further options of sbatch for this submission only, not for a later one.

    Raises:
        RunsFailedError: Slurm refused an array, or it cannot be recorded; names it and the reason.
            Earlier arrays are queued.
    """
    records: list[SubmissionRecord] = []
    requested = dataclasses.replace(settings, sbatch=dict(settings.sbatch) | dict(options or {}))
    for array in arrays:
        record = create_record(study_folder, array, settings)
        done = sum(len(element) for r in records for element in r.elements)
        left = f"{done} runs are queued; the same command submits the others."
        try:
            record.save()
            record.save_specs(specs)
        except OSError as error:
            raise RunsFailedError(
                f"{record.folder} cannot be written ({error.strerror}). {left}"
            ) from error
        executor = _make_executor(record, array, requested)
        try:
            folders = [[str(folder) for folder in element] for element in array.elements]
            jobs = executor.map_array(RunJob(_make_job_limits(array, settings)), folders)
        except (FailedJobError, FailedSubmissionError, OSError, RuntimeError) as error:
            # The last one if Slurm is missing here: submitit looks for srun.
            record.discard()
            words = str(error).strip()
            raise RunsFailedError(f"sbatch refused {record.name}: {words} {left}") from error
        record = dataclasses.replace(record, job_id=jobs[0].job_id.partition("_")[0])
        with contextlib.suppress(OSError):  # a full disk; the array is found by its name as well
            record.save()
        records.append(record)
    return records


def submit_job(
    record: SubmissionRecord, array: JobArray, settings: SlurmSettings, job: Callable[[], None]
) -> str:
    """Queue one job that is not a job of runs, and return its number.

    Raises:
        RunsFailedError: Slurm refused it.
    """
    record.folder.mkdir(parents=True, exist_ok=True)
    executor = _make_executor(record, array, settings)
    try:
        return str(executor.submit(job).job_id)
    except (FailedJobError, FailedSubmissionError, OSError) as error:
        raise RunsFailedError(
            f"sbatch refused {record.name}: {str(error).strip()} Nothing is queued."
        ) from error


def render_scripts(
    study_folder: Path, arrays: Sequence[JobArray], settings: SlurmSettings
) -> list[str]:
    """Return the sbatch script of each array; nothing is written."""
    texts = []
    for array in arrays:
        record = create_record(study_folder, array, settings)
        texts.append(_make_executor(record, array, settings).render_script(len(array.elements)))
    return texts


def _make_executor(
    record: SubmissionRecord, array: JobArray, settings: SlurmSettings
) -> _ArrayExecutor:
    # `RunJob` decides how often a job is queued again, since it knows why it ended.
    executor = _ArrayExecutor(record.folder, max_num_timeout=1_000_000, python=settings.python)
    executor.update_parameters(**_make_parameters(record, array, settings))
    return executor


def _make_parameters(
    record: SubmissionRecord, array: JobArray, settings: SlurmSettings
) -> dict[str, Any]:
    resources = array.resources
    wanted = {
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "constraint": settings.constraint,
        "setup": list(settings.setup) or None,
    }
    return {name: value for name, value in wanted.items() if value is not None} | {
        "job_name": record.name,
        "time": resources.minutes,
        "mem": f"{round(resources.mem_gb * 1024)}M",
        "cpus_per_task": resources.cpus,
        "signal_delay_s": _compute_signal_seconds(array, settings),
        "array_parallelism": array.parallelism,
        "stderr_to_stdout": True,
        "wckey": None,
        # From Slurm 22.05 on, srun does not inherit --cpus-per-task from sbatch: a step would get
        # one processor.
        "srun_args": [f"--cpus-per-task={resources.cpus}"],
        "additional_parameters": {"requeue": True} | dict(settings.sbatch),
    }


def _make_job_limits(array: JobArray, settings: SlurmSettings) -> JobLimits:
    return JobLimits(
        run_minutes=array.resources.run_minutes,
        job_minutes=array.resources.minutes,
        signal_seconds=_compute_signal_seconds(array, settings),
        timeout_restarts=settings.timeout_restarts,
        preemption_restarts=settings.preemption_restarts,
        malloc=settings.malloc,
    )


def _compute_signal_seconds(array: JobArray, settings: SlurmSettings) -> int:
    # Never more than a quarter of the time: a warning as long as the job would end it at once.
    return min(settings.signal_seconds, array.resources.minutes * 15)
