import json
import os
import types
from pathlib import Path

import pytest

from parallax.harness.probes import runner, stored_answers
from parallax.harness.probes.experiments import AlignmentLevel
from parallax.harness.probes.stored_answers import AnswerStore, open_answer_store
from tests.harness.probes.test_runner import PROBES

ANSWER = {
    **{"value": [0.005], "expected": [0.005], "comparison": {"kind": "agrees", "size": 0.0}},
    **{"meaning": "", "unmeasured": "", "failed": False, "along": None},
}
RESULT = {
    **dict.fromkeys(("algorithm", "question", "citation", "quantity"), "td3"),
    **{"probe": "td3.tau_unit", "axis": None, "answers": {"sb3": ANSWER}, "groups": [["sb3"]]},
}
LEVEL = AlignmentLevel()


def make_adapter(name: str = "sb3") -> types.SimpleNamespace:
    return types.SimpleNamespace(name=name, package="parallax.adapters.sb3", import_names=("fw",))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed code with one file; nothing else on the path."""
    folder = tmp_path / "site-packages"
    (folder / "fw" / "__pycache__").mkdir(parents=True)
    (folder / "fw" / "update.py").write_text("tau = 0.005\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(stored_answers.site, "getsitepackages", lambda: [str(folder)])
    monkeypatch.setattr(stored_answers.site, "getusersitepackages", lambda: str(tmp_path / "none"))
    return folder


def find_folder(**changes: object) -> Path:
    stored_answers._hash_environment.cache_clear()
    given = {"adapter": make_adapter(), "level": LEVEL, "seed": 0} | changes
    store = open_answer_store(**given)
    assert store is not None
    return store._folder


def test_stored_answers_are_loaded_except_failed_and_damaged_ones(tmp_path: Path):
    store = AnswerStore(tmp_path / "answers")
    assert store.load_answer("td3.tau_unit") is None
    store.save_answer(RESULT)
    assert store.load_answer("td3.tau_unit") == RESULT
    store.save_answer({"probe": "td3.counts", "answers": {"sb3": {"failed": True}}})
    assert store.load_answer("td3.counts") is None


@pytest.mark.parametrize(
    "content",
    [
        *('{"probe": ', '{"probe": "td3.tau_unit"}', "[]", "[" * 100_000, "1" * 5000),
        json.dumps(RESULT | {"answers": []}),
        json.dumps(RESULT | {"answers": {"sb3": ANSWER | {"value": "x"}}}),
        json.dumps(RESULT | {"axis": 1}),
        json.dumps(RESULT | {"probe": "td3.counts"}),
    ],
)
def test_damaged_answers_are_measured_again(tmp_path: Path, content: str):
    store = AnswerStore(tmp_path / "answers")
    store.save_answer(RESULT)
    (tmp_path / "answers" / "td3.tau_unit.json").write_text(content)
    assert store.load_answer("td3.tau_unit") is None


def test_answers_of_others_or_in_a_pipe_are_not_used(installed: Path, tmp_path: Path):
    folder = find_folder()
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    AnswerStore(folder).save_answer(RESULT)
    assert AnswerStore(folder).load_answer("td3.tau_unit") == RESULT
    (folder / "td3.tau_unit.json").unlink()
    os.mkfifo(folder / "td3.tau_unit.json")
    assert AnswerStore(folder).load_answer("td3.tau_unit") is None
    folder.parent.rename(tmp_path / "answers")
    folder.parent.symlink_to(tmp_path / "answers")
    assert open_answer_store(make_adapter(), LEVEL, 0) is None


def test_the_oldest_stores_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stored_answers, "MAX_STORES", 2)
    for number, name in enumerate("abc"):
        AnswerStore(tmp_path / "answers" / name).save_answer(RESULT)
        os.utime(tmp_path / "answers" / name, (number, number))
    AnswerStore(tmp_path / "answers" / "d").save_answer(RESULT)
    assert sorted(folder.name for folder in (tmp_path / "answers").iterdir()) == ["c", "d"]


def test_changed_installed_code_uses_another_store(installed: Path):
    first = find_folder()
    assert find_folder() == first
    (installed / "fw" / "__pycache__" / "update.pyc").write_text("compiled")
    (installed / "fw" / "notes.txt").write_text("not code")
    assert find_folder() == first
    update = installed / "fw" / "update.py"
    times = update.stat()
    update.write_text("tau = 0.006\n")  # as many bytes
    os.utime(update, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    second = find_folder()
    assert second != first
    (installed / "own.pth").write_text("/elsewhere")
    assert find_folder() not in (first, second)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"level": AlignmentLevel("exact", "original")},
        {"level": AlignmentLevel("defaults", "sb3")},
        {"adapter": make_adapter("cleanrl")},
    ],
)
def test_seed_level_and_framework_have_separate_stores(installed: Path, change: dict):
    assert find_folder(**change) != find_folder()


def test_edited_recipe_uses_another_store(installed: Path, tmp_path: Path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("gamma: 0.9")
    level = AlignmentLevel("exact", str(recipe))
    first = find_folder(level=level)
    recipe.write_text("gamma: 0.8")
    assert find_folder(level=level) != first


def test_variables_of_numerical_libraries_count_and_others_do_not(
    installed: Path, monkeypatch: pytest.MonkeyPatch
):
    first = find_folder()
    monkeypatch.setenv("EDITOR", "ed")
    assert find_folder() == first
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    assert find_folder() != first


def test_changed_project_file_uses_another_store(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    project = tmp_path / "parallax"
    (project / "hp_configs").mkdir(parents=True)
    monkeypatch.setattr(stored_answers, "_PROJECT", project)
    first = find_folder()
    (project / "hp_configs" / "own.yaml").write_text("gamma: 0.9\n")
    assert find_folder() != first


def test_a_framework_outside_site_packages_counts(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    checkout = tmp_path / "checkout" / "fw"
    checkout.mkdir(parents=True)
    (checkout / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(checkout.parent))
    first = find_folder()
    (checkout / "update.py").write_text("tau = 1\n")
    assert find_folder() != first


def test_nothing_is_reused_with_other_folders_on_the_path(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    root = stored_answers._PROJECT.parent
    monkeypatch.setenv("PYTHONPATH", str(root))
    assert open_answer_store(make_adapter(), LEVEL, 0) is not None
    monkeypatch.setenv("PYTHONPATH", f"{root}{os.pathsep}{tmp_path}")
    assert open_answer_store(make_adapter(), LEVEL, 0) is None


@pytest.mark.long
def test_the_second_measurement_reuses_the_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(stored_answers._PROJECT.parent))

    def measure(uses_store: bool) -> tuple[runner.ProbeReport, int]:
        request = runner.ProbeRequest(tuple(PROBES), ("sb3",), uses_store=uses_store)
        found = runner.run_probes(PROBES, runner.find_targets(request), lambda answer: None)
        return found, found.n_stored

    first, n_first = measure(True)
    second, n_second = measure(True)
    fresh, n_fresh = measure(False)
    assert (n_first, n_second, n_fresh) == (0, len(PROBES), 0)
    for a, b, c in zip(first.results, second.results, fresh.results, strict=True):
        values = [result.answers["sb3"].value.tolist() for result in (a, b, c)]
        assert values[0] == values[1] == values[2]
