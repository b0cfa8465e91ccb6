"""Damaged records of submissions."""

import json
import os
import signal
import types

import pytest
from slurm_fakes import a_record, a_run

from parallax.harness.contract.fields import SpecError
from parallax.slurm import arrays, launch
from parallax.slurm.arrays import read_records
from parallax.slurm.settings import load_settings

ARRAY_NAME = arrays._NAME
GOOD = {
    "schema": 1,
    "name": "bad",
    "submitted": 1.0,
    "job_id": "7",
    "elements": [["Hopper-v4/ppo/sb3/sb3/steps=600/seed=0"]],
    "settings": {},
}


def pipe(path):
    os.mkfifo(path)


def link(path):
    path.with_suffix(".text").write_text(json.dumps(GOOD))
    path.symlink_to(path.with_suffix(".text"))


def huge(path):
    with path.open("wb") as file:
        file.truncate(2**40)


def changed(**changes):
    return lambda path: path.write_text(json.dumps(GOOD | changes))


DAMAGE = {
    "truncated": lambda path: path.write_text(json.dumps(GOOD)[:50]),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "a list": lambda path: path.write_text("[]"),
    "a number": lambda path: path.write_text("7"),
    "deep": lambda path: path.write_text("[" * 100_000),
    "empty": lambda path: path.write_text("{}"),
    "a folder": lambda path: path.mkdir(),
    "a pipe": pipe,
    "a link": link,
    "huge": huge,
    "name of another": changed(name="good"),
    "name is a number": changed(name=7),
    "no time": changed(submitted=None),
    "time is not finite": changed(submitted=float("nan")),
    "time is too long": changed(submitted=10**400),
    "job is no number": changed(job_id="7 8"),
    "job is an option": changed(job_id="--user=root"),
    "job in other digits": changed(job_id="\u0667"),
    "job is a list": changed(job_id=[7]),
    "elements are text": changed(elements="abc"),
    "elements are numbers": changed(elements=[7]),
    "elements hold numbers": changed(elements=[[7]]),
    "elements hold texts": changed(elements=["abc"]),
    "elements are absolute": changed(elements=[["/etc/seed=0"]]),
    "elements go up": changed(elements=[["a/../../../other/seed=0"]]),
    "elements are empty": changed(elements=[[""]]),
    "elements end": changed(elements=[["a\0b"]]),
    "elements are half a character": changed(elements=[["\ud800"]]),
    "settings are a list": changed(settings=[]),
}


@pytest.fixture
def impatient():
    """Waiting for a pipe would never end."""

    def give_up(number, frame):
        raise AssertionError("hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(("name", "limit"), [("_MAX_NAMES", 3), ("_MAX_TOGETHER", 1000)])
def test_records_are_read_up_to_a_size_and_a_number_of_runs(tmp_path, monkeypatch, name, limit):
    for array in ("one", "two", "six"):
        a_record(tmp_path, array, [[tmp_path / "a" / "seed=0", tmp_path / "a" / "seed=1"]])
    assert len(read_records(tmp_path)) == 3
    size = max(file.stat().st_size for file in (tmp_path / "slurm").glob("*.json"))
    monkeypatch.setattr(arrays, name, min(limit, size))
    assert len(read_records(tmp_path)) == 1


def test_record_with_a_foreign_job_name_is_refused(tmp_path, monkeypatch):
    """`slurm cancel` on a foreign folder would end the user's own job of that name."""
    monkeypatch.setattr(arrays, "_NAME", ARRAY_NAME)
    elements = ((tmp_path / "s" / "seed=0",),)
    job = arrays.JobArray(arrays.JobResources("ppo", 1, 1, 1, 1.0), elements, 0)
    own = arrays.create_record(tmp_path / "s", job, load_settings("default", {}))
    own.save()
    for name in ("bash", "interactive-1", "s-ppo-deadbee"):
        a_record(tmp_path / "s", name, elements)
    assert [record.name for record in read_records(tmp_path / "s")] == [own.name]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_record_is_skipped_and_the_others_are_read(tmp_path, damage):
    good = a_record(tmp_path, "good", [[tmp_path / "a" / "seed=0"]])
    changed()(tmp_path / "slurm" / "bad.json")
    assert [record.name for record in read_records(tmp_path)] == ["bad", "good"]
    (tmp_path / "slurm" / "bad.json").unlink()
    DAMAGE[damage](tmp_path / "slurm" / "bad.json")
    (read,) = read_records(tmp_path)
    assert (read.name, read.job_id, read.elements) == ("good", "7", good.elements)
    (tmp_path / "slurm" / "good.json").unlink()
    assert read_records(tmp_path) == []


@pytest.mark.usefixtures("impatient")
def test_damaged_spec_does_not_hide_the_others(tmp_path):
    folders = [a_run(tmp_path, seed=seed) for seed in (0, 1)]
    study = folders[0].parents[5]
    record = a_record(study, "a", [folders])
    specs = [json.loads((folder / "run.json").read_text())["spec"] for folder in folders]
    names = [str(folder.relative_to(study)) for folder in folders]
    path = record.folder / "specs.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({names[0]: {"seed": 0}, names[1]: specs[1], "../x": specs[0]}))
    assert {folder: spec.seed for folder, spec in record.read_specs().items()} == {folders[1]: 1}
    path.write_text("[]")
    assert record.read_specs() == {}
    path.unlink()
    os.mkfifo(path)
    assert record.read_specs() == {}


def test_records_are_ordered_by_job_number_and_not_by_time(tmp_path):
    known = [("a", 900, "9"), ("b", 100, "10"), ("c", 50, "11")]  # clocks of three machines
    for name, submitted, number in [*known, ("d", 10, None), ("e", 1000, None)]:
        a_record(tmp_path, name, [[tmp_path / "seed=0"]], submitted=submitted, job_id=number)
    assert [record.name for record in read_records(tmp_path)] == ["d", "a", "b", "c", "e"]


@pytest.mark.parametrize("name", ["a%jb", "100%", "a\\b"])
def test_folders_whose_names_slurm_would_replace_are_refused(name, tmp_path):
    array = types.SimpleNamespace(resources=types.SimpleNamespace(algorithm="ppo"), elements=[])
    settings = load_settings("default", {})
    with pytest.raises(SpecError, match="have a meaning in Slurm's paths: rename it"):
        arrays.create_record(tmp_path / name, array, settings)
    with pytest.raises(SpecError, match="rename it"), launch._lock_submissions(tmp_path / name):
        pass
    assert not (tmp_path / name).exists()
    assert arrays.create_record(tmp_path / "a b", array, settings).name.startswith("a_b-ppo-")


def test_no_submission_is_written_through_a_link(tmp_path):
    array = types.SimpleNamespace(resources=types.SimpleNamespace(algorithm="ppo"), elements=[])
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "slurm").symlink_to(tmp_path)
    with pytest.raises(SpecError, match="study/slurm is a link: delete it"):
        arrays.create_record(tmp_path / "study", array, load_settings("default", {}))
