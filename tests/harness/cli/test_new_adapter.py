"""From the command to a skeleton that imports, is found, and says what is missing."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import forked
import pytest
from support import register

from parallax.harness.cli import new_adapter
from parallax.harness.cli.main import main
from parallax.harness.contract.fields import SpecError

ROOT = Path(__file__).parents[3]
LONGEST = "a_framework_so_named"


def python(*arguments, path, cwd):
    settings = {"PYTHONPATH": os.pathsep.join(map(str, path)), "COLUMNS": "400"}
    return forked.run_without_us(*arguments, env=os.environ | settings, cwd=cwd)


def lint(*arguments, cwd):
    result = subprocess.run([sys.executable, "-m", *arguments], cwd=cwd, capture_output=True)
    assert result.returncode == 0, result.stdout.decode() + result.stderr.decode()


def install(project, site):
    pip = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
    lint(*pip, str(site), str(project), cwd=project)


def outcomes(tests, path, select=""):
    """The lines of pytest's summary, one for each test that did not pass, and its last line."""
    command = ["-m", "pytest", "-p", "no:cacheprovider", "--tb=no", "-k", select, str(tests)]
    *_, last = lines = python(*command, path=path, cwd=tests).stdout.splitlines()
    return [line for line in lines if line.startswith(("FAILED", "ERROR"))], last


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_red(lines, last, folder, recipes, fewest=60):
    assert len(lines) > fewest and "failed" in last and "passed" not in last
    known = [
        rf"{folder}/settings\.py: fill in translate_\w+\(\): claim every",
        rf"{recipes}/\w+/stranger\.yaml: give stranger's own defaults",
        r"framework=stranger needs: pip install TODO",
    ]
    for expression in known:
        assert any(re.search(expression, line) for line in lines), expression
    for line in lines:
        assert any(re.search(expression, line) for expression in known), line


@pytest.mark.long
def test_skeleton_in_a_checkout_says_what_is_missing(checkout):
    assert main(["new", "adapter", "stranger", "--in", str(checkout)]) == 0
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    register(checkout, project["entry-points"])
    tests = checkout / "tests" / "adapters" / "stranger"
    # PPO represents all algorithms; the long run tests all of a package.
    some = "not td3 and not ddpg and not dqn and not sac"
    check_red(*outcomes(tests, [checkout], some), "adapters/stranger", "hp_configs", fewest=30)
    # Each part that is filled in moves the message on to the next; SB3 plays the framework.
    adapter, select = checkout / "adapters" / "stranger", "test_other_seed and ppo"
    recipes = checkout / "hp_configs" / "ppo"
    shutil.copy(recipes / "sb3.yaml", recipes / "stranger.yaml")
    shutil.copy(checkout / "adapters/sb3/settings.py", adapter / "settings.py")
    (line,), _ = outcomes(tests, [checkout], select)
    assert "adapters/stranger/train.py: fill in build_model()" in line
    (adapter / "train.py").write_text("from parallax.adapters.sb3.train import train\n")
    assert "1 passed" in outcomes(tests, [checkout], select)[1]


@pytest.mark.long
def test_skeleton_in_a_package_says_what_is_missing(tmp_path):
    assert main(["new", "adapter", "stranger", "--package", "--in", str(tmp_path)]) == 0
    project, site = tmp_path / "stranger", tmp_path / "site"
    install(project, site)
    lines = outcomes(project / "tests", [site, ROOT])
    check_red(*lines, "parallax_stranger", "parallax_stranger/hp_configs")
    # A framework that is half done does not keep the others from being used.
    table = python("-m", "parallax", "alignment", "--hps", "sb3", path=[site, ROOT], cwd=tmp_path)
    assert table.returncode == 0, table.stderr
    assert (
        "stranger refuses: parallax_stranger/settings.py: fill in translate_sac()" in table.stdout
    )


@pytest.mark.parametrize("name", ["x", LONGEST])
def test_skeleton_is_clean(checkout, name):
    before = snapshot(checkout)
    main(["new", "adapter", name, "--in", str(checkout)])
    new = [str(path) for path in snapshot(checkout).keys() - before.keys()]
    sources = [path for path in new if path.endswith(".py")]
    lint("ruff", "check", *sources, cwd=checkout)
    lint("ruff", "format", "--check", *sources, cwd=checkout)


def test_skeleton_is_typed(checkout):
    main(["new", "adapter", "stranger", "--in", str(checkout)])
    alone = ("--follow-imports=skip", "--allow-subclassing-any")
    lint("mypy", *alone, "parallax/adapters/stranger", cwd=checkout)


@pytest.mark.parametrize("name", ["Stranger", "2nd", "a-b", "class", "", "x" * 21, "../x"])
def test_invalid_names_are_refused(name, original):
    before = snapshot(original)
    with pytest.raises(SpecError, match=re.escape(f"NAME={name} must be")):
        new_adapter.create_adapter(name, original)
    assert snapshot(original) == before


@pytest.mark.parametrize("name", ["sb3", "original"])
def test_existing_framework_and_recipe_names_are_refused(name, original, capsys):
    assert main(["new", "adapter", name, "--in", str(original)]) == 2
    assert f"Error: NAME={name} is taken" in capsys.readouterr().err


def test_a_folder_that_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(SpecError, match=r"is not a checkout of this project.*--package"):
        new_adapter.create_adapter("stranger", tmp_path)


@pytest.mark.parametrize("kind", ["adapter", "algorithm"])
def test_a_package_is_not_written_into_an_existing_folder(tmp_path, capsys, kind):
    (tmp_path / "victim").mkdir()
    (tmp_path / "linked").symlink_to("victim")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "tests").symlink_to("../victim")
    for name in ("linked", "mine"):
        assert main(["new", kind, name, "--package", "--in", str(tmp_path)]) == 2
        assert f"{tmp_path / name} already exists" in capsys.readouterr().err
    assert not list((tmp_path / "victim").iterdir())


def test_nothing_is_overwritten(checkout):
    new_adapter.create_adapter("stranger", checkout)
    (checkout / "adapters/stranger/train.py").write_text("precious")
    before = snapshot(checkout)
    with pytest.raises(SpecError, match="already exists and is not changed"):
        new_adapter.create_adapter("stranger", checkout)
    assert snapshot(checkout) == before


def test_failed_generation_leaves_no_files(checkout, monkeypatch):
    before, folders = snapshot(checkout), set(checkout.rglob("*/"))
    written = []

    def full_disk(path, write):
        written.append(path)
        if len(written) == 7:
            raise OSError(28, "No space left on device", str(path))
        path.write_text("half")

    monkeypatch.setattr("parallax.harness.record.files.write_atomically", full_disk)
    with pytest.raises(SpecError, match=r"cannot be written .No space left on device."):
        new_adapter.create_adapter("stranger", checkout)
    assert len(written) == 7
    assert snapshot(checkout) == before and set(checkout.rglob("*/")) == folders


def test_adapter_is_registered_and_nothing_else_in_the_project_changes(checkout):
    project = checkout / "pyproject.toml"
    before = tomllib.loads(project.read_text())
    new_adapter.create_adapter("so_strange", checkout)
    after = tomllib.loads(project.read_text())
    entries = after["project"]["entry-points"]["parallax.adapters"]
    assert entries.pop("so_strange") == "parallax.adapters.so_strange:SoStrangeAdapter"
    assert after == before


def test_command_line_prints_what_to_do_next(checkout):
    command = ["-m", "parallax", "new", "adapter", "stranger", "--in", str(checkout)]
    result = python(*command, path=[ROOT], cwd=checkout.parent)
    assert result.returncode == 0, result.stderr
    for part in ("adapters/stranger/train.py", "pip install", "pytest", "add-a-framework.md"):
        assert part in result.stdout
