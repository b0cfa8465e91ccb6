"""One loader: what counts as complete, what older folders mean, and what is damaged."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import recorded
import support
from loops import iterate_some

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import RUN_DEFAULTS, spec_from_dict
from parallax.harness.record import reading
from parallax.harness.record.layout import find_runs, parse_run_path
from parallax.harness.record.reading import find_damage, read_run
from parallax.harness.record.run_json import RecordedSpec
from parallax.harness.sweep.sweep import initialize_run
from parallax.harness.train.prepare import prepare_run

SCHEMA_1 = Path(__file__).parents[2] / "data" / "schema_1" / "results"
STATUSES = {"failures": "failed", "interrupted": "interrupted", "pending": "pending"}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return recorded.complete_run(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def folder(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "seed=0"))


def old_folders():
    folders = find_runs(SCHEMA_1).runs
    return [pytest.param(f, id="/".join(f.relative_to(SCHEMA_1).parts[::5])) for f in folders]


@pytest.mark.parametrize("folder", old_folders())
def test_folders_of_schema_1_are_unchanged(folder):
    found = read_run(folder)
    status = STATUSES.get(folder.relative_to(SCHEMA_1).parts[0], "completed")
    assert found.record.schema == 1 and found.record.status == status
    assert found.complete == (status == "completed"), found.reason
    assert find_damage(folder) == {}
    spec = spec_from_dict(found.spec)
    assert parse_run_path(spec.folder(SCHEMA_1)) == parse_run_path(folder) == found.place


def test_complete_runs_of_schema_1_are_skipped_at_the_same_path():
    # Requested as by the current harness, independent of the original request.
    for folder in iterate_some(find_runs(SCHEMA_1 / "plain").runs):
        spec = spec_from_dict(read_run(folder).spec)
        prepared = prepare_run(spec, load_adapter(spec.framework))
        assert not initialize_run(prepared, folder)


@pytest.mark.parametrize(
    "field",
    [*sorted(RUN_DEFAULTS.keys() - {"eval_every", "eval_episodes"}), "python", "overridden"],
)
def test_record_without_a_later_field_means_its_default(field, folder):
    before = spec_from_dict(read_run(folder).spec)
    spec = json.loads((folder / "run.json").read_text())["spec"]
    del spec[field]
    recorded.edit(folder, spec=spec)
    found = read_run(folder)
    assert found.complete, found.reason
    default = {**RUN_DEFAULTS, "python": None, "overridden": ()}[field]
    assert spec_from_dict(found.spec) == dataclasses.replace(before, **{field: default})


def test_defaults_of_the_record_are_those_of_the_spec():
    defaults = dict(
        zip(
            RecordedSpec.__struct_fields__[-len(RecordedSpec.__struct_defaults__) :],
            RecordedSpec.__struct_defaults__,
            strict=True,
        )
    )
    assert {name: defaults[name] for name in RUN_DEFAULTS} == RUN_DEFAULTS


def test_later_hyperparameter_has_its_legacy_value():
    from parallax.harness.contract.fields import bounded_field, build_dataclass

    @dataclasses.dataclass(frozen=True)
    class Later:
        gamma: float = bounded_field(minimum=0)
        n_step: int = bounded_field(minimum=1, legacy_value=1)

    assert build_dataclass(Later, {"gamma": 0.9}, "hyperparameters") == Later(0.9, 1)
    assert build_dataclass(Later, {"gamma": 0.9, "n_step": 3}, "hyperparameters") == Later(0.9, 3)


def test_changed_schema_is_damage(folder):
    path = folder / "run.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"schema": 2**63}))
    damage = find_damage(folder)[path.name]
    assert f"schema={2**63}" in damage and "its checksum does not match" in damage
    assert not read_run(folder).damaged  # a later version's record must not be replaced
    recorded.edit(folder, schema=4)
    assert find_damage(folder) == {}


def test_record_of_a_later_version_is_reported_and_not_overwritten(folder):
    recorded.edit(folder, schema=4)
    found = read_run(folder)
    assert not found.complete and "schema=4" in found.reason and "later one" in found.reason
    spec = support.spec(steps=6144, eval_every=2048)
    before = (folder / "run.json").read_bytes()
    with pytest.raises(SpecError, match="schema=4"):
        initialize_run(prepare_run(spec, load_adapter("sb3")), folder)
    assert (folder / "run.json").read_bytes() == before


def rewrite(**changes):
    def act(folder):
        with np.load(folder / "evaluations.npz") as file:
            arrays = dict(file) | {name: change(file[name]) for name, change in changes.items()}
        np.savez(folder / "evaluations.npz", **arrays)

    return act


def spec_with(**changes):
    def act(folder):
        spec = json.loads((folder / "run.json").read_text())["spec"]
        recorded.edit(folder, spec=spec | changes)

    return act


def claim_many(folder):
    with zipfile.ZipFile(folder / "evaluations.npz") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    old = members["results.npy"]
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }"
    end = old.index(b"\n")
    members["results.npy"] = old[:10] + header.ljust(end - 10) + old[end:]
    with zipfile.ZipFile(folder / "evaluations.npz", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def replace_by_pipe(name):
    def act(folder):
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return act


def replace_by_link(name):
    def act(folder):
        (folder / name).rename(folder / "elsewhere")
        (folder / name).symlink_to(folder / "elsewhere")

    return act


DAMAGE = [
    (lambda f: f.joinpath("run.json").write_text("{"), "run.json", "corrupted run.json"),
    (lambda f: f.joinpath("run.json").unlink(), "run.json", "missing run.json"),
    (lambda f: f.joinpath("run.json").write_text("[" * 10**6), "run.json", "corrupted"),
    (lambda f: f.joinpath("run.json").write_bytes(b"\xff\xfe"), "run.json", "corrupted"),
    (lambda f: os.truncate(f / "run.json", 10**11), "run.json", "too large"),
    (replace_by_pipe("run.json"), "run.json", "not a regular file"),
    (replace_by_link("run.json"), "run.json", "is a link"),
    (lambda f: recorded.edit(f, spec=[1]), "run.json", "spec: expected `object`, got `array`"),
    (lambda f: recorded.edit(f, status=7), "run.json", "status: expected `str`, got `int`"),
    (lambda f: recorded.edit(f, status="done"), "run.json", "status: invalid enum value 'done'"),
    (lambda f: recorded.edit(f, steps=None), "run.json", "steps: expected `object`"),
    (spec_with(threads=None), "run.json", "spec.threads: expected `int`, got `null`"),
    (spec_with(seed=10**400), "run.json", "spec.seed"),
    (spec_with(study="x" * 5000), "run.json", "spec.study"),
    (lambda f: recorded.edit(f, guarded=True, job="5"), "run.json", "checksum does not match"),
    (lambda f: f.joinpath("evaluations.npz").unlink(), "evaluations.npz", "missing"),
    (lambda f: f.joinpath("evaluations.npz").write_bytes(b"PK"), "evaluations.npz", "corrupted"),
    (claim_many, "evaluations.npz", "1000000000000 values that it announces"),
    (replace_by_pipe("evaluations.npz"), "evaluations.npz", "not a regular file"),
    (rewrite(results=lambda a: a * np.nan), "evaluations.npz", "non-finite returns"),
    (rewrite(timesteps=lambda a: a - 20), "evaluations.npz", "too short"),
    (rewrite(timesteps=lambda a: a[::-1]), "evaluations.npz", "do not increase"),
    (rewrite(ep_lengths=lambda a: a[:1]), "evaluations.npz", "shapes do not agree"),
    (rewrite(results=lambda a: a.astype(object)), "evaluations.npz", "not of numeric types"),
    (rewrite(results=lambda a: a + 1), "evaluations.npz", "not what the run wrote"),
]


@pytest.mark.parametrize(("damage", "file", "words"), DAMAGE)
def test_damage_is_named_and_makes_a_run_incomplete(folder, damage, file, words):
    assert read_run(folder).complete and find_damage(folder) == {}
    damage(folder)
    found = find_damage(folder)
    assert list(found) == [file] and words in found[file], found
    after = read_run(folder)
    assert not after.complete and words in after.reason and after.damaged


def test_damage_to_the_trace_is_found_and_the_run_stays_complete(folder):
    for place in range(4, (folder / "trace.parquet").stat().st_size - 8, 97):
        content = bytearray((folder / "trace.parquet").read_bytes())
        content[place] ^= 4
        (folder / "trace.parquet").write_bytes(content)
        assert list(find_damage(folder)) == ["trace.parquet"]
        assert read_run(folder).complete
        content[place] ^= 4
        (folder / "trace.parquet").write_bytes(content)
    assert find_damage(folder) == {}


def test_pages_of_the_trace_carry_checksums(folder):
    recorded.edit(folder, files={})  # without the whole file's hash, pages are all there is
    with pyarrow.parquet.ParquetFile(folder / "trace.parquet") as file:
        column = file.metadata.row_group(0).column(2)
    content = bytearray((folder / "trace.parquet").read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    content[start + column.total_compressed_size - 3] ^= 1
    (folder / "trace.parquet").write_bytes(content)
    assert "crc" in find_damage(folder)["trace.parquet"].lower()


def test_reformatted_record_is_the_same_record(folder):
    content = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(dict(reversed(content.items())), indent=7))
    assert read_run(folder).complete


def test_loader_needs_neither_frameworks_nor_tasks():
    code = "import parallax.harness.record.reading, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert not {"gymnasium", "mujoco", "torch", "pyarrow", "hydra"} & set(loaded.split())


def test_file_or_missing_folder_is_no_run(tmp_path):
    (tmp_path / "seed=0").write_text("")
    assert "run.json" in read_run(tmp_path / "seed=0").reason
    assert read_run(tmp_path / "seed=1").reason == "missing run.json"
    assert reading.find_damage(tmp_path / "seed=1") == {"run.json": "missing run.json"}
