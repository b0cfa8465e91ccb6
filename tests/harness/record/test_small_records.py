"""Diagnoses, imported runs, packages and batch jobs as they are stored and read."""

import importlib.metadata
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from parallax.analysis.labels import LIBRARY_DEFAULTS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import check_folder_names
from parallax.harness.imports.run_import import write_imported_run
from parallax.harness.record import old_names, provenance, reading
from parallax.harness.record.completeness import NewerSchemaError, RunReading, describe_nonfinite
from parallax.harness.record.files import UnusableError
from parallax.harness.record.lock_owner import BatchJob
from parallax.harness.record.npz_files import RunEvaluations
from parallax.harness.record.reading import (
    NOT_REQUESTED,
    decode_record,
    measure_depth,
    parse_record,
    read_diagnosis,
)
from parallax.harness.record.run_json import (
    SCHEMA,
    ImportSource,
    RunAttempt,
    RunProvenance,
    collect_versions,
    compute_checksum,
    describe_differing_versions,
    has_valid_checksum,
)


def test_a_diagnosis_may_have_four_mebibytes_and_no_more(tmp_path):
    content = json.dumps({"findings": [], "signals": {}}).encode()
    (tmp_path / "diagnosis.json").write_bytes(content.ljust(2**22))
    assert read_diagnosis(tmp_path).reason == ""
    (tmp_path / "diagnosis.json").write_bytes(content.ljust(2**22 + 1))
    assert "diagnosis.json cannot be read" in read_diagnosis(tmp_path).reason


def test_versions_are_those_of_the_distributions_whose_modules_are_imported(monkeypatch):
    provenance._map_package_owners.cache_clear()  # other tests may have changed the module path
    found = provenance.list_imported_packages()
    assert found["numpy"] == np.__version__ and found["pytest"] == pytest.__version__
    owners = importlib.metadata.packages_distributions()
    modules = {name.partition(".")[0] for name in sys.modules}
    names = {name for module in modules for name in owners.get(module, ())}
    assert found == {name: importlib.metadata.version(name) for name in names}
    assert list(found) == sorted(found, key=str.lower)
    monkeypatch.setattr(provenance.sys, "modules", {"numpy.linalg": np.linalg})
    assert provenance.list_imported_packages() == {"numpy": np.__version__}
    monkeypatch.setattr(provenance.sys, "modules", {"types": types, "sys": sys})
    assert provenance.list_imported_packages() == {}


def test_the_first_of_two_distributions_with_one_name_is_imported(monkeypatch):
    class One:
        def __init__(self, version):
            self.metadata, self.version = {"Name": "twice"}, version

        def read_text(self, name):
            return "module_of_twice" if name == "top_level.txt" else None

    for count in range(2, 6):
        provenance._map_package_owners.cache_clear()
        found = [One(str(number)) for number in range(count)]
        monkeypatch.setattr(provenance.importlib.metadata, "distributions", lambda f=found: iter(f))
        monkeypatch.setattr(provenance.sys, "modules", {"module_of_twice.part": types})
        assert provenance.list_imported_packages() == {"twice": "0"}
    provenance._map_package_owners.cache_clear()


def test_a_job_outside_of_slurms_limits_has_a_minute_after_a_warning(monkeypatch):
    assert BatchJob("7").notice == 60.0 and BatchJob("7").restart == 0
    monkeypatch.setenv("PARALLAX_JOB", "7")
    for name in ("PARALLAX_RESTART", "PARALLAX_LIMIT", "PARALLAX_NOTICE"):
        monkeypatch.delenv(name, raising=False)
    assert BatchJob.from_environment() == BatchJob("7")


def make_evaluations():
    returns = np.array([[1.0, 2.0], [3.0, 4.0]])
    return RunEvaluations(np.array([100, 200]), returns, np.full((2, 2), 9))


SPEC = {"study": "s", "env": "Hopper-v4", "algorithm": "ppo", "hps": "own", "steps": 200}
SPEC |= {"framework": "sb3", "seed": 7}


def test_imported_run_is_complete_and_alone_in_its_folder(tmp_path):
    folder = tmp_path.joinpath("s", "Hopper-v4", "ppo", "own", "sb3", "default", "seed=0")
    arguments = make_evaluations(), SPEC, {"lr": 0.1}, ImportSource("log.csv")
    write_imported_run(folder, *arguments)
    assert sorted(file.name for file in folder.iterdir()) == ["evaluations.npz", "run.json"]
    assert not list(tmp_path.glob(".import-*"))
    assert json.loads((folder / "run.json").read_text())["final_score"] == 3.5
    with pytest.raises(UnusableError, match="already exists"):
        write_imported_run(folder, *arguments)


def test_an_imported_run_that_cannot_be_written_leaves_nothing(tmp_path):
    results = tmp_path / "results"
    above = results.joinpath("s", "Hopper-v4", "ppo", "own", "sb3")
    above.mkdir(parents=True)
    (above / "default").write_text("a file where a folder should be")
    arguments = make_evaluations(), SPEC, {}, ImportSource("log.csv")
    with pytest.raises(OSError):
        write_imported_run(above / "default" / "seed=0", *arguments)
    assert [entry.name for entry in results.iterdir()] == ["s"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "it is nested too deep"),
        ("{}", "cannot be read"),
        ('{"findings": [], "signals": {"a": {"curve": [[1e400, 0]]}}}', "infinity"),
        (f'{{"findings": [], "signals": {{"a": {{"curve": [[1, 1{"0" * 400}]]}}}}}}', "too large"),
        (
            f'{{"findings": [], "signals": {{"a": {{"curve": [[1{"0" * 400}, 1]]}}}}}}',
            "not a step of",
        ),
        ('{"findings": [], "signals": {"a": {"curve": [[-1, 1]]}}}', "not a step of a training"),
        ('{"findings": [{"id": "a"}]}', "a finding lacks required fields"),
    ],
)
def test_a_diagnosis_that_cannot_be_read_has_a_reason(tmp_path, text, words):
    (tmp_path / "diagnosis.json").write_text(text)
    found = read_diagnosis(tmp_path)
    assert (found.folder, found.findings) == (tmp_path, ())
    assert found.reason.startswith("diagnosis.json cannot be read (") and words in found.reason


@pytest.mark.parametrize("name", ["first_step", "last_step", "count"])
def test_a_finding_has_steps_of_a_training(tmp_path, name):
    finding = dict.fromkeys(reading._TEXT_FIELDS, "a") | {"id": "nan", "level": "error"}
    finding |= dict.fromkeys(("first_step", "last_step", "count"), 2**53)
    for change, readable in (({}, True), ({name: 2**53 + 1}, False), ({name: -1}, False)):
        content = {"findings": [finding | change], "signals": {}}
        (tmp_path / "diagnosis.json").write_text(json.dumps(content))
        assert bool(read_diagnosis(tmp_path).findings) == readable


def test_missing_diagnosis_is_distinguished_from_an_unreadable_one(tmp_path):
    (tmp_path / "packed.parquet").touch()
    assert read_diagnosis(tmp_path / "none").reason == NOT_REQUESTED
    assert read_diagnosis(tmp_path / "packed.parquet" / "run").reason == NOT_REQUESTED
    found = read_diagnosis(tmp_path / ("a" * 300))
    assert found.folder.parent == tmp_path
    assert found.reason == "diagnosis.json cannot be read (File name too long)"


def test_finding_has_texts_integers_and_a_known_level(tmp_path):
    good = dict.fromkeys(reading._TEXT_FIELDS, "x")
    good |= {"level": "error", "first_step": 1, "last_step": 2, "count": 3}
    for changes in ({}, {"level": "fatal"}, {"count": "3"}, {"first_step": 0.5}, {"id": 7}):
        text = json.dumps({"findings": [good | changes], "signals": {"a": {"curve": [[1, 2]]}}})
        (tmp_path / "diagnosis.json").write_text(text)
        found = read_diagnosis(tmp_path)
        assert (len(found.findings), found.reason == "") == ((0, False) if changes else (1, True))
        assert found.curves == ({} if changes else {"a": ((1, 2.0),)})


def test_the_machine_is_described_as_far_as_the_system_reports(monkeypatch, tmp_path):
    monkeypatch.setattr(provenance.platform, "processor", lambda: "generic")
    files = {"/proc/cpuinfo": "flags : a\nmodel name\t: Fast One\nmodel name\t: Fast Two\n"}

    def read(path):
        if str(path) not in files:
            raise PermissionError
        return files[str(path)]

    monkeypatch.setattr(provenance.Path, "read_text", read)
    assert provenance.read_processor_model() == "Fast One"
    files["/proc/cpuinfo"] = "flags : a\n"
    assert provenance.read_processor_model() == "generic"
    files.clear()
    assert provenance.read_processor_model() == "generic"
    library = tmp_path / "libfast.so.4.5"
    monkeypatch.setenv("LD_PRELOAD", f"{library}:/gone/libother.so")
    assert provenance.list_preloaded_libraries() == []
    files["/proc/self/maps"] = "".join(
        f"7f-80 r-xp 00 00:00 1     {path}\n" for path in (f"{library}.10", "/lib/libc.so", library)
    )
    assert provenance.list_preloaded_libraries() == [str(library), f"{library}.10"]
    files["/proc/self/maps"] = "7f-80 r-xp 00 00:00 1     /a folder/libfast.so.4.5\n"
    assert provenance.list_preloaded_libraries() == ["/a folder/libfast.so.4.5"]
    monkeypatch.delenv("LD_PRELOAD")
    assert provenance.list_preloaded_libraries() == []


def test_the_commit_is_that_of_the_checkout_and_unknown_outside(monkeypatch):
    answers = {"rev-parse": "abc", "status": " M a.py"}
    monkeypatch.setattr(provenance, "_run_git", lambda folder, name, *rest: answers[name])
    assert provenance.read_project_commit() == {"commit": "abc", "dirty": True}
    answers["status"] = ""
    assert provenance.read_project_commit() == {"commit": "abc", "dirty": False}

    def fail(*_):
        raise FileNotFoundError("git")

    monkeypatch.setattr(provenance, "_run_git", fail)
    assert provenance.read_project_commit() == {"commit": None, "dirty": None}


RESULTS = Path("/results")


def make_record(spec=(), **changes):
    """The content of a `run.json` with nothing but what it must have."""
    least = {**SPEC, **dict(spec)}
    content = {"schema": SCHEMA, "status": "completed", "spec": least, "steps": {"scheduled": 200}}
    return json.dumps(content | changes).encode()


def read(folder="s/Hopper-v4/ppo/own/sb3/steps=200/seed=7", **changes):
    record, content = parse_record(make_record(**changes))
    return RunReading(RESULTS / folder, record, content)


def test_settings_are_complete_for_own_runs_and_partial_for_imported_ones():
    assert RunReading(RESULTS).spec == {}
    found = read(spec={"own": 5}).spec
    assert found["own"] == 5 and found["n_envs"] == 1 and found["replay"] == {"name": "uniform"}
    source = {"source": "a", "format": "log"}
    assert read(imported=source).spec == {**SPEC, "imported": "log"}


def test_run_location_is_that_of_its_record_except_for_renamed_studies():
    by_path = read("t/Hopper-v4/ppo/own/sb3/steps=200/seed=7").place
    assert (by_path.study, by_path.variant, by_path.seed) == ("t", "steps=200", 7)
    moved = read("t/Hopper-v4/ppo/own/sb3/steps=200/seed=8").place
    assert (moved.study, moved.framework, moved.variant, moved.seed) == ("s", "sb3", "steps=200", 7)
    script = {"name": "a.py", "sha256": "0" * 64, "source": ""}
    own = read(spec={"script": script, "env_kwargs": {"g": 1}}).place
    assert (own.framework, own.env) == ("sb3@a-00000000", "Hopper-v4,g=1")
    unknown = RunReading(RESULTS / "s/Hopper-v4/ppo/own/sb3/steps=200/seed=8").place
    assert (unknown.study, unknown.seed) == ("s", 8)


def test_attempts_that_resumed_are_counted_with_the_last_one():
    attempts = [{"status": "lost", "resumed_from": step} for step in (None, 0, 5)]
    for last, count in ((None, 2), (0, 3)):
        record, _ = parse_record(make_record(attempts=attempts, resumed_from=last))
        assert record.resumptions == count
    assert record.attempts[1] == RunAttempt("lost", resumed_from=0)


def test_a_record_of_this_project_has_a_seed():
    with pytest.raises(UnusableError, match=r"^corrupted run.json: spec.seed: expected `int`, got"):
        parse_record(make_record(spec={"seed": None}))
    record, _ = parse_record(make_record(spec={"seed": None}, imported={"source": "a"}))
    assert record.spec.seed is None


@pytest.mark.parametrize("name", ["final", "auc", "last-3", "last-9999", "steps-1", "steps-100"])
def test_a_record_has_an_endpoint_that_exists(name):
    assert parse_record(make_record(spec={"endpoint": name}))[0].spec.endpoint == name
    for odd in ("bogus", "last-0", "last-10000", "steps-101", f"{name}\n", "", "9" * 5000):
        with pytest.raises(UnusableError, match=r"spec\.endpoint: expected"):
            parse_record(make_record(spec={"endpoint": odd}))


def test_no_recipe_is_called_as_tables_call_all_own_recipes():
    assert LIBRARY_DEFAULTS == "library defaults"
    assert parse_record(make_record(spec={"hps": f"{LIBRARY_DEFAULTS} 2"}))
    with pytest.raises(UnusableError, match=r"spec.hps: expected `str` matching regex"):
        parse_record(make_record(spec={"hps": LIBRARY_DEFAULTS}))
    with pytest.raises(SpecError, match="hps='library defaults' is a name in tables"):
        check_folder_names({"study": "a", "hps": LIBRARY_DEFAULTS})


def test_records_of_later_schemas_are_refused_with_their_content():
    with pytest.raises(NewerSchemaError, match=rf"run.json has schema={SCHEMA + 1}, and") as error:
        parse_record(make_record(schema=SCHEMA + 1))
    assert error.value.content["schema"] == SCHEMA + 1
    assert NewerSchemaError("new").content == {}
    for odd in ("4", 0, None):
        with pytest.raises(UnusableError, match=r"^corrupted run.json: schema: expected `int`"):
            parse_record(make_record(schema=odd))


def test_records_are_nested_up_to_a_depth():
    def nest(depth):
        content = 1
        for _ in range(depth):
            content = [content]
        return content

    assert [measure_depth(nest(depth)) for depth in (1, 2, 64, 65, 99)] == [1, 2, 64, 65, 65]
    assert measure_depth({"a": [{}], "b": []}) == 3
    many = {f"a{i}": [{}] for i in range(200)}
    parse_record(make_record(native=many | {"a": nest(62)}))
    with pytest.raises(UnusableError, match=r"^corrupted run.json: it is nested too deeply$"):
        parse_record(make_record(native=many | {"a": nest(63)}))


def test_a_checksum_is_of_everything_else_in_any_order():
    content = {"b": [1, {"d": 2, "c": 3}], "a": None}
    checksum = compute_checksum(content)
    assert compute_checksum({"a": None, "b": [1, {"c": 3, "d": 2}], "checksum": "x"}) == checksum
    assert compute_checksum(content | {"a": 0}) != checksum
    assert has_valid_checksum(content) and has_valid_checksum(content | {"checksum": checksum})
    assert not has_valid_checksum(content | {"checksum": "x"})


def test_old_records_have_new_names_and_a_valid_checksum():
    old = json.loads(make_record(schema=2, cadence={"gradient_steps": 4}))
    for checksum, holds in ((compute_checksum(old), True), ("x", False)):
        raw = json.dumps(old | {"checksum": checksum}).encode()
        record, content = parse_record(raw)
        assert record.update_schedule == {"total_gradient_steps": 4}
        assert has_valid_checksum(content) is holds
        assert decode_record(raw.decode())["update_schedule"] == {"total_gradient_steps": 4}
    assert "checksum" not in parse_record(json.dumps(old).encode())[1]
    assert decode_record(None) == decode_record("") == {}


def test_returns_are_finite_up_to_the_largest_number_of_single_precision():
    most = float(np.finfo(np.float32).max)
    for value, text in (
        (most, ""),
        (-most, ""),
        (np.nextafter(most, np.inf), "non-finite returns: 1 of 4, first at step 200"),
        (-np.inf, "non-finite returns: 1 of 4, first at step 200"),
    ):
        returns = np.array([[1.0, 2.0], [3.0, value]])
        evaluations = RunEvaluations(np.array([100, 200]), returns, np.full((2, 2), 9))
        assert describe_nonfinite(evaluations) == text


def test_provenance_describes_software_and_machine(monkeypatch):
    monkeypatch.setattr(provenance.os, "environ", {"B_THREADS": "2", "A_THREADS": "1", "C": "3"})
    monkeypatch.setattr(provenance.sys, "argv", ["/a/b/train.py", "seed=1"])
    monkeypatch.setattr(provenance.platform, "node", lambda: "host")
    for name in ("read_project_commit", "list_imported_packages", "read_processor_model"):
        monkeypatch.setattr(provenance, name, lambda name=name: name)
    found = provenance.collect_provenance()
    assert list(found["threads"].items()) == [("A_THREADS", "1"), ("B_THREADS", "2")]
    assert (found["command"], found["host"]) == (["train.py", "seed=1"], "host")
    assert (found["commit"], found["packages"]) == ("read_project_commit", "list_imported_packages")
    assert (found["processor"], found["preloaded"]) == ("read_processor_model", [])
    assert (found["python"], found["executable"]) == (
        provenance.platform.python_version(),
        sys.executable,
    )


def test_weight_hash_covers_names_types_shapes_and_values():
    weights = {"a": np.zeros((2, 3)), "b": np.ones(2)}
    digest = provenance.hash_weights(weights)
    assert len(digest) == 64 and digest == provenance.hash_weights(dict(reversed(weights.items())))
    assert digest == provenance.hash_weights(weights | {"a": np.asfortranarray(weights["a"])})
    for changes in (
        {"a": np.zeros((3, 2))},
        {"a": np.zeros((2, 3), np.int64)},
        {"b": np.array([1.0, 2.0])},
        {"c": np.ones(2)},
    ):
        assert provenance.hash_weights(weights | changes) != digest


def test_single_old_names_are_translated():
    assert old_names.translate_intervention("bent-loss+own+large-weights") == (
        "huber-loss+own+lecun-normal-init"
    )
    assert [old_names.translate_check_id(name) for name in ("BND", "own")] == [
        "actions-at-bounds",
        "own",
    ]
    assert [old_names.translate_env(name) for name in ("envs.a:B-v0", "envs.a", "x:B-v0")] == [
        "parallax.envs.a:B-v0",
        "envs.a",
        "x:B-v0",
    ]
    assert [old_names.translate_module(name) for name in ("adapters.a:B", "adaptersx.a")] == [
        "parallax.adapters.a:B",
        "adaptersx.a",
    ]
    for schema in ("2", None, SCHEMA, 3):
        content = {"schema": schema, "kept": 1}
        assert old_names.translate_record(content) is content
    assert old_names.translate_variant("env_steps_per_round=2,a_keep=1,keep=last") == (
        "train_freq=2,a_keep=1,save_policy=last"
    )


def test_versions_of_runs_are_those_that_are_known():
    runs = [
        RunProvenance(packages={"a": "1", "b": ""}),
        RunProvenance(packages={"a": "2", "c": "1"}, python="3.11.7 (main)"),
    ]
    assert collect_versions(runs) == {"a": {"1", "2"}, "c": {"1"}, "Python": {"3.11.7"}}
    words = "Compared runs have different versions of a 1 and 2."
    assert describe_differing_versions(runs) == words
    assert describe_differing_versions(runs, ["c"]) == ""
