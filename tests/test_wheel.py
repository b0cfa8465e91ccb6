"""The wheel works where it is installed, with no checkout at hand."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TINY = ["hyperparameters.rollout_steps=128", "steps=256", "eval_every=128", "eval_episodes=2"]
pytestmark = pytest.mark.long


def run(*command, cwd):
    # Nothing of the checkout may be found by chance.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = list(map(str, command))
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def parallax(tmp_path_factory):
    """The installed command, in an environment that lends everything but this project."""
    folder = tmp_path_factory.mktemp("wheel")
    # By way of the sdist, as package indexes have it: it must hold what the links stand for.
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    (archive,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder / "source")
    (source,) = (folder / "source").iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source)
    (wheel,) = folder.glob("*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    (site / "lent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    python = folder / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    run(*pip, "--no-index", "--ignore-installed", wheel, cwd=folder)
    place = run(python, "-c", "import parallax; print(parallax.__file__)", cwd=folder)
    assert place.startswith(str(site))
    return python.with_name("parallax")


def test_installed_wheel_trains_and_reports_and_manages_runs(parallax, tmp_path):
    words = ["--multirun", "framework=sb3,cleanrl", *TINY]
    assert "2 runs: 2 completed" in run(parallax, "train", *words, cwd=tmp_path)
    run(parallax, "report", "results", "--jobs", "2", cwd=tmp_path)
    page = (tmp_path / "results" / "analysis" / "report.html").read_text()
    assert '<figure id="figure-consistency_ppo">' in page
    assert "2 complete" in run(parallax, "status", "results", cwd=tmp_path).replace("  ", " ")
    (folder,) = tmp_path.glob("results/default/*/ppo/original/sb3/*/seed=0")
    assert "Weights:     identical" in run(parallax, "run", "reproduce", folder, cwd=tmp_path)


def test_wheel_installs_two_top_level_packages_only(parallax, tmp_path):
    (site,) = parallax.parents[1].glob("lib/python*/site-packages")
    names = {path.name for path in site.iterdir() if not path.name.endswith((".dist-info", ".pth"))}
    assert names - {"__pycache__"} == {"parallax", "hydra_plugins"}
    assert not any(path.is_symlink() for path in (site / "parallax").iterdir())


def test_installed_wheel_probes(parallax, tmp_path):
    words = ["--frameworks", "sb3", "--probe", "ppo.truncation"]
    assert "sb3" in run(parallax, "probe", *words, cwd=tmp_path)


def test_wheel_has_tables_and_templates(parallax, tmp_path):
    assert "What Table 6" in run(
        parallax, "alignment", "--paper", "--algorithms", "ppo", cwd=tmp_path
    )
    run(parallax, "new", "adapter", "stranger", "--package", cwd=tmp_path)
    assert (tmp_path / "stranger" / "pyproject.toml").exists()
