"""What was submitted: a file per array in `<results>/<study>/slurm/`.

It is written before the array is queued and found again by the array's unique name, so that a
submission that is cut off in between leaves no job that nobody knows of.
"""

import dataclasses
import json
import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.record.files import write_json
from harness.run_spec import RunSpec, spec_from_dict, spec_to_dict
from slurm.plan import Array
from slurm.settings import Settings

FOLDER = "slurm"
_SCHEMA = 1
_SPECS = "specs.json"


@dataclasses.dataclass(frozen=True)
class Record:
    """One array.

    Attributes:
        study_folder: Folder of the study; run folders lie below it.
        name: Slurm's name of the array; no other has it.
        submitted: Seconds since 1970.
        job_id: Slurm's number of the array; None if it was cut off before it was known.
        elements: Run folders of each job, in the order of the array's indices.
        settings: What it was submitted with.
    """

    study_folder: Path
    name: str
    submitted: float
    job_id: str | None
    elements: tuple[tuple[Path, ...], ...]
    settings: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """Where submitit keeps scripts and logs."""
        return self.study_folder / FOLDER / self.name

    def save(self) -> None:
        """Writes the record."""
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

    def save_specs(self, specs: Mapping[Path, RunSpec]) -> None:
        """Keeps what the runs were asked for, should a run.json get lost."""
        content = {
            str(folder.relative_to(self.study_folder)): spec_to_dict(specs[folder])
            for element in self.elements
            for folder in element
        }
        write_json(self.folder / _SPECS, content)

    def read_specs(self) -> dict[Path, RunSpec]:
        """What `save_specs` kept."""
        try:
            content = json.loads((self.folder / _SPECS).read_text())
            return {self.study_folder / name: spec_from_dict(s) for name, s in content.items()}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def discard(self) -> None:
        """Removes the record of an array that Slurm refused."""
        self.folder.with_suffix(".json").unlink(missing_ok=True)


def new_record(study_folder: Path, array: Array, settings: Settings) -> Record:
    """The record of an array that is about to be submitted."""
    study = re.sub(r"[^\w-]", "_", study_folder.name)[:40]
    return Record(
        study_folder=study_folder,
        name=f"{study}-{array.resources.algorithm}-{secrets.token_hex(4)}",
        submitted=time.time(),
        job_id=None,
        elements=array.elements,
        settings=dataclasses.asdict(settings),
    )


def read_records(study_folder: Path) -> list[Record]:
    """Everything that was submitted for a study, oldest first."""
    records = []
    for path in study_folder.joinpath(FOLDER).glob("*.json"):
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError):
            continue  # its jobs are then told from the run folders alone
        elements = tuple(
            tuple(study_folder / folder for folder in element) for element in content["elements"]
        )
        records.append(
            Record(
                study_folder,
                content["name"],
                content["submitted"],
                content["job_id"],
                elements,
                content["settings"],
            )
        )
    return sorted(records, key=lambda record: record.submitted)
