"""From the command to a description that is found, and to settings that say what is missing."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import forked
import pytest
import yaml
from support import register

from parallax.harness.cli import new_algorithm
from parallax.harness.cli.main import main
from parallax.harness.contract.fields import SpecError

ROOT = Path(__file__).parents[3]
TRANSLATE = """
import sys

from parallax.envs.tasks import load_task
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS, BROKEN_ALGORITHMS
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.contract.fields import SpecError

assert not BROKEN_ALGORITHMS, BROKEN_ALGORITHMS
name = sys.argv[1]
kind, adapter = ALGORITHMS[name], load_adapter("sb3")
supported = [load_adapter(other).supports(name) for other in ("sb3", "tianshou")]
print(kind.family, kind.actions, *supported)
try:
    context = RunContext(load_task("CartPole-v1"), steps=100, seed=0)
    adapter.translate(name, load_recipe(name, "sb3"), context)
except SpecError as error:
    print(error)
try:
    load_recipe(name, "original").compute_update_schedule(1000)
except SpecError as error:
    print(error)
"""


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check(*arguments, cwd):
    command = [sys.executable, "-m", *arguments]
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def translated(name, cwd, path=()):
    """Translate a skeleton with the framework and describe it, using the current code."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    result = forked.run_without_us("-c", TRANSLATE, name, cwd=cwd, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.splitlines()


FAMILIES = {"off-policy": "target_updates", "on-policy": "compute_update_schedule"}
"""What is left to do in the description of a skeleton of each."""


def name_in(family):
    return f"fresh_{family[:2]}"


@pytest.fixture(scope="module")
def skeletons(original, tmp_path_factory):
    """A checkout with a skeleton of each family."""
    checkout = Path(
        shutil.copytree(original, tmp_path_factory.mktemp("skeletons") / "checkout", symlinks=True)
    )
    for family in FAMILIES:
        arguments = ["--family", family, "--actions", "discrete", "--frameworks", "sb3"]
        assert main(["new", "algorithm", name_in(family), *arguments, "--in", str(checkout)]) == 0
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    register(checkout, project["entry-points"])
    return checkout


def test_skeletons_are_clean_and_typed(original, skeletons):
    known = {path.relative_to(original) for path in original.rglob("*.py")}
    sources = [path.relative_to(skeletons) for path in skeletons.rglob("*.py")]
    sources = [str(path) for path in sources if path not in known]
    assert len(sources) == 2
    sources.append("adapters/sb3/settings.py")
    check("ruff", "check", *sources, cwd=skeletons)
    check("ruff", "format", "--check", *sources, cwd=skeletons)
    descriptions = [f"harness/contract/algorithms/{name_in(family)}.py" for family in FAMILIES]
    # What they are built on is this project's own: other packages take minutes to read.
    alone = ("--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent")
    check("mypy", *alone, *descriptions, cwd=skeletons)


@pytest.mark.parametrize(("family", "unfinished"), FAMILIES.items())
def test_skeleton_is_found_and_says_what_is_missing(skeletons, family, unfinished):
    name = name_in(family)
    lines = translated(name, cwd=skeletons)
    claim = f"claim every hyperparameter of {name.title().replace('_', '')}."
    assert lines == [
        f"{family} discrete True False",
        f"adapters/sb3/settings.py: fill in translate_{name}(): {claim}",
        lines[2],
    ]
    description = f"harness/contract/algorithms/{name}.py"
    assert lines[2].startswith(f"{description}: fill in {unfinished}(): ")


def test_skeleton_in_a_package_is_found_with_its_settings_and_recipes(tmp_path):
    arguments = ["--package", "--actions", "discrete", "--frameworks", "sb3"]
    assert main(["new", "algorithm", "fresh", *arguments, "--in", str(tmp_path)]) == 0
    package = tmp_path / "fresh"
    sources = [str(path) for path in package.rglob("*.py")]
    # How imports are sorted depends on which modules the package's own settings call its own.
    style = ["--config", str(ROOT / "pyproject.toml"), "--extend-ignore", "I001"]
    check("ruff", "check", *style, *sources, cwd=package)
    ours, theirs = (
        tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]
        for folder in (ROOT, package)
    )
    register(package, ours | theirs)
    assert translated("fresh", cwd=tmp_path, path=[package, ROOT]) == [
        "off-policy discrete True False",
        "parallax_fresh/sb3_settings.py: fill in translate_fresh(): claim every hyperparameter of "
        "Fresh.",
        "parallax_fresh/description.py: fill in target_updates(): say how often targets move.",
    ]


def test_a_package_for_a_framework_that_is_not_installed_is_refused(tmp_path, capsys):
    arguments = ["fresh", "--package", "--in", str(tmp_path), "--frameworks", "sb33"]
    assert main(["new", "algorithm", *arguments]) == 2
    assert "--frameworks sb33 is not known. Did you mean sb3?" in capsys.readouterr().err
    assert not (tmp_path / "fresh").exists()


def test_only_the_table_of_algorithms_is_added_to_the_project(checkout):
    project = checkout / "pyproject.toml"
    before = tomllib.loads(project.read_text())
    for name in ("so_fresh", "other"):
        written = new_algorithm.create_algorithm(name, checkout, "on-policy", "continuous", ["sb3"])
        assert written[-1] == project
    after = tomllib.loads(project.read_text())
    assert after["project"]["entry-points"].pop("parallax.algorithms") == {
        "so_fresh": "parallax.harness.contract.algorithms.so_fresh:SoFresh",
        "other": "parallax.harness.contract.algorithms.other:Other",
    }
    assert after == before


def test_recipes_have_the_fields_and_each_value_is_still_to_do(checkout):
    new_algorithm.create_algorithm(
        "fresh", checkout, "off-policy", "continuous", ["sb3", "tianshou"]
    )
    recipes = sorted((checkout / "hp_configs" / "fresh").iterdir())
    assert [file.stem for file in recipes] == ["original", "sb3", "tianshou"]
    for file in recipes:
        values = yaml.safe_load(file.read_text())
        assert list(values) == list(new_algorithm.FAMILY_FIELDS["off-policy"])
        assert values["adam_eps"] == 1e-8 and values["bootstrap_truncation"] is True
        assert file.read_text().count("# TODO") == len(values) + 1


@pytest.mark.parametrize(
    ("name", "frameworks", "message"),
    [
        ("td3", [], "NAME=td3 is taken"),
        ("base", [], "NAME=base is taken"),
        ("Fresh", [], "NAME=Fresh must be"),
        ("fresh", ["nobody"], "--frameworks nobody has no adapters/nobody/settings.py"),
    ],
)
def test_invalid_input_is_refused_and_nothing_is_written(checkout, name, frameworks, message):
    before = snapshot(checkout)
    with pytest.raises(SpecError, match=re.escape(message)):
        new_algorithm.create_algorithm(name, checkout, "off-policy", "continuous", frameworks)
    assert snapshot(checkout) == before


def test_a_folder_that_is_no_checkout_is_refused(tmp_path, capsys):
    assert main(["new", "algorithm", "fresh", "--in", str(tmp_path)]) == 2
    assert f"Error: --in {tmp_path} is not a checkout" in capsys.readouterr().err


def test_nothing_is_overwritten(checkout):
    precious = checkout / "hp_configs" / "fresh" / "sb3.yaml"
    precious.parent.mkdir()
    precious.write_text("precious")
    before = snapshot(checkout)
    with pytest.raises(SpecError, match="already exists and is not changed"):
        new_algorithm.create_algorithm("fresh", checkout, "off-policy", "continuous", ["sb3"])
    assert snapshot(checkout) == before
