"""From the command to a description that is found, and to settings that say what is missing."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from support import register

from harness.cli import new_algorithm
from harness.contract.fields import SpecError

ROOT = Path(__file__).parents[3]
CODE = ("adapters", "envs", "harness", "hp_configs")
TRANSLATE = """
from envs.tasks import load_task
from harness.contract.adapter import Context, load_adapter
from harness.contract.algorithms import ALGORITHMS, UNUSABLE
from harness.contract.recipes import load_recipe
from harness.contract.fields import SpecError

assert not UNUSABLE, UNUSABLE
kind, adapter = ALGORITHMS["fresh"], load_adapter("sb3")
supported = [load_adapter(name).supports("fresh") for name in ("sb3", "tianshou")]
print(kind.family, kind.actions, *supported)
try:
    context = Context(load_task("CartPole-v1"), steps=100, seed=0)
    adapter.translate("fresh", load_recipe("fresh", "sb3"), context)
except SpecError as error:
    print(error)
try:
    load_recipe("fresh", "original").cadence(1000)
except SpecError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original")
    for name in CODE:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def checkout(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "checkout"))


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def command(*arguments, cwd, path=()):
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | ({"PYTHONPATH": os.pathsep.join(map(str, path))} if path else {}),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize(
    ("family", "unfinished"), [("off-policy", "target_updates"), ("on-policy", "cadence")]
)
def test_skeleton_is_found_and_says_what_is_missing(original, checkout, family, unfinished):
    before = snapshot(checkout)
    arguments = ["--family", family, "--actions", "discrete", "--frameworks", "sb3"]
    assert new_algorithm.main(["fresh", *arguments, "--in", str(checkout)]) == 0
    sources = [str(p) for p in snapshot(checkout).keys() - before.keys() if p.suffix == ".py"]
    command("-m", "ruff", "check", *sources, cwd=checkout)
    command("-m", "ruff", "format", "--check", *sources, cwd=checkout)
    description = "harness/contract/algorithms/fresh.py"
    cache = f"--cache-dir={original / 'types'}"  # what does not change is read once
    command("-m", "mypy", cache, "--follow-imports=silent", description, cwd=checkout)
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    register(checkout, project["entry-points"])
    lines = command("-c", TRANSLATE, cwd=checkout).splitlines()
    assert lines == [
        f"{family} discrete True False",
        "adapters/sb3/settings/fresh.py: fill in settings(): claim every hyperparameter of Fresh.",
        lines[2],
    ]
    assert lines[2].startswith(f"{description}: fill in {unfinished}(): ")


def test_skeleton_in_a_package_is_found_with_its_settings_and_recipes(tmp_path):
    arguments = ["--package", "--actions", "discrete", "--frameworks", "sb3"]
    assert new_algorithm.main(["fresh", *arguments, "--in", str(tmp_path)]) == 0
    package = tmp_path / "fresh"
    sources = [str(path) for path in package.rglob("*.py")]
    # How imports are sorted depends on which modules the package's own settings call its own.
    style = ["--config", str(ROOT / "pyproject.toml"), "--extend-ignore", "I001"]
    command("-m", "ruff", "check", *style, *sources, cwd=package)
    ours, theirs = (
        tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]
        for folder in (ROOT, package)
    )
    register(package, ours | theirs)
    assert command("-c", TRANSLATE, cwd=tmp_path, path=[package, ROOT]).splitlines() == [
        "off-policy discrete True False",
        "parallax_fresh/sb3_settings.py: fill in settings(): claim every hyperparameter of Fresh.",
        "parallax_fresh/description.py: fill in target_updates(): say how often targets move.",
    ]


def test_a_package_for_a_framework_that_is_not_installed_is_refused(tmp_path, capsys):
    arguments = ["fresh", "--package", "--in", str(tmp_path), "--frameworks", "sb33"]
    assert new_algorithm.main(arguments) == 2
    assert "--frameworks sb33 is not known. Did you mean sb3?" in capsys.readouterr().err
    assert not (tmp_path / "fresh").exists()


def test_only_the_table_of_algorithms_is_added_to_the_project(checkout):
    project = checkout / "pyproject.toml"
    before = tomllib.loads(project.read_text())
    for name in ("so_fresh", "other"):
        written = new_algorithm.new_algorithm(name, checkout, "on-policy", "continuous", ["sb3"])
        assert written[-1] == project
    after = tomllib.loads(project.read_text())
    assert after["project"]["entry-points"].pop("parallax.algorithms") == {
        "so_fresh": "harness.contract.algorithms.so_fresh:SoFresh",
        "other": "harness.contract.algorithms.other:Other",
    }
    assert after == before


def test_recipes_have_the_fields_and_each_value_is_still_to_do(checkout):
    new_algorithm.new_algorithm("fresh", checkout, "off-policy", "continuous", ["sb3", "tianshou"])
    recipes = sorted((checkout / "hp_configs" / "fresh").iterdir())
    assert [file.stem for file in recipes] == ["original", "sb3", "tianshou"]
    for file in recipes:
        values = yaml.safe_load(file.read_text())
        assert list(values) == list(new_algorithm.FIELDS["off-policy"])
        assert values["adam_eps"] == 1e-8 and values["bootstrap_truncation"] is True
        assert file.read_text().count("# TODO") == len(values) + 1


@pytest.mark.parametrize(
    ("name", "frameworks", "message"),
    [
        ("td3", [], "NAME=td3 is taken"),
        ("off_policy", [], "NAME=off_policy is taken"),
        ("Fresh", [], "NAME=Fresh must be"),
        ("fresh", ["nobody"], "--frameworks nobody has no folder adapters/nobody/settings"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(checkout, name, frameworks, message):
    before = snapshot(checkout)
    with pytest.raises(SpecError, match=re.escape(message)):
        new_algorithm.new_algorithm(name, checkout, "off-policy", "continuous", frameworks)
    assert snapshot(checkout) == before


def test_a_folder_that_is_no_checkout_is_refused(tmp_path, capsys):
    assert new_algorithm.main(["fresh", "--in", str(tmp_path)]) == 2
    assert f"Error: --in {tmp_path} is no checkout" in capsys.readouterr().err


def test_nothing_is_overwritten(checkout):
    precious = checkout / "hp_configs" / "fresh" / "sb3.yaml"
    precious.parent.mkdir()
    precious.write_text("precious")
    before = snapshot(checkout)
    with pytest.raises(SpecError, match="exists and is left as it is"):
        new_algorithm.new_algorithm("fresh", checkout, "off-policy", "continuous", ["sb3"])
    assert snapshot(checkout) == before
