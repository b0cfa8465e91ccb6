"""Recipe files: where they are found, and what is said of a damaged one."""

import dataclasses
import os
import sys
import types

import pytest

from parallax.harness.contract import recipes
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import (
    find_recipe_files,
    list_recipe_names,
    load_recipe,
    read_recipe,
    set_common_fields,
)


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Third-party packages: one with an adapter, and one with an algorithm."""
    for name, files in (("their_adapter", ["own", "original"]), ("their_algorithm", ["best"])):
        folder = tmp_path / name / "hp_configs" / "ppo"
        folder.mkdir(parents=True)
        (tmp_path / name / "__init__.py").write_text("raise ImportError('not imported')\n")
        for file in files:
            (folder / f"{file}.yaml").write_text("gamma: 0.5\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    entry = types.SimpleNamespace(module="their_adapter")
    monkeypatch.setattr(recipes, "find_adapter_entry_points", lambda: {"theirs": entry})
    return tmp_path


def test_recipes_of_other_packages_come_after_those_of_this_project(packages):
    found = find_recipe_files("ppo")
    assert found["own"] == packages / "their_adapter" / "hp_configs" / "ppo" / "own.yaml"
    assert packages not in found["original"].parents
    assert list(found) == sorted(found) and list_recipe_names("ppo") == list(found)
    assert "best" not in found and find_recipe_files("unknown") == {}


def test_the_package_of_an_algorithm_may_hold_recipes_of_it(packages, monkeypatch):
    kind = type("Kind", (), {"__module__": "their_algorithm.inner.ppo"})
    monkeypatch.setattr(recipes, "ALGORITHMS", {"ppo": kind})
    place = packages / "their_algorithm" / "hp_configs" / "ppo" / "best.yaml"
    assert find_recipe_files("ppo")["best"] == place


def test_a_package_that_is_missing_has_no_recipes(packages, monkeypatch):
    assert recipes._find_package_folders("no_such_package") == []
    assert recipes._find_package_folders("no_such_package.inner") == []
    assert recipes._find_package_folders("json.tool") == []  # a module has no folder
    assert recipes._find_package_folders("their_adapter") == [packages / "their_adapter"]


def test_values_of_a_recipe_are_copies(packages):
    first = read_recipe("ppo", "own")
    first["gamma"] = 7
    assert read_recipe("ppo", "own") == {"gamma": 0.5}


def test_an_edited_recipe_is_read_again(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("gamma: 0.5\n")
    assert read_recipe("ppo", str(file)) == {"gamma": 0.5}
    file.write_text("gamma: 0.6\n")
    os.utime(file, ns=(1, 1))
    assert read_recipe("ppo", str(file)) == {"gamma": 0.6}


@pytest.mark.parametrize("text", ["[1]", "1: 2", "5", ""])
def test_a_recipe_holds_values_by_name(tmp_path, text):
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(SpecError, match=r"mine\.yaml:1: the recipe holds no values by name"):
        read_recipe("ppo", str(file))


def test_a_wrong_value_is_named_with_its_line(tmp_path):
    file = tmp_path / "mine.yaml"
    lines = find_recipe_files("ppo")["original"].read_text().splitlines()
    number = next(i for i, line in enumerate(lines, 1) if line.startswith("gamma:"))
    lines[number - 1] = "gamma: 1.5"
    file.write_text("\n".join(lines))
    with pytest.raises(SpecError, match=rf"mine\.yaml:{number}: .*gamma=1\.5 must be at most 1"):
        load_recipe("ppo", str(file))
    file.write_text("gamma: 0.9\n")
    with pytest.raises(SpecError, match=r"mine\.yaml: .* lacks "):
        load_recipe("ppo", str(file))


def test_an_unknown_recipe_is_refused_with_the_closest_name():
    for name in ("orignal", "orignal.yaml"):
        with pytest.raises(SpecError, match=f"hps={name} is not known"):
            read_recipe("ppo", name)


def test_common_fields_are_requested_values_and_others_framework_defaults():
    requested = dataclasses.replace(load_recipe("ppo", "original"), gamma=0.5, adam_eps=0.25)
    own = load_recipe("ppo", "sb3")
    adapter = types.SimpleNamespace(
        name="sb3",
        get_library_defaults=lambda algorithm, values, context: dataclasses.replace(
            values, gamma=0.7, max_grad_norm=7.0
        ),
    )
    found = set_common_fields(adapter, "ppo", requested, None)
    assert (found.gamma, found.adam_eps, found.max_grad_norm) == (0.5, own.adam_eps, 7.0)
