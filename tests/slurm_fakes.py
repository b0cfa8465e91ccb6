"""Slurm's commands as small programs: they say what a test wants and note how they were called."""

import json
import sys
import time

from support import spec

from parallax.harness.contract.run_spec import spec_to_dict
from parallax.harness.record.files import write_json
from parallax.slurm.arrays import SubmissionRecord
from parallax.slurm.settings import load_settings

PROGRAM = """#!{python}
import json, sys
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
options = dict(a[2:].partition("=")[::2] for a in sys.argv[1:] if a.startswith("--"))
names = options.get("name", "").split(",")
{code}
"""


class FakeSlurm:
    """A folder of commands, which a test puts in front of all others."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        folder.mkdir()
        monkeypatch.setenv("PATH", str(folder))

    def write(self, name, code):
        text = PROGRAM.format(
            python=sys.executable, log=str(self.folder / f"{name}.log"), code=code
        )
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def calls(self, name):
        log = self.folder / f"{name}.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def a_record(study, name, elements, *, submitted=None, settings=None, job_id="7"):
    """A record on disk; `elements` are run folders of each job."""
    record = SubmissionRecord(
        study_folder=study,
        name=name,
        submitted=time.time() if submitted is None else submitted,
        job_id=job_id,
        elements=tuple(tuple(element) for element in elements),
        settings=vars(load_settings("default", {})) | (settings or {}),
    )
    record.save()
    return record


def a_run(results, status="pending", *, changed=None, **changes):
    """A run folder with a `run.json` as it was after `status`; nothing is trained."""
    one = spec(**changes)
    folder = one.folder(results)
    folder.mkdir(parents=True)
    content = {
        "schema": 1,
        "status": status,
        "spec": spec_to_dict(one) | (changed or {}),
        "steps": {"requested": 600, "scheduled": 600, "framework": 600, "taken": 0},
        "failure": None,
        "stopped_by": None,
        "attempts": [],
        "timings": {},
        "provenance": {},
        "weights_sha256": None,
    }
    write_json(folder / "run.json", content)
    return folder
