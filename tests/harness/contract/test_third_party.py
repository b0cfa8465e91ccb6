"""A third-party package registers an adapter, with no change in this project."""

import os
import subprocess
import sys

import forked
import pytest

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "stranger"
version = "0"

[project.entry-points."parallax.adapters"]
stranger = "stranger:StrangerAdapter"
"""

# A framework is what trains; this one is Stable-Baselines3 under another name.
ADAPTER = """
from parallax.adapters.sb3 import SB3Adapter


class StrangerAdapter(SB3Adapter):
    name = "stranger"

    def supports(self, algorithm):
        return algorithm == "ppo"
"""


def make_package(folder):
    package = folder / "stranger"
    (package / "hp_configs" / "ppo").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").write_text(ADAPTER)
    from parallax.harness.contract.recipes import find_recipe_files

    recipe = find_recipe_files("ppo")["sb3"].read_text().replace("2048", "128")
    (package / "hp_configs" / "ppo" / "stranger.yaml").write_text(recipe)


def run(*command, **options):
    result = forked.run(*command, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.long
def test_installed_package_is_a_framework_like_any_other(tmp_path):
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    make_package(source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    install = [*pip, "--no-build-isolation", "--target", str(site), str(source)]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    environment = os.environ | {"PYTHONPATH": str(site)}
    text = run("parallax", "train", "--help", env=environment)
    for group in ("options: cleanrl, ", "ppo: cleanrl, "):
        (line,) = (line for line in text.splitlines() if line.strip().startswith(group))
        assert ", stranger" in line
    arguments = ["framework=stranger", "hps=stranger", "steps=256", "eval_every=128"]
    run("parallax", "train", *arguments, "eval_episodes=2", env=environment, cwd=tmp_path)
    assert list((tmp_path / "results").rglob("ppo/stranger/stranger/*/seed=0/evaluations.npz"))
    alignment = ["parallax", "alignment", "--algorithms", "ppo", "--hps", "sb3"]
    assert "stranger" in run(*alignment, env=environment)
    refused = forked.run(
        "parallax", "train", "framework=stranger", "algorithm=sac", env=environment
    )
    assert "framework=stranger has no algorithm=sac: choose ppo" in refused.stderr
