"""Complete runs of other adapter code are named, and runs that say nothing of it are not."""

import types

import recorded

from parallax.harness.contract.adapter_discovery import (
    describe_adapter_code,
    find_adapter_entry_point,
)
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.sweep import _print_skipped_runs, describe_complete_runs


def made_by(results, files, seed=0):
    folder = recorded.complete_run(results, seed=seed)
    code = describe_adapter_code(find_adapter_entry_point("sb3").value)
    recorded.edit(folder, provenance={"adapter": {**code, "files": files(code["files"])}})
    assert read_run(folder).complete
    return folder


def request(endpoint, logger="none", mode="off"):
    spec = {"endpoint": endpoint, "logger": logger, "diagnosis": {"mode": mode}}
    return types.SimpleNamespace(spec=types.SimpleNamespace(**spec))


def test_runs_of_the_installed_code_and_older_runs_need_no_remark(tmp_path):
    same = made_by(tmp_path, dict)
    older = recorded.complete_run(tmp_path, seed=1)
    assert describe_complete_runs(dict.fromkeys((same, older), request("final").spec)) == []


def test_changed_new_and_removed_files_are_named_with_a_remedy(tmp_path):
    def earlier(files):
        return {name: digest for name, digest in files.items() if name != "train.py"} | {
            "__init__.py": "0" * 64,
            "gone.py": "0" * 64,
        }

    folders = [made_by(tmp_path, earlier, seed) for seed in range(4)]
    complete = [*folders, made_by(tmp_path, dict, 4)]
    (text,) = describe_complete_runs(dict.fromkeys(complete, request("final").spec))
    assert text.startswith("4 complete runs were made by an earlier version")
    assert "sb3/__init__.py, sb3/gone.py, sb3/train.py" in text
    assert str(folders[0]) in text and "and 1 more" in text
    assert "remove their folders or choose another study.name" in text


def test_only_complete_runs_are_reported_as_trained_by_other_code(tmp_path, capsys):
    folder = made_by(tmp_path, lambda files: dict.fromkeys(files, "0" * 64))
    runs = {folder: request("auc"), tmp_path / "a": None, tmp_path / "b": None}
    _print_skipped_runs({folder: None}, runs)
    said = capsys.readouterr().out
    assert "1 of 3 runs are complete already." in said and "made by an earlier version" in said
    _print_skipped_runs({folder: "process 7 on there"}, runs)
    assert capsys.readouterr().out == "1 of 3 runs are running elsewhere.\n"
    _print_skipped_runs({}, runs)
    assert capsys.readouterr().out == ""


def test_endpoint_missing_in_complete_runs_is_reported(tmp_path, capsys):
    folder = made_by(tmp_path, dict)
    recorded.edit(folder, spec=read_run(folder).content["spec"] | {"endpoint": "last-3"})
    _print_skipped_runs({folder: None}, {folder: request("final")})
    said = capsys.readouterr().out
    assert "have the endpoint that they were started with, last-3. --endpoint NAME" in said
    _print_skipped_runs({folder: None}, {folder: request("last-3")})
    assert capsys.readouterr().out == "1 of 1 runs are complete already.\n"


def test_a_logger_or_diagnosis_that_complete_runs_do_not_get_is_said(tmp_path, capsys):
    folder = made_by(tmp_path, dict)
    _print_skipped_runs({folder: None}, {folder: request("final", "wandb", "strict")})
    said = capsys.readouterr().out
    assert "diagnosis=strict, logger=wandb: complete runs were trained without" in said
    changes = {"logger": "wandb", "diagnosis": {"mode": "on"}}
    recorded.edit(folder, spec=read_run(folder).content["spec"] | changes)
    _print_skipped_runs({folder: None}, {folder: request("final", "wandb", "on")})
    assert capsys.readouterr().out == "1 of 1 runs are complete already.\n"


def test_an_adapter_of_this_project_names_its_files_and_no_requirements():
    code = describe_adapter_code(find_adapter_entry_point("torchrl").value)
    assert code["distribution"] == "parallax-drl" and code["requires"] == []
    assert {"__init__.py", "train.py", "settings.py"} <= set(code["files"])
