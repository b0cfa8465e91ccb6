"""Division of runs into jobs and arrays, and records of submissions.

A record of each array is stored in `<results>/<study>/slurm/`. It is written before the array is
queued, and the array has a unique name, so that an interrupted submission leaves no unknown job.
"""

import dataclasses
import json
import math
import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from parallax.harness.contract.fields import SpecError
from parallax.harness.record.files import DECODE_ERRORS, UnusableError, read_bounded, write_json
from parallax.harness.record.layout import SLURM_FOLDER
from parallax.harness.record.old_names import translate_spec
from parallax.slurm.settings import SlurmSettings

if TYPE_CHECKING:
    from parallax.harness.contract.run_spec import RunSpec

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class JobResources:
    """Resources that each job of an array requests.

    Attributes:
        run_minutes: Time limit of one run.
        runs_per_job: Largest number of runs in one job.
    """

    algorithm: str
    run_minutes: int
    runs_per_job: int
    cpus: int
    mem_gb: float

    @property
    def minutes(self) -> int:
        """Time limit of a job, in minutes."""
        return self.run_minutes * self.runs_per_job


@dataclasses.dataclass(frozen=True)
class JobArray:
    """Array of jobs that are submitted together.

    Attributes:
        elements: The run folders of each job.
        parallelism: Largest number of jobs that run at a time.
    """

    resources: JobResources
    elements: tuple[tuple[Path, ...], ...]
    parallelism: int


def plan_arrays(
    runs: Sequence[tuple["RunSpec", Path]], settings: SlurmSettings, max_array_size: int
) -> list[JobArray]:
    """Split runs into arrays by their resources and by the cluster's largest array."""
    groups: dict[JobResources, list[Path]] = {}
    for spec, folder in runs:
        groups.setdefault(_make_resources(spec, settings), []).append(folder)
    parts = []
    for resources, folders in groups.items():
        jobs = _split_into_batches(folders, resources.runs_per_job)
        parts += [(resources, part) for part in _split_into_batches(jobs, max_array_size)]
    shares = divide_limit(settings.parallelism, [len(part) for _, part in parts])
    return [
        JobArray(resources, part, limit)
        for (resources, part), limit in zip(parts, shares, strict=True)
    ]


def divide_limit(limit: int, sizes: Sequence[int]) -> list[int]:
    """Divide a limit on simultaneous jobs (0 is none) among arrays by their numbers of jobs.

    Slurm limits each array separately, so the shares have to add up to the limit; if there are
    more arrays than that, each gets one.
    """
    if not limit or limit >= sum(sizes):
        return list(sizes)
    shares = [1] * len(sizes)
    for _ in range(limit - len(sizes)):
        unfilled = [i for i, size in enumerate(sizes) if shares[i] < size]
        shares[min(unfilled, key=lambda i: shares[i] / sizes[i])] += 1
    return shares


def _make_resources(spec: "RunSpec", settings: SlurmSettings) -> JobResources:
    return JobResources(
        algorithm=spec.algorithm,
        run_minutes=settings.get_minutes(spec.algorithm),
        runs_per_job=settings.runs_per_job,
        cpus=max(settings.cpus, spec.threads + (spec.actors if spec.actors > 1 else 0)),
        mem_gb=settings.mem_gb,
    )


def _split_into_batches(items: Sequence[T], size: int) -> tuple[tuple[T, ...], ...]:
    return tuple(tuple(items[i : i + size]) for i in range(0, len(items), size))


_SCHEMA = 1
_SPECS_FILE = "specs.json"
# Bytes of a record and of all records of a study; one array of 1,440 runs takes 200 KB.
_MAX_BYTES, _MAX_TOGETHER = 2**22, 2**25
_MAX_NAMES = 250_000  # of run folders in all records of a study
# As `create_record` makes them: a record must not name another job of the user's, such as `bash`.
_NAME = re.compile(r"[\w-]{1,111}-[0-9a-f]{8}")
_JOB_ID = re.compile(r"[0-9]{1,20}")
_DAMAGE_ERRORS = (*DECODE_ERRORS, UnusableError, OSError, RecursionError)


@dataclasses.dataclass(frozen=True)
class SubmissionRecord:
    """One array.

    Attributes:
        study_folder: Folder of the study; run folders are below it.
        name: Slurm's name of the array; no other has it.
        submitted: Time of the submission, in seconds since 1970.
        job_id: Slurm's number of the array; None if the submission was interrupted before that.
        elements: Run folders of each job, in the order of the array's indices.
    """

    study_folder: Path
    name: str
    submitted: float
    job_id: str | None
    elements: tuple[tuple[Path, ...], ...]
    settings: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """Return the folder of submitit's scripts and logs."""
        return self.study_folder / SLURM_FOLDER / self.name

    def save(self) -> None:
        """Write the record."""
        self.folder.mkdir(parents=True, exist_ok=True)
        elements = [
            [str(folder.relative_to(self.study_folder)) for folder in element]
            for element in self.elements
        ]
        content = {
            "schema": _SCHEMA,
            "name": self.name,
            "submitted": self.submitted,
            "job_id": self.job_id,
            "elements": elements,
            "settings": dict(self.settings),
        }
        write_json(self.folder.with_suffix(".json"), content)

    def save_specs(self, specs: "Mapping[Path, RunSpec]") -> None:
        """Save the specifications of the runs, in case a run.json is lost."""
        from parallax.harness.contract.run_spec import spec_to_dict  # not needed for reading

        content = {
            str(folder.relative_to(self.study_folder)): spec_to_dict(specs[folder])
            for element in self.elements
            for folder in element
        }
        write_json(self.folder / _SPECS_FILE, content)

    def read_specs(self) -> "dict[Path, RunSpec]":
        """Return the specifications that `save_specs` saved, as far as they can be read."""
        from parallax.harness.contract.run_spec import spec_from_dict

        try:
            content = json.loads(read_bounded(self.folder / _SPECS_FILE, _MAX_BYTES))
        except _DAMAGE_ERRORS:
            return {}
        specs = {}
        for folder in (folder for element in self.elements for folder in element):
            try:
                specs[folder] = spec_from_dict(
                    translate_spec(content[str(folder.relative_to(self.study_folder))])
                )
            except _DAMAGE_ERRORS:
                continue
        return specs

    def discard(self) -> None:
        """Remove the record of an array that Slurm refused."""
        self.folder.with_suffix(".json").unlink(missing_ok=True)


def check_submission_folder(study_folder: Path) -> None:
    """Check that Slurm, or a link, does not put files of submissions into another folder.

    Raises:
        SpecError: It would.
    """
    if "%" in str(study_folder.absolute()) or "\\" in str(study_folder.absolute()):
        raise SpecError(f"{study_folder}: % and \\ have a meaning in Slurm's paths: rename it.")
    if study_folder.joinpath(SLURM_FOLDER).is_symlink():
        raise SpecError(f"{study_folder / SLURM_FOLDER} is a link: delete it.")


def create_record(study_folder: Path, array: JobArray, settings: SlurmSettings) -> SubmissionRecord:
    """Return the record of an array that is about to be submitted."""
    check_submission_folder(study_folder)
    study = re.sub(r"[^\w-]", "_", study_folder.name)[:40]
    return SubmissionRecord(
        study_folder=study_folder,
        name=f"{study}-{array.resources.algorithm}-{secrets.token_hex(4)}",
        submitted=time.time(),
        job_id=None,
        elements=array.elements,
        settings=dataclasses.asdict(settings),
    )


def read_records(study_folder: Path) -> list[SubmissionRecord]:
    """Return the records of all submissions of a study, oldest first.

    Damaged records, and records larger than those of any study, are left out: their jobs are then
    found only through the run folders.
    """
    records: list[SubmissionRecord] = []
    size, names = _MAX_TOGETHER, _MAX_NAMES  # that may still be read
    for path in study_folder.joinpath(SLURM_FOLDER).glob("*.json"):
        try:
            if (found := path.stat().st_size) > size:
                continue
            records.append(_read_record(path, study_folder, names))
            size, names = size - found, names - sum(map(len, records[-1].elements))
        except _DAMAGE_ERRORS:
            continue
    return _sort_records(records)


def _sort_records(records: Sequence[SubmissionRecord]) -> list[SubmissionRecord]:
    """Sort oldest first: by Slurm's numbers, which grow, since machines' clocks differ.

    An array whose number is not known is placed by its time among those of the others.
    """

    def number(record: SubmissionRecord) -> int:
        return int(record.job_id or 0)

    records = sorted(records, key=lambda record: (number(record), record.submitted, record.name))
    times: dict[str, float] = {}
    latest = -math.inf
    for record in records:
        if record.job_id is not None:  # not before those with a smaller number
            latest = max(latest, record.submitted)
        times[record.name] = record.submitted if record.job_id is None else latest
    return sorted(records, key=lambda record: times[record.name])


def _read_record(path: Path, study_folder: Path, most: int) -> SubmissionRecord:
    content = json.loads(read_bounded(path, _MAX_BYTES))
    if content["name"] != path.stem or not _NAME.fullmatch(path.stem):
        raise ValueError(f"{content['name']!r} is not the array that the file is named after")
    job_id = content["job_id"]
    if job_id is not None and not _JOB_ID.fullmatch(job_id):
        raise ValueError(f"{job_id!r} is not a job number")
    submitted = content["submitted"]
    if isinstance(submitted, bool) or not math.isfinite(submitted):
        raise ValueError(f"{submitted!r} is not a time")
    if not isinstance(content["settings"], dict):
        raise TypeError("settings are not a mapping")
    elements = _read_elements(content["elements"], study_folder, most)
    return SubmissionRecord(
        study_folder, path.stem, submitted, job_id, elements, content["settings"]
    )


def _read_elements(content: Any, study_folder: Path, most: int) -> tuple[tuple[Path, ...], ...]:
    if not isinstance(content, list) or not all(isinstance(names, list) for names in content):
        raise TypeError("elements are not lists")
    if sum(map(len, content)) > most:
        raise ValueError("it names more runs than any study has")
    return tuple(
        tuple(_resolve_below_study(study_folder, name) for name in names) for names in content
    )


def _resolve_below_study(study_folder: Path, name: str) -> Path:
    """Return the folder `name` of a study.

    Raises:
        ValueError: It is elsewhere, or no file system can have it.
    """
    parts = PurePosixPath(name).parts
    if not parts or parts[0] == "/" or ".." in parts or b"\0" in os.fsencode(name):
        raise ValueError(f"{name!r} is not below the study")
    return study_folder.joinpath(*parts)
